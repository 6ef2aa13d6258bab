package composite

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/balancer"
	"google.golang.org/grpc/resolver"

	"github.com/grpc-composite/grpc-composite/internal/testkit"
)

// The tests of this file have children, resolvers and the channel call back from
// within every call that the policy makes. What holds a lock meanwhile, that the
// callback needs, never returns.

// lockOrderPatience is how long a test may take on a machine that is busy.
const lockOrderPatience = 3 * testkit.Patience

// finishes runs f, and fails with the stacks of all goroutines if it does not
// return.
func finishes(t *testing.T, f func()) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	select {
	case <-done:
	case <-time.After(lockOrderPatience):
		stacks := make([]byte, 1<<20)
		t.Fatalf("deadlock:\n%s", stacks[:runtime.Stack(stacks, true)])
	}
}

// lockOrderConfigs have clusters come, go and change places, targets and policies.
// Some have children that are policies of this kind.
func lockOrderConfigs(t *testing.T) []*lbConfig {
	t.Helper()
	const (
		x      = `"childPolicy":[{"lock_order_x":{}}]`
		y      = `"childPolicy":[{"lock_order_y":{}}]`
		guard  = `"maxRequests":1000,"cooldown":{"consecutiveFailures":1000},"failbackDelay":"1s","avoidPreviousHosts":1`
		nested = `"childPolicy":[{"composite":{"clusters":[{"name":"m","target":"lockorder:///m",` + y + `},{"name":"n",` + x + `,` + guard + `}]}}]`
	)
	var configs []*lbConfig
	for _, clusters := range []string{
		`{"name":"a","target":"lockorder:///a",` + x + `},{"name":"b",` + x + `}`,
		`{"name":"a","target":"lockorder:///a",` + y + `,` + guard + `},{"name":"b",` + y + `},{"name":"c","target":"lockorder:///c",` + nested + `}`,
		`{"name":"b","target":"lockorder:///b",` + y + `},{"name":"c",` + nested + `},{"name":"d","lazy":true,"target":"lockorder:///d",` + x + `}`,
		`{"name":"d","lazy":true,"target":"lockorder:///d","connectTimeout":"0s",` + y + `},{"name":"c",` + nested + `},{"name":"b",` + x + `}`,
		`{"name":"c","target":"lockorder:///c",` + x + `},{"name":"a","target":"lockorder:///other",` + x + `}`,
	} {
		cfg, err := builder{}.ParseConfig([]byte(`{"clusters":[` + clusters + `]}`))
		if err != nil {
			t.Fatal(err)
		}
		configs = append(configs, cfg.(*lbConfig))
	}
	return configs
}

// TestCallbacksFromEveryCall has one call made after another.
func TestCallbacksFromEveryCall(t *testing.T) {
	t.Parallel()
	w := newLockOrder(t, 20)
	configs := lockOrderConfigs(t)
	finishes(t, func() {
		for range 4 {
			for _, cfg := range configs {
				w.deliver(cfg)
				w.policy.ExitIdle()
				w.policy.ResolverError(errors.New("no such name"))
				for n := range 3 {
					w.pick(n + 1)
				}
			}
		}
		testkit.Eventually(t, "callbacks from all calls but those that end something", func() bool {
			w.pick(1)
			return len(w.missing("Close")) == 0
		})
		w.policy.Close()
	})
	if missing := w.missing(""); len(missing) > 0 {
		t.Errorf("no callback from %v: the test shows nothing about them", missing)
	}
}

// TestCallbacksFromEveryCallAtOnce has the calls made while others are.
func TestCallbacksFromEveryCallAtOnce(t *testing.T) {
	t.Parallel()
	w := newLockOrder(t, 100)
	configs := lockOrderConfigs(t)
	finishes(t, func() {
		w.deliver(configs[0])
		ctx, stop := context.WithCancel(context.Background())
		var wg sync.WaitGroup
		for n := range 3 {
			wg.Go(func() {
				for ctx.Err() == nil {
					w.pick(n + 1)
				}
			})
		}
		wg.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				w.spontaneous(i)
			}
		})
		for range 8 { // the channel makes its calls one at a time
			for _, cfg := range configs {
				w.deliver(cfg)
				w.policy.ExitIdle()
				w.policy.ResolverError(errors.New("no such name"))
			}
		}
		w.policy.Close()
		stop()
		wg.Wait()
	})
}

func (w *lockOrder) deliver(cfg *lbConfig) {
	_ = w.policy.UpdateClientConnState(balancer.ClientConnState{
		BalancerConfig: cfg, ResolverState: testkit.OneEndpoint("127.0.0.1:1"),
	})
}

// pick has an attempt come, and end.
func (w *lockOrder) pick(number int) { w.pickWith(context.Background(), number) }

func (w *lockOrder) pickWith(ctx context.Context, number int) {
	latest := w.latest.Load()
	if latest == nil {
		return
	}
	attempt := attemptIn(WithAttempt(ctx, number), w.t)
	result, err := latest.Picker.Pick(balancer.PickInfo{Ctx: attempt})
	if err == nil && result.Done != nil {
		result.Done(balancer.DoneInfo{})
	}
	if err != nil {
		_ = err.Error() // which may ask pickers
	}
}

// spontaneous has a child call, or a resolver, that the policy has not called.
func (w *lockOrder) spontaneous(i int) {
	w.mu.Lock()
	var cc balancer.ClientConn
	var r resolver.ClientConn
	if n := len(w.children); n > 0 {
		cc = w.children[i%n]
	}
	if n := len(w.resolvers); n > 0 {
		r = w.resolvers[i%n]
	}
	w.mu.Unlock()
	if cc != nil {
		w.useChannel(cc, false)
	}
	if r != nil {
		w.useResolver(r)
	}
}
