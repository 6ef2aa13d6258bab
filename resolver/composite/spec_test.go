package composite

import (
	"fmt"
	"net/url"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/grpc-composite/grpc-composite/internal/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// accepted are targets and what they say: each cluster as its name, "@" and its
// target.
var accepted = []struct {
	name, input string
	clusters    string
	query       specQuery
}{
	{name: "the scheme alone", input: "composite:"},
	{name: "two slashes and nothing else", input: "composite://"},
	{name: "three slashes", input: "composite:///"},
	{name: "three slashes and a question mark", input: "composite:///?"},

	{name: "names", input: "composite:///a=dns:///a.example:443,b=dns:///b.example:443", clusters: "a@dns:///a.example:443 b@dns:///b.example:443"},
	{name: "one cluster", input: "composite:///a=dns:///a.example:443", clusters: "a@dns:///a.example:443"},
	{name: "what a name may have", input: "composite:///aZ_09.-=x:1", clusters: "aZ_09.-@x:1"},
	{name: "one slash", input: "composite:/a:1", clusters: "a:1@a:1"},
	{name: "upper-case scheme", input: "COMPOSITE:///a:1", clusters: "a:1@a:1"},
	{name: "a name of 256 bytes", input: "composite:///" + strings.Repeat("n", 256) + "=a:1", clusters: strings.Repeat("n", 256) + "@a:1"},
	{name: "64 clusters", input: "composite:///a" + strings.Repeat(",a", 63), clusters: "a@a" + strings.Repeat(" a@a", 63)},

	{name: "no names", input: "composite:///a.example:443,b.example:443", clusters: "a.example:443@a.example:443 b.example:443@b.example:443"},
	{name: "no name, a scheme", input: "composite:///dns:///a.example:443", clusters: "a.example:443@dns:///a.example:443"},
	{name: "no name, a scheme without slashes", input: "composite:///dns:a.example:443", clusters: "a.example:443@dns:a.example:443"},
	{name: "no name, an authority", input: "composite:///dns://8.8.8.8/a.example", clusters: "a.example@dns://8.8.8.8/a.example"},
	{name: "no name, a port", input: "composite:///:443", clusters: ":443@:443"},
	{name: "no name, no endpoint", input: "composite:///passthrough:///", clusters: "passthrough:///@passthrough:///"},
	{name: "no name, a query of the target's own", input: "composite:///dns:///a:1%3Fb", clusters: "a:1@dns:///a:1?b"},
	{name: "some names", input: "composite:///a:1,b=b:1", clusters: "a:1@a:1 b@b:1"},
	{name: "the name that it would have anyway", input: "composite:///a=a", clusters: "a@a"},

	{name: "IPv6", input: "composite:///[::1]:443,six=[::2]:443", clusters: "[::1]:443@[::1]:443 six@[::2]:443"},
	{name: "IPv6 with a scheme", input: "composite:///dns:///[::1]:443", clusters: "[::1]:443@dns:///[::1]:443"},
	{name: "IPv6, escaped", input: "composite:///%5B::1%5D:443", clusters: "[::1]:443@[::1]:443"},
	{name: "IPv6 with a zone", input: "composite:///[fe80::1%2525en0]:443", clusters: "[fe80::1%en0]:443@[fe80::1%25en0]:443"},
	{name: "unix, relative", input: "composite:///unix:path,u=unix:dir/path", clusters: "path@unix:path u@unix:dir/path"},
	{name: "unix, absolute", input: "composite:///u=unix:///abs/path", clusters: "u@unix:///abs/path"},
	{name: "dns with a server", input: "composite:///d=dns://8.8.8.8/x", clusters: "d@dns://8.8.8.8/x"},

	{name: "escaped comma", input: "composite:///a=unix:/x%2Cy,b:1", clusters: "a@unix:/x,y b:1@b:1"},
	{name: "escaped comma beside what is not escaped and should be", input: "composite:///a=unix:/x%2Cy z,b:1", clusters: "a@unix:/x,y z b:1@b:1"},
	{name: "escaped equals sign", input: "composite:///a%3Db:1", clusters: "a=b:1@a=b:1"},
	{name: "equals sign in a target with a name", input: "composite:///a=unix:/x=y", clusters: "a@unix:/x=y"},
	{name: "equals sign in a target without a name", input: "composite:///unix:/x=y", clusters: "x=y@unix:/x=y"},
	{name: "escaped question mark", input: "composite:///a=passthrough:///x%3Fy", clusters: "a@passthrough:///x?y"},
	{name: "escaped number sign", input: "composite:///a=passthrough:///x%23y", clusters: "a@passthrough:///x#y"},
	{name: "escaped percent sign", input: "composite:///a=passthrough:///x%2525y", clusters: "a@passthrough:///x%25y"},
	{name: "escaped slash", input: "composite:///a=dns:%2F%2F%2Fx", clusters: "a@dns:///x"},
	{name: "beyond ASCII", input: "composite:///a=unix:/é%C3%A9", clusters: "a@unix:/éé"},
	{name: "plus sign", input: "composite:///a=unix:/x+y", clusters: "a@unix:/x+y"},

	{name: "a name again", input: "composite:///a=x:1,a=x:1,b=y:1,a=x:1", clusters: "a@x:1 a@x:1 b@y:1 a@x:1"},
	{name: "a target again", input: "composite:///a=x:1,b=x:1", clusters: "a@x:1 b@x:1"},
	{name: "a name without the user info", input: "composite:///passthrough:%2F%2Fuser:secret@host", clusters: "passthrough://***@host@passthrough://user:secret@host"},
	{name: "a name that was a target's", input: "composite:///a:1,a:1", clusters: "a:1@a:1 a:1@a:1"},

	{name: "retryOn", input: "composite:///a?retryOn=UNAVAILABLE", clusters: "a@a", query: specQuery{retryOn: []string{"UNAVAILABLE"}}},
	{name: "retryOn, several", input: "composite:///a?retryOn=UNAVAILABLE,CANCELLED", clusters: "a@a", query: specQuery{retryOn: []string{"UNAVAILABLE", "CANCELLED"}}},
	{name: "retryOn, escaped", input: "composite:///a?retryOn=UNAVAILABLE%2CINTERNAL", clusters: "a@a", query: specQuery{retryOn: []string{"UNAVAILABLE", "INTERNAL"}}},
	{name: "attempts", input: "composite:///a?attempts=2", clusters: "a@a", query: specQuery{attempts: 2}},
	{name: "64 attempts", input: "composite:///a,b?attempts=32", clusters: "a@a b@b", query: specQuery{attempts: 32}},
	{name: "policy", input: "composite:///a?policy=pick_first", clusters: "a@a", query: specQuery{policy: "pick_first"}},
	{name: "connectTimeout", input: "composite:///a?connectTimeout=1.5s", clusters: "a@a", query: specQuery{connectTimeout: pointer(1500 * time.Millisecond)}},
	{name: "connectTimeout of nothing", input: "composite:///a?connectTimeout=0s", clusters: "a@a", query: specQuery{connectTimeout: pointer(0)}},
	{name: "attemptTimeout", input: "composite:///a?attemptTimeout=200ms", clusters: "a@a", query: specQuery{attemptTimeout: pointer(200 * time.Millisecond)}},
	{name: "overflow", input: "composite:///a?overflow=ROUND_ROBIN", clusters: "a@a", query: specQuery{overflow: "ROUND_ROBIN"}},
	{name: "all keys", input: "composite:///a?overflow=FAIL&attemptTimeout=2s&connectTimeout=1s&policy=round_robin&attempts=3&retryOn=ABORTED", clusters: "a@a",
		query: specQuery{[]string{"ABORTED"}, 3, "round_robin", pointer(time.Second), pointer(2 * time.Second), "FAIL"}},
}

func pointer(d time.Duration) *time.Duration { return &d }

func TestAcceptedTargets(t *testing.T) {
	for _, tc := range accepted {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			got, err := parseText(t, tc.input)
			if err != nil {
				t.Fatal(err)
			}
			if clusters := got.text(); clusters != tc.clusters {
				t.Errorf("%s has the clusters %q: want %q", tc.input, clusters, tc.clusters)
			}
			if !reflect.DeepEqual(got.query, tc.query) {
				t.Errorf("%s has the query %+v: want %+v", tc.input, got.query, tc.query)
			}
		})
	}
}

