package composite_test

import (
	"context"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/balancer"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"

	"github.com/grpc-composite/grpc-composite/balancer/composite"
	"github.com/grpc-composite/grpc-composite/internal/testkit"
)

// dueForAProbe is a channel to a and b, of which a has a cooldown, the time of its
// first rest is over, and its next attempt is a probe. A turn lasts longer than a
// test does.
func dueForAProbe(t *testing.T) (cc *grpc.ClientConn, a *gate, b *testkit.Backend, policy *testkit.Policy) {
	t.Helper()
	a, b = startGate(t, "a"), testkit.Start(t, "b")
	a.Script(testkit.U)
	first, policy := breaking(t, a.Target(), map[string]any{"consecutiveFailures": 1, "time": "0.001s"})
	service := testkit.Service{Clusters: append([]testkit.Cluster{first}, testkit.Clusters(b)...), Attempts: 2}
	live := dialLive(t, service)
	if got := call(t, live.cc); got != "b" {
		t.Fatalf("answer from %s: want b", got)
	}
	testkit.Eventually(t, "the rest's time is over", func() bool { return composite.Passes(policy.Child(t, 0)) })
	wantResting(t, policy, true)
	service.Clusters[0].More["cooldown"] = map[string]any{"consecutiveFailures": 1, "time": aLongTime, "maxTime": aLongTime}
	live.set(t, service)
	a.Script(testkit.OK)
	b.Script(testkit.OK)
	return live.cc, a, b, policy
}

// TestOneProbe has many callers beside a probe that takes its time.
func TestOneProbe(t *testing.T) {
	t.Parallel()
	cc, a, b, policy := dueForAProbe(t)
	a.shut()
	calls := inBackground(t, cc, 64)
	testkit.Eventually(t, "63 calls of b", func() bool { return b.Count() == 63 })
	a.await(t, 1)
	inBackground(t, cc, 64).Wait()
	if got := a.now.Load(); got != 1 {
		t.Errorf("%d calls of the cluster: want the probe alone", got)
	}
	wantResting(t, policy, true)
	a.letGo()
	calls.Wait()
	wantResting(t, policy, false)
	if got := call(t, cc); got != "a" {
		t.Errorf("after the probe: answer from %s, want a", got)
	}
}

func TestProbeThatFails(t *testing.T) {
	t.Parallel()
	cc, a, b, policy := dueForAProbe(t)
	a.Script(testkit.U)
	for range 10 {
		if got := call(t, cc); got != "b" {
			t.Errorf("answer from %s: want b", got)
		}
	}
	if got := testkit.Counts(a.Backend, b); got != "1/10" {
		t.Errorf("calls %s: want 1/10", got)
	}
	wantResting(t, policy, true)
}

// TestProbeThatIsCancelled gives its turn to the next attempt.
func TestProbeThatIsCancelled(t *testing.T) {
	for _, kind := range rpcKinds {
		t.Run(kind.name, func(t *testing.T) {
			t.Parallel()
			cc, a, _, policy := dueForAProbe(t)
			a.Script(testkit.Reply{Hang: true})
			for i := range 5 {
				ctx, cancel := context.WithCancel(testkit.Context(t))
				var probe sync.WaitGroup
				probe.Go(func() { checkError(t, kind.call(ctx, cc), codes.Canceled) })
				testkit.Eventually(t, "a probe", func() bool { return a.Count() == i+1 })
				if got := call(t, cc); got != "b" {
					t.Errorf("beside the probe: answer from %s, want b", got)
				}
				cancel()
				probe.Wait()
				wantResting(t, policy, true)
			}
			a.Script(testkit.OK)
			if got := call(t, cc); got != "a" {
				t.Errorf("after the probes: answer from %s, want a", got)
			}
			wantResting(t, policy, false)
		})
	}
}

