package composite_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/balancer"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials"
	testpb "google.golang.org/grpc/interop/grpc_testing"

	"github.com/grpc-composite/grpc-composite/balancer/composite"
	"github.com/grpc-composite/grpc-composite/internal/testkit"
)

// retrying is an interceptor that tries an RPC up to n times.
func retrying(n int) grpc.UnaryClientInterceptor {
	return func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoker grpc.UnaryInvoker, opts ...grpc.CallOption) (err error) {
		for range n {
			if err = invoker(ctx, method, req, reply, cc, opts...); err == nil {
				break
			}
		}
		return err
	}
}

// retryingStreams does the same for streams, until one has response headers.
func retryingStreams(n int) grpc.StreamClientInterceptor {
	return func(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, streamer grpc.Streamer, opts ...grpc.CallOption) (s grpc.ClientStream, err error) {
		for range n {
			if s, err = streamer(ctx, desc, cc, method, opts...); err != nil {
				continue
			}
			if md, _ := s.Header(); md != nil {
				return s, nil
			}
			err = s.RecvMsg(&testpb.StreamingOutputCallResponse{})
		}
		return nil, err
	}
}

// TestRetryInterceptor checks that an interceptor which retries advances if it
// comes after DialOptions, and starts over if it comes before.
func TestRetryInterceptor(t *testing.T) {
	after := func(n int) []grpc.DialOption {
		return append(composite.DialOptions(), grpc.WithChainUnaryInterceptor(retrying(n)))
	}
	before := func(n int) []grpc.DialOption {
		return append([]grpc.DialOption{grpc.WithChainUnaryInterceptor(retrying(n))}, composite.DialOptions()...)
	}
	outside := func(n int) []grpc.DialOption {
		return append(composite.DialOptions(), grpc.WithUnaryInterceptor(retrying(n)))
	}
	aborted := testkit.Reply{Code: codes.Aborted, Message: "scripted"}
	for _, tc := range []struct {
		name     string
		opts     []grpc.DialOption
		replies  []testkit.Reply // one for each cluster
		attempts int             // of the retry policy
		counts   string
		code     codes.Code
		parts    []string
	}{
		{name: "after", opts: after(3), replies: []testkit.Reply{testkit.U, testkit.U, testkit.OK}, counts: "1/1/1"},
		{name: "after, with few tries", opts: after(2), replies: []testkit.Reply{testkit.U, testkit.U, testkit.OK}, counts: "1/1/0", code: codes.Unavailable},
		{name: "before", opts: before(3), replies: []testkit.Reply{testkit.U, testkit.U, testkit.OK}, counts: "3/0/0", code: codes.Unavailable},
		{name: "given by WithUnaryInterceptor, which is always before", opts: outside(3), replies: []testkit.Reply{testkit.U, testkit.U, testkit.OK}, counts: "3/0/0", code: codes.Unavailable},
		{name: "after, with a retry policy", opts: after(2), replies: []testkit.Reply{testkit.U, testkit.U, testkit.U, testkit.OK}, attempts: 2, counts: "1/1/1/1"},
		{name: "before, with a retry policy", opts: before(2), replies: []testkit.Reply{testkit.U, testkit.U, testkit.OK}, attempts: 2, counts: "2/2/0", code: codes.Unavailable},
		{name: "after, past the end", opts: after(3), replies: []testkit.Reply{testkit.U, aborted}, counts: "1/1", code: codes.Aborted, parts: []string{"scripted", "past the end"}},
		{name: "after, further past the end", opts: after(5), replies: []testkit.Reply{testkit.U, testkit.U}, counts: "1/1", code: codes.Unavailable, parts: []string{"scripted", "past the end"}},
		{name: "after, further past the end, with a code that a picker may not use", opts: after(5), replies: []testkit.Reply{testkit.U, aborted}, counts: "1/1", code: codes.Aborted, parts: []string{"scripted", "past the end"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			var backends []*testkit.Backend
			for i, reply := range tc.replies {
				b := testkit.Start(t, string(rune('a'+i)))
				b.Script(reply)
				backends = append(backends, b)
			}
			s := testkit.Service{Clusters: testkit.Clusters(backends...), Attempts: tc.attempts}
			cc := testkit.Dial(t, "composite:///", append(slices.Clip(tc.opts), grpc.WithDefaultServiceConfig(s.JSON()))...)
			checkError(t, unaryRPC(testkit.Context(t), cc), tc.code, tc.parts...)
			if got := testkit.Counts(backends...); got != tc.counts {
				t.Errorf("calls %s: want %s", got, tc.counts)
			}
		})
	}
}

