package composite_test

import (
	"context"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/balancer"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	testpb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/status"

	"github.com/grpc-composite/grpc-composite/balancer/composite"
	"github.com/grpc-composite/grpc-composite/internal/testkit"
)

func dialLean(t testing.TB, s testkit.Service, opts ...grpc.DialOption) *grpc.ClientConn {
	t.Helper()
	opts = append([]grpc.DialOption{grpc.WithDefaultServiceConfig(s.JSON())}, opts...)
	return testkit.Dial(t, "composite:///", append(composite.DialOptions(composite.LeanCounting()), opts...)...)
}

// TestLeanCounting checks that attempts go where they go with a stats handler, for
// all kinds of RPC.
func TestLeanCounting(t *testing.T) {
	for _, tc := range []struct {
		name, servers string
		more          map[string]any
		attempts      int
		rpcs          int // default 1
		counts        string
		code          codes.Code
	}{
		{name: "the first answers", servers: "OK OK OK", attempts: 3, counts: "1/0/0"},
		{name: "the third answers", servers: "U U OK", attempts: 3, counts: "1/1/1"},
		{name: "no retry policy", servers: "U OK OK", counts: "1/0/0", code: codes.Unavailable},
		{name: "past the end: the last one's status", servers: "U U", attempts: 3, counts: "1/1", code: codes.Unavailable},
		{name: "past the end: the last cluster again", servers: "U U", more: map[string]any{"overflow": "USE_LAST_CLUSTER"}, attempts: 4, counts: "1/3", code: codes.Unavailable},
		{name: "each RPC starts at the first", servers: "U OK", attempts: 2, rpcs: 3, counts: "3/3"},
	} {
		for _, kind := range rpcKinds {
			t.Run(tc.name+"/"+kind.name, func(t *testing.T) {
				t.Parallel()
				backends := startScripted(t, tc.servers)
				cc := dialLean(t, testkit.Service{Clusters: patient(backends), More: tc.more, Attempts: tc.attempts})
				for range max(tc.rpcs, 1) {
					checkError(t, kind.call(testkit.Context(t), cc), tc.code)
				}
				if got := testkit.Counts(backends...); got != tc.counts {
					t.Errorf("calls %s: want %s", got, tc.counts)
				}
			})
		}
	}
}

// TestLeanOverflow checks that an attempt past the end has the status of the last
// attempt, which only its Done tells.
func TestLeanOverflow(t *testing.T) {
	t.Parallel()
	backends := startAll(t, "a", "b")
	backends[0].Script(testkit.Reply{Code: codes.Unavailable})
	backends[1].Script(testkit.Reply{Code: codes.Aborted, Message: "the last"})
	cc := dialLean(t, testkit.Service{Clusters: patient(backends), Attempts: 3, Retryable: []string{"UNAVAILABLE", "ABORTED"}})
	checkError(t, unaryRPC(testkit.Context(t), cc), codes.Aborted, "the last", "past the end of the list of 2")
}

// TestLeanTransparentRetryCounts has the first cluster refuse a stream: Envoy goes on
// to the second one then, and so does lean counting.
func TestLeanTransparentRetryCounts(t *testing.T) {
	for _, kind := range rpcKinds {
		t.Run(kind.name, func(t *testing.T) {
			t.Parallel()
			raw := testkit.StartRaw(t, "raw", testkit.RawRefuse)
			backends := startScripted(t, "OK OK")
			cc := dialLean(t, testkit.Service{Clusters: rawClusters(raw, 0, backends), Attempts: 3})
			checkError(t, kind.call(testkit.Context(t), cc), codes.OK)
			if got := testkit.Counts(backends...); got != "1/0" || raw.Streams() != 1 {
				t.Errorf("calls %d/%s: want 1/1/0", raw.Streams(), got)
			}
		})
	}
}

