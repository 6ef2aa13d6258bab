package composite

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/balancer"
	"google.golang.org/grpc/resolver"

	"github.com/grpc-composite/grpc-composite/internal/plan"
	"github.com/grpc-composite/grpc-composite/internal/testkit"
)

// The tests of this file are about clusters that nothing would bring back to
// life, and about what outlives a change that ends it.

// configure delivers a config with exactly these clusters.
func (b *bench) configure(state resolver.State, clusters ...testkit.Cluster) error {
	b.t.Helper()
	text, err := json.Marshal(testkit.Service{Clusters: clusters}.Policy())
	if err != nil {
		b.t.Fatal(err)
	}
	cfg, err := builder{}.ParseConfig(text)
	if err != nil {
		b.t.Fatal(err)
	}
	return b.b.UpdateClientConnState(balancer.ClientConnState{BalancerConfig: cfg, ResolverState: state})
}

// pick has an attempt come, and returns the picker's error.
func (b *bench) pick() error { return b.pickIn(context.Background()) }

// pickIn is pick for an RPC that is made in a context.
func (b *bench) pickIn(rpc context.Context) error {
	_, err := b.channel.latest().Picker.Pick(balancer.PickInfo{Ctx: attemptIn(rpc, b.t)})
	synctest.Wait()
	return err
}

// TestLazyChildThatGivesUpIsAskedAgain has a child that goes IDLE before it has
// ever been READY.
func TestLazyChildThatGivesUpIsAskedAgain(t *testing.T) {
	for _, tc := range []struct {
		name  string
		first func(l *lazyBench, c *testkit.PolicyChild)
	}{
		{"after a failure", func(_ *lazyBench, c *testkit.PolicyChild) { c.Report(failure, errDown) }},
		{"after the connect timeout", func(_ *lazyBench, c *testkit.PolicyChild) {
			c.Report(connecting, balancer.ErrNoSubConnAvailable)
			time.Sleep(22 * time.Second)
		}},
		{"after it lost its connection and tried", func(_ *lazyBench, c *testkit.PolicyChild) {
			c.Report(ready, nil)
			c.Report(connecting, balancer.ErrNoSubConnAvailable)
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLazyBench(t)
				l.configure(nil)
				_ = l.pick()
				child := l.policy.Child(t, 0)
				tc.first(l, child)
				before := child.ExitIdles()
				child.Report(idle, balancer.ErrNoSubConnAvailable)
				synctest.Wait()
				if child.ExitIdles() == before {
					t.Error("nobody has asked the child to connect")
				}
			})
		})
	}
}

func TestClusterThatIsNoLongerLazyConnects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLazyBench(t)
		l.configure(nil)
		_ = l.pick()
		child := l.policy.Child(t, 0)
		child.Report(ready, nil)
		child.Report(idle, balancer.ErrNoSubConnAvailable)
		l.want(plan.Idle, idle)
		before := child.ExitIdles()
		l.configure(map[string]any{"lazy": false})
		synctest.Wait()
		if child.ExitIdles() == before {
			t.Error("nobody has asked the child to connect")
		}
	})
}

// TestSleeperWithANewTargetForgetsItsEndpoints has a cluster that gets a target
// of its own while it sleeps: the channel's endpoints are not its own any more.
func TestSleeperWithANewTargetForgetsItsEndpoints(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		var got []string
		b.policy.OnUpdate = func(_ *testkit.PolicyChild, s balancer.ClientConnState) error {
			for _, e := range s.ResolverState.Endpoints {
				got = append(got, e.Addresses[0].Addr)
			}
			return nil
		}
		r := testkit.NewResolver(t) // has nothing to say yet
		more := map[string]any{"lazy": true, "childPolicy": b.policy.Config()}
		_ = b.configure(testkit.OneEndpoint("old:1"), testkit.Cluster{Name: "a", More: more})
		_ = b.configure(testkit.OneEndpoint("old:1"), testkit.Cluster{Name: "a", Target: r.Target(), More: more})
		_ = b.pick()
		if len(got) > 0 {
			t.Errorf("it connects to %v, which the channel's resolver has", got)
		}
	})
}

// TestNewTargetForgetsTheOldOnesError has a target that cannot be resolved, and
// then another.
func TestNewTargetForgetsTheOldOnesError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		bad, good := testkit.NewResolver(t), testkit.NewResolver(t)
		bad.Fail(errors.New("no such name"))
		more := map[string]any{"childPolicy": b.policy.Config()}
		_ = b.configure(resolver.State{}, testkit.Cluster{Name: "a", Target: bad.Target(), More: more})
		b.want(plan.NoHost, failure)
		time.Sleep(time.Hour)
		_ = b.configure(resolver.State{}, testkit.Cluster{Name: "a", Target: good.Target(), More: more})
		b.want(plan.Connecting, connecting)
	})
}

// nilBuilder builds no policy, against its contract.
type nilBuilder struct{}

func (nilBuilder) Name() string { return "nil_builder" }

func (nilBuilder) Build(balancer.ClientConn, balancer.BuildOptions) balancer.Balancer { return nil }

func init() { balancer.Register(nilBuilder{}) }

