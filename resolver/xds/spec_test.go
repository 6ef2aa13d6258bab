package xds

import (
	"net/url"
	"reflect"
	"strings"
	"testing"

	"github.com/grpc-composite/grpc-composite/internal/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// accepted are targets, the target of gRPC's that they become, and the config.
var accepted = []struct{ name, input, target, policy string }{
	{"one cluster", "composite-xds:///svc?clusters=a", "xds:///svc", `{"clusters":[{"name":"a"}]}`},
	{"several clusters", "composite-xds:///svc?clusters=b,a,c", "xds:///svc", `{"clusters":[{"name":"b"},{"name":"a"},{"name":"c"}]}`},
	{"a cluster again", "composite-xds:///svc?clusters=a,b,a", "xds:///svc", `{"clusters":[{"name":"a"},{"name":"b"},{"name":"a"}]}`},
	{"64 clusters", "composite-xds:///svc?clusters=a" + strings.Repeat(",a", 63), "xds:///svc", `{"clusters":[{"name":"a"}` + strings.Repeat(`,{"name":"a"}`, 63) + `]}`},
	{"a name of 256 bytes", "composite-xds:///svc?clusters=" + strings.Repeat("n", 256), "xds:///svc", `{"clusters":[{"name":"` + strings.Repeat("n", 256) + `"}]}`},
	{"a comma in a name", "composite-xds:///svc?clusters=a%2Cb,c", "xds:///svc", `{"clusters":[{"name":"a,b"},{"name":"c"}]}`},
	{"a resource name of the new style", "composite-xds:///svc?clusters=xdstp://auth/envoy.config.cluster.v3.Cluster/a", "xds:///svc", `{"clusters":[{"name":"xdstp://auth/envoy.config.cluster.v3.Cluster/a"}]}`},
	{"an equals sign and a question mark in a name", "composite-xds:///svc?clusters=a=b?c", "xds:///svc", `{"clusters":[{"name":"a=b?c"}]}`},
	{"a plus sign is a space", "composite-xds:///svc?clusters=a+b", "xds:///svc", `{"clusters":[{"name":"a b"}]}`},
	{"a port", "composite-xds:///svc:50051?clusters=a", "xds:///svc:50051", `{"clusters":[{"name":"a"}]}`},
	{"an authority", "composite-xds://auth/svc?clusters=a", "xds://auth/svc", `{"clusters":[{"name":"a"}]}`},
	{"a name with slashes and an escape", "composite-xds:///a/b%2Cc?clusters=a", "xds:///a/b%2Cc", `{"clusters":[{"name":"a"}]}`},
	{"one slash", "composite-xds:/svc?clusters=a", "xds:/svc", `{"clusters":[{"name":"a"}]}`},
	{"upper-case scheme", "COMPOSITE-XDS:///svc?clusters=a", "xds:///svc", `{"clusters":[{"name":"a"}]}`},
	{"config", `composite-xds:///svc?config={"clusters":[{"name":"a","attempts":2}],"overflow":"ROUND_ROBIN"}`, "xds:///svc", `{"clusters":[{"name":"a","attempts":2}],"overflow":"ROUND_ROBIN"}`},
	{"config, escaped", "composite-xds:///svc?config=" + url.QueryEscape(`{"clusters":[{"name":"a&b","metadata":{"x":"100%+"}}]}`), "xds:///svc", `{"clusters":[{"name":"a&b","metadata":{"x":"100%+"}}]}`},
	{"config that the policy will reject", `composite-xds:///svc?config={"x":12345678901234567890}`, "xds:///svc", `{"x":12345678901234567890}`},
}

// rejected are targets and their errors, without what all of them begin and end
// with.
var rejected = []struct{ name, input, want string }{
	{"the scheme alone", "composite-xds:", `name "": must not be empty`},
	{"no name", "composite-xds:///?clusters=a", `name "": must not be empty`},
	{"an authority and no name", "composite-xds://svc?clusters=a", `name "": must not be empty`},
	{"a name that is no UTF-8", "composite-xds:///%ff?clusters=a", `name "\xff": must be valid UTF-8`},
	{"no slashes", "composite-xds:svc?clusters=a", `"svc": must come after three slashes`},
	{"user", "composite-xds://me:secret@auth/svc?clusters=a", `user information: must not be there`},
	{"fragment", "composite-xds:///svc?clusters=a#b", `fragment: must not be there; write a "#" as %23`},
	{"no query", "composite-xds:///svc", `query "": must have clusters or config`},
	{"a question mark alone", "composite-xds:///svc?", `query "": must have clusters or config`},
	{"unknown key", "composite-xds:///svc?cluster=a", `query "cluster": must be one of clusters, config`},
	{"key of another scheme", "composite-xds:///svc?clusters=a&retryOn=UNAVAILABLE", `query "clusters=a": must be the only key; write a "&" in its value as %26`},
	{"both keys", `composite-xds:///svc?clusters=a&config={}`, `query "clusters=a": must be the only key; write a "&" in its value as %26`},
	{"a key again", "composite-xds:///svc?clusters=a&clusters=b", `query "clusters=a": must be the only key; write a "&" in its value as %26`},
	{"a secret after an ampersand", `composite-xds:///svc?config={"clusters":[{"name":"a","metadata":{"k":"se&cret"}}]}`, `query "config": must be the only key; write a "&" in its value as %26`},
	{"no clusters", "composite-xds:///svc?clusters", `query "clusters": cluster 1: "": must not be empty`},
	{"an empty cluster", "composite-xds:///svc?clusters=a,,b", `query "clusters=a,,b": cluster 2: "": must not be empty`},
	{"a bad escape", "composite-xds:///svc?clusters=a,%2", `query "clusters=a,%2": cluster 2: "%2": must be escaped as in a URL: invalid URL escape "%2"`},
	{"a cluster that is no UTF-8", "composite-xds:///svc?clusters=%ff", `query "clusters=%ff": cluster 1: "%ff": must be valid UTF-8`},
	{"a long name", "composite-xds:///svc?clusters=a," + strings.Repeat("n", 257), `query "clusters=a,` + strings.Repeat("n", 257) + `": cluster 2: "` + strings.Repeat("n", 257) + `": must be at most 256 bytes long, and has 257`},
	{"65 clusters", "composite-xds:///svc?clusters=a" + strings.Repeat(",a", 64), `query "clusters=a` + strings.Repeat(",a", 64) + `": must list at most 64 clusters, and lists 65`},
	{"config without a value", "composite-xds:///svc?config", `query "config": must be a JSON object: EOF`},
	{"config that is no JSON", "composite-xds:///svc?config={x", `query "config": must be a JSON object: invalid character 'x' looking for beginning of object key string`},
	{"config that is a list", "composite-xds:///svc?config=[]", `query "config": must be a JSON object: json: cannot unmarshal array into Go value of type map[string]interface {}`},
	{"config that is null", "composite-xds:///svc?config=null", `query "config": must be one JSON object`},
	{"two configs", "composite-xds:///svc?config={}{}", `query "config": must be one JSON object`},
	{"config and a bracket", "composite-xds:///svc?config={}]", `query "config": must be one JSON object`},
	{"config with clusters twice", `composite-xds:///svc?config={"clusters":[{"name":"a"}],"clusters":[{"name":"b"}]}`, `query "config": composite: clusters: must be given once`},
	{"config with a field under both names", `composite-xds:///svc?config={"clusters":[{"name":"a"}],"noHost":"FAIL_REQUEST","no_host":"FAIL_ATTEMPT"}`, `query "config": composite: no_host: must be given once, and "noHost" is the same field`},
	{"config with a name that is not Unicode", `composite-xds:///svc?config={"clusters":[{"name":"a\ud800"}]}`, `query "config": composite: clusters[0].name: "a\ud800": must be valid Unicode`},
	{"config with a field of a child policy twice", `composite-xds:///svc?config={"clusters":[{"name":"a","childPolicy":[{"cds_experimental":{"cluster":"b","cluster":"c"}}]}]}`,
		`query "config": composite: clusters[0].childPolicy[0]: {"cds_experimental":{"cluster":"...","cluster":"..."}}: must have each key once, text that is valid Unicode, and numbers in the range of a double`},
	{"config with secrets twice", `composite-xds:///svc?config={"clusters":[{"name":"a","metadata":{"k":"secret","k":"s"}}]}`, `query "config": composite: clusters[0].metadata: must be an object whose values are strings, with each key once`},
	{"config with a value of the wrong type", `composite-xds:///svc?config={"clusters":3}`, `query "config": composite: clusters: 3: must be a list`},
	{"config with a bad escape", "composite-xds:///svc?config=%zz", `query "config": must be escaped as in a URL: invalid URL escape "%zz"`},
	{"config that is no UTF-8", `composite-xds:///svc?config={"%ff":1}`, `query "config": must be valid UTF-8`},
}

func parseText(t *testing.T, target string) (*spec, error) {
	t.Helper()
	u, err := url.Parse(target)
	if err != nil {
		t.Fatal(err)
	}
	return parseSpec(*u)
}

func TestAcceptedTargets(t *testing.T) {
	for _, tc := range accepted {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			s, err := parseText(t, tc.input)
			if err != nil {
				t.Fatal(err)
			}
			if got := s.target.URL.String(); got != tc.target {
				t.Errorf("%s becomes %s: want %s", tc.input, got, tc.target)
			}
			again, err := parseConfig(url.QueryEscape(tc.policy))
			if err != nil || !reflect.DeepEqual(s.policy, again) {
				t.Errorf("%s has the config %v, error %v: want %s", tc.input, s.policy, err, tc.policy)
			}
		})
	}
}

func TestRejectedTargets(t *testing.T) {
	for _, tc := range rejected {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			_, err := parseText(t, tc.input)
			if want := "composite-xds: target: " + tc.want + "; a target looks like " + example; err == nil || err.Error() != want {
				t.Errorf("%s: error %v: want %s", tc.input, err, want)
			}
		})
	}
}
