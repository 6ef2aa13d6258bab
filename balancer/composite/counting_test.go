package composite_test

import (
	"context"
	"errors"
	"io"
	"math"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/balancer"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	testpb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/grpc-composite/grpc-composite/balancer/composite"
	"github.com/grpc-composite/grpc-composite/internal/testkit"
)

// rpc makes an RPC and returns its error.
type rpc func(ctx context.Context, cc *grpc.ClientConn, opts ...grpc.CallOption) error

// rpcKinds are kinds of RPC that must be counted alike. Nothing but receiving
// can notice a failure in them: the servers answer when they have all of the
// request.
var rpcKinds = []struct {
	name string
	call rpc
}{{"unary", unaryRPC}, {"stream", download}}

func unaryRPC(ctx context.Context, cc *grpc.ClientConn, opts ...grpc.CallOption) error {
	_, err := testkit.Unary(ctx, cc, opts...)
	return err
}

// bidiRPC sends one message and receives one.
func bidiRPC(ctx context.Context, cc *grpc.ClientConn, opts ...grpc.CallOption) error {
	stream, err := sendOne(ctx, cc, opts...)
	if err != nil {
		return err
	}
	_, err = stream.Recv()
	return err
}

// sendOne opens a stream and sends one message. Sending may notice a failure, and if
// nothing follows from it, receiving tells what it was.
func sendOne(ctx context.Context, cc *grpc.ClientConn, opts ...grpc.CallOption) (testpb.TestService_FullDuplexCallClient, error) {
	stream, err := testpb.NewTestServiceClient(cc).FullDuplexCall(ctx, opts...)
	if err != nil {
		return nil, err
	}
	if err := stream.Send(&testpb.StreamingOutputCallRequest{}); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	return stream, stream.CloseSend()
}

// receiveRPC only receives, so that nothing but Recv can notice a failure.
func receiveRPC(ctx context.Context, cc *grpc.ClientConn, opts ...grpc.CallOption) error {
	stream, err := testpb.NewTestServiceClient(cc).FullDuplexCall(ctx, opts...)
	if err != nil {
		return err
	}
	_, err = stream.Recv()
	return err
}

// startScripted starts a server for each of the words U (unavailable) and OK.
func startScripted(t testing.TB, words string) []*testkit.Backend {
	t.Helper()
	var backends []*testkit.Backend
	for i, word := range strings.Fields(words) {
		b := testkit.Start(t, string(rune('a'+i)))
		if word == "U" {
			b.Script(testkit.U)
		}
		backends = append(backends, b)
	}
	return backends
}

func patient(backends []*testkit.Backend) []testkit.Cluster { return testkit.Clusters(backends...) }

// checkError compares an RPC's outcome with what is wanted.
func checkError(t testing.TB, err error, code codes.Code, parts ...string) {
	t.Helper()
	if got := status.Code(err); got != code {
		t.Errorf("code %v (%v): want %v", got, err, code)
	}
	if len(parts) > 0 {
		testkit.Contains(t, err, parts...)
	}
}

func TestWithAttempt(t *testing.T) {
	for _, tc := range []struct {
		name    string
		n       int
		servers string
		policy  map[string]any
		opts    []grpc.DialOption
		counts  string
		code    codes.Code
		parts   []string
	}{
		{name: "the first", n: 1, servers: "OK OK OK", counts: "1/0/0"},
		{name: "a later one", n: 2, servers: "OK OK OK", counts: "0/1/0"},
		{name: "retries go on from there", n: 2, servers: "OK U OK", counts: "0/1/1"},
		{name: "retries end with the list", n: 2, servers: "OK U U", counts: "0/1/1", code: codes.Unavailable, parts: []string{"scripted"}},
		{name: "past the end", n: 4, servers: "OK OK OK", counts: "0/0/0", code: codes.Unavailable, parts: []string{"attempt 4", "past the end of the list of 3 (a; b; c)"}},
		{name: "far past the end", n: math.MaxInt, servers: "OK OK OK", counts: "0/0/0", code: codes.Unavailable, parts: []string{"past the end"}},
		{name: "past the end, round robin", n: 5, servers: "OK OK OK", policy: map[string]any{"overflow": "ROUND_ROBIN"}, counts: "0/1/0"},
		{name: "far past the end, to the last cluster", n: math.MaxInt, servers: "OK OK U", policy: map[string]any{"overflow": "USE_LAST_CLUSTER"}, counts: "0/0/3", code: codes.Unavailable},
		{name: "dial options given twice", n: 2, servers: "OK U OK", opts: composite.DialOptions(), counts: "0/1/1"},
		{name: "0", n: 0, servers: "OK OK OK", counts: "0/0/0", code: codes.Internal, parts: []string{"attempt 0", "composite.WithAttempt"}},
		{name: "negative", n: -1, servers: "OK OK OK", counts: "0/0/0", code: codes.Internal, parts: []string{"attempt -1", "composite.WithAttempt"}},
	} {
		for _, kind := range rpcKinds {
			t.Run(tc.name+"/"+kind.name, func(t *testing.T) {
				t.Parallel()
				backends := startScripted(t, tc.servers)
				cc := dial(t, testkit.Service{Clusters: patient(backends), Attempts: 3, More: tc.policy}, tc.opts...)
				err := kind.call(composite.WithAttempt(testkit.Context(t), tc.n), cc)
				checkError(t, err, tc.code, tc.parts...)
				if got := testkit.Counts(backends...); got != tc.counts {
					t.Errorf("calls %s: want %s", got, tc.counts)
				}
			})
		}
	}
}

