package composite_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	testpb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/status"

	"github.com/grpc-composite/grpc-composite/balancer/composite"
	"github.com/grpc-composite/grpc-composite/internal/testkit"
)

// TestTrailOfInterceptorRetries checks that retries by an interceptor after
// DialOptions are attempts of one trail, and by one before it RPCs of their own.
func TestTrailOfInterceptorRetries(t *testing.T) {
	retries := func(n int) []grpc.DialOption {
		return []grpc.DialOption{grpc.WithChainUnaryInterceptor(retrying(n)), grpc.WithChainStreamInterceptor(retryingStreams(n))}
	}
	early := testkit.Reply{Code: codes.Aborted, Message: "scripted", Headers: true} // which ends the retries of streams
	after := func(n int) []grpc.DialOption { return append(composite.DialOptions(), retries(n)...) }
	before := append(retries(3), composite.DialOptions()...)
	for _, tc := range []struct {
		name     string
		opts     []grpc.DialOption
		servers  string
		last     testkit.Reply // of the last server
		attempts int
		want     string
	}{
		{"after", after(3), "U U U", early, 0, "1 a Unavailable; 2 b Unavailable; 3 c Aborted committed"},
		{"after, in vain", after(3), "U U U", testkit.U, 0, "1 a Unavailable; 2 b Unavailable; 3 c Unavailable"},
		{"after, with a retry policy", after(2), "U U U U", early, 2, "1 a Unavailable; 2 b Unavailable; 3 c Unavailable; 4 d Aborted committed"},
		{"before", before, "U U U", early, 0, "1 a Unavailable"},
	} {
		for kind, call := range map[string]rpc{"unary": unaryRPC, "stream": receiveRPC} {
			t.Run(tc.name+"/"+kind, func(t *testing.T) {
				t.Parallel()
				backends := startScripted(t, tc.servers)
				backends[len(backends)-1].Script(tc.last)
				s := testkit.Service{Clusters: testkit.Clusters(backends...), Attempts: tc.attempts}
				cc := testkit.Dial(t, "composite:///", slices.Concat(tc.opts, []grpc.DialOption{grpc.WithDefaultServiceConfig(s.JSON())})...)
				trail, _ := record(testkit.Context(t), t, cc, call)
				checkStory(t, trail, tc.want, backends...)
			})
		}
	}
}

// TestTrailOfUnreportedRetry checks the trail when an interceptor retries an RPC
// whose failure gRPC-Go may notice while it sends the request: then it does not
// report it with the attempt, but with the stream.
func TestTrailOfUnreportedRetry(t *testing.T) {
	t.Parallel()
	raw := testkit.StartRaw(t, "raw", testkit.RawReset)
	backends := startScripted(t, "U")
	cc := dial(t, testkit.Service{Clusters: rawClusters(raw, 0, backends)}, grpc.WithChainUnaryInterceptor(retrying(2)))
	large := func(ctx context.Context, cc *grpc.ClientConn, opts ...grpc.CallOption) error {
		req := &testpb.SimpleRequest{Payload: &testpb.Payload{Body: make([]byte, 1<<20)}}
		_, err := testpb.NewTestServiceClient(cc).UnaryCall(ctx, req, opts...)
		return err
	}
	trail, _ := record(testkit.Context(t), t, cc, large)
	checkStory(t, trail, "1 raw Internal; 2 a Unavailable", backends...)
}

// racing is an interceptor that sends an RPC n times at once, and returns what the
// first one does that succeeds, or the last one, while the others go on.
func racing(n int, all *sync.WaitGroup) grpc.UnaryClientInterceptor {
	return func(ctx context.Context, method string, req, _ any, cc *grpc.ClientConn, invoker grpc.UnaryInvoker, opts ...grpc.CallOption) (err error) {
		errs := make(chan error, n)
		for range n {
			all.Go(func() { errs <- invoker(ctx, method, req, &testpb.SimpleResponse{}, cc, opts...) })
		}
		for range n {
			if err = <-errs; err == nil {
				return nil
			}
		}
		return err
	}
}

// TestTrailOfHedges checks the trail of RPCs of which several attempts run at
// once, also when it is read while some of them still do.
func TestTrailOfHedges(t *testing.T) {
	for _, tc := range []struct {
		name  string
		b     testkit.Reply // of the second cluster; the first one's is a's
		a     testkit.Reply
		wantA []string // one of these, depending on how far it is when the RPC is over
		wantB []string
		code  codes.Code
	}{
		{name: "all fail", a: testkit.U, b: testkit.U, wantA: []string{"a Unavailable"}, wantB: []string{"b Unavailable"}, code: codes.Unavailable},
		{name: "one succeeds and the other hangs", a: testkit.OK, b: testkit.Reply{Hang: true}, wantA: []string{"a OK committed"}, wantB: []string{"b Canceled", "- Canceled", ""}},
		{name: "one fails and the other succeeds", a: testkit.U, b: testkit.OK, wantA: []string{"a Unavailable", "a Canceled", "- Canceled", ""}, wantB: []string{"b OK committed"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			backends := startAll(t, "a", "b")
			backends[0].Script(tc.a)
			backends[1].Script(tc.b)
			var all sync.WaitGroup
			cc := dial(t, testkit.Service{Clusters: testkit.Clusters(backends...)}, grpc.WithChainUnaryInterceptor(racing(2, &all)))
			for range 50 {
				ctx, cancel := context.WithCancel(testkit.Context(t))
				var trail composite.Trail
				err := unaryRPC(ctx, cc, composite.RecordTrail(&trail))
				checkError(t, err, tc.code)
				got := story(trail)
				contains := func(part string) bool { return strings.Contains(got, part) }
				if !slices.ContainsFunc(tc.wantA, contains) || !slices.ContainsFunc(tc.wantB, contains) {
					t.Errorf("trail %q: want one of %q and of %q in it", got, tc.wantA, tc.wantB)
				}
				cancel()
				all.Wait()
				if late := story(trail); late != got {
					t.Errorf("trail %q became %q when the RPC was over", got, late)
				}
				if fromError, ok := composite.TrailFromError(err); ok && story(fromError) != got {
					t.Errorf("the error's trail is %q: want %q", story(fromError), got)
				}
			}
		})
	}
}