// TestLeanWaitForReady checks that it is known which RPCs wait, by an option of the
// call, of the channel, or by the method's config.
func TestLeanWaitForReady(t *testing.T) {
	wait := grpc.WaitForReady(true)
	for _, tc := range []struct {
		name  string
		other map[string]any
		opts  []grpc.DialOption
		call  []grpc.CallOption
		waits bool
	}{
		{name: "neither"},
		{name: "an option of the call", call: []grpc.CallOption{wait}, waits: true},
		{name: "an option of the channel", opts: []grpc.DialOption{grpc.WithDefaultCallOptions(wait)}, waits: true},
		{name: "the method's config", other: waitingMethods(true), waits: true},
		{name: "the call against the config", other: waitingMethods(true), call: []grpc.CallOption{grpc.WaitForReady(false)}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			r := testkit.NewResolver(t)
			_ = r.Update()
			b := testkit.Start(t, "late")
			s := testkit.Service{Clusters: []testkit.Cluster{{Name: "late", Target: r.Target()}}, Other: tc.other}
			cc := dialLean(t, s, tc.opts...)
			result := make(chan error, 1)
			go func() { result <- unaryRPC(testkit.Context(t), cc, tc.call...) }()
			if !tc.waits {
				checkError(t, <-result, codes.Unavailable, "no host available")
				return
			}
			testkit.Eventually(t, "the resolver is asked", func() bool { return r.Built() > 0 })
			_ = r.Update(b)
			checkError(t, <-result, codes.OK)
		})
	}
}

func waitingMethods(wait bool) map[string]any {
	return map[string]any{"methodConfig": []any{map[string]any{"name": []any{map[string]any{}}, "waitForReady": wait}}}
}

// TestLeanFeatures checks what depends on how attempts end.
func TestLeanFeatures(t *testing.T) {
	for _, tc := range []struct {
		name, servers string
		setting       map[string]any // of the first cluster
		more          map[string]any
		rpcs          int
		counts        string
	}{
		{"cooldown", "U OK", map[string]any{"cooldown": map[string]any{"consecutiveFailures": 2, "time": "300s"}}, nil, 5, "2/5"},
		{"maxRequests", "OK OK", map[string]any{"maxRequests": 1}, nil, 5, "5/0"},
		{"NEXT_CLUSTER", "U U", nil, map[string]any{"progression": "NEXT_CLUSTER", "overflow": "ROUND_ROBIN"}, 1, "2/1"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			backends := startScripted(t, tc.servers)
			s := testkit.Service{Clusters: patient(backends), More: tc.more, Attempts: 3}
			s.Clusters[0].More = tc.setting
			cc := dialLean(t, s)
			for range tc.rpcs {
				_ = unaryRPC(testkit.Context(t), cc)
			}
			if got := testkit.Counts(backends...); got != tc.counts {
				t.Errorf("calls %s: want %s", got, tc.counts)
			}
		})
	}
}

// TestLeanRefuses checks that what needs the stats handler is refused rather than
// left out.
func TestLeanRefuses(t *testing.T) {
	const remedy = " needs composite.DialOptions() without LeanCounting"
	tokens := composite.NewPerRPCCredentials(nil)
	for _, tc := range []struct {
		name    string
		setting map[string]any
		opts    []grpc.DialOption
		call    []grpc.CallOption
		want    string
	}{
		{name: "attemptTimeout", setting: map[string]any{"attemptTimeout": "5s"}, want: "attemptTimeout"},
		{name: "RecordTrail", call: []grpc.CallOption{composite.RecordTrail(new(composite.Trail))}, want: "composite.RecordTrail"},
		{name: "tokens", opts: []grpc.DialOption{grpc.WithPerRPCCredentials(tokens)}, want: "composite.NewPerRPCCredentials"},
	} {
		for _, kind := range rpcKinds {
			t.Run(tc.name+"/"+kind.name, func(t *testing.T) {
				t.Parallel()
				backends := startScripted(t, "OK")
				s := testkit.Service{Clusters: patient(backends)}
				s.Clusters[0].More = tc.setting
				err := kind.call(testkit.Context(t), dialLean(t, s, tc.opts...), tc.call...)
				checkError(t, err, codes.Internal, tc.want+remedy)
				if got := testkit.Counts(backends...); got != "0" {
					t.Errorf("%s calls reached the server: want none", got)
				}
			})
		}
	}
}

