package xds

import (
	"encoding/json"
	"reflect"
	"testing"

	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/serviceconfig"
)

// channel is a ClientConn that notes what it gets.
type channel struct {
	resolver.ClientConn
	parsed []string
}

func (c *channel) ParseServiceConfig(text string) *serviceconfig.ParseResult {
	c.parsed = append(c.parsed, text)
	return &serviceconfig.ParseResult{}
}

// routesTo is the service config that gRPC's xDS resolver generates for routes to
// these clusters.
func routesTo(clusters ...string) string {
	children := make(map[string]any)
	for _, name := range clusters {
		children["cluster:"+name] = map[string]any{"childPolicy": []any{map[string]any{"cds_experimental": map[string]any{"cluster": name}}}}
	}
	text, err := json.Marshal(map[string]any{"loadBalancingConfig": []any{map[string]any{"xds_cluster_manager_experimental": map[string]any{"children": children}}}})
	if err != nil {
		panic(err) // a test's own mistake
	}
	return string(text)
}

func TestServiceConfig(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ name, config, generated, want string }{
		{"routed and not routed", `{"clusters":[{"name":"a"},{"name":"b"}]}`, routesTo("b", "x"),
			`{"clusters":[{"name":"a","childPolicy":[{"cds_experimental":{"cluster":"a","isDynamic":true}}]},{"name":"b","childPolicy":[{"cds_experimental":{"cluster":"b","isDynamic":false}}]}]}`},
		{"a repeated entry", `{"clusters":[{"name":"a"},{"name":"a","attempts":2}]}`, routesTo("b"),
			`{"clusters":[{"name":"a","childPolicy":[{"cds_experimental":{"cluster":"a","isDynamic":true}}]},{"name":"a","attempts":2}]}`},
		{"settings stay", `{"clusters":[{"name":"a","maxRequests":12345678901,"lazy":true}],"noHost":"FAIL_REQUEST"}`, routesTo("a"),
			`{"clusters":[{"name":"a","maxRequests":12345678901,"lazy":true,"childPolicy":[{"cds_experimental":{"cluster":"a","isDynamic":false}}]}],"noHost":"FAIL_REQUEST"}`},
		{"a target", `{"clusters":[{"name":"a","target":"dns:///a"},{"name":"b","target":""}]}`, routesTo("x"),
			`{"clusters":[{"name":"a","target":"dns:///a"},{"name":"b","target":"","childPolicy":[{"cds_experimental":{"cluster":"b","isDynamic":true}}]}]}`},
		{"another cluster than the name says", `{"clusters":[{"name":"a","childPolicy":[{"cds_experimental":{"cluster":"b"}}]},{"name":"c","child_policy":[{"cds_experimental":{"cluster":"d","isDynamic":true}}]}]}`, routesTo("d"),
			`{"clusters":[{"name":"a","childPolicy":[{"cds_experimental":{"cluster":"b","isDynamic":true}}]},{"name":"c","child_policy":[{"cds_experimental":{"cluster":"d","isDynamic":false}}]}]}`},
		{"an empty list of policies, and none", `{"clusters":[{"name":"a","childPolicy":[]},{"name":"b","child_policy":null}]}`, routesTo("a"),
			`{"clusters":[{"name":"a","childPolicy":[{"cds_experimental":{"cluster":"a","isDynamic":false}}]},{"name":"b","childPolicy":[{"cds_experimental":{"cluster":"b","isDynamic":true}}]}]}`},
		{"below another policy", `{"clusters":[{"name":"a","childPolicy":[{"weighted_target_experimental":{"targets":{"x":{"weight":12345678901,"childPolicy":[{"cds_experimental":{"cluster":"b"}}]}}}}]}]}`, routesTo("a"),
			`{"clusters":[{"name":"a","childPolicy":[{"weighted_target_experimental":{"targets":{"x":{"weight":12345678901,"childPolicy":[{"cds_experimental":{"cluster":"b","isDynamic":true}}]}}}}]}]}`},
		{"another child policy", `{"clusters":[{"name":"a","childPolicy":[{"round_robin":{}}]}]}`, routesTo("a"),
			`{"clusters":[{"name":"a","childPolicy":[{"round_robin":{}}]}]}`},
		{"composite inside composite", `{"clusters":[{"name":"n","childPolicy":[{"composite":{"clusters":[{"name":"a"}]}}]}]}`, routesTo("a"),
			`{"clusters":[{"name":"n","childPolicy":[{"composite":{"clusters":[{"name":"a","childPolicy":[{"cds_experimental":{"cluster":"a","isDynamic":false}}]}]}}]}]}`},
		{"routes by a plugin", `{"clusters":[{"name":"a"}]}`, `{"loadBalancingConfig":[{"xds_cluster_manager_experimental":{"children":{"cluster_specifier_plugin:p":{"childPolicy":[{"rls_experimental":{}}]}}}}]}`,
			`{"clusters":[{"name":"a","childPolicy":[{"cds_experimental":{"cluster":"a","isDynamic":true}}]}]}`},
		{"routes by a plugin whose config is not known", `{"clusters":[{"name":"a"},{"name":"b"}]}`, `{"loadBalancingConfig":[{"xds_cluster_manager_experimental":{"children":{"x":{"childPolicy":[{"x":{"cluster":1}}]},"y":{"childPolicy":[{"cds_experimental":{"cluster":"b"}}]}}}}]}`,
			`{"clusters":[{"name":"a","childPolicy":[{"cds_experimental":{"cluster":"a","isDynamic":true}}]},{"name":"b","childPolicy":[{"cds_experimental":{"cluster":"b","isDynamic":false}}]}]}`},
		{"a policy that is not known", `{"clusters":[{"name":"a"}]}`, `{"loadBalancingConfig":[{"of_the_future":{}}]}`,
			`{"clusters":[{"name":"a","childPolicy":[{"cds_experimental":{"cluster":"a","isDynamic":true}}]}]}`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			var policy map[string]any
			if err := json.Unmarshal([]byte(tc.config), &policy); err != nil {
				t.Fatal(err)
			}
			ch := new(channel)
			c := &clientConn{ClientConn: ch, spec: &spec{policy: policy}}
			c.ParseServiceConfig(tc.generated)
			var got, want any
			if err := json.Unmarshal([]byte(ch.parsed[0]), &got); err != nil {
				t.Fatal(err)
			}
			if err := json.Unmarshal([]byte(`{"loadBalancingConfig":[{"composite":`+tc.want+`}]}`), &want); err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(got, want) {
				t.Errorf("service config %s: want %s", ch.parsed[0], tc.want)
			}
		})
	}
}

// TestPolicyIsParsedOnce has the same policy parsed once, whatever else the routes
// say, and the empty config of a listener that is gone passed on.
func TestPolicyIsParsedOnce(t *testing.T) {
	t.Parallel()
	ch := new(channel)
	c := &clientConn{ClientConn: ch, spec: &spec{policy: map[string]any{"clusters": []any{map[string]any{"name": "a"}}}}}
	for _, step := range []struct {
		name, text string
		parsed     int // in all
	}{
		{"the first", routesTo("x"), 1},
		{"the second", routesTo("x", "y"), 1},
		{"the routes name the cluster", routesTo("a"), 2},
		{"again", routesTo("a", "b"), 2},
		{"the listener is gone", "{}", 3},
		{"the listener is back", routesTo("a"), 3},
	} {
		if result := c.ParseServiceConfig(step.text); result == nil || len(ch.parsed) != step.parsed {
			t.Errorf("%s: %v, %d parsed: want %d", step.name, result, len(ch.parsed), step.parsed)
		}
	}
	if ch.parsed[2] != "{}" {
		t.Errorf("without a listener the config is %s: want it as it came", ch.parsed[2])
	}
}