// TestWithoutDialOptions checks that a channel on which nobody counts attempts
// says so at once, whatever the RPC.
func TestWithoutDialOptions(t *testing.T) {
	for _, tc := range []struct {
		name string
		call rpc
		opts []grpc.CallOption
	}{
		{"unary", unaryRPC, nil},
		{"unary, waits for ready", unaryRPC, []grpc.CallOption{grpc.WaitForReady(true)}},
		{"stream", bidiRPC, nil},
		{"stream, waits for ready", bidiRPC, []grpc.CallOption{grpc.WaitForReady(true)}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			backends := startScripted(t, "OK OK")
			s := testkit.Service{Clusters: patient(backends), Attempts: 3}
			cc := testkit.Dial(t, "composite:///", grpc.WithDefaultServiceConfig(s.JSON()))
			err := tc.call(testkit.Context(t), cc, tc.opts...)
			checkError(t, err, codes.Internal, "composite.DialOptions()")
			if got := testkit.Counts(backends...); got != "0/0" {
				t.Errorf("calls %s: want none", got)
			}
		})
	}
}

// TestFirstOperationFails checks that an attempt is counted once if its pick or
// the opening of its stream fails, though gRPC-Go begins the next one twice.
func TestFirstOperationFails(t *testing.T) {
	alone := map[string]any{"skipClustersWithoutHosts": false}
	for _, tc := range []struct {
		name      string
		first     func(*testkit.Cluster) // changes the first cluster
		policy    map[string]any
		retryable []string
	}{
		{"no host", func(c *testkit.Cluster) { c.Target = "passthrough:///" + testkit.ClosedPort }, alone, []string{"UNAVAILABLE"}},
		{"headers that the server does not take", func(*testkit.Cluster) {}, nil, []string{"INTERNAL", "UNAVAILABLE"}},
	} {
		for _, kind := range rpcKinds {
			t.Run(tc.name+"/"+kind.name, func(t *testing.T) {
				t.Parallel()
				backends := append([]*testkit.Backend{testkit.Start(t, "small", grpc.MaxHeaderListSize(1000))}, startScripted(t, "U OK")...)
				clusters := patient(backends)
				tc.first(&clusters[0])
				cc := dial(t, testkit.Service{Clusters: clusters, Attempts: 3, Retryable: tc.retryable, More: tc.policy})
				ctx := metadata.AppendToOutgoingContext(testkit.Context(t), "large", strings.Repeat("x", 2000))
				checkError(t, kind.call(ctx, cc), codes.OK)
				if got := testkit.Counts(backends...); got != "0/1/1" {
					t.Errorf("calls %s: want 0/1/1", got)
				}
			})
		}
	}
}

// failingPicker is a child policy's picker that counts its picks, which fail.
type failingPicker struct{ picks *atomic.Int32 }

func (p failingPicker) Pick(balancer.PickInfo) (balancer.PickResult, error) {
	p.picks.Add(1)
	return balancer.PickResult{}, errors.New("the child cannot pick")
}

// TestFailedPickIsNotRepeated checks that an attempt goes on to another cluster
// when a child's pick fails, past all entries of the same name.
func TestFailedPickIsNotRepeated(t *testing.T) {
	t.Parallel()
	var picks atomic.Int32
	policy := testkit.NewPolicy(t)
	policy.OnUpdate = func(c *testkit.PolicyChild, _ balancer.ClientConnState) error {
		c.ReportPicker(connectivity.Ready, failingPicker{&picks})
		return nil
	}
	backends := startScripted(t, "OK OK")
	clusters := patient(backends)
	clusters[0].More = map[string]any{"childPolicy": policy.Config()}
	cc := dial(t, testkit.Service{Clusters: relist(clusters, "a a b a")})
	testkit.AwaitServer(t, cc, "b")
	picks.Store(0)
	if got, err := testkit.Unary(testkit.Context(t), cc); got != "b" || picks.Load() != 1 {
		t.Errorf("answer from %q (%v) after %d failed picks: want b after 1", got, err, picks.Load())
	}
}

