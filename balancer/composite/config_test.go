package composite

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"google.golang.org/grpc/balancer"
	"google.golang.org/grpc/serviceconfig"

	"github.com/grpc-composite/grpc-composite/internal/plan"
)

func init() { balancer.Register(stubPolicy{}) }

// stubPolicy is a policy that parses its config and is never built. Its config
// is any JSON object without the key "bad", whose value ends up in a stubError.
type stubPolicy struct{ balancer.Builder }

func (stubPolicy) Name() string { return "config_stub" }

func (stubPolicy) ParseConfig(data json.RawMessage) (serviceconfig.LoadBalancingConfig, error) {
	var fields map[string]any
	if err := json.Unmarshal(data, &fields); err != nil {
		return nil, fmt.Errorf("stub: %w", err)
	}
	if bad, ok := fields["bad"]; ok {
		return nil, stubError{fmt.Sprint(bad)}
	}
	return stubConfig{fields: fields}, nil
}

type stubConfig struct {
	serviceconfig.LoadBalancingConfig
	fields map[string]any
}

type stubError struct{ value string }

func (e stubError) Error() string { return "stub: bad is " + e.value }

// parse parses a config as gRPC does.
func parse(data string) (*lbConfig, error) {
	cfg, err := balancer.Get(Name).(balancer.ConfigParser).ParseConfig(json.RawMessage(data))
	if err != nil {
		return nil, err
	}
	return cfg.(*lbConfig), nil
}

// entries returns the entries of a list of clusters: n of them, named c0, c1...,
// each with its attempts.
func entries(n, attempts int) string {
	list := make([]string, n)
	for i := range list {
		list[i] = fmt.Sprintf(`{"name":"c%d","attempts":%d}`, i, attempts)
	}
	return strings.Join(list, ",")
}