// TestStreamRetryInterceptor checks the same for streams.
func TestStreamRetryInterceptor(t *testing.T) {
	after := func(n int) []grpc.DialOption {
		return append(composite.DialOptions(), grpc.WithChainStreamInterceptor(retryingStreams(n)))
	}
	before := func(n int) []grpc.DialOption {
		return append([]grpc.DialOption{grpc.WithChainStreamInterceptor(retryingStreams(n))}, composite.DialOptions()...)
	}
	aborted := testkit.Reply{Code: codes.Aborted, Message: "scripted"}
	healthy := testkit.Reply{Headers: true}
	for _, tc := range []struct {
		name   string
		opts   []grpc.DialOption
		second testkit.Reply // the first cluster is unavailable
		counts string
		code   codes.Code
	}{
		{"after", after(2), healthy, "1/1", codes.OK},
		{"before", before(2), healthy, "2/0", codes.Unavailable},
		{"between dial options given twice", twiceAround(grpc.WithChainStreamInterceptor(retryingStreams(2))), healthy, "1/1", codes.OK},
		{"after, past the end, where a stream cannot be opened", after(3), aborted, "1/1", codes.Aborted},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			backends := startScripted(t, "U OK")
			backends[1].Script(tc.second)
			s := testkit.Service{Clusters: testkit.Clusters(backends...)}
			cc := testkit.Dial(t, "composite:///", append(slices.Clip(tc.opts), grpc.WithDefaultServiceConfig(s.JSON()))...)
			checkError(t, bidiRPC(testkit.Context(t), cc), tc.code)
			if got := testkit.Counts(backends...); got != tc.counts {
				t.Errorf("calls %s: want %s", got, tc.counts)
			}
		})
	}
}

// hedging is an interceptor that sends an RPC n times at once.
func hedging(n int) grpc.UnaryClientInterceptor {
	return func(ctx context.Context, method string, req, _ any, cc *grpc.ClientConn, invoker grpc.UnaryInvoker, opts ...grpc.CallOption) error {
		errs := make([]error, n)
		var wg sync.WaitGroup
		for i := range n {
			wg.Go(func() { errs[i] = invoker(ctx, method, req, &testpb.SimpleResponse{}, cc, opts...) })
		}
		wg.Wait()
		return errors.Join(errs...)
	}
}

// TestHedgingInterceptor checks that RPCs that run at once inside one
// interceptor take a cluster each.
func TestHedgingInterceptor(t *testing.T) {
	for _, tc := range []struct {
		name    string
		servers string
		n       int
		counts  string
	}{
		{"two of three", "OK OK OK", 2, "1/1/0"},
		{"all of three", "OK OK OK", 3, "1/1/1"},
		{"with a retry", "U OK OK", 2, "1/1/1"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			backends := startScripted(t, tc.servers)
			cc := dial(t, testkit.Service{Clusters: testkit.Clusters(backends...), Attempts: 3},
				grpc.WithChainUnaryInterceptor(hedging(tc.n)))
			if err := unaryRPC(testkit.Context(t), cc); err != nil {
				t.Error(err)
			}
			if got := testkit.Counts(backends...); got != tc.counts {
				t.Errorf("calls %s: want %s", got, tc.counts)
			}
		})
	}
}

// endings counts how often streams end for the interceptor that has it.
type endings struct {
	grpc.ClientStream
	n *atomic.Int32
}

func (e endings) RecvMsg(m any) error {
	err := e.ClientStream.RecvMsg(m)
	if err != nil {
		e.n.Add(1)
	}
	return err
}

// TestStreamEndsOnce has an interceptor after DialOptions see the end of a stream that has
// had messages once, as on any channel, be the RPC retried or not.
func TestStreamEndsOnce(t *testing.T) {
	for _, servers := range []string{"OK", "U OK"} {
		t.Run(servers, func(t *testing.T) {
			t.Parallel()
			var ends atomic.Int32
			cc := dial(t, testkit.Service{Clusters: testkit.Clusters(startScripted(t, servers)...), Attempts: 2}, grpc.WithChainStreamInterceptor(
				func(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, streamer grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
					s, err := streamer(ctx, desc, cc, method, opts...)
					return endings{s, &ends}, err
				}))
			checkError(t, conversation(testkit.Context(t), cc), codes.OK)
			if n := ends.Load(); n != 1 {
				t.Errorf("the stream has ended %d times: want once", n)
			}
		})
	}
}

