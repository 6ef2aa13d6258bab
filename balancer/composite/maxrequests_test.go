package composite_test

import (
	"context"
	"maps"
	"sync"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/balancer"
	"google.golang.org/grpc/codes"

	"github.com/grpc-composite/grpc-composite/balancer/composite"
	"github.com/grpc-composite/grpc-composite/internal/testkit"
)

// gate is a server that counts the calls it has at once, and keeps them while it
// is shut.
type gate struct {
	*testkit.Backend
	now, most atomic.Int32

	mu   sync.Mutex
	open chan struct{} // closed while the gate is open
}

func startGate(t testing.TB, name string) *gate {
	t.Helper()
	g := &gate{open: make(chan struct{})}
	close(g.open)
	g.Backend = testkit.Start(t, name,
		grpc.UnaryInterceptor(func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
			defer g.pass(ctx)()
			return handler(ctx, req)
		}),
		grpc.StreamInterceptor(func(srv any, s grpc.ServerStream, _ *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
			defer g.pass(s.Context())()
			return handler(srv, s)
		}))
	t.Cleanup(g.letGo)
	return g
}

// pass counts a call until the function that it returns is called, which is
// before the client hears of the call's end.
func (g *gate) pass(ctx context.Context) (leave func()) {
	n := g.now.Add(1)
	for most := g.most.Load(); n > most && !g.most.CompareAndSwap(most, n); most = g.most.Load() {
	}
	g.mu.Lock()
	open := g.open
	g.mu.Unlock()
	select {
	case <-open:
	case <-ctx.Done():
	}
	return func() { g.now.Add(-1) }
}

// shut has the server keep the calls that come from now on.
func (g *gate) shut() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.open = make(chan struct{})
}

// letGo lets all calls go on, also those to come.
func (g *gate) letGo() {
	g.mu.Lock()
	defer g.mu.Unlock()
	select {
	case <-g.open:
	default:
		close(g.open)
	}
}

// await waits until the server has n calls at once.
func (g *gate) await(t testing.TB, n int32) {
	t.Helper()
	testkit.Eventually(t, "calls at once", func() bool { return g.now.Load() == n })
}

// limited is a cluster that a server belongs to, with a limit, and the policy by
// which a test looks into it.
func limited(t testing.TB, name, target string, limit int) (testkit.Cluster, *testkit.Policy) {
	t.Helper()
	p := testkit.NewPolicy(t)
	p.OnUpdate = func(c *testkit.PolicyChild, s balancer.ClientConnState) error { return c.Connect(s) }
	return testkit.Cluster{Name: name, Target: target, More: map[string]any{"maxRequests": limit, "childPolicy": p.Config()}}, p
}

// inBackground makes n calls that nobody waits for yet. They have to succeed.
func inBackground(t testing.TB, cc *grpc.ClientConn, n int, opts ...grpc.CallOption) *sync.WaitGroup {
	t.Helper()
	var wg sync.WaitGroup
	for range n {
		wg.Go(func() {
			if _, err := testkit.Unary(testkit.Context(t), cc, opts...); err != nil {
				t.Error(err)
			}
		})
	}
	return &wg
}

// checkFree checks that a cluster's places are all free, by taking them: no more
// than the limit go to a, and the next call to b.
func checkFree(t testing.TB, cc *grpc.ClientConn, a *gate, limit int, b *testkit.Backend) {
	t.Helper()
	testkit.Eventually(t, "a connection to "+a.Name, func() bool { return call(t, cc) == a.Name })
	a.shut()
	held := inBackground(t, cc, limit)
	a.await(t, int32(limit)) //nolint:gosec // a small number
	if b != nil {
		if got := call(t, cc); got != b.Name {
			t.Errorf("with %d calls at %s: answer from %s, want %s", limit, a.Name, got, b.Name)
		}
	}
	a.letGo()
	held.Wait()
}

func TestFullClusterIsPassedOver(t *testing.T) {
	t.Parallel()
	a, b := startGate(t, "a"), testkit.Start(t, "b")
	first, _ := limited(t, "a", a.Target(), 2)
	cc := dial(t, testkit.Service{Clusters: append([]testkit.Cluster{first}, testkit.Clusters(b)...)}) // no retry policy
	call(t, cc)
	a.shut()
	held := inBackground(t, cc, 2)
	a.await(t, 2)
	for range 5 {
		if got := call(t, cc); got != "b" {
			t.Errorf("answer from %s: want b, in the same attempt", got)
		}
	}
	a.letGo()
	held.Wait()
	if got := call(t, cc); got != "a" {
		t.Errorf("answer from %s: want a, which has places again", got)
	}
}