// TestLimits checks how many attempts dial options allow.
func TestLimits(t *testing.T) {
	last := map[string]any{"overflow": "USE_LAST_CLUSTER"}
	for _, tc := range []struct {
		name     string
		servers  string
		attempts int
		policy   map[string]any
		opts     []grpc.DialOption
		counts   string
		code     codes.Code
	}{
		{"64 attempts", "U", 64, last, nil, "64", codes.Unavailable},
		{"not more than 64", "U", 70, last, nil, "64", codes.Unavailable},
		{"the user's limit after DialOptions", "U U U OK", 4, nil, []grpc.DialOption{grpc.WithMaxCallAttempts(3)}, "1/1/1/0", codes.Unavailable},
		{"a higher one", "U", 70, last, []grpc.DialOption{grpc.WithMaxCallAttempts(66)}, "66", codes.Unavailable},
		{"retries disabled", "U OK", 3, nil, []grpc.DialOption{grpc.WithDisableRetry()}, "1/0", codes.Unavailable},
		{"dial options given twice", "U U OK", 3, nil, composite.DialOptions(), "1/1/1", codes.OK},
	} {
		for _, kind := range rpcKinds {
			t.Run(tc.name+"/"+kind.name, func(t *testing.T) {
				t.Parallel()
				backends := startScripted(t, tc.servers)
				cc := dial(t, testkit.Service{Clusters: patient(backends), Attempts: tc.attempts, More: tc.policy}, tc.opts...)
				checkError(t, kind.call(testkit.Context(t), cc), tc.code)
				if got := testkit.Counts(backends...); got != tc.counts {
					t.Errorf("calls %s: want %s", got, tc.counts)
				}
			})
		}
	}
}

// TestConcurrentRPCs has many RPCs share one context, and checks that each is
// counted for itself.
func TestConcurrentRPCs(t *testing.T) {
	const callers, rpcs = 64, 200
	backends := startScripted(t, "U OK OK")
	cc := dial(t, testkit.Service{Clusters: patient(backends), Attempts: 3})
	// More than a test's usual patience: under the race detector this is long.
	ctx, cancel := context.WithTimeout(context.Background(), 10*testkit.Patience)
	defer cancel()
	var wg sync.WaitGroup
	for range callers {
		wg.Go(func() {
			for range rpcs {
				if got, err := testkit.Unary(ctx, cc); got != "b" {
					t.Errorf("answer from %q (%v): want b", got, err)
					return
				}
			}
		})
	}
	wg.Wait()
	all := strconv.Itoa(callers * rpcs)
	if got, want := testkit.Counts(backends...), all+"/"+all+"/0"; got != want {
		t.Errorf("calls %s: want %s", got, want)
	}
}

// TestExhaustedList checks that the error for a list without a host names each
// cluster that the attempt looked at, and why it was passed over.
func TestExhaustedList(t *testing.T) {
	hole, _ := testkit.BlackHole(t)
	closed := testkit.ClosedPort
	connectTimeout := 50 * time.Millisecond
	clusters := []testkit.Cluster{
		{Name: "refuses", Target: "passthrough:///" + closed},
		{Name: "empty", Target: testkit.EmptyTarget},
		{Name: "hangs", Target: "passthrough:///" + hole, More: map[string]any{"connectTimeout": "0.05s"}},
	}
	all := []string{
		"refuses skipped: transient failure", closed, "connection refused",
		"empty skipped: no endpoints",
		"hangs skipped: connect timeout after " + connectTimeout.String(),
	}
	for _, tc := range []struct {
		name    string
		start   int
		policy  map[string]any
		parts   []string
		without string
	}{
		{"from the first cluster", 1, nil, append([]string{"attempt 1", "no host available (no_healthy_upstream)"}, all...), "past the end"},
		{"from the second", 2, nil, append([]string{"attempt 2", "no host available (no_healthy_upstream)"}, all[3:]...), "refuses"},
		{"without skipping", 2, map[string]any{"skipClustersWithoutHosts": false}, []string{"attempt 2", "empty skipped: no endpoints"}, "hangs"},
		{"when the request fails", 1, map[string]any{"noHost": "FAIL_REQUEST"}, append([]string{"attempt 1", "no host available (no_healthy_upstream)"}, all...), "past the end"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			cc := dial(t, testkit.Service{Clusters: clusters, More: tc.policy})
			_, err := testkit.Unary(composite.WithAttempt(testkit.Context(t), tc.start), cc)
			checkError(t, err, codes.Unavailable, tc.parts...)
			if strings.Contains(err.Error(), tc.without) {
				t.Errorf("error %q: want no %q in it", err, tc.without)
			}
		})
	}
}
