package composite

import (
	"encoding/json"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/balancer"

	"github.com/grpc-composite/grpc-composite/internal/plan"
	"github.com/grpc-composite/grpc-composite/internal/testkit"
)

// lazyBench is a policy with one lazy cluster that has a target.
type lazyBench struct {
	*bench
	resolver *testkit.Resolver
}

func newLazyBench(t *testing.T) *lazyBench {
	t.Helper()
	l := &lazyBench{bench: newBench(t), resolver: testkit.NewResolver(t)}
	_ = l.resolver.UpdateAddrs("127.0.0.1:1")
	return l
}

func (l *lazyBench) configure(more map[string]any) {
	l.t.Helper()
	settings := map[string]any{"lazy": true, "connectTimeout": "1s", "childPolicy": l.policy.Config()}
	for k, v := range more {
		settings[k] = v
	}
	text, err := json.Marshal(testkit.Service{Clusters: []testkit.Cluster{{Name: "a", Target: l.resolver.Target(), More: settings}}}.Policy())
	if err != nil {
		l.t.Fatal(err)
	}
	cfg, err := builder{}.ParseConfig(text)
	if err != nil {
		l.t.Fatal(err)
	}
	if err := l.b.UpdateClientConnState(balancer.ClientConnState{BalancerConfig: cfg}); err != nil {
		l.t.Fatal(err)
	}
}

func (l *lazyBench) wantOpen(resolvers int) {
	l.t.Helper()
	synctest.Wait()
	if got := l.resolver.Open(); got != resolvers {
		l.t.Errorf("%d resolvers are open: want %d", got, resolvers)
	}
}

func TestLazyClusterSleepsUntilAnAttemptComes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLazyBench(t)
		l.configure(nil)
		time.Sleep(time.Hour)
		l.want(plan.Idle, idle)
		l.wantOpen(0)
		for range 3 {
			if err := l.pick(); err != balancer.ErrNoSubConnAvailable {
				t.Errorf("pick: %v: want it to wait", err)
			}
		}
		l.want(plan.Connecting, connecting)
		l.wantOpen(1)
		child := l.policy.Child(t, 0)
		time.Sleep(time.Second)
		l.want(plan.NoHost, failure)
		child.Report(ready, nil)
		l.want(plan.HasHost, ready)
	})
}

// TestLazyClusterGoesBackToSleep uses the cluster for a while and then no more.
func TestLazyClusterGoesBackToSleep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLazyBench(t)
		l.configure(nil)
		_ = l.pick()
		child := l.policy.Child(t, 0)
		child.ReportPicker(ready, &stubPicker{})
		for range 4 { // an attempt every 29 minutes keeps it awake
			time.Sleep(29 * time.Minute)
			l.want(plan.HasHost, ready)
			if err := l.pick(); err != nil {
				t.Errorf("pick: %v", err)
			}
		}
		time.Sleep(30 * time.Minute)
		l.want(plan.HasHost, ready)
		time.Sleep(2 * time.Minute) // it is looked at once a minute
		l.want(plan.Idle, idle)
		l.wantOpen(0)
		if !child.Closed() {
			t.Error("the child of a cluster that sleeps is not closed")
		}

		_ = l.pick()
		l.want(plan.Connecting, connecting)
		l.wantOpen(1)
		l.policy.Child(t, 1).Report(ready, nil)
		l.want(plan.HasHost, ready)
	})
}

func TestLazyClusterThatFailsGetsAnotherChance(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLazyBench(t)
		l.configure(nil)
		_ = l.pick()
		l.policy.Child(t, 0).Report(failure, errDown)
		l.want(plan.NoHost, failure)
		time.Sleep(time.Hour)
		l.want(plan.Idle, idle)
	})
}

// TestLazyChildThatGoesIdleIsLeftIdle has a child that loses its connection: only
// the next attempt needs another.
func TestLazyChildThatGoesIdleIsLeftIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLazyBench(t)
		l.configure(nil)
		_ = l.pick()
		child := l.policy.Child(t, 0)
		child.Report(ready, nil)
		before := child.ExitIdles()
		child.Report(idle, balancer.ErrNoSubConnAvailable)
		l.want(plan.Idle, idle)
		time.Sleep(time.Minute)
		l.want(plan.Idle, idle)
		if got := child.ExitIdles(); got != before {
			t.Error("the child was asked to connect though no attempt needs it")
		}
		_ = l.pick()
		l.want(plan.Connecting, connecting)
		if got := child.ExitIdles(); got != before+1 {
			t.Errorf("the child was asked %d times: want once, by the attempt", got-before)
		}
	})
}

func TestLazyWithoutAConnectTimeoutIsAskedAndPassedOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLazyBench(t)
		l.configure(map[string]any{"connectTimeout": "0s"})
		l.want(plan.Idle, idle)
		err := l.pick()
		testkit.Contains(t, err, "a skipped: connecting")
		l.wantOpen(1)
		l.want(plan.NoHost, failure)
		l.policy.Child(t, 0).Report(ready, nil)
		l.want(plan.HasHost, ready)
	})
}

func TestConnectWakesAFirstLazyCluster(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLazyBench(t)
		l.configure(nil)
		l.b.ExitIdle()
		l.want(plan.Connecting, connecting)
		l.wantOpen(1)
	})
}

func TestLazyIsSwitchedOnAndOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLazyBench(t)
		l.configure(nil)
		l.configure(map[string]any{"lazy": false})
		l.want(plan.Connecting, connecting)
		l.wantOpen(1)
		l.policy.Child(t, 0).Report(ready, nil)
		time.Sleep(24 * time.Hour)
		l.want(plan.HasHost, ready) // not lazy any more
		l.configure(nil)
		l.want(plan.HasHost, ready)
		time.Sleep(32 * time.Minute)
		l.want(plan.Idle, idle)
		l.wantOpen(0)
	})
}

// TestLazyTargetlessClusterKeepsItsEndpoints has endpoints that arrive while the
// cluster sleeps.
func TestLazyTargetlessClusterKeepsItsEndpoints(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		if err := b.update(map[string]any{"lazy": true}); err != nil {
			t.Error(err)
		}
		b.want(plan.Idle, idle)
		l := &lazyBench{bench: b}
		_ = l.pick()
		child := b.policy.Child(t, 0)
		if got := child.Updates(); got != 1 {
			t.Errorf("%d lists of endpoints: want the one from before", got)
		}
	})
}
