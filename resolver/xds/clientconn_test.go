package xds

import (
	"encoding/json"
	"reflect"
	"testing"

	"google.golang.org/grpc/attributes"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/serviceconfig"
)

// channel is a ClientConn that notes what it gets.
type channel struct {
	resolver.ClientConn
	parsed []string
	states []resolver.State
}

func (c *channel) ParseServiceConfig(text string) *serviceconfig.ParseResult {
	c.parsed = append(c.parsed, text)
	return &serviceconfig.ParseResult{}
}

func (c *channel) UpdateState(s resolver.State) error {
	c.states = append(c.states, s)
	return nil
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
		{"another child policy", `{"clusters":[{"name":"a","childPolicy":[{"round_robin":{}}]}]}`, routesTo("a"),
			`{"clusters":[{"name":"a","childPolicy":[{"round_robin":{}}]}]}`},
		{"composite inside composite", `{"clusters":[{"name":"n","childPolicy":[{"composite":{"clusters":[{"name":"a"}]}}]}]}`, routesTo("a"),
			`{"clusters":[{"name":"n","childPolicy":[{"composite":{"clusters":[{"name":"a","childPolicy":[{"cds_experimental":{"cluster":"a","isDynamic":false}}]}]}}]}]}`},
		{"routes by a plugin", `{"clusters":[{"name":"a"}]}`, `{"loadBalancingConfig":[{"xds_cluster_manager_experimental":{"children":{"cluster_specifier_plugin:p":{"childPolicy":[{"rls_experimental":{}}]}}}}]}`,
			`{"clusters":[{"name":"a","childPolicy":[{"cds_experimental":{"cluster":"a","isDynamic":true}}]}]}`},
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

// TestStates has states delivered once, but for the first with a new policy, and the
// same policy parsed once.
func TestStates(t *testing.T) {
	t.Parallel()
	ch := new(channel)
	c := &clientConn{ClientConn: ch, spec: &spec{policy: map[string]any{"clusters": []any{map[string]any{"name": "a"}}}}}
	state := func(text string, attrs *attributes.Attributes) {
		_ = c.UpdateState(resolver.State{ServiceConfig: c.ParseServiceConfig(text), Attributes: attrs})
	}
	attrs := attributes.New("key", "value")
	for _, step := range []struct {
		name           string
		text           string
		attrs          *attributes.Attributes
		parsed, states int // in all
	}{
		{"the first", routesTo("x"), attrs, 1, 2},
		{"the second", routesTo("x", "y"), attrs, 1, 3},
		{"the routes name the cluster", routesTo("a"), attrs, 2, 5},
		{"again", routesTo("a", "b"), attrs, 2, 6},
		{"the listener is gone", "{}", nil, 3, 7},
		{"the listener is back", routesTo("a"), attrs, 3, 9},
	} {
		state(step.text, step.attrs)
		if len(ch.parsed) != step.parsed || len(ch.states) != step.states {
			t.Errorf("%s: %d parsed, %d states: want %d and %d", step.name, len(ch.parsed), len(ch.states), step.parsed, step.states)
		}
		if got := ch.states[len(ch.states)-1].Attributes; got != step.attrs {
			t.Errorf("%s: attributes %v: want %v", step.name, got, step.attrs)
		}
	}
	if ch.parsed[2] != "{}" {
		t.Errorf("without a listener the config is %s: want it as it came", ch.parsed[2])
	}
}
