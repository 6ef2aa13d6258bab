package composite_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	testpb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/keepalive"

	"github.com/grpc-composite/grpc-composite/balancer/composite"
	"github.com/grpc-composite/grpc-composite/internal/testkit"
)

// TestRefusedStreamsAndCooldown has a server refuse streams, which gRPC retries
// transparently: what no server has seen did not fail.
func TestRefusedStreamsAndCooldown(t *testing.T) {
	const refuse, ok = testkit.RawRefuse, testkit.RawOK
	for _, tc := range []struct {
		name    string
		raw     []testkit.RawReply
		rpcs    int
		call    rpc
		failing int // consecutiveFailures
		streams int
		want    bool
	}{
		{name: "one stream of an RPC that succeeds", raw: []testkit.RawReply{refuse, ok}, rpcs: 1, call: unaryRPC, failing: 1, streams: 2},
		{name: "both streams of an RPC are one failure", raw: []testkit.RawReply{refuse}, rpcs: 1, call: unaryRPC, failing: 2, streams: 2},
		{name: "of two RPCs, two", raw: []testkit.RawReply{refuse}, rpcs: 2, call: unaryRPC, failing: 2, streams: 4, want: true},
		{name: "left out by a GOAWAY", raw: []testkit.RawReply{testkit.RawGoAway, ok}, rpcs: 1, call: unaryRPC, failing: 1, streams: 2},
		{name: "both streams of a bidi RPC", raw: []testkit.RawReply{refuse}, rpcs: 1, call: conversation, failing: 2, streams: 2},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			raw, b := testkit.StartRaw(t, "raw", tc.raw...), testkit.Start(t, "b")
			first, policy := breaking(t, raw.Addr, map[string]any{"consecutiveFailures": tc.failing, "time": aLongTime, "maxTime": aLongTime})
			cc := dial(t, testkit.Service{Clusters: append([]testkit.Cluster{first}, testkit.Clusters(b)...), Attempts: 2}, fastReconnect())
			for range tc.rpcs {
				checkError(t, tc.call(testkit.Context(t), cc), codes.OK)
			}
			if got := raw.Streams(); got != tc.streams {
				t.Errorf("%d streams of the first cluster: want %d", got, tc.streams)
			}
			wantResting(t, policy, tc.want)
		})
	}
}

// TestRetiredConnectionsAndCooldown has a healthy server that retires its
// connections all the time. No RPC fails, and so the cluster never rests.
func TestRetiredConnectionsAndCooldown(t *testing.T) {
	t.Parallel()
	age := grpc.KeepaliveParams(keepalive.ServerParameters{MaxConnectionAge: 20 * time.Millisecond, MaxConnectionAgeGrace: testkit.Patience})
	a, b := testkit.Start(t, "a", age), testkit.Start(t, "b")
	first, policy := breaking(t, a.Target(), map[string]any{"consecutiveFailures": 1, "time": aLongTime, "maxTime": aLongTime})
	cc := dial(t, testkit.Service{Clusters: append([]testkit.Cluster{first}, testkit.Clusters(b)...)}, fastReconnect())
	end := time.Now().Add(time.Second)
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			for time.Now().Before(end) {
				if _, err := testkit.Unary(testkit.Context(t), cc); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	wantResting(t, policy, false)
	if got := b.Count(); got != 0 {
		t.Errorf("%d calls of the second cluster: want none", got)
	}
}

// TestUnreportedFailuresAndCooldown has failures of which gRPC does not tell the
// code, as sending notices them, under retry policies of several codes.
func TestUnreportedFailuresAndCooldown(t *testing.T) {
	for _, tc := range []struct {
		name      string
		retryable []string
		attempts  int
		servers   string
		want      bool // a failure
	}{
		{name: "all are failures", retryable: []string{"UNAVAILABLE", "RESOURCE_EXHAUSTED"}, attempts: 2, servers: "U OK", want: true},
		{name: "some are", retryable: []string{"UNAVAILABLE", "ABORTED"}, attempts: 2, servers: "U OK"},
		{name: "the last attempt", retryable: []string{"UNAVAILABLE"}, attempts: 2, servers: "U", want: true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			backends := startScripted(t, tc.servers)
			first, policy := breaking(t, backends[0].Target(), map[string]any{"consecutiveFailures": tc.attempts + 1 - len(backends), "time": aLongTime, "maxTime": aLongTime})
			cc := dial(t, testkit.Service{
				Clusters: append([]testkit.Cluster{first}, testkit.Clusters(backends[1:]...)...), Attempts: tc.attempts, Retryable: tc.retryable,
				More: map[string]any{"overflow": "USE_LAST_CLUSTER"},
			})
			last := backends[len(backends)-1]
			_, _ = sendUntil(t, cc, "a call of the last cluster", func() bool { return len(backends) > 1 && last.Count() > 0 })
			wantResting(t, policy, tc.want)
		})
	}
}

