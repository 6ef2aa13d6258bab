package composite_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/balancer"
	_ "google.golang.org/grpc/balancer/leastrequest" // counts the RPCs of each host
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	testpb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"

	"github.com/grpc-composite/grpc-composite/internal/testkit"
)

// hostsOf is a cluster of servers that have an endpoint each.
func hostsOf(t testing.TB, name string, backends []*testkit.Backend, more map[string]any) testkit.Cluster {
	t.Helper()
	r := testkit.NewResolver(t)
	_ = r.Update(backends...)
	return testkit.Cluster{Name: name, Target: r.Target(), More: more}
}

// awaitHosts calls until each server has been called, so that all are connected,
// and forgets these calls.
func awaitHosts(t testing.TB, call func(), backends ...*testkit.Backend) {
	t.Helper()
	testkit.Eventually(t, "all hosts are connected", func() bool {
		call()
		for _, b := range backends {
			if b.Count() == 0 {
				return false
			}
		}
		return true
	})
}

// TestNoHostIsUsedTwice makes 10,000 RPCs at once, as far as that goes, on a
// cluster of a bad and a good host that is listed twice. Each RPC has a number,
// by which the bad host counts how often it was used for it.
func TestNoHostIsUsedTwice(t *testing.T) {
	const rpcs, callers = 10_000, 100
	for _, policy := range []string{"round_robin", "least_request_experimental"} {
		t.Run(policy, func(t *testing.T) {
			t.Parallel()
			bad, good := testkit.Start(t, "bad"), testkit.Start(t, "good")
			cc := dial(t, testkit.Service{Attempts: 2, Clusters: []testkit.Cluster{
				hostsOf(t, "a", []*testkit.Backend{bad, good}, map[string]any{
					"avoidPreviousHosts": 64,
					"childPolicy":        []any{map[string]any{policy: map[string]any{}}},
				}),
				{Name: "a"},
			}})
			awaitHosts(t, func() { call(t, cc) }, bad, good)

			var uses [rpcs]atomic.Int32
			bad.Respond(func(_ int, c testkit.Call) testkit.Reply {
				var n int
				if _, err := fmt.Sscan(c.Metadata.Get("rpc-number")[0], &n); err != nil {
					t.Error(err)
				}
				uses[n].Add(1)
				return testkit.U
			})
			var next atomic.Int32
			var wg sync.WaitGroup
			for range callers {
				wg.Go(func() {
					for n := next.Add(1) - 1; n < rpcs; n = next.Add(1) - 1 {
						ctx := metadata.AppendToOutgoingContext(context.Background(), "rpc-number", fmt.Sprint(n))
						if got, err := testkit.Unary(ctx, cc); got != "good" {
							t.Errorf("RPC %d: answer from %q (%v), want good", n, got, err)
						}
					}
				})
			}
			wg.Wait()
			twice := 0
			for n := range uses {
				if uses[n].Load() > 1 {
					twice++
				}
			}
			if twice > 0 {
				t.Errorf("%d RPCs of %d have used the bad host more than once", twice, rpcs)
			}
			if got := bad.Count(); got < rpcs/10 {
				t.Errorf("%d of %d RPCs have come to the bad host: the test shows little", got, rpcs)
			}
			checkEvenLoad(t, policy, func() { call(t, cc) }, bad, good)
		})
	}
}

// checkEvenLoad checks that both hosts get about as many calls: picks that were
// discarded must not count as load of a host.
func checkEvenLoad(t testing.TB, policy string, call func(), bad, good *testkit.Backend) {
	t.Helper()
	bad.Script(testkit.OK)
	good.Script(testkit.OK)
	const calls = 200
	for range calls {
		call()
	}
	for _, b := range []*testkit.Backend{bad, good} {
		if got := b.Count(); got < calls/4 {
			t.Errorf("%s: %d calls of %d went to the %s host: want about half", policy, got, calls, b.Name)
		}
	}
}