func TestOnlyFullClusters(t *testing.T) {
	for _, tc := range []struct {
		name     string
		policy   map[string]any
		attempts int
		counts   string // of a and b beside the call that fills a
		code     codes.Code
		parts    []string
	}{
		{name: "fails", counts: "0/0", code: codes.Unavailable, parts: []string{"a skipped: max requests (1); b skipped: max requests (1)", "no host available"}},
		{name: "is retryable", attempts: 3, counts: "0/0", code: codes.Unavailable, parts: []string{"max retries exhausted", "attempt 3", "b skipped: max requests (1)"}, policy: map[string]any{"overflow": "USE_LAST_CLUSTER"}},
		{name: "ends the request in Envoy's way", attempts: 3, counts: "0/0", code: codes.Unavailable, parts: []string{"attempt 1", "a skipped: max requests (1)"}, policy: map[string]any{"noHost": "FAIL_REQUEST"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			a, b := startGate(t, "a"), startGate(t, "b")
			ca, _ := limited(t, "a", a.Target(), 1)
			cb, _ := limited(t, "b", b.Target(), 1)
			cc := dial(t, testkit.Service{Clusters: []testkit.Cluster{ca, cb}, Attempts: tc.attempts, More: tc.policy})
			call(t, cc)
			a.shut()
			b.shut()
			held := inBackground(t, cc, 2)
			a.await(t, 1)
			b.await(t, 1)
			_, err := testkit.Unary(testkit.Context(t), cc)
			checkError(t, err, tc.code, tc.parts...)
			a.letGo()
			b.letGo()
			held.Wait()
		})
	}
}

func TestFullClusterWithoutSkipping(t *testing.T) {
	t.Parallel()
	a, b := startGate(t, "a"), testkit.Start(t, "b")
	first, _ := limited(t, "a", a.Target(), 1)
	service := testkit.Service{Clusters: append([]testkit.Cluster{first}, testkit.Clusters(b)...), More: map[string]any{"skipClustersWithoutHosts": false}}
	once := dial(t, service)
	service.Attempts = 2
	retrying := dial(t, service)
	for _, tc := range []struct {
		name string
		cc   *grpc.ClientConn
		code codes.Code
		b    int
	}{
		{"its own slot alone", once, codes.Unavailable, 0},
		{"the next attempt goes on", retrying, codes.OK, 1},
	} {
		call(t, tc.cc)
		a.shut()
		b.Script(testkit.OK)
		held := inBackground(t, tc.cc, 1)
		a.await(t, 1)
		_, err := testkit.Unary(testkit.Context(t), tc.cc)
		if tc.code == codes.OK {
			checkError(t, err, codes.OK)
		} else {
			checkError(t, err, tc.code, "a skipped: max requests (1)")
		}
		if got := b.Count(); got != tc.b {
			t.Errorf("%s: %d calls of b, want %d", tc.name, got, tc.b)
		}
		a.letGo()
		held.Wait()
	}
}

// TestRPCsThatWaitForAPlace has RPCs that have nothing else to wait for, or wait
// for a cluster that never connects beside the full one.
func TestRPCsThatWaitForAPlace(t *testing.T) {
	silent, _ := testkit.BlackHole(t)
	connecting := testkit.Cluster{Name: "b", Target: "passthrough:///" + silent, More: map[string]any{"connectTimeout": "60s"}}
	for _, tc := range []struct {
		name   string
		second []testkit.Cluster
		opts   []grpc.CallOption
	}{
		{"waits for ready", nil, []grpc.CallOption{grpc.WaitForReady(true)}},
		{"waits for a cluster that is connecting", []testkit.Cluster{connecting}, nil},
		{"waits for both", []testkit.Cluster{connecting}, []grpc.CallOption{grpc.WaitForReady(true)}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			a := startGate(t, "a")
			first, policy := limited(t, "a", a.Target(), 2)
			cc := dial(t, testkit.Service{Clusters: append([]testkit.Cluster{first}, tc.second...)})
			call(t, cc)
			a.shut()
			held := inBackground(t, cc, 2)
			a.await(t, 2)
			waiting := inBackground(t, cc, 10, tc.opts...)
			testkit.Eventually(t, "an RPC waits", func() bool { return composite.Waited(policy.Child(t, 0)) })
			a.letGo()
			held.Wait()
			waiting.Wait()
			if got := a.most.Load(); got > 2 {
				t.Errorf("%d calls at once: want 2 at the most", got)
			}
			checkFree(t, cc, a, 2, nil)
		})
	}
}

func TestStreamsHoldTheirPlace(t *testing.T) {
	t.Parallel()
	a, b := startGate(t, "a"), testkit.Start(t, "b")
	first, policy := limited(t, "a", a.Target(), 1)
	cc := dial(t, testkit.Service{Clusters: append([]testkit.Cluster{first}, testkit.Clusters(b)...)})
	stream, from := openStream(t, cc)
	if from != "a" {
		t.Fatalf("stream from %s: want a", from)
	}
	for range 10 {
		if got := call(t, cc); got != "b" {
			t.Fatalf("beside the stream: answer from %s, want b", got)
		}
		echo(t, stream)
	}
	if err := stream.CloseSend(); err != nil {
		t.Fatal(err)
	}
	if got := composite.InFlight(policy.Child(t, 0)); got != 1 {
		t.Errorf("%d places are taken after the client's half-close: want 1", got)
	}
	_, _ = stream.Recv() // the end of the stream
	if got := call(t, cc); got != "a" {
		t.Errorf("after the stream: answer from %s, want a", got)
	}
}