// TestLeanNested has a composite policy inside another one share the attempts, and
// its attemptTimeout refused as well.
func TestLeanNested(t *testing.T) {
	t.Parallel()
	backends := startScripted(t, "U U OK")
	inner := testkit.Service{Clusters: patient(backends[1:])}
	s := testkit.Service{Clusters: patient(backends[:1]), Attempts: 2}
	s.Clusters = append(s.Clusters, testkit.Cluster{Name: "nested", More: map[string]any{
		"childPolicy": []any{map[string]any{"composite": inner.Policy()}},
	}})
	checkError(t, unaryRPC(testkit.Context(t), dialLean(t, s)), codes.OK)
	if got := testkit.Counts(backends...); got != "1/0/1" {
		t.Errorf("calls %s: want 1/0/1", got)
	}
	inner.Clusters[1].More = map[string]any{"attemptTimeout": "5s"}
	s.Clusters[1].More["childPolicy"] = []any{map[string]any{"composite": inner.Policy()}}
	checkError(t, unaryRPC(testkit.Context(t), dialLean(t, s)), codes.Internal, "attemptTimeout needs")
}

// TestLeanStreamsAtOnce has an interceptor open streams at once: they share the
// RPC's count.
func TestLeanStreamsAtOnce(t *testing.T) {
	t.Parallel()
	backends := startScripted(t, "OK OK OK")
	twice := func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoker grpc.UnaryInvoker, opts ...grpc.CallOption) error {
		results := make(chan error, len(backends))
		for range backends {
			go func() { results <- invoker(ctx, method, req, new(testpb.SimpleResponse), cc, opts...) }()
		}
		var last error
		for range backends {
			if err := <-results; err != nil {
				last = err
			}
		}
		return last
	}
	cc := dialLean(t, testkit.Service{Clusters: patient(backends)}, grpc.WithChainUnaryInterceptor(twice))
	checkError(t, unaryRPC(testkit.Context(t), cc), codes.OK)
	if got := testkit.Counts(backends...); got != "1/1/1" {
		t.Errorf("calls %s: want 1/1/1", got)
	}
}

// TestLeanErrorHasNoTrail checks that the error of a failed RPC is gRPC's own.
func TestLeanErrorHasNoTrail(t *testing.T) {
	t.Parallel()
	cc := dialLean(t, testkit.Service{Clusters: patient(startScripted(t, "U"))})
	err := unaryRPC(testkit.Context(t), cc)
	if _, ok := composite.TrailFromError(err); ok || err.Error() != status.Convert(err).Err().Error() {
		t.Errorf("error %q has a trail", err)
	}
}

// TestLeanRepeatedPick has a pick whose connection is not ready, so that gRPC-Go calls
// its Done and picks again: that does not end the attempt, whose failure the one past
// the end tells.
func TestLeanRepeatedPick(t *testing.T) {
	t.Parallel()
	p, picker, policy := unreadyCluster(t, "p")
	backend := testkit.Start(t, "backend")
	backend.Script(testkit.Reply{Code: codes.Aborted, Message: "the last"})
	cc := dialLean(t, testkit.Service{Clusters: []testkit.Cluster{p}, Attempts: 2, Retryable: []string{"UNAVAILABLE", "ABORTED"}})
	result := make(chan error, 1)
	go func() { result <- unaryRPC(testkit.Context(t), cc) }()
	testkit.Eventually(t, "a pick", func() bool { return picker.picks.Load() > 0 })
	child := policy.Child(t, 0)
	var ready fixedPicker
	var err error
	ready.result.SubConn, err = child.CC.NewSubConn([]resolver.Address{{Addr: backend.Addr}}, balancer.NewSubConnOptions{
		StateListener: func(s balancer.SubConnState) {
			if s.ConnectivityState == connectivity.Ready {
				child.ReportPicker(connectivity.Ready, &ready)
			}
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	ready.result.SubConn.Connect()
	checkError(t, <-result, codes.Aborted, "the last", "past the end of the list of 1")
}

// TestLeanOptionsTwice has the options given twice, with RPCs at once in between, for
// the race detector.
func TestLeanOptionsTwice(t *testing.T) {
	t.Parallel()
	backends := startScripted(t, "U U OK")
	hedge := func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoker grpc.UnaryInvoker, opts ...grpc.CallOption) error {
		other := make(chan error, 1)
		go func() { other <- invoker(ctx, method, req, new(testpb.SimpleResponse), cc, opts...) }()
		err := invoker(ctx, method, req, reply, cc, opts...)
		if second := <-other; err != nil {
			err = second
		}
		return err
	}
	again := append([]grpc.DialOption{grpc.WithChainUnaryInterceptor(hedge)}, composite.DialOptions(composite.LeanCounting())...)
	cc := dialLean(t, testkit.Service{Clusters: patient(backends), Attempts: 3}, again...)
	checkError(t, unaryRPC(testkit.Context(t), cc), codes.OK)
}