var rejectedConfigs = []struct{ name, input, want string }{
	{"nothing", ``, `composite: must be valid JSON: byte 0: unexpected end of JSON input`},
	{"not JSON", `{"clusters":[{"name":"a"}`, `composite: must be valid JSON: byte 25: unexpected end of JSON input`},
	{"null", `null`, `composite: null: must be an object`},
	{"a list", `[{"clusters":[]}]`, `composite: [{"clusters":[]}]: must be an object`},
	{"a string", `"clusters"`, `composite: "clusters": must be an object`},

	{"too deep", strings.Repeat(`{"clusters":[`, 51) + strings.Repeat(`]}`, 51), `composite: config: must have at most 100 objects and lists in one another`},
	{"no clusters", `{}`, `composite: clusters: must list at least one cluster`},
	{"an empty list of clusters", `{"clusters":[]}`, `composite: clusters: must list at least one cluster`},
	{"clusters is null", `{"clusters":null}`, `composite: clusters: must list at least one cluster`},
	{"clusters is an object", `{"clusters":{"name":"a"}}`, `composite: clusters: {"name":"..."}: must be a list`},
	{"clusters is a string", `{"clusters":"a"}`, `composite: clusters: "a": must be a list`},
	{"a cluster is a string", `{"clusters":["a"]}`, `composite: clusters[0]: "a": must be an object`},
	{"a cluster is null", `{"clusters":[{"name":"a"},null]}`, `composite: clusters[1]: null: must be an object`},
	{"clusters twice", `{"clusters":[{"name":"a"}],"clusters":[{"name":"b"}]}`, `composite: clusters: must be given once`},

	{"overflow is a bool", `{"clusters":[{"name":"a"}],"overflow":true}`, `composite: overflow: true: must be one of FAIL, USE_LAST_CLUSTER, ROUND_ROBIN`},
	{"overflow has an unknown name", `{"clusters":[{"name":"a"}],"overflow":"USE_FIRST_CLUSTER"}`, `composite: overflow: "USE_FIRST_CLUSTER": must be one of FAIL, USE_LAST_CLUSTER, ROUND_ROBIN`},
	{"overflow in lower case", `{"clusters":[{"name":"a"}],"overflow":"fail"}`, `composite: overflow: "fail": must be one of FAIL, USE_LAST_CLUSTER, ROUND_ROBIN`},
	{"overflow has an unknown number", `{"clusters":[{"name":"a"}],"overflow":4}`, `composite: overflow: 4: must be one of FAIL, USE_LAST_CLUSTER, ROUND_ROBIN`},
	{"overflow is a number as a string", `{"clusters":[{"name":"a"}],"overflow":"1"}`, `composite: overflow: "1": must be one of FAIL, USE_LAST_CLUSTER, ROUND_ROBIN`},
	{"noHost is a list", `{"clusters":[{"name":"a"}],"noHost":["FAIL_ATTEMPT"]}`, `composite: noHost: ["..."]: must be one of FAIL_ATTEMPT, FAIL_REQUEST`},
	{"noHost has an unknown name", `{"clusters":[{"name":"a"}],"noHost":"FAIL"}`, `composite: noHost: "FAIL": must be one of FAIL_ATTEMPT, FAIL_REQUEST`},
	{"noHost has an unknown number", `{"clusters":[{"name":"a"}],"noHost":-1}`, `composite: noHost: -1: must be one of FAIL_ATTEMPT, FAIL_REQUEST`},
	{"noHost under both names", `{"clusters":[{"name":"a"}],"noHost":1,"no_host":1}`, `composite: no_host: must be given once, and "noHost" is the same field`},
	{"skipClustersWithoutHosts is a string", `{"clusters":[{"name":"a"}],"skipClustersWithoutHosts":"true"}`, `composite: skipClustersWithoutHosts: "true": must be true or false`},
	{"skipClustersWithoutHosts is a number", `{"clusters":[{"name":"a"}],"skipClustersWithoutHosts":0}`, `composite: skipClustersWithoutHosts: 0: must be true or false`},

	{"name is left out", `{"clusters":[{"target":"localhost:1"}]}`, `composite: clusters[0].name: "": must not be empty`},
	{"name is empty", `{"clusters":[{"name":"a"},{"name":""}]}`, `composite: clusters[1].name: "": must not be empty`},
	{"name is null", `{"clusters":[{"name":null}]}`, `composite: clusters[0].name: "": must not be empty`},
	{"name is a number", `{"clusters":[{"name":7}]}`, `composite: clusters[0].name: 7: must be a string`},
	{"name is not Unicode", `{"clusters":[{"name":"\udc00"}]}`, `composite: clusters[0].name: "\udc00": must be valid Unicode`},
	{"name has 257 bytes", `{"clusters":[{"name":"` + strings.Repeat("x", 257) + `"}]}`, `composite: clusters[0].name: "` + strings.Repeat("x", 79) + `...: must be at most 256 bytes long, and has 257`},
	{"name has 256 bytes in runes and one more", `{"clusters":[{"name":"` + strings.Repeat("é", 128) + `x"}]}`, `composite: clusters[0].name: "` + strings.Repeat("é", 39) + `...: must be at most 256 bytes long, and has 257`},
	{"name twice", `{"clusters":[{"name":"a","name":"b"}]}`, `composite: clusters[0].name: must be given once`},

	{"attempts is zero", `{"clusters":[{"name":"a","attempts":0}]}`, `composite: clusters[0].attempts: 0: must be at least 1`},
	{"attempts is negative", `{"clusters":[{"name":"a","attempts":-1}]}`, `composite: clusters[0].attempts: -1: must be a whole number, not negative, and at most 4294967295`},
	{"attempts is a fraction", `{"clusters":[{"name":"a","attempts":1.5}]}`, `composite: clusters[0].attempts: 1.5: must be a whole number, not negative, and at most 4294967295`},
	{"attempts has more than 32 bits", `{"clusters":[{"name":"a","attempts":4294967296}]}`, `composite: clusters[0].attempts: 4294967296: must be a whole number, not negative, and at most 4294967295`},
	{"attempts is a word", `{"clusters":[{"name":"a","attempts":"two"}]}`, `composite: clusters[0].attempts: "two": must be a whole number, not negative, and at most 4294967295`},
	{"attempts is a list", `{"clusters":[{"name":"a","attempts":[1]}]}`, `composite: clusters[0].attempts: [1]: must be a whole number, not negative, and at most 4294967295`},
	{"65 attempts", `{"clusters":[{"name":"a","attempts":65}]}`, `composite: clusters[0].attempts: 65: must add up to at most 64 with the attempts of the entries before, and makes 65`},
	{"the most attempts that there can be", `{"clusters":[{"name":"a"},{"name":"b","attempts":4294967295}]}`, `composite: clusters[1].attempts: 4294967295: must add up to at most 64 with the attempts of the entries before, and makes 4294967296`},
	{"attempts add up to 65", `{"clusters":[{"name":"a","attempts":60},{"name":"b","attempts":5}]}`, `composite: clusters[1].attempts: 5: must add up to at most 64 with the attempts of the entries before, and makes 65`},
	{"attempts of a repeated name add up to 65", `{"clusters":[{"name":"a","attempts":64},{"name":"a"}]}`, `composite: clusters[1].attempts: 1: must add up to at most 64 with the attempts of the entries before, and makes 65`},
	{"65 entries", `{"clusters":[` + entries(65, 1) + `]}`, `composite: clusters[64].attempts: 1: must add up to at most 64 with the attempts of the entries before, and makes 65`},

	{"a repeated entry with a target", `{"clusters":[{"name":"a"},{"name":"a"},{"name":"b"},{"name":"b","target":"localhost:1"}]}`, `composite: clusters[3].target: must be left out, since clusters[2] defines "b" and an entry that repeats it carries only name and attempts`},
	{"a repeated entry with a childPolicy", `{"clusters":[{"name":"a"},{"name":"a","childPolicy":[{"round_robin":{}}]}]}`, `composite: clusters[1].childPolicy: must be left out, since clusters[0] defines "a" and an entry that repeats it carries only name and attempts`},
	{"a repeated entry with a connectTimeout", `{"clusters":[{"name":"a"},{"name":"a","connectTimeout":"0s"}]}`, `composite: clusters[1].connectTimeout: must be left out, since clusters[0] defines "a" and an entry that repeats it carries only name and attempts`},
	{"a repeated entry with the same settings", `{"clusters":[{"name":"a","target":"localhost:1"},{"name":"a","target":"localhost:1"}]}`, `composite: clusters[1].target: must be left out, since clusters[0] defines "a" and an entry that repeats it carries only name and attempts`},

	{"connectTimeout is a number", `{"clusters":[{"name":"a","connectTimeout":1}]}`, `composite: clusters[0].connectTimeout: 1: must be a duration in seconds, such as "1.5s", and at most "315576000000s"`},
	{"connectTimeout is an object", `{"clusters":[{"name":"a","connectTimeout":{"seconds":1}}]}`, `composite: clusters[0].connectTimeout: {"seconds":1}: must be a duration in seconds, such as "1.5s", and at most "315576000000s"`},
	{"connectTimeout has no unit", `{"clusters":[{"name":"a","connectTimeout":"1"}]}`, `composite: clusters[0].connectTimeout: "1": must be a duration in seconds, such as "1.5s", and at most "315576000000s"`},
	{"connectTimeout is in Go's form", `{"clusters":[{"name":"a","connectTimeout":"100ms"}]}`, `composite: clusters[0].connectTimeout: "100ms": must be a duration in seconds, such as "1.5s", and at most "315576000000s"`},
	{"connectTimeout is too long", `{"clusters":[{"name":"a","connectTimeout":"315576000001s"}]}`, `composite: clusters[0].connectTimeout: "315576000001s": must be a duration in seconds, such as "1.5s", and at most "315576000000s"`},
	{"connectTimeout is negative", `{"clusters":[{"name":"a"},{"name":"b","connectTimeout":"-1s"}]}`, `composite: clusters[1].connectTimeout: "-1s": must not be negative`},
	{"connectTimeout is barely negative", `{"clusters":[{"name":"a","connectTimeout":"-0.000000001s"}]}`, `composite: clusters[0].connectTimeout: "-0.000000001s": must not be negative`},
	{"connectTimeout is as negative as can be", `{"clusters":[{"name":"a","connectTimeout":"-315576000000s"}]}`, `composite: clusters[0].connectTimeout: "-315576000000s": must not be negative`},
	{"connectTimeout under both names", `{"clusters":[{"name":"a","connect_timeout":"1s","connectTimeout":"1s"}]}`, `composite: clusters[0].connectTimeout: must be given once, and "connect_timeout" is the same field`},

	{"target is an object", `{"clusters":[{"name":"a","target":{}}]}`, `composite: clusters[0].target: {}: must be a string`},
	{"target has an unregistered scheme", `{"clusters":[{"name":"a","target":"zookeeper:///a:1"}]}`, `composite: clusters[0].target: "zookeeper:///a:1": must have a scheme that a resolver is registered for, and none is for "zookeeper"`},
	{"target has an unregistered scheme and one slash", `{"clusters":[{"name":"a","target":"DNSS:/a"}]}`, `composite: clusters[0].target: "DNSS:/a": must have a scheme that a resolver is registered for, and none is for "DNSS"`},
	{"target with user info has an unregistered scheme", `{"clusters":[{"name":"a","target":"etcd://user:secret@host/a"}]}`, `composite: clusters[0].target: "etcd://***@host/a": must have a scheme that a resolver is registered for, and none is for "etcd"`},
	{"target has the scheme xds", `{"clusters":[{"name":"a","target":"xds:///a"}]}`, `composite: clusters[0].target: "xds:///a": must not be an "xds:" target, whose state is a service config, which a cluster cannot use: make "composite-xds:///NAME?clusters=..." the channel's target (package resolver/xds), or name the cluster's endpoints by another scheme, such as "dns:///host:port"`},
	{"target has the scheme composite-xds", `{"clusters":[{"name":"a","target":"composite-xds:///a?clusters=b"}]}`, `composite: clusters[0].target: "composite-xds:///a?clusters=b": must not be a "composite-xds:" target, whose state is a service config, which a cluster cannot use: make it the channel's target, with this list in its query: composite-xds:///NAME?config=...`},
	{"target has the scheme xds without slashes", `{"clusters":[{"name":"a","target":"XDS:a"}]}`, `composite: clusters[0].target: "XDS:a": must not be an "xds:" target, whose state is a service config, which a cluster cannot use: make "composite-xds:///NAME?clusters=..." the channel's target (package resolver/xds), or name the cluster's endpoints by another scheme, such as "dns:///host:port"`},
	{"target has the scheme composite", `{"clusters":[{"name":"a","target":"composite:///"}]}`, `composite: clusters[0].target: "composite:///": must not be a "composite:" target, whose state is a service config, which a cluster cannot use: list its clusters here, or nest them with "childPolicy": [{"composite": {...}}]`},
	{"target has a control character", `{"clusters":[{"name":"a","target":"host\n:1"}]}`, `composite: clusters[0].target: "host\n:1": must be a target URI, such as "dns:///host:port": net/url: invalid control character in URL`},
	{"target begins with white space", `{"clusters":[{"name":"a","target":" 127.0.0.1:1"}]}`, `composite: clusters[0].target: " 127.0.0.1:1": must not begin or end with white space`},
	{"target ends with white space", `{"clusters":[{"name":"a","target":"dns:///a:1\u00a0"}]}`, `composite: clusters[0].target: "dns:///a:1\u00a0": must not begin or end with white space`},
	{"target is white space", `{"clusters":[{"name":"a","target":" "}]}`, `composite: clusters[0].target: " ": must not begin or end with white space`},
	{"target has a bad escape", `{"clusters":[{"name":"a","target":"host%zz:1"}]}`, `composite: clusters[0].target: "host%zz:1": must be a target URI, such as "dns:///host:port": invalid URL escape "%zz"`},
	{"target has a bad escape after its scheme", `{"clusters":[{"name":"a","target":"dns:///host%2"}]}`, `composite: clusters[0].target: "dns:///host%2": must be a target URI, such as "dns:///host:port": invalid URL escape "%2"`},
	{"target has a bad escape after a refused scheme", `{"clusters":[{"name":"a","target":"xds:///host%2"}]}`, `composite: clusters[0].target: "xds:///host%2": must be a target URI, such as "dns:///host:port": invalid URL escape "%2"`},
	{"target has a bad authority", `{"clusters":[{"name":"a","target":"dns://[::1/host"}]}`, `composite: clusters[0].target: "dns://[::1/host": must be a target URI, such as "dns:///host:port": missing ']' in host`},

	{"childPolicy is an object", `{"clusters":[{"name":"a","childPolicy":{"config_stub":{}}}]}`, `composite: clusters[0].childPolicy: {"config_stub":{}}: must be a list`},
	{"a policy is a string", `{"clusters":[{"name":"a","childPolicy":["config_stub"]}]}`, `composite: clusters[0].childPolicy[0]: "config_stub": must be an object`},
	{"a policy is null", `{"clusters":[{"name":"a","childPolicy":[null]}]}`, `composite: clusters[0].childPolicy[0]: null: must be an object`},
	{"a policy without a key", `{"clusters":[{"name":"a","childPolicy":[{"none":{}},{}]}]}`, `composite: clusters[0].childPolicy[1]: must have one key, the name of a policy, and has 0`},
	{"a policy with two keys", `{"clusters":[{"name":"a","childPolicy":[{"config_stub":{},"round_robin":{}}]}]}`, `composite: clusters[0].childPolicy[0]: must have one key, the name of a policy, and has 2`},
	{"a policy with one key twice", `{"clusters":[{"name":"a","childPolicy":[{"config_stub":{},"config_stub":{}}]}]}`, `composite: clusters[0].childPolicy[0]: {"config_stub":{},"config_stub":{}}: must have each key once, text that is valid Unicode, and numbers in the range of a double`},
	{"no supported policy", `{"clusters":[{"name":"a"},{"name":"b","childPolicy":[{"z_policy":{}},{"a_policy":{"x":1}}]}]}`, `composite: clusters[1].childPolicy: must name a policy that is registered, and none of these is: "z_policy", "a_policy"`},
	{"a policy refuses its config", `{"clusters":[{"name":"a","childPolicy":[{"none":{}},{"config_stub":{"bad":"x"}}]}]}`, `composite: clusters[0].childPolicy[1]: must be a valid config for "config_stub": stub: bad is x`},
	{"a policy shows metadata of the composite inside", `{"clusters":[{"name":"a","childPolicy":[{"pick_first":[{"composite":{"clusters":[{"name":"b","metadata":{"k":"se\"<cret","l":"s"}}]}}]}]}]}`, `composite: clusters[0].childPolicy[0]: must be a valid config for "pick_first": pickfirst: unable to unmarshal LB policy config: [{"composite":{"clusters":[{"metadata":{"k":"***","l":"***"},"name":"b"}]}}], error: json: cannot unmarshal array into Go value of type pickfirst.pfConfig`},
	{"metadata of a composite inside that has a key twice", `{"clusters":[{"name":"a","childPolicy":[{"composite":{"clusters":[{"metadata":{"k":"secret","k":"secret"}}]}}]}]}`, `composite: clusters[0].childPolicy[0]: {"composite":{"clusters":[{"metadata":{"k":"...","k":"..."}}]}}: must have each key once, text that is valid Unicode, and numbers in the range of a double`},
	{"a policy shows a long config", `{"clusters":[{"name":"a","childPolicy":[{"pick_first":["` + strings.Repeat("x", 1000) + `"]}]}]}`, `composite: clusters[0].childPolicy[0]: must be a valid config for "pick_first": pickfirst: unable to unmarshal LB policy config: ["` + strings.Repeat("x", 461) + `...`},
	{"a long list of policies", `{"clusters":[{"name":"a","childPolicy":[` + strings.Repeat(`{"`+strings.Repeat("x", 100)+`":{}},`, 1000) + `{"y":{}}]}]}`, `composite: clusters[0].childPolicy: must name a policy that is registered, and none of these is: ` + strings.Repeat(`"`+strings.Repeat("x", 80)+`...", `, 20) + `and 981 more`},
	{"a long key of metadata", `{"clusters":[{"name":"a","metadata":{"` + strings.Repeat("X", 1000) + `":"x"}}]}`, `composite: clusters[0].metadata["` + strings.Repeat("X", 80) + `..."]: must have a key of lower-case letters, digits, "-", "_" and "."`},
	{"a nested composite is wrong", `{"clusters":[{"name":"a"},{"name":"b","childPolicy":[{"composite":{"clusters":[{"name":"c"},{"name":"d","connectTimeout":"-1s"}]}}]}]}`, `composite: clusters[1].childPolicy[0]: must be a valid config for "composite": composite: clusters[1].connectTimeout: "-1s": must not be negative`},
	{"a composite within a nested one is wrong", `{"clusters":[{"name":"a","childPolicy":[{"composite":{"clusters":[{"name":"b","childPolicy":[{"config_stub":{"bad":1}}]}]}}]}]}`, `composite: clusters[0].childPolicy[0]: must be a valid config for "composite": composite: clusters[0].childPolicy[0]: must be a valid config for "config_stub": stub: bad is 1`},
}