// TestHedgesWithMethodsOfTheirOwn has an interceptor call two other methods at once in
// place of the RPC's, which have to be picked for again. A stats handler derives contexts.
func TestHedgesWithMethodsOfTheirOwn(t *testing.T) {
	t.Parallel()
	a := testkit.Start(t, "a")
	policy := testkit.NewPolicy(t)
	waiting := new(waitingPicker)
	policy.OnUpdate = func(c *testkit.PolicyChild, s balancer.ClientConnState) error {
		if waiting.picks.Load() > 0 {
			return c.Connect(s)
		}
		c.ReportPicker(connectivity.Connecting, waiting)
		return nil
	}
	r := testkit.NewResolver(t)
	cc := dial(t, testkit.Service{Clusters: []testkit.Cluster{{Name: "a", Target: r.Target(), More: map[string]any{"childPolicy": policy.Config(), "attempts": 2, "connectTimeout": "20s"}}}},
		grpc.WithStatsHandler(new(deriving)),
		grpc.WithChainUnaryInterceptor(func(ctx context.Context, _ string, req, _ any, cc *grpc.ClientConn, invoker grpc.UnaryInvoker, opts ...grpc.CallOption) error {
			hedges := make(chan error)
			go func() {
				hedges <- invoker(ctx, testpb.TestService_UnaryCall_FullMethodName, req, new(testpb.SimpleResponse), cc, opts...)
			}()
			go func() {
				hedges <- invoker(ctx, testpb.TestService_EmptyCall_FullMethodName, new(testpb.Empty), new(testpb.Empty), cc, opts...)
			}()
			return errors.Join(<-hedges, <-hedges)
		}))
	cc.Connect()
	testkit.Eventually(t, "the resolver is built", func() bool { return r.Built() == 1 })
	if err := r.Update(a); err != nil {
		t.Fatal(err)
	}
	err := make(chan error)
	go func() {
		err <- cc.Invoke(testkit.Context(t), "/grpc.testing.TestService/Canary", new(testpb.SimpleRequest), new(testpb.SimpleResponse))
	}()
	testkit.Eventually(t, "both hedges wait", func() bool { return waiting.picks.Load() >= 2 })
	if err := r.Update(a); err != nil {
		t.Error(err)
	}
	checkError(t, <-err, codes.OK)
}

// waitingPicker has all picks wait, and counts them.
type waitingPicker struct{ picks atomic.Int32 }

func (p *waitingPicker) Pick(balancer.PickInfo) (balancer.PickResult, error) {
	p.picks.Add(1)
	return balancer.PickResult{}, balancer.ErrNoSubConnAvailable
}

// calling an interceptor that calls another channel first.
func calling(other *grpc.ClientConn) grpc.UnaryClientInterceptor {
	return func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoker grpc.UnaryInvoker, opts ...grpc.CallOption) error {
		if err := unaryRPC(ctx, other); err != nil {
			return err
		}
		return invoker(ctx, method, req, reply, cc, opts...)
	}
}

// callingCredentials do the same from within an attempt.
type callingCredentials struct{ other *grpc.ClientConn }

var _ credentials.PerRPCCredentials = callingCredentials{}

func (c callingCredentials) GetRequestMetadata(ctx context.Context, _ ...string) (map[string]string, error) {
	return nil, unaryRPC(ctx, c.other)
}

func (callingCredentials) RequireTransportSecurity() bool { return false }

// TestNestedRPC checks that an RPC which is made on the way of another one, to a
// channel with clusters of its own, is counted for itself.
func TestNestedRPC(t *testing.T) {
	for _, tc := range []struct {
		name   string
		option func(other *grpc.ClientConn) grpc.DialOption
		nested string // counts
	}{
		{"by an interceptor", func(other *grpc.ClientConn) grpc.DialOption { return grpc.WithChainUnaryInterceptor(calling(other)) }, "1/1/0"},
		{"by each attempt", func(other *grpc.ClientConn) grpc.DialOption {
			return grpc.WithPerRPCCredentials(callingCredentials{other})
		}, "2/2/0"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			inner := startScripted(t, "U OK OK")
			outer := startScripted(t, "OK U OK")
			other := dial(t, testkit.Service{Clusters: testkit.Clusters(inner...), Attempts: 3})
			cc := dial(t, testkit.Service{Clusters: testkit.Clusters(outer...), Attempts: 3}, tc.option(other))
			if err := unaryRPC(composite.WithAttempt(testkit.Context(t), 2), cc); err != nil {
				t.Error(err)
			}
			if got := testkit.Counts(inner...); got != tc.nested {
				t.Errorf("nested calls %s: want %s", got, tc.nested)
			}
			if got := testkit.Counts(outer...); got != "0/1/1" {
				t.Errorf("calls %s: want 0/1/1", got)
			}
		})
	}
}
