package composite_test

import (
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"

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

// lazyPair is a nested policy's config with two lazy clusters, for attempts 1 and 2, and
// their resolvers.
func lazyPair(t *testing.T, first, second *testkit.Backend) (inner testkit.Service, one, two *testkit.Resolver) {
	t.Helper()
	one, two = testkit.NewResolver(t), testkit.NewResolver(t)
	_, _ = one.Update(first), two.Update(second)
	lazy := map[string]any{"lazy": true}
	inner.Clusters = []testkit.Cluster{{Name: "c", Target: one.Target(), More: lazy}, {Name: "d", Target: two.Target(), More: lazy}}
	return inner, one, two
}

// TestAttemptWakesTheClusterThatItNeeds and no other, and nor does an update that makes
// the cluster around it one that connects by itself.
func TestAttemptWakesTheClusterThatItNeeds(t *testing.T) {
	t.Parallel()
	backends := startScripted(t, "U OK OK")
	inner, first, _ := lazyPair(t, backends[1], backends[2])
	config := func(lazy bool) testkit.Service {
		n := nested("N", inner)
		n.More["lazy"] = lazy
		return testkit.Service{Clusters: append(testkit.Clusters(backends[0]), n), Attempts: 2}
	}
	live := dialLive(t, config(true))
	for range 5 {
		checkError(t, unaryRPC(testkit.Context(t), live.cc), codes.OK)
	}
	live.set(t, config(false))
	for range 5 {
		checkError(t, unaryRPC(testkit.Context(t), live.cc), codes.OK)
	}
	if got := testkit.Counts(backends...); got != "10/0/10" {
		t.Errorf("calls %s: want 10/0/10", got)
	}
	if n := first.Built(); n != 0 {
		t.Errorf("%d resolvers were built for the first cluster inside, to which no attempt came", n)
	}
}

// TestLazyInsideLazy has an RPC wake a lazy cluster, and the lazy one of the policy inside.
func TestLazyInsideLazy(t *testing.T) {
	for _, nesting := range nestings {
		for name, wait := range map[string]bool{"fails fast": false, "waits for ready": true} {
			t.Run(nesting.name+"/"+name, func(t *testing.T) {
				t.Parallel()
				backends := startAll(t, "c", "d")
				inner, _, _ := lazyPair(t, backends[0], backends[1])
				n := nesting.cluster("N", inner)
				n.More["lazy"], n.More["connectTimeout"] = true, "20s"
				cc := dial(t, testkit.Service{Clusters: []testkit.Cluster{n}})
				checkError(t, unaryRPC(testkit.Context(t), cc, grpc.WaitForReady(wait)), codes.OK)
			})
		}
	}
}

// TestNestedLazyClusterComesBack has the connection of a nested policy's one cluster end,
// which goes idle, and come back when RPCs need it.
func TestNestedLazyClusterComesBack(t *testing.T) {
	for _, nesting := range nestings {
		t.Run(nesting.name, func(t *testing.T) {
			t.Parallel()
			c := testkit.Start(t, "c")
			inner := testkit.Service{Clusters: []testkit.Cluster{{Name: "c", Target: c.Target(), More: map[string]any{
				"lazy": true, "childPolicy": []any{map[string]any{"pick_first": map[string]any{}}},
			}}}}
			n := nesting.cluster("N", inner)
			n.More["connectTimeout"] = "0.1s"
			cc := dial(t, testkit.Service{Clusters: []testkit.Cluster{n}})
			for range 3 {
				testkit.AwaitServer(t, cc, "c")
				c.Stop()
				testkit.Eventually(t, "an RPC fails", func() bool { return unaryRPC(testkit.Context(t), cc) != nil })
				c.Restart(t)
			}
			testkit.AwaitServer(t, cc, "c")
		})
	}
}

// TestConnectReachesANestedPolicy has it connect the first slot's cluster of the first
// slot's cluster, lazy ones too, also if their policies are not there yet.
func TestConnectReachesANestedPolicy(t *testing.T) {
	for _, nesting := range nestings {
		for name, change := range map[string]func(*testkit.Cluster, *testkit.Resolver){
			"at once":      func(*testkit.Cluster, *testkit.Resolver) {},
			"all are lazy": func(n *testkit.Cluster, _ *testkit.Resolver) { n.More["lazy"] = true },
			"built later": func(n *testkit.Cluster, r *testkit.Resolver) {
				r.SlowBuilds(50 * time.Millisecond)
				n.Target = r.Target()
			},
			"resolved later": func(n *testkit.Cluster, r *testkit.Resolver) { n.Target = r.Target() },
		} {
			t.Run(nesting.name+"/"+name, func(t *testing.T) {
				t.Parallel()
				backends := startAll(t, "c", "d")
				inner, _, second := lazyPair(t, backends[0], backends[1])
				n, slow := nesting.cluster("N", inner), testkit.NewResolver(t)
				n.More["connectTimeout"] = "20s"
				if name != "resolved later" {
					_ = slow.UpdateAddrs("nested")
				}
				change(&n, slow)
				live := dialLive(t, testkit.Service{Clusters: []testkit.Cluster{n}}) // calls Connect
				_ = slow.UpdateAddrs("nested")
				testkit.AwaitState(t, live.cc, connectivity.Ready)
				if built := second.Built(); built != 0 {
					t.Errorf("%d resolvers were built for the second cluster inside", built)
				}
			})
		}
	}
}

// TestNestedPolicyWithAnEmptyCluster has one of its clusters get no endpoints, and
// another serve.
func TestNestedPolicyWithAnEmptyCluster(t *testing.T) {
	for _, nesting := range nestings {
		t.Run(nesting.name, func(t *testing.T) {
			t.Parallel()
			c := testkit.Start(t, "c")
			n := nesting.cluster("N", testkit.Service{Clusters: []testkit.Cluster{{Name: "c", Target: c.Target()}, {Name: "d"}}})
			n.Target = testkit.EmptyTarget
			if got := call(t, dial(t, testkit.Service{Clusters: []testkit.Cluster{n}})); got != "c" {
				t.Errorf("answer from %s: want c", got)
			}
		})
	}
}

// TestFromEndpointsToNone replaces a cluster's target and policy at once by a policy
// whose endpoints are its own business.
func TestFromEndpointsToNone(t *testing.T) {
	silent, _ := testkit.BlackHole(t)
	for _, nesting := range nestings {
		t.Run(nesting.name, func(t *testing.T) {
			t.Parallel()
			a := testkit.Start(t, "a")
			n := nesting.cluster("N", testkit.Service{Clusters: []testkit.Cluster{{Name: "c", Target: "passthrough:///" + silent, More: map[string]any{"connectTimeout": "20s"}}}})
			n.Target, n.More["connectTimeout"] = "", "20s"
			live := dialLive(t, testkit.Service{Clusters: []testkit.Cluster{{Name: "N", Target: a.Target()}}})
			testkit.AwaitServer(t, live.cc, "a")
			live.set(t, testkit.Service{Clusters: []testkit.Cluster{n}})
			for range 20 {
				if got := call(t, live.cc); got != "a" {
					t.Fatalf("answer from %s: want a, by the old policy", got)
				}
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