func TestParseConfigRejects(t *testing.T) {
	for _, tc := range rejectedConfigs {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			cfg, err := parse(tc.input)
			if err == nil {
				t.Fatalf("ParseConfig(%.200s) = %+v: want the error %s", tc.input, cfg, tc.want)
			}
			if err.Error() != tc.want {
				t.Errorf("ParseConfig(%.200s):\ngot  %v\nwant %s", tc.input, err, tc.want)
			}
			if !utf8.ValidString(err.Error()) {
				t.Error("the error must be valid UTF-8")
			}
		})
	}
}

// TestParseConfigErrorCause looks inside errors for what a child policy said,
// however deep it is.
func TestParseConfigErrorCause(t *testing.T) {
	for _, tc := range []struct{ name, input string }{
		{"a child", `{"clusters":[{"name":"a","childPolicy":[{"config_stub":{"bad":"x"}}]}]}`},
		{"a child of a nested composite", `{"clusters":[{"name":"a","childPolicy":[{"composite":{"clusters":[{"name":"b","childPolicy":[{"config_stub":{"bad":"x"}}]}]}}]}]}`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			_, err := parse(tc.input)
			if want := (stubError{"x"}); !errors.Is(err, want) {
				t.Errorf("errors.Is(%v, %#v) is false", err, want)
			}
			var cause stubError
			if !errors.As(err, &cause) || cause.value != "x" {
				t.Errorf("errors.As(%v) gives %#v", err, cause)
			}
		})
	}
}

