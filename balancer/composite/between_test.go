package composite_test

import (
	"testing"

	"github.com/grpc-composite/grpc-composite/internal/inspect"
	"github.com/grpc-composite/grpc-composite/internal/testkit"
)

// below is a cluster whose policy is one that has a composite policy below it.
func below(name string, inner testkit.Service) testkit.Cluster {
	c := nested(name, inner)
	c.More["childPolicy"] = inBetween(c.More["childPolicy"])
	return c
}

// inBetween is a policy around another one, as a list of one.
func inBetween(childPolicy any) []any {
	return []any{map[string]any{"weighted_target_experimental": map[string]any{
		"targets": map[string]any{"one": map[string]any{"weight": 1, "childPolicy": childPolicy}},
	}}}
}

// nestings are the ways to have a composite policy inside another.
var nestings = []struct {
	name    string
	cluster func(name string, inner testkit.Service) testkit.Cluster
}{
	{"directly", nested},
	{"below another policy", below},
}

// TestNestedPolicyIsNoChannel has the names of a nested policy's clusters known to the
// credentials of the channel, and the debug page show one channel.
func TestNestedPolicyIsNoChannel(t *testing.T) {
	for _, nesting := range nestings {
		for _, kind := range credentialKinds {
			t.Run(nesting.name+"/"+kind.name, func(t *testing.T) {
				c := testkit.Start(t, "c")
				outer, inner, unknown := ghost(), ghost(), ghost()
				cluster := nesting.cluster(outer, testkit.Service{Clusters: []testkit.Cluster{{Name: inner, Target: c.Target()}}})
				before := len(inspect.Now().Channels)
				cc := dial(t, testkit.Service{Clusters: []testkit.Cluster{cluster}}, kind.option(outer, inner, unknown))
				if got := call(t, cc); got != "c" {
					t.Errorf("answer from %s: want c", got)
				}
				for _, name := range []string{outer, inner} {
					if got := warnings.with(name + `"`); len(got) > 0 {
						t.Errorf("warnings of a name that the config has: %q", got)
					}
				}
				if got := warnings.with(unknown + `"`); len(got) != 1 {
					t.Errorf("warnings of a name that it has not: %q, want one", got)
				}
				channels := inspect.Now().Channels
				if got := len(channels) - before; got != 1 {
					t.Fatalf("%d channels are shown: want one", got)
				}
				in := channels[len(channels)-1].Clusters[0].Nested
				if in == nil || in.Clusters[0].Name != inner {
					t.Errorf("inside it %+v is shown: want the nested policy", in)
				}
			})
		}
	}
}

// TestNestedPolicyIsReplaced has the debug page forget a nested policy that is closed.
func TestNestedPolicyIsReplaced(t *testing.T) {
	backends := startAll(t, "a", "b")
	config := func(name string, b *testkit.Backend) testkit.Service {
		return testkit.Service{Clusters: []testkit.Cluster{below("N", testkit.Service{Clusters: []testkit.Cluster{{Name: name, Target: b.Target()}}})}}
	}
	live := dialLive(t, config("first", backends[0]))
	testkit.AwaitServer(t, live.cc, "a")
	plain := testkit.Service{Clusters: []testkit.Cluster{{Name: "N", Target: backends[1].Target()}}}
	live.set(t, plain)
	testkit.AwaitServer(t, live.cc, "b")
	live.set(t, config("second", backends[0]))
	testkit.AwaitServer(t, live.cc, "a")
	channels := inspect.Now().Channels
	if in := channels[len(channels)-1].Clusters[0].Nested; in == nil || in.Clusters[0].Name != "second" {
		t.Errorf("%+v is shown: want the second policy", in)
	}
}

// TestLazyClusterOfANestedPolicy sleeps until an attempt comes to it, though the policy
// around it keeps other clusters connected.
func TestLazyClusterOfANestedPolicy(t *testing.T) {
	for _, nesting := range nestings {
		t.Run(nesting.name, func(t *testing.T) {
			t.Parallel()
			backends := startAll(t, "a", "c")
			asleep := testkit.NewResolver(t)
			_ = asleep.Update(backends[1])
			inner := testkit.Service{Clusters: []testkit.Cluster{{Name: "c", Target: asleep.Target(), More: map[string]any{"lazy": true}}}}
			cc := dial(t, testkit.Service{Clusters: append(testkit.Clusters(backends[0]), nesting.cluster("N", inner))})
			for range 20 {
				cc.Connect()
				if got := call(t, cc); got != "a" {
					t.Fatalf("answer from %s: want a", got)
				}
			}
			if n := asleep.Built(); n != 0 {
				t.Errorf("%d resolvers were built for the lazy cluster, to which no attempt came", n)
			}
			backends[0].Stop()
			testkit.AwaitServer(t, cc, "c")
			if n := asleep.Open(); n != 1 {
				t.Errorf("%d resolvers are open: want one", n)
			}
		})
	}
}

// TestOwnEndpointsSwitchIsGraceful replaces the policy of a cluster whose endpoints are
// that policy's own business: it gets an empty list, and serves until the new one can.
func TestOwnEndpointsSwitchIsGraceful(t *testing.T) {
	t.Parallel()
	silent, _ := testkit.BlackHole(t)
	a := testkit.Start(t, "a")
	config := func(target string) (direct, indirect testkit.Service) {
		c := nested("N", testkit.Service{Clusters: []testkit.Cluster{{Name: "c", Target: target, More: map[string]any{"connectTimeout": "20s"}}}})
		c.Target, c.More["connectTimeout"] = "", "20s"
		d := testkit.Cluster{Name: "N", More: map[string]any{"connectTimeout": "20s", "childPolicy": inBetween(c.More["childPolicy"])}}
		return testkit.Service{Clusters: []testkit.Cluster{c}}, testkit.Service{Clusters: []testkit.Cluster{d}}
	}
	before, _ := config(a.Target())
	_, after := config("passthrough:///" + silent)
	live := dialLive(t, before)
	testkit.AwaitServer(t, live.cc, "a")
	live.set(t, after)
	for range 20 {
		if got := call(t, live.cc); got != "a" {
			t.Fatalf("answer from %s: want a, by the old policy", got)
		}
	}
}