func TestHostsThatWereUsed(t *testing.T) {
	for _, tc := range []struct {
		name     string
		hosts    int // of the first cluster, all of them bad
		avoid    int
		attempts int
		least    int // calls of each host
		most     int
	}{
		{name: "one host: the last pick counts", hosts: 1, avoid: 3, attempts: 4, least: 4, most: 4},
		{name: "two hosts, two attempts", hosts: 2, avoid: 64, attempts: 2, least: 1, most: 1},
		{name: "four hosts, four attempts", hosts: 4, avoid: 64, attempts: 4, least: 1, most: 1},
		{name: "two hosts, four attempts: the last picks count", hosts: 2, avoid: 64, attempts: 4, least: 1, most: 3},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			var names []string
			for i := range tc.hosts {
				names = append(names, fmt.Sprint("h", i))
			}
			backends := startAll(t, names...)
			cc := dial(t, testkit.Service{Attempts: tc.attempts, Clusters: []testkit.Cluster{
				hostsOf(t, "a", backends, map[string]any{"avoidPreviousHosts": tc.avoid, "attempts": tc.attempts}),
			}})
			awaitHosts(t, func() { call(t, cc) }, backends...)
			for _, b := range backends {
				b.Script(testkit.U)
			}
			_, err := testkit.Unary(testkit.Context(t), cc)
			checkError(t, err, codes.Unavailable, "scripted")
			total := 0
			for _, b := range backends {
				n := b.Count()
				if total += n; n < tc.least || n > tc.most {
					t.Errorf("%d calls of %s: want %d to %d", n, b.Name, tc.least, tc.most)
				}
			}
			if total != tc.attempts {
				t.Errorf("%d calls in all: want one for each of %d attempts", total, tc.attempts)
			}
		})
	}
}

// TestHostOfAnotherCluster has a bad host that belongs to two clusters.
func TestHostOfAnotherCluster(t *testing.T) {
	t.Parallel()
	backends := startAll(t, "bad", "good")
	bad, good := backends[0], backends[1]
	cc := dial(t, testkit.Service{Attempts: 2, Clusters: []testkit.Cluster{
		hostsOf(t, "a", backends[:1], nil),
		hostsOf(t, "b", backends, map[string]any{"avoidPreviousHosts": 64}),
	}})
	bad.Script(testkit.U)
	awaitHosts(t, func() { _, _ = testkit.Unary(testkit.Context(t), cc) }, good)
	bad.Script(testkit.U)
	for range 20 {
		call(t, cc)
	}
	if got := bad.Count(); got != 20 {
		t.Errorf("%d calls of the bad host by 20 RPCs: want one each", got)
	}
}

// TestHostOfAnAttemptUnderWay has an interceptor send an RPC again before the first
// one has ended: it goes to the other host, though it is not that one's turn.
func TestHostOfAnAttemptUnderWay(t *testing.T) {
	t.Parallel()
	backends := startAll(t, "x", "y")
	const again = "again"
	cc := dial(t, testkit.Service{Clusters: []testkit.Cluster{
		hostsOf(t, "a", backends, map[string]any{"avoidPreviousHosts": 64}), {Name: "a"},
	}}, grpc.WithChainUnaryInterceptor(func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoker grpc.UnaryInvoker, opts ...grpc.CallOption) error {
		if ctx.Value(again) == nil {
			return invoker(ctx, method, req, reply, cc, opts...)
		}
		first, cancel := context.WithCancel(ctx)
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			_ = invoker(first, method, req, &testpb.SimpleResponse{}, cc, opts...) // it is cancelled
		}()
		testkit.Eventually(t, "the first is under way", func() bool { return backends[0].Count()+backends[1].Count() == 1 })
		call(t, cc) // another RPC takes a turn
		err := invoker(ctx, method, req, reply, cc, opts...)
		cancel()
		<-ended
		return err
	}))
	awaitHosts(t, func() { call(t, cc) }, backends...)
	var mu sync.Mutex
	hosts := make(map[string]int)
	for _, b := range backends {
		b.Respond(func(_ int, c testkit.Call) testkit.Reply {
			if len(c.Metadata.Get(again)) == 0 {
				return testkit.OK
			}
			mu.Lock()
			defer mu.Unlock()
			hosts[b.Name]++
			return testkit.Reply{Hang: len(hosts) == 1 && hosts[b.Name] == 1}
		})
	}
	ctx := context.WithValue(metadata.AppendToOutgoingContext(testkit.Context(t), again, "1"), again, true) //nolint:staticcheck // no other package has this key
	_, err := testkit.Unary(ctx, cc)
	mu.Lock()
	defer mu.Unlock()
	if err != nil || hosts["x"] != 1 || hosts["y"] != 1 {
		t.Errorf("hosts used %v (%v): want each once", hosts, err)
	}
}