// parsedCluster is a clusterConfig in a form that tests can write down.
type parsedCluster struct {
	name, target, policy string
	config               serviceconfig.LoadBalancingConfig
	connectTimeout       time.Duration
}

func parsedClusters(cfg *lbConfig) []parsedCluster {
	var list []parsedCluster
	for _, c := range cfg.clusters {
		p := parsedCluster{name: c.name, policy: c.child.builder.Name(), config: c.child.config, connectTimeout: c.connectTimeout}
		if c.target != nil {
			p.target = c.target.Text
		}
		list = append(list, p)
	}
	return list
}

// manyClusters is what entries(n, ...) parses to.
func manyClusters(n int) (clusters []parsedCluster, slots []plan.Entry) {
	for i := range n {
		clusters = append(clusters, parsedCluster{name: fmt.Sprintf("c%d", i), policy: "round_robin", connectTimeout: time.Second})
		slots = append(slots, plan.Entry{Cluster: i, Attempts: 1})
	}
	return clusters, slots
}

type acceptedConfig struct {
	name, input string
	clusters    []parsedCluster
	slots       *plan.Slots
	failRequest bool
	unknown     []string
}

func acceptedConfigs() []acceptedConfig {
	one := []parsedCluster{{name: "a", policy: "round_robin", connectTimeout: time.Second}}
	oneSlot := plan.NewSlots([]plan.Entry{{Cluster: 0, Attempts: 1}}, plan.Fail, true)
	stub := func(fields map[string]any) []parsedCluster {
		return []parsedCluster{{name: "a", policy: "config_stub", config: stubConfig{fields: fields}, connectTimeout: time.Second}}
	}
	timeout := func(d time.Duration) []parsedCluster {
		return []parsedCluster{{name: "a", policy: "round_robin", connectTimeout: d}}
	}
	name256 := strings.Repeat("x", 256)
	clusters64, slots64 := manyClusters(64)
	return []acceptedConfig{
		{name: "defaults", input: `{"clusters":[{"name":"a"}]}`, clusters: one, slots: oneSlot},
		{name: "defaults in full", input: `{"clusters":[{"name":"a","target":"","childPolicy":[{"round_robin":{}}],"attempts":1,"connectTimeout":"1s"}],"overflow":"FAIL","skipClustersWithoutHosts":true,"noHost":"FAIL_ATTEMPT"}`, clusters: one, slots: oneSlot},
		{name: "null is the default", input: `{"clusters":[{"name":"a","target":null,"childPolicy":null,"attempts":null,"connectTimeout":null}],"overflow":null,"skipClustersWithoutHosts":null,"noHost":null}`, clusters: one, slots: oneSlot},
		{name: "an empty childPolicy is the default", input: `{"clusters":[{"name":"a","childPolicy":[]}]}`, clusters: one, slots: oneSlot},
		{name: "enums without a meaning are the default", input: `{"clusters":[{"name":"a"}],"overflow":"OVERFLOW_UNSPECIFIED","noHost":0}`, clusters: one, slots: oneSlot},
		{
			name:  "everything set",
			input: `{"clusters":[{"name":"a","target":"dns:///a:1","childPolicy":[{"config_stub":{"x":1}}],"attempts":2,"connectTimeout":"0.25s"},{"name":"b"}],"overflow":"ROUND_ROBIN","skipClustersWithoutHosts":false,"noHost":"FAIL_REQUEST"}`,
			clusters: []parsedCluster{
				{name: "a", target: "dns:///a:1", policy: "config_stub", config: stubConfig{fields: map[string]any{"x": 1.0}}, connectTimeout: 250 * time.Millisecond},
				{name: "b", policy: "round_robin", connectTimeout: time.Second},
			},
			slots:       plan.NewSlots([]plan.Entry{{Cluster: 0, Attempts: 2}, {Cluster: 1, Attempts: 1}}, plan.RoundRobin, false),
			failRequest: true,
		},
		{
			name:        "names in snake case",
			input:       `{"clusters":[{"name":"a","child_policy":[{"config_stub":{}}],"connect_timeout":"2s"}],"skip_clusters_without_hosts":false,"no_host":"FAIL_REQUEST"}`,
			clusters:    []parsedCluster{{name: "a", policy: "config_stub", config: stubConfig{fields: map[string]any{}}, connectTimeout: 2 * time.Second}},
			slots:       plan.NewSlots([]plan.Entry{{Cluster: 0, Attempts: 1}}, plan.Fail, false),
			failRequest: true,
		},
		{name: "enums by number", input: `{"clusters":[{"name":"a"}],"overflow":2,"noHost":2}`, clusters: one, slots: plan.NewSlots([]plan.Entry{{Cluster: 0, Attempts: 1}}, plan.UseLastCluster, true), failRequest: true},
		{name: "overflow to the last cluster", input: `{"clusters":[{"name":"a"}],"overflow":"USE_LAST_CLUSTER"}`, clusters: one, slots: plan.NewSlots([]plan.Entry{{Cluster: 0, Attempts: 1}}, plan.UseLastCluster, true)},
		{name: "a whole number as a string", input: `{"clusters":[{"name":"a","attempts":"3"}]}`, clusters: one, slots: plan.NewSlots([]plan.Entry{{Cluster: 0, Attempts: 3}}, plan.Fail, true)},

		{name: "a name of 256 bytes", input: `{"clusters":[{"name":"` + name256 + `"}]}`, clusters: []parsedCluster{{name: name256, policy: "round_robin", connectTimeout: time.Second}}, slots: oneSlot},
		{name: "64 attempts of one cluster", input: `{"clusters":[{"name":"a","attempts":64}]}`, clusters: one, slots: plan.NewSlots([]plan.Entry{{Cluster: 0, Attempts: 64}}, plan.Fail, true)},
		{name: "64 clusters", input: `{"clusters":[` + entries(64, 1) + `]}`, clusters: clusters64, slots: plan.NewSlots(slots64, plan.Fail, true)},
		{
			name:     "repeated names",
			input:    `{"clusters":[{"name":"a","connectTimeout":"3s"},{"name":"a"},{"name":"b"},{"name":"a","attempts":2,"target":"","childPolicy":[]}]}`,
			clusters: []parsedCluster{{name: "a", policy: "round_robin", connectTimeout: 3 * time.Second}, {name: "b", policy: "round_robin", connectTimeout: time.Second}},
			slots:    plan.NewSlots([]plan.Entry{{Cluster: 0, Attempts: 1}, {Cluster: 0, Attempts: 1}, {Cluster: 1, Attempts: 1}, {Cluster: 0, Attempts: 2}}, plan.Fail, true),
		},
		{name: "connectTimeout of zero", input: `{"clusters":[{"name":"a","connectTimeout":"0s"}]}`, clusters: timeout(0), slots: oneSlot},
		{name: "connectTimeout of minus zero", input: `{"clusters":[{"name":"a","connectTimeout":"-0s"}]}`, clusters: timeout(0), slots: oneSlot},
		{name: "connectTimeout of a nanosecond", input: `{"clusters":[{"name":"a","connectTimeout":"0.000000001s"}]}`, clusters: timeout(1), slots: oneSlot},
		{name: "connectTimeout longer than Go can tell", input: `{"clusters":[{"name":"a","connectTimeout":"315576000000s"}]}`, clusters: timeout(1<<63 - 1), slots: oneSlot},

		{name: "the first registered policy", input: `{"clusters":[{"name":"a","childPolicy":[{"none":{}},{"config_stub":{"x":"y"}},{"round_robin":{}}]}]}`, clusters: stub(map[string]any{"x": "y"}), slots: oneSlot},
		{name: "what follows the first registered policy is not looked at", input: `{"clusters":[{"name":"a","childPolicy":[{"config_stub":{}},{},{"config_stub":{"bad":1}}]}]}`, clusters: stub(map[string]any{}), slots: oneSlot},
		{name: "a policy with the config null", input: `{"clusters":[{"name":"a","childPolicy":[{"config_stub":null}]}]}`, clusters: stub(nil), slots: oneSlot},
		{name: "a policy that has no config", input: `{"clusters":[{"name":"a","childPolicy":[{"round_robin":{"x":1}}]}]}`, clusters: one, slots: oneSlot},
		{
			name:  "a policy's config of all kinds",
			input: `{"clusters":[{"name":"a","childPolicy":[{"config_stub":{"list":[1,-0.5,1e21],"none":null,"yes":true,"text":"<\ud83d\ude00>","snake_case":{}}}]}]}`,
			clusters: stub(map[string]any{
				"list": []any{1.0, -0.5, 1e21}, "none": nil, "yes": true, "text": "<😀>", "snake_case": map[string]any{},
			}),
			slots: oneSlot,
		},

		{
			name:     "unknown fields",
			input:    `{"a":1,"clusters":[{"name":"a","b":{"c":1}},{"name":"a","lines\n":[]}],"d e":null}`,
			clusters: one,
			slots:    plan.NewSlots([]plan.Entry{{Cluster: 0, Attempts: 1}, {Cluster: 0, Attempts: 1}}, plan.Fail, true),
			unknown:  []string{"a", "clusters[0].b", `clusters[1]."lines\n"`, `"d e"`},
		},
		{name: "an unknown field with a number that no double holds", input: `{"clusters":[{"name":"a","b":1e400}]}`, clusters: one, slots: oneSlot, unknown: []string{"clusters[0].b"}},
	}
}

