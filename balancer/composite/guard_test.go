package composite

import (
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/balancer"
	"google.golang.org/grpc/codes"

	"github.com/grpc-composite/grpc-composite/internal/breaker"
	"github.com/grpc-composite/grpc-composite/internal/testkit"
)

// TestAttemptsThatWaitHoldNoPlace has many attempts come to a cluster with one
// place that is connecting: all wait for it, and nobody finds it full.
func TestAttemptsThatWaitHoldNoPlace(t *testing.T) {
	b := newBench(t)
	if err := b.update(map[string]any{"maxRequests": 1, "connectTimeout": "60s"}); err != nil {
		t.Fatal(err)
	}
	child := b.policy.Child(t, 0)
	child.Report(connecting, balancer.ErrNoSubConnAvailable)
	testkit.Eventually(t, "a picker that asks the child", func() bool {
		return b.channel.latest().Picker.(*picker).clusters[0].picker != nil
	})
	pickers, p := b.channel.count(), b.channel.latest().Picker
	var wg sync.WaitGroup
	for range 64 {
		wg.Go(func() {
			for range 200 {
				if _, err := p.Pick(balancer.PickInfo{Ctx: firstAttempt(t)}); err != balancer.ErrNoSubConnAvailable {
					t.Errorf("pick: %v: want it to wait", err)
					return
				}
			}
		})
	}
	wg.Wait()
	if g := guardOf(child); g.waited.Load() || g.inFlight.Load() != 0 {
		t.Errorf("%d places are taken, and somebody waits for one: %v", g.inFlight.Load(), g.waited.Load())
	}
	if got := b.channel.count(); got != pickers {
		t.Errorf("%d pickers were published: want none", got-pickers)
	}
}

// TestGuardedPicksAllocateNothing is about picks that are made while the guard has
// nothing against them.
func TestGuardedPicksAllocateNothing(t *testing.T) {
	cooldown := &breaker.Config{Failures: 1, Codes: breaker.CodesOf(codes.Unavailable), Time: time.Hour, MaxTime: time.Hour}
	for _, tc := range []struct {
		name string
		cfg  clusterConfig
	}{
		{"maxRequests", clusterConfig{maxRequests: 5}},
		{"cooldown", clusterConfig{cooldown: cooldown}},
		{"avoidPreviousHosts", clusterConfig{avoidPreviousHosts: 3}},
		{"all", clusterConfig{maxRequests: 5, cooldown: cooldown, avoidPreviousHosts: 3}},
	} {
		p := tableOf(1, 0, &stubPicker{result: balancer.PickResult{SubConn: &subConn{SubConn: stubSubConn{}}}})
		c := &p.clusters[0]
		c.config, c.guarded, c.plain = &tc.cfg, true, false
		c.cluster.guard = newGuard(c.cluster)
		c.cluster.guard.breaker.Configure(tc.cfg.cooldown)
		info := balancer.PickInfo{Ctx: firstAttempt(t)}
		allocs := testing.AllocsPerRun(100, func() {
			result, err := p.Pick(info)
			if err != nil {
				t.Fatal(err)
			}
			if result.Done != nil {
				result.Done(balancer.DoneInfo{})
			}
		})
		if allocs != 0 {
			t.Errorf("%s: a pick makes %v allocations: want none", tc.name, allocs)
		}
	}
}