// TestNoTrail checks that channels which lack the policy or DialOptions have no
// trails, and errors as gRPC-Go makes them.
func TestNoTrail(t *testing.T) {
	composed := func(c ...testkit.Cluster) string { return testkit.Service{Clusters: c}.JSON() }
	for _, tc := range []struct {
		name   string
		opts   []grpc.DialOption
		config func(b *testkit.Backend) string
		code   codes.Code
	}{
		{"another policy", composite.DialOptions(), func(*testkit.Backend) string { return roundRobin }, codes.Unavailable},
		{"no dial options", nil, func(*testkit.Backend) string { return roundRobin }, codes.Unavailable},
		{"no dial options, on a composite channel", nil, func(b *testkit.Backend) string { return composed(testkit.Clusters(b)...) }, codes.Internal},
	} {
		for _, kind := range trailKinds {
			t.Run(tc.name+"/"+kind.name, func(t *testing.T) {
				t.Parallel()
				b := startScripted(t, "U")[0]
				cc := testkit.Dial(t, b.Target(), append(slices.Clip(tc.opts), grpc.WithDefaultServiceConfig(tc.config(b)))...)
				trail := composite.Trail{Attempts: []composite.Attempt{{Number: 7, Cluster: "earlier"}}}
				err := kind.call(testkit.Context(t), cc, composite.RecordTrail(&trail))
				checkError(t, err, tc.code)
				checkStory(t, trail, "7 earlier OK unsent")
				if _, ok := composite.TrailFromError(err); ok {
					t.Errorf("error %v has a trail", err)
				}
				if got, want := err.Error(), status.Convert(err).Err().Error(); got != want {
					t.Errorf("error %q: want gRPC-Go's own, %q", got, want)
				}
			})
		}
	}
}

// nestedCluster is a cluster whose child policy is composite, too.
func nestedCluster(name string, clusters ...testkit.Cluster) testkit.Cluster {
	inner := testkit.Service{Clusters: clusters}.Policy()
	return testkit.Cluster{Name: name, Target: testkit.EmptyTarget, More: map[string]any{
		"childPolicy": []any{map[string]any{"composite": inner}},
	}}
}

// TestTrailOfNestedPolicies checks that a trail tells of the outer policy's
// clusters, and why the inner one had no host.
func TestTrailOfNestedPolicies(t *testing.T) {
	for _, kind := range trailKinds {
		t.Run(kind.name, func(t *testing.T) {
			t.Parallel()
			backends := startScripted(t, "U OK U")
			c := testkit.Clusters(backends...)
			cc := dial(t, testkit.Service{Attempts: 4, Clusters: []testkit.Cluster{
				c[0], nestedCluster("n", closedCluster("x"), c[1]), nestedCluster("m", c[2]), c[2],
			}})
			backends[1].Script(testkit.U)
			trail, err := record(testkit.Context(t), t, cc, kind.call)
			checkError(t, err, codes.Unavailable)
			checkStory(t, trail, "1 a Unavailable; 2 n Unavailable; 3 c Unavailable past m:pick_error; 4 c Unavailable")
			testkit.Contains(t, trail.Attempts[2].Skipped[0].Err, "past the end of the list of 1 (c)")
		})
	}
}

// TestCauseOfNestedPolicy checks that a trail tells why a policy inside has no
// host, as it was when the RPC ended, and to any number of readers.
func TestCauseOfNestedPolicy(t *testing.T) {
	t.Parallel()
	backends := startScripted(t, "U U")
	c := testkit.Clusters(backends...)
	// Attempt 2 finds a host in the policy inside, but not behind its first slot.
	cc := dial(t, testkit.Service{Attempts: 2, Clusters: []testkit.Cluster{c[0], nestedCluster("n", c[0], closedCluster("x")), c[1]}})
	trail, err := record(testkit.Context(t), t, cc, unaryRPC)
	checkError(t, err, codes.Unavailable)
	checkStory(t, trail, "1 a Unavailable; 2 b Unavailable past n:pick_error")
	_ = cc.Close()
	var readers sync.WaitGroup
	for range 4 {
		readers.Go(func() {
			testkit.Contains(t, err, "n skipped: pick error (", "no host available (no_healthy_upstream): x skipped: transient failure (", "connection refused")
		})
	}
	readers.Wait()
}

// TestErrorOfAnotherChannel checks that the error of another channel's RPC, which
// gRPC-Go passes on from call credentials, does not pass for the RPC's own.
func TestErrorOfAnotherChannel(t *testing.T) {
	t.Parallel()
	inner := startScripted(t, "U")
	other := dial(t, testkit.Service{Clusters: testkit.Clusters(inner...)})
	outer := testkit.Start(t, "outer")
	cc := dial(t, testkit.Service{Clusters: testkit.Clusters(outer)}, grpc.WithPerRPCCredentials(callingCredentials{other}))
	trail, err := record(testkit.Context(t), t, cc, unaryRPC)
	checkError(t, err, codes.Unavailable)
	checkStory(t, trail, "1 outer Unavailable unsent")
}