func TestParseConfigAccepts(t *testing.T) {
	for _, tc := range acceptedConfigs() {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			if _, err := parse(tc.input); err != nil {
				t.Fatalf("ParseConfig(%s): %v", tc.input, err)
			}
			cfg, unknown, err := parseConfig(json.RawMessage(tc.input))
			if err != nil {
				t.Fatalf("parseConfig(%s): %v", tc.input, err)
			}
			if got := parsedClusters(cfg); !reflect.DeepEqual(got, tc.clusters) {
				t.Errorf("clusters:\ngot  %+v\nwant %+v", got, tc.clusters)
			}
			if !reflect.DeepEqual(cfg.slots, tc.slots) {
				t.Errorf("slots:\ngot  %+v\nwant %+v", cfg.slots, tc.slots)
			}
			if cfg.failRequest != tc.failRequest {
				t.Errorf("failRequest is %v: want %v", cfg.failRequest, tc.failRequest)
			}
			if !reflect.DeepEqual(unknown, tc.unknown) {
				t.Errorf("unknown fields %q: want %q", unknown, tc.unknown)
			}
		})
	}
}

func TestParseConfigNested(t *testing.T) {
	cfg, err := parse(`{"clusters":[{"name":"a","childPolicy":[{"composite":{"clusters":[{"name":"b","attempts":2}],"noHost":"FAIL_REQUEST"}}]}]}`)
	if err != nil {
		t.Fatal(err)
	}
	inner, ok := cfg.clusters[0].child.config.(*lbConfig)
	if !ok {
		t.Fatalf("the child's config is a %T: want an *lbConfig", cfg.clusters[0].child.config)
	}
	if len(inner.clusters) != 1 || inner.clusters[0].name != "b" || inner.slots.Len() != 2 || !inner.failRequest {
		t.Errorf("the child's config is %+v", inner)
	}
}