// TestInterceptorErrorsAndCooldown has an interceptor fail RPCs that the cluster has
// served, with errors that are no status.
func TestInterceptorErrorsAndCooldown(t *testing.T) {
	t.Parallel()
	a := testkit.Start(t, "a")
	first, policy := breaking(t, a.Target(), map[string]any{"consecutiveFailures": 1, "time": aLongTime, "maxTime": aLongTime})
	errInvalid := errors.New("the response is invalid")
	cc := dial(t, testkit.Service{Clusters: []testkit.Cluster{first}, Attempts: 2}, grpc.WithChainUnaryInterceptor(
		func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoker grpc.UnaryInvoker, opts ...grpc.CallOption) error {
			if err := invoker(ctx, method, req, reply, cc, opts...); err != nil {
				return err
			}
			return errInvalid
		}))
	if err := unaryRPC(testkit.Context(t), cc); !errors.Is(err, errInvalid) {
		t.Errorf("error %v: want the interceptor's", err)
	}
	wantResting(t, policy, false)
}

// TestAttemptThatOutlivesItsRPC has an interceptor return what one stream got, and
// leave another to end later, which counts for the cluster's rest all the same.
func TestAttemptThatOutlivesItsRPC(t *testing.T) {
	for name, tc := range map[string]struct {
		reply testkit.Reply
		rests bool
	}{
		"it fails":    {testkit.U, true},
		"it succeeds": {testkit.OK, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			backends := startAll(t, "a", "b")
			release, ended := make(chan struct{}), make(chan error, 1)
			backends[1].Respond(func(int, testkit.Call) testkit.Reply { <-release; return tc.reply })
			b, policy := breaking(t, backends[1].Target(), map[string]any{"consecutiveFailures": 1, "time": aLongTime, "maxTime": aLongTime})
			b.Name = "b"
			service := testkit.Service{Clusters: append(testkit.Clusters(backends[0]), b)}
			cc := dial(t, service, grpc.WithChainUnaryInterceptor(
				func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoker grpc.UnaryInvoker, opts ...grpc.CallOption) error {
					err := invoker(ctx, method, req, reply, cc, opts...)
					go func() { ended <- invoker(ctx, method, req, new(testpb.SimpleResponse), cc, opts...) }()
					return err
				}))
			if got := call(t, cc); got != "a" {
				t.Fatalf("answer from %s: want a", got)
			}
			close(release)
			if err := <-ended; (err != nil) != tc.rests {
				t.Fatalf("the second attempt ends with %v", err)
			}
			testkit.Eventually(t, "the second attempt counts", func() bool { return countsOf(cc)["picks b 2"] == 1 })
			wantResting(t, policy, tc.rests)
		})
	}
}

// TestRefusedAttemptThatOutlivesItsRPC has the stream that is left end by a refusal, which
// gRPC-Go repeats: it is one attempt, and no failure.
func TestRefusedAttemptThatOutlivesItsRPC(t *testing.T) {
	t.Parallel()
	a := testkit.Start(t, "a")
	var streams atomic.Int32
	release, called, ended := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	raw := testkit.StartRawBackend(t, "b", func() (testkit.RawReply, bool) {
		if streams.Add(1) > 1 {
			return testkit.RawOK, true
		}
		close(called)
		<-release
		return testkit.RawRefuse, true
	})
	b, policy := breaking(t, raw.Addr, map[string]any{"consecutiveFailures": 1, "time": aLongTime, "maxTime": aLongTime})
	b.Name = "b"
	cc := dial(t, testkit.Service{Clusters: append(testkit.Clusters(a), b)}, grpc.WithChainUnaryInterceptor(
		func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoker grpc.UnaryInvoker, opts ...grpc.CallOption) error {
			err := invoker(ctx, method, req, reply, cc, opts...)
			go func() { ended <- invoker(ctx, method, req, new(testpb.SimpleResponse), cc, opts...) }()
			<-called
			return err
		}))
	if got := call(t, cc); got != "a" {
		t.Fatalf("answer from %s: want a", got)
	}
	close(release)
	checkError(t, <-ended, codes.OK)
	testkit.Eventually(t, "the second attempt counts", func() bool { return countsOf(cc)["picks b 2"] >= 1 })
	if got := countsOf(cc)["picks b 2"]; got != 1 || streams.Load() != 2 {
		t.Errorf("%d attempts were counted, on %d streams: want 1 on 2", got, streams.Load())
	}
	wantResting(t, policy, false)
}

// TestCooldownBetweenAttempts has a cluster that is listed twice and rests after
// one failure: the RPC's own second attempt passes it over.
func TestCooldownBetweenAttempts(t *testing.T) {
	for _, tc := range []struct {
		name     string
		attempts int
		opts     []grpc.DialOption
	}{
		{"by the retry policy", 3, nil},
		{"by an interceptor", 1, []grpc.DialOption{grpc.WithChainUnaryInterceptor(retrying(3))}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			backends := startScripted(t, "U OK")
			service := testkit.Service{Clusters: relist(testkit.Clusters(backends...), "a a b"), Attempts: tc.attempts}
			service.Clusters[0].More = map[string]any{"cooldown": map[string]any{"consecutiveFailures": 1, "time": aLongTime, "maxTime": aLongTime}}
			cc := dial(t, service, tc.opts...)
			if got, err := testkit.Unary(composite.WithClusters(testkit.Context(t), "b"), cc); got != "b" {
				t.Fatalf("answer from %q (%v): want b", got, err)
			}
			backends[1].Script(testkit.OK)
			if got := call(t, cc); got != "b" {
				t.Errorf("answer from %s: want b", got)
			}
			if got := testkit.Counts(backends...); got != "1/1" {
				t.Errorf("calls %s: want 1/1", got)
			}
		})
	}
}