func TestBuilderThatReturnsNil(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		err := b.configure(testkit.OneEndpoint("127.0.0.1:1"), testkit.Cluster{Name: "a", More: map[string]any{
			"childPolicy": []any{map[string]any{"nil_builder": map[string]any{}}},
		}})
		testkit.Contains(t, err, `the builder of the policy "nil_builder" returned nil`)
		b.want(plan.NoHost, failure)
		b.b.ResolverError(errDown)
		b.b.ExitIdle()
	})
}

func TestOldConnectionErrorIsForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		_ = b.update(nil)
		child := b.policy.Child(t, 0)
		b.b.(*compositeBalancer).clusters[0].current.noteConnectionError(errors.New("an hour ago"))
		child.Report(ready, nil)
		time.Sleep(time.Hour)
		child.Report(connecting, balancer.ErrNoSubConnAvailable)
		time.Sleep(time.Hour)
		if err := b.pick(); strings.Contains(err.Error(), "an hour ago") {
			t.Errorf("error %q: want no cause from before the last connection", err)
		}
	})
}

// TestRemovedClusterThatIsSlowToClose has a nested policy, one of whose resolvers
// takes an hour to build.
func TestRemovedClusterThatIsSlowToClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		slow := testkit.NewResolver(t)
		slow.SlowBuilds(time.Hour)
		inner := testkit.Service{Clusters: []testkit.Cluster{{Name: "c", Target: slow.Target()}}}
		outer := testkit.Cluster{Name: "N", Target: "passthrough:///nested", More: map[string]any{
			"childPolicy": []any{map[string]any{"composite": inner.Policy()}},
		}}
		other := testkit.Cluster{Name: "a", Target: testkit.EmptyTarget}
		_ = b.configure(resolver.State{}, outer, other)
		synctest.Wait()
		before := time.Now()
		_ = b.configure(resolver.State{}, other)
		if took := time.Since(before); took > 0 {
			t.Errorf("the update took %v: want it not to wait", took)
		}
	})
}

// TestReplacedPolicyThatIsSlowToClose has such a nested policy replaced: the new one
// connects meanwhile.
func TestReplacedPolicyThatIsSlowToClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		slow := testkit.NewResolver(t)
		slow.SlowBuilds(time.Hour)
		inner := testkit.Service{Clusters: []testkit.Cluster{{Name: "c", Target: slow.Target()}}}
		_ = b.configure(testkit.OneEndpoint("127.0.0.1:1"), testkit.Cluster{Name: "a", More: map[string]any{
			"childPolicy": []any{map[string]any{"composite": inner.Policy()}},
		}})
		synctest.Wait()
		before := time.Now()
		_ = b.update(nil)
		b.policy.Child(t, 0).Report(ready, nil)
		b.want(plan.HasHost, ready)
		_ = b.update(map[string]any{"connectTimeout": "10s"})
		if took := time.Since(before); took > time.Minute {
			t.Errorf("it took %v: want it not to wait for the old policy", took)
		}
	})
}

// countingPicker never has a connection.
type countingPicker struct{ picks atomic.Int32 }

func (p *countingPicker) Pick(balancer.PickInfo) (balancer.PickResult, error) {
	p.picks.Add(1)
	return balancer.PickResult{}, balancer.ErrNoSubConnAvailable
}

// TestFailedChildThatIsIdleIsPickedFrom has a child that connects only when it is
// picked from go from TRANSIENT_FAILURE to IDLE: attempts pass it over, and have
// to ask it in passing, or it would never have a host again.
func TestFailedChildThatIsIdleIsPickedFrom(t *testing.T) {
	for name, rpc := range map[string]context.Context{
		"by the config's list": context.Background(),
		"by a list of its own": WithClusters(context.Background(), "a"),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t)
				_ = b.update(nil)
				child := b.policy.Child(t, 0)
				child.Report(failure, errDown)
				b.want(plan.NoHost, failure)
				p := new(countingPicker)
				child.ReportPicker(idle, p)
				synctest.Wait()
				if err := b.pickIn(rpc); err == balancer.ErrNoSubConnAvailable {
					t.Error("the attempt waits for a cluster without a host")
				}
				if p.picks.Load() == 0 {
					t.Error("nothing picks from the IDLE child")
				}
			})
		})
	}
}

// TestIdleChildrenAreNotAskedForever has a nested policy whose first cluster is
// lazy, with a child that connects only when it is picked from, and no RPC but one.
func TestIdleChildrenAreNotAskedForever(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.policy.OnUpdate = func(c *testkit.PolicyChild, _ balancer.ClientConnState) error {
			c.Report(idle, balancer.ErrNoSubConnAvailable)
			return nil
		}
		inner := testkit.Service{Clusters: []testkit.Cluster{{Name: "in", More: map[string]any{"lazy": true, "childPolicy": b.policy.Config()}}}}
		_ = b.configure(testkit.OneEndpoint("127.0.0.1:1"), testkit.Cluster{Name: "N", More: map[string]any{
			"childPolicy": []any{map[string]any{"composite": inner.Policy()}},
		}})
		_ = b.pick()
		time.Sleep(time.Hour) // the cluster has gone to sleep by then
		synctest.Wait()
		pickers, exits := b.channel.count(), b.policy.Child(t, 0).ExitIdles()
		time.Sleep(time.Hour)
		synctest.Wait()
		if n := b.channel.count() - pickers; n > 0 {
			t.Errorf("an hour without RPCs: %d pickers, and the child was asked %d times: want none", n, b.policy.Child(t, 0).ExitIdles()-exits)
		}
	})
}