// TestChildConfigEqual is about when a cluster's child has to hear of a new
// config.
func TestChildConfigEqual(t *testing.T) {
	for _, tc := range []struct {
		name, a, b string // values of childPolicy
		want       bool
	}{
		{"the same text", `[{"config_stub":{"x":1}}]`, `[{"config_stub":{"x":1}}]`, true},
		{"other space and order", `[{"config_stub":{"x":1,"y":2}}]`, `[ { "config_stub" : { "y" : 2.0, "x" : 1 } } ]`, true},
		{"another value", `[{"config_stub":{"x":1}}]`, `[{"config_stub":{"x":2}}]`, false},
		{"another policy", `[{"config_stub":{}}]`, `[{"pick_first":{}}]`, false},
		{"the default written out", `[]`, `[{"round_robin":{}}]`, true},
		{"unsupported policies before it", `[{"none":{}},{"config_stub":{}}]`, `[{"config_stub":{}}]`, true},
		{"others after it", `[{"config_stub":{}},{"round_robin":{}}]`, `[{"config_stub":{}}]`, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			var child [2]childConfig
			for i, policy := range []string{tc.a, tc.b} {
				cfg, err := parse(`{"clusters":[{"name":"a","childPolicy":` + policy + `}]}`)
				if err != nil {
					t.Fatal(err)
				}
				child[i] = cfg.clusters[0].child
			}
			if got := child[0].equal(child[1]); got != tc.want {
				t.Errorf("%s equals %s: %v, want %v", tc.a, tc.b, got, tc.want)
			}
		})
	}
}