// TestProbeThatTakesLongerThanItsTurn has its turn pass to others, and ends the
// rest all the same when it succeeds.
func TestProbeThatTakesLongerThanItsTurn(t *testing.T) {
	t.Parallel()
	a, b := testkit.Start(t, "a"), testkit.Start(t, "b")
	a.Script(testkit.U)
	first, policy := breaking(t, a.Target(), map[string]any{"consecutiveFailures": 1, "time": "0.05s"})
	cc := dial(t, testkit.Service{Clusters: append([]testkit.Cluster{first}, testkit.Clusters(b)...), Attempts: 2})
	call(t, cc)
	a.Script(testkit.OK)
	testkit.Eventually(t, "the rest's time is over", func() bool { return composite.Passes(policy.Child(t, 0)) })
	probe, from := openStream(t, cc)
	if from != "a" {
		t.Fatalf("a stream from %s: want the probe", from)
	}
	a.Script(testkit.Reply{Hang: true})
	ctx, cancel := context.WithCancel(testkit.Context(t))
	defer cancel()
	var second sync.WaitGroup
	testkit.Eventually(t, "another probe", func() bool {
		if !composite.Passes(policy.Child(t, 0)) {
			return false
		}
		second.Go(func() { _ = unaryRPC(ctx, cc) })
		return true
	})
	testkit.Eventually(t, "its call", func() bool { return a.Count() == 1 })
	a.Script(testkit.OK)
	wantResting(t, policy, true)
	_ = probe.CloseSend()
	_, _ = probe.Recv() // the end
	wantResting(t, policy, false)
	cancel()
	second.Wait()
	wantResting(t, policy, false)
}

// TestProbeWhosePickIsDiscarded has a connection that is not ready: gRPC gives the
// pick back and picks again, and the turn must not be lost.
func TestProbeWhosePickIsDiscarded(t *testing.T) {
	t.Parallel()
	a, b := testkit.Start(t, "a"), testkit.Start(t, "b")
	a.Script(testkit.U)
	first, policy := breaking(t, a.Target(), map[string]any{"consecutiveFailures": 1, "time": "0.001s"})
	m := &moodyPicker{mood: func(cold balancer.SubConn) (balancer.PickResult, error) {
		return balancer.PickResult{SubConn: cold}, nil
	}}
	policy.OnUpdate = m.connect
	service := testkit.Service{Clusters: append([]testkit.Cluster{first}, testkit.Clusters(b)...), Attempts: 2}
	live := dialLive(t, service)
	call(t, live.cc)
	testkit.Eventually(t, "the rest's time is over", func() bool { return composite.Passes(policy.Child(t, 0)) })
	service.Clusters[0].More["cooldown"] = map[string]any{"consecutiveFailures": 1, "time": aLongTime, "maxTime": aLongTime}
	live.set(t, service)
	a.Script(testkit.OK)

	m.picks.Store(1) // the next pick follows the mood
	m.moody.Store(true)
	probe := inBackground(t, live.cc, 1)
	testkit.Eventually(t, "the pick", func() bool { return m.picks.Load() == 2 })
	policy.Child(t, 0).ReportPicker(connectivity.Ready, m)
	probe.Wait()
	if got := a.Count(); got != 1 {
		t.Errorf("%d calls of the cluster: want the probe's", got)
	}
	wantResting(t, policy, false)
}

// TestProbeOfAFullCluster has a cluster without a place when a probe is due: the
// turn waits for one.
func TestProbeOfAFullCluster(t *testing.T) {
	t.Parallel()
	a, b := testkit.Start(t, "a"), testkit.Start(t, "b")
	first, policy := breaking(t, a.Target(), map[string]any{"consecutiveFailures": 1, "time": "0.001s"})
	first.More["maxRequests"] = 2
	service := testkit.Service{Clusters: append([]testkit.Cluster{first}, testkit.Clusters(b)...), Attempts: 2}
	live := dialLive(t, service)
	stream, _ := openStream(t, live.cc)
	a.Script(testkit.U)
	call(t, live.cc)
	child := policy.Child(t, 0)
	testkit.Eventually(t, "the rest's time is over", func() bool { return composite.Passes(child) })
	first.More["maxRequests"] = 1
	live.set(t, service)
	a.Script(testkit.OK)
	for range 10 {
		if got := call(t, live.cc); got != "b" {
			t.Errorf("beside the stream: answer from %s, want b", got)
		}
		if !composite.Passes(child) {
			t.Fatal("the turn is lost")
		}
	}
	_ = stream.CloseSend()
	_, _ = stream.Recv() // the end
	if got := call(t, live.cc); got != "a" {
		t.Errorf("after the stream: answer from %s, want a", got)
	}
	wantResting(t, policy, false)
	if got := composite.InFlight(child); got != 0 {
		t.Errorf("%d places are taken and nobody calls", got)
	}
}