// TestHostsOfNestedPolicies avoids hosts in either of two policies inside each
// other.
func TestHostsOfNestedPolicies(t *testing.T) {
	for _, where := range []string{"outer", "inner", "both"} {
		t.Run(where, func(t *testing.T) {
			t.Parallel()
			backends := startAll(t, "bad", "good")
			bad, good := backends[0], backends[1]
			avoid := func(here string) map[string]any {
				if where == here || where == "both" {
					return map[string]any{"avoidPreviousHosts": 64}
				}
				return nil
			}
			inner := testkit.Service{Clusters: []testkit.Cluster{hostsOf(t, "c", backends, avoid("inner")), {Name: "c"}}}
			n := nested("N", inner)
			for k, v := range avoid("outer") {
				n.More[k] = v
			}
			cc := dial(t, testkit.Service{Attempts: 2, Clusters: []testkit.Cluster{n, {Name: "N"}}})
			awaitHosts(t, func() { call(t, cc) }, bad, good)
			bad.Script(testkit.U)
			for range 50 {
				if got := call(t, cc); got != "good" {
					t.Fatalf("answer from %s: want good", got)
				}
			}
			if bad.Count() == 0 {
				t.Error("the bad host was never used: the test shows nothing")
			}
		})
	}
}

// countedPicks picks its connection, and keeps what becomes of the picks.
type countedPicks struct {
	sc balancer.SubConn

	mu    sync.Mutex
	dones []balancer.DoneInfo
	picks int
}

func (p *countedPicks) Pick(balancer.PickInfo) (balancer.PickResult, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.picks++
	return balancer.PickResult{SubConn: p.sc, Done: func(info balancer.DoneInfo) {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.dones = append(p.dones, info)
	}}, nil
}

func (p *countedPicks) connect(c *testkit.PolicyChild, s balancer.ClientConnState) (err error) {
	p.sc, err = c.CC.NewSubConn(s.ResolverState.Endpoints[0].Addresses, balancer.NewSubConnOptions{StateListener: func(s balancer.SubConnState) {
		if s.ConnectivityState == connectivity.Ready {
			c.ReportPicker(connectivity.Ready, p)
		}
	}})
	if err == nil {
		p.sc.Connect()
	}
	return err
}

// TestDiscardedPicksAreGivenBack counts the picks of a cluster of one host, and
// what the child hears of them.
func TestDiscardedPicksAreGivenBack(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name  string
		more  map[string]any
		picks int // by two attempts
	}{
		{"as often as it says", map[string]any{"avoidPreviousHosts": 3}, 1 + 4},
		{"once", map[string]any{"avoidPreviousHosts": 1}, 1 + 2},
		{"never", map[string]any{"maxRequests": 5}, 2},
		{"with all else", map[string]any{"avoidPreviousHosts": 3, "maxRequests": 1, "cooldown": map[string]any{"consecutiveFailures": 9}}, 1 + 4},
	} {
		a := testkit.Start(t, "a")
		a.Script(testkit.U)
		policy := testkit.NewPolicy(t)
		picks := &countedPicks{}
		policy.OnUpdate = picks.connect
		c := testkit.Cluster{Name: "a", Target: a.Target(), More: map[string]any{"attempts": 2, "childPolicy": policy.Config()}}
		for k, v := range tc.more {
			c.More[k] = v
		}
		_, err := testkit.Unary(testkit.Context(t), dial(t, testkit.Service{Clusters: []testkit.Cluster{c}, Attempts: 2}))
		checkError(t, err, codes.Unavailable)
		discarded := 0
		for _, info := range picks.dones {
			if info.Err == nil && !info.BytesSent && !info.BytesReceived && info.Trailer == nil && info.ServerLoad == nil {
				discarded++
			}
		}
		if picks.picks != tc.picks || len(picks.dones) != tc.picks || discarded != tc.picks-2 {
			t.Errorf("%s: %d picks, of which %d are done and %d discarded: want %d, all done, all but 2 discarded", tc.name, picks.picks, len(picks.dones), discarded, tc.picks)
		}
	}
}