func parseText(t *testing.T, target string) (*spec, error) {
	t.Helper()
	u, err := url.Parse(target)
	if err != nil {
		t.Fatal(err)
	}
	return parseSpec(*u)
}

// text lists the clusters as the table above does.
func (s *spec) text() string {
	var parts []string
	for _, c := range s.clusters {
		parts = append(parts, c.name+"@"+c.target.Text)
	}
	return strings.Join(parts, " ")
}

// rejected are targets and their errors, without what all of them begin and end
// with.
var rejected = []struct{ name, input, want string }{
	{"user info in a cluster's target", "composite:///a=etcd://user:secret@host/x", `cluster 1: "a=etcd://***@host/x": must have a scheme that a resolver is registered for, and none is for "etcd"`},
	{"user info in a target that has another's name", "composite:///a=x:1,a=etcd:%2F%2Fuser:secret%40host/x", `cluster 2: "***@host/x": must have a scheme that a resolver is registered for, and none is for "etcd"`},
	{"two slashes", "composite://a,b", `"a,b": must come after three slashes`},
	{"two slashes and a name", "composite://a=dns:///a.example:443", `"a=dns:": must come after three slashes`},
	{"two slashes and a path", "composite://host/a,b", `"host": must come after three slashes`},
	{"no slashes", "composite:a,b", `"a,b": must come after three slashes`},
	{"user", "composite://me:secret@/a", `user information: must not be there`},
	{"user and host", "composite://me@a,b", `user information: must not be there`},
	{"fragment", "composite:///a#b", `fragment "b": must not be there; write a "#" in a target as %23`},
	{"query without clusters", "composite:///?attempts=2", `query "attempts=2": must come after clusters`},

	{"empty cluster", "composite:///a,,b", `cluster 2: "": must have a target`},
	{"trailing comma", "composite:///a,", `cluster 2: "": must have a target`},
	{"leading comma", "composite:///,a", `cluster 1: "": must have a target`},
	{"name without target", "composite:///a=,b", `cluster 1: "a=": must have a target`},
	{"target without name", "composite:///=a:1", misnamedError(`"=a:1"`)},
	{"bad name", "composite:///my app=dns:///a", misnamedError(`"my app=dns:///a"`)},
	{"escaped bad name", "composite:///my%20app=dns:///a", misnamedError(`"my%20app=dns:///a"`)},
	{"not UTF-8", "composite:///a=%FF:1", `cluster 1: "a=%FF:1": must be valid UTF-8`},
	{"space after a comma", "composite:///a:1, b:1", `cluster 2: " b:1": must not begin or end with white space`},
	{"space before a comma, escaped", "composite:///a=x:1%20,b", `cluster 1: "a=x:1%20": must not begin or end with white space`},
	{"long name", "composite:///" + strings.Repeat("n", 257) + "=a", `cluster 1: "` + strings.Repeat("n", 257) + `=a": must have a name of at most 256 bytes, and has one of 257`},
	{"a name again with another target", "composite:///a=x:1,b=y:1,a=z:1", `cluster 3: "a=z:1": must have another name than "a", or the target "x:1" that is called so above`},
	{"a name that another target has without being given it", "composite:///dns:///a,a", `cluster 2: "a": must have another name than "a", or the target "dns:///a" that is called so above`},

	{"scheme without a resolver", "composite:///a,b=nowhere:///x", `cluster 2: "b=nowhere:///x": must have a scheme that a resolver is registered for, and none is for "nowhere"`},
	{"bad escape in the cluster's own target", "composite:///a=passthrough:///%25zz", `cluster 1: "a=passthrough:///%25zz": must be a target URI, such as "dns:///host:port": invalid URL escape "%zz"`},
	{"xds", "composite:///a=xds:///x", `cluster 1: "a=xds:///x": must not be an "xds:" target, whose state is a service config, which a cluster cannot use: make "composite-xds:///NAME?clusters=..." the channel's target (package resolver/xds), or name the cluster's endpoints by another scheme, such as "dns:///host:port"`},
	{"composite", "composite:///composite:///x", `cluster 1: "composite:///x": must not be a "composite:" target, whose state is a service config, which a cluster cannot use: list its clusters here, or nest them with "childPolicy": [{"composite": {...}}]`},

	{"65 clusters", "composite:///a" + strings.Repeat(",a", 64), `65 attempts, for 65 clusters: must be at most 64 in all`},
	{"65 clusters, which nobody reads", "composite:///=" + strings.Repeat(",=", 64), `65 attempts, for 65 clusters: must be at most 64 in all`},
	{"65 attempts", "composite:///a?attempts=65", `65 attempts, for 1 clusters: must be at most 64 in all`},
	{"more attempts than 32 bits can count", "composite:///a,b?attempts=4294967295", `8589934590 attempts, for 2 clusters: must be at most 64 in all`},

	{"unknown key", "composite:///a?retries=2", `query "retries=2": ` + keysError},
	{"unknown key without a value", "composite:///a?retries", `query "retries": ` + keysError},
	{"key in another case", "composite:///a?retryon=ABORTED", `query "retryon=ABORTED": ` + keysError},
	{"no key", "composite:///a?=2", `query "=2": ` + keysError},
	{"nothing between two keys", "composite:///a?attempts=2&&policy=pick_first", `query "": ` + keysError},
	{"a target's own query", "composite:///a=passthrough:///x?y=1", `query "y=1": ` + keysError},
	{"a key again", "composite:///a?attempts=2&policy=pick_first&attempts=3", `query "attempts=3": must be the only "attempts"`},
	{"a key again with the same value", "composite:///a?attempts=2&attempts=2", `query "attempts=2": must be the only "attempts"`},
	{"bad escape in a value", "composite:///a?policy=%zz", `query "policy=%zz": must be escaped as in a URL: invalid URL escape "%zz"`},

	{"no code", "composite:///a?retryOn=", `query "retryOn=": ` + codesError(`""`)},
	{"no value", "composite:///a?retryOn", `query "retryOn": ` + codesError(`""`)},
	{"OK", "composite:///a?retryOn=UNAVAILABLE,OK", `query "retryOn=UNAVAILABLE,OK": ` + codesError(`"OK"`)},
	{"unknown code", "composite:///a?retryOn=5xx", `query "retryOn=5xx": ` + codesError(`"5xx"`)},
	{"code in lower case", "composite:///a?retryOn=unavailable", `query "retryOn=unavailable": ` + codesError(`"unavailable"`)},
	{"code as a number", "composite:///a?retryOn=14", `query "retryOn=14": ` + codesError(`"14"`)},
	{"trailing comma after a code", "composite:///a?retryOn=ABORTED,", `query "retryOn=ABORTED,": ` + codesError(`""`)},

	{"attempts without value", "composite:///a?attempts=", `query "attempts=": must be a whole number, at least 1`},
	{"attempts=0", "composite:///a?attempts=0", `query "attempts=0": must be a whole number, at least 1`},
	{"negative attempts", "composite:///a?attempts=-1", `query "attempts=-1": must be a whole number, at least 1`},
	{"half an attempt", "composite:///a?attempts=1.5", `query "attempts=1.5": must be a whole number, at least 1`},
	{"attempts beyond 32 bits", "composite:///a?attempts=4294967296", `query "attempts=4294967296": must be a whole number, at least 1`},

	{"policy without value", "composite:///a?policy=", `query "policy=": must name a policy that is registered, such as round_robin or pick_first`},
	{"unknown policy", "composite:///a?policy=fastest", `query "policy=fastest": must name a policy that is registered, such as round_robin or pick_first`},
	{"policy that needs a config", "composite:///a?policy=composite", `query "policy=composite": must name a policy that needs no config: composite: clusters: must list at least one cluster`},

	{"connectTimeout without value", "composite:///a?connectTimeout=", `query "connectTimeout=": must be a duration, such as 1.5s or 200ms`},
	{"connectTimeout without unit", "composite:///a?connectTimeout=1", `query "connectTimeout=1": must be a duration, such as 1.5s or 200ms`},
	{"negative connectTimeout", "composite:///a?connectTimeout=-1s", `query "connectTimeout=-1s": must not be negative`},
	{"attemptTimeout that is none", "composite:///a?attemptTimeout=soon", `query "attemptTimeout=soon": must be a duration, such as 1.5s or 200ms`},
	{"attemptTimeout of nothing", "composite:///a?attemptTimeout=0s", `query "attemptTimeout=0s": must be positive`},
	{"negative attemptTimeout", "composite:///a?attemptTimeout=-1s", `query "attemptTimeout=-1s": must be positive`},

	{"overflow without value", "composite:///a?overflow=", `query "overflow=": must be one of FAIL, USE_LAST_CLUSTER, ROUND_ROBIN`},
	{"unknown overflow", "composite:///a?overflow=WRAP", `query "overflow=WRAP": must be one of FAIL, USE_LAST_CLUSTER, ROUND_ROBIN`},
}