func TestLimitsOfNestedPolicies(t *testing.T) {
	t.Parallel()
	c, b := startGate(t, "c"), testkit.Start(t, "b")
	for _, tc := range []struct {
		name         string
		outer, inner int
	}{
		{"outer", 2, 0},
		{"inner", 0, 2},
		{"both, the inner smaller", 3, 2},
		{"both, the outer smaller", 2, 3},
	} {
		t.Run(tc.name, func(t *testing.T) {
			inner := testkit.Service{Clusters: testkit.Clusters(c.Backend)}
			inner.Clusters[0].More = withLimit(nil, tc.inner)
			outer := testkit.Service{Clusters: append([]testkit.Cluster{nested("N", inner)}, testkit.Clusters(b)...)}
			outer.Clusters[0].More = withLimit(outer.Clusters[0].More, tc.outer)
			checkFree(t, dial(t, outer), c, 2, b)

			// And alone, where RPCs wait for a place.
			outer.Clusters = outer.Clusters[:1]
			cc := dial(t, outer)
			c.most.Store(0)
			inBackground(t, cc, 30, grpc.WaitForReady(true)).Wait()
			if got := c.most.Load(); got > 2 {
				t.Errorf("%d calls at once: want 2 at the most", got)
			}
		})
	}
}

// withLimit returns settings of a cluster with a limit, unless that is 0.
func withLimit(settings map[string]any, limit int) map[string]any {
	with := maps.Clone(settings)
	if limit > 0 {
		if with == nil {
			with = make(map[string]any)
		}
		with["maxRequests"] = limit
	}
	return with
}

// TestLimitIsChanged raises and lowers the limit, and drops and restores it, while
// calls are in flight.
func TestLimitIsChanged(t *testing.T) {
	t.Parallel()
	a, b := startGate(t, "a"), testkit.Start(t, "b")
	first, policy := limited(t, "a", a.Target(), 2)
	service := testkit.Service{Clusters: append([]testkit.Cluster{first}, testkit.Clusters(b)...)}
	live := dialLive(t, service)
	set := func(limit any) {
		if first.More["maxRequests"] = limit; limit == nil {
			delete(first.More, "maxRequests")
		}
		live.set(t, service)
	}
	wantNext := func(when, want string) {
		t.Helper()
		if got := call(t, live.cc); got != want {
			t.Errorf("%s: answer from %s, want %s", when, got, want)
		}
	}
	call(t, live.cc)
	a.shut()
	held := inBackground(t, live.cc, 2)
	a.await(t, 2)
	wantNext("two of two", "b")
	set(3)
	more := inBackground(t, live.cc, 1)
	a.await(t, 3)
	wantNext("three of three", "b")
	set(1)
	wantNext("three of one", "b")
	a.letGo()
	held.Wait()
	more.Wait()
	if got := composite.InFlight(policy.Child(t, 0)); got != 0 {
		t.Errorf("%d places are taken and nobody calls", got)
	}
	checkFree(t, live.cc, a, 1, b)

	set(nil)
	a.shut()
	held = inBackground(t, live.cc, 5)
	a.await(t, 5)
	set(2)
	a.letGo()
	held.Wait()
	checkFree(t, live.cc, a, 2, b)
}

func TestRaisedLimitWakesWhoWaits(t *testing.T) {
	t.Parallel()
	a := startGate(t, "a")
	first, policy := limited(t, "a", a.Target(), 1)
	service := testkit.Service{Clusters: []testkit.Cluster{first}}
	live := dialLive(t, service)
	call(t, live.cc)
	a.shut()
	held := inBackground(t, live.cc, 2, grpc.WaitForReady(true))
	a.await(t, 1)
	testkit.Eventually(t, "an RPC waits", func() bool { return composite.Waited(policy.Child(t, 0)) })
	first.More["maxRequests"] = 2
	live.set(t, service)
	a.await(t, 2)
	a.letGo()
	held.Wait()
}

// TestLimitAroundAnAttemptTimeout has a limit on a cluster whose policy has a
// cluster with another kind of limit.
func TestLimitAroundAnAttemptTimeout(t *testing.T) {
	t.Parallel()
	c, d := testkit.Start(t, "c"), testkit.Start(t, "d")
	c.Script(testkit.Reply{Hang: true})
	inner := testkit.Service{Clusters: testkit.Clusters(c, d)}
	inner.Clusters[0].More = map[string]any{"attemptTimeout": "0.1s"}
	outer := testkit.Service{Clusters: []testkit.Cluster{nested("N", inner), {Name: "N"}}, Attempts: 2, Retryable: []string{"DEADLINE_EXCEEDED"}}
	outer.Clusters[0].More = withLimit(outer.Clusters[0].More, 1)
	if got := call(t, dial(t, outer)); got != "d" {
		t.Errorf("answer from %s: want d", got)
	}
}
