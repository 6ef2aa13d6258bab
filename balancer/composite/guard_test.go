package composite

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc/balancer"
	"google.golang.org/grpc/codes"

	"github.com/grpc-composite/grpc-composite/internal/attempt"
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
	cooldown := hourOfRest()
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
		c.config, c.guarded = &tc.cfg, true
		p.setTable(p.table)
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

// hourOfRest is a cooldown that the first failure begins.
func hourOfRest() *breaker.Config {
	return &breaker.Config{Failures: 1, Codes: breaker.CodesOf(codes.Unavailable), Time: time.Hour, MaxTime: time.Hour}
}

// guardedTables is a picker over two clusters, of which the first is guarded.
func guardedTables(cfg clusterConfig, first balancer.Picker) (*picker, *guard) {
	p := tableOf(2, 0, &stubPicker{result: balancer.PickResult{SubConn: &subConn{SubConn: stubSubConn{}}}})
	c := &p.clusters[0]
	c.picker, c.config, c.guarded = first, &cfg, true
	p.setTable(p.table)
	c.cluster.guard = newGuard(c.cluster)
	c.cluster.guard.breaker.Configure(cfg.cooldown)
	return p, c.cluster.guard
}

// crowd is a child that has picks wait until a number of them are there.
type crowd struct {
	result    balancer.PickResult
	there     sync.WaitGroup
	discarded atomic.Int32
}

func newCrowd(n int) *crowd {
	c := &crowd{}
	c.there.Add(n)
	c.result = balancer.PickResult{SubConn: &subConn{SubConn: stubSubConn{}, host: "first"}, Done: func(balancer.DoneInfo) { c.discarded.Add(1) }}
	return c
}

func (c *crowd) Pick(balancer.PickInfo) (balancer.PickResult, error) {
	c.there.Done()
	c.there.Wait()
	return c.result, nil
}

// TestCrowdAtTheGuard has many attempts ask the child of a cluster before any of
// them enters it. No more get in than may, and the others are given back and go
// on.
func TestCrowdAtTheGuard(t *testing.T) {
	const attempts = 64
	hour := hourOfRest()
	for _, tc := range []struct {
		name string
		cfg  clusterConfig
		rest bool // is over, and a probe is due
		want int32
	}{
		{"places", clusterConfig{maxRequests: 5}, false, 5},
		{"the only place", clusterConfig{maxRequests: 1}, false, 1},
		{"a probe", clusterConfig{cooldown: hour}, true, 1},
		{"a probe and places", clusterConfig{cooldown: hour, maxRequests: 5}, true, 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			for range 20 {
				child := newCrowd(attempts)
				p, g := guardedTables(tc.cfg, child)
				if tc.rest {
					makeProbeDue(t, g, hour)
				}
				var first atomic.Int32
				var wg sync.WaitGroup
				for range attempts {
					wg.Go(func() {
						result, err := p.Pick(balancer.PickInfo{Ctx: firstAttempt(t)})
						if err != nil {
							t.Error(err)
						}
						if result.Done != nil {
							first.Add(1)
						}
					})
				}
				wg.Wait()
				if got := first.Load(); got != tc.want {
					t.Fatalf("%d of %d attempts got in: want %d", got, attempts, tc.want)
				}
				if got := child.discarded.Load(); got != attempts-tc.want {
					t.Fatalf("%d picks were given back: want %d", got, attempts-tc.want)
				}
				g.breaker.Close()
			}
		})
	}
}

// makeProbeDue has a breaker come to the end of a rest.
func makeProbeDue(t *testing.T, g *guard, then *breaker.Config) {
	t.Helper()
	short := *then
	short.Time = 1
	g.breaker.Configure(&short)
	token, _ := g.breaker.Allow()
	g.breaker.Settle(token, codes.Unavailable)
	testkit.Eventually(t, "the rest's time is over", g.breaker.Passes)
	g.breaker.Configure(then)
}

// childFunc is a child's picker.
type childFunc func(info balancer.PickInfo) (balancer.PickResult, error)

func (f childFunc) Pick(info balancer.PickInfo) (balancer.PickResult, error) { return f(info) }

// TestPlaceIsTakenMeanwhile has the last place go to another attempt while a child
// picks for a probe.
func TestPlaceIsTakenMeanwhile(t *testing.T) {
	hour := hourOfRest()
	var p *picker
	var g *guard
	o := &toldObserver{}
	p, g = guardedTables(clusterConfig{cooldown: hour, maxRequests: 1}, childFunc(func(info balancer.PickInfo) (balancer.PickResult, error) {
		g.inFlight.Store(1)
		attempt.FromContext(info.Ctx).Observe(o, 1) // as a policy inside this one does
		return balancer.PickResult{SubConn: &subConn{SubConn: stubSubConn{}}}, nil
	}))
	makeProbeDue(t, g, hour)
	defer g.breaker.Close()
	rpc, cancel := context.WithCancel(context.Background())
	ctx := attemptIn(rpc, t)
	if _, err := p.Pick(balancer.PickInfo{Ctx: ctx}); err != nil {
		t.Error(err)
	}
	if !g.breaker.Passes() {
		t.Error("the turn of the probe that was not made is lost")
	}
	cancel()
	endAttempt(ctx, codes.Unavailable)
	if o.told.Load() != 0 {
		t.Error("a policy inside is told of an attempt that it has not got")
	}
}

type toldObserver struct{ told atomic.Int32 }

func (o *toldObserver) Settle(uint64, []codes.Code) { o.told.Add(1) }

// TestHeldBackClustersAreNotAsked has a child count the picks that it is asked
// for.
func TestHeldBackClustersAreNotAsked(t *testing.T) {
	hour := hourOfRest()
	for _, tc := range []struct {
		name string
		cfg  clusterConfig
		hold func(g *guard)
	}{
		{"full", clusterConfig{maxRequests: 3}, func(g *guard) { g.inFlight.Store(3) }},
		{"at rest", clusterConfig{cooldown: hour}, func(g *guard) {
			token, _ := g.breaker.Allow()
			g.breaker.Settle(token, codes.Unavailable)
		}},
	} {
		asked := 0
		p, g := guardedTables(tc.cfg, childFunc(func(balancer.PickInfo) (balancer.PickResult, error) {
			asked++
			return balancer.PickResult{SubConn: &subConn{SubConn: stubSubConn{}}}, nil
		}))
		tc.hold(g)
		for range 10 {
			if _, err := p.Pick(balancer.PickInfo{Ctx: firstAttempt(t)}); err != nil {
				t.Error(err)
			}
		}
		if asked != 0 {
			t.Errorf("%s: the child was asked %d times", tc.name, asked)
		}
		g.breaker.Close()
	}
}