const keysError = "must be one of retryOn, attempts, policy, connectTimeout, attemptTimeout, overflow"

func codesError(code string) string {
	return "must list status codes, such as UNAVAILABLE,RESOURCE_EXHAUSTED, and " + code + " is none that can be retried"
}

func misnamedError(cluster string) string {
	return "cluster 1: " + cluster + `: must have a name of letters, digits, "_", "." and "-" before the "="; write a "=" in a target as %3D`
}

func TestRejectedTargets(t *testing.T) {
	for _, tc := range rejected {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			s, err := parseText(t, tc.input)
			if err == nil {
				t.Fatalf("%s is accepted, as %q", tc.input, s.text())
			}
			want := fmt.Sprintf("composite: target: %s; a target looks like %s", tc.want, example)
			if err.Error() != want {
				t.Errorf("%s\n got: %v\nwant: %s", tc.input, err, want)
			}
		})
	}
}

// TestTargetThatNoURLHas is for those who make a URL other than by parsing it.
func TestTargetThatNoURLHas(t *testing.T) {
	t.Parallel()
	_, err := parseSpec(url.URL{Scheme: Scheme, Path: "/a%zz", RawPath: "/a%zz"})
	testkit.Contains(t, err, `composite: target: cluster 1: "a%zz": must be escaped as in a URL: invalid URL escape "%zz"`)
}

// TestExampleInErrors checks that what errors show as right is.
func TestExampleInErrors(t *testing.T) {
	t.Parallel()
	s, err := parseText(t, strings.Trim(example, `"`))
	if err != nil {
		t.Fatal(err)
	}
	if got, want := s.text(), "primary@dns:///a.example:443 fallback@dns:///b.example:443"; got != want {
		t.Errorf("the example is %q: want %q", got, want)
	}
}
