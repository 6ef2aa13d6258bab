package differences

import (
	"context"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	testpb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/grpc-composite/grpc-composite/balancer/composite"
	"github.com/grpc-composite/grpc-composite/internal/testkit"
	"github.com/grpc-composite/grpc-composite/interop/envoy"
)

// TestAttemptPastTheList has more attempts than clusters. Envoy ends the request
// with an error of its own; here the last attempt's is the RPC's.
func TestAttemptPastTheList(t *testing.T) {
	t.Parallel()
	s := start(t, testkit.Reply{Code: codes.ResourceExhausted, Message: "slow down"})
	lost := viaEnvoy(t, s.clusters(nil), retry(2, "resource-exhausted"))
	s.check(t, "Envoy", lost, "1", codes.Unavailable, "no healthy upstream")
	if _, err := testkit.Unary(testkit.Context(t), lost); strings.Contains(err.Error(), "slow down") {
		t.Errorf("Envoy: %v: want nothing of what the server said", err)
	}

	service := s.service(3, nil)
	service.Retryable = []string{"RESOURCE_EXHAUSTED"}
	s.check(t, "ours", ours(t, service), "1", codes.ResourceExhausted, "slow down")
	service.More = map[string]any{"noHost": "FAIL_REQUEST"}
	s.check(t, "ours, Envoy's way", ours(t, service), "1", codes.Unavailable, "slow down")
}

// TestRetryConditions has the retry policy of Envoy's page on composite clusters,
// which does not cover what a gRPC server says.
func TestRetryConditions(t *testing.T) {
	t.Parallel()
	s := start(t, testkit.U, testkit.OK)
	s.check(t, "Envoy, HTTP's conditions", viaEnvoy(t, s.clusters(nil), retry(1, "5xx,gateway-error,connect-failure,refused-stream")), "1/0", codes.Unavailable, "scripted")
	s.check(t, "Envoy, gRPC's conditions", viaEnvoy(t, s.clusters(nil), retry(1, "unavailable")), "1/1", codes.OK)

	service := s.service(2, nil)
	s.check(t, "ours", ours(t, service), "1/1", codes.OK)
	service.Retryable = []string{"5xx"}
	_, err := grpc.NewClient("composite:///", append(composite.DialOptions(),
		grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithDefaultServiceConfig(service.JSON()))...)
	testkit.Contains(t, err, "5xx")
}

// TestNumRetriesLeftOut has a retry policy that does not say how often: once, in
// Envoy. A gRPC retry policy has to say it.
func TestNumRetriesLeftOut(t *testing.T) {
	t.Parallel()
	s := start(t, testkit.U, testkit.U, testkit.OK)
	s.check(t, "Envoy", viaEnvoy(t, s.clusters(nil), retry(-1, "unavailable")), "1/1/0", codes.Unavailable, "scripted")

	s.check(t, "ours, without a retry policy", ours(t, s.service(0, nil)), "1/0/0", codes.Unavailable, "scripted")
	text := strings.Replace(s.service(2, nil).JSON(), `"maxAttempts":2,`, "", 1)
	_, err := grpc.NewClient("composite:///", append(composite.DialOptions(),
		grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithDefaultServiceConfig(text))...)
	testkit.Contains(t, err, "MaxAttempts:0")
}

// TestPerTryTimeout has a first server that hangs. Envoy's limit is one for the
// route, is not covered by gRPC's conditions, and ends a call with UNAVAILABLE.
func TestPerTryTimeout(t *testing.T) {
	t.Parallel()
	const limit = 500 * time.Millisecond
	s := start(t, testkit.Reply{Hang: true}, testkit.OK)
	limited := func(on string) *envoy.Retry { return &envoy.Retry{On: on, Retries: 1, PerTryTimeout: limit} }
	s.check(t, "Envoy, gRPC's conditions", viaEnvoy(t, s.clusters(nil), limited("unavailable,deadline-exceeded")), "1/0", codes.Unavailable, "upstream request timeout")
	resetting := viaEnvoy(t, s.clusters(nil), limited("reset"))

	service := s.service(2, map[string]any{"attemptTimeout": "0.5s"})
	s.check(t, "ours", ours(t, service), "1/0", codes.DeadlineExceeded, "a")
	service.Retryable = []string{"DEADLINE_EXCEEDED"}
	own := ours(t, service)

	// The second server takes longer than the limit, which here is the first one's.
	s[1].Script(testkit.Reply{Delay: 2 * limit})
	s.check(t, "Envoy, reset", resetting, "1/1", codes.Unavailable, "upstream request timeout")
	s.check(t, "ours, retryable", own, "1/1", codes.OK)
}

// TestRefusedStream has a first server that refuses a stream before it has looked
// at it. gRPC tries again there, in the same attempt.
func TestRefusedStream(t *testing.T) {
	t.Parallel()
	s := start(t, testkit.OK)
	raw := func() (*testkit.RawServer, []envoy.Cluster) {
		r := testkit.StartRaw(t, "raw", testkit.RawRefuse, testkit.RawOK)
		return r, append([]envoy.Cluster{{Name: "raw", Hosts: []string{r.Addr}}}, s.clusters(nil)...)
	}
	r, clusters := raw()
	s.check(t, "Envoy, gRPC's conditions", viaEnvoy(t, clusters, retry(1, "unavailable,internal")), "0", codes.Unavailable)
	r2, clusters := raw()
	s.check(t, "Envoy, refused-stream", viaEnvoy(t, clusters, retry(1, "refused-stream")), "1", codes.OK)

	r3, _ := raw()
	service := s.service(2, nil)
	service.Clusters = append([]testkit.Cluster{{Name: "raw", Target: r3.Target()}}, service.Clusters...)
	s.check(t, "ours", ours(t, service), "0", codes.OK)
	if r.Streams() != 1 || r2.Streams() != 1 || r3.Streams() != 2 {
		t.Errorf("%d, %d and %d streams: want 1 and 1 in Envoy, and 2 in ours", r.Streams(), r2.Streams(), r3.Streams())
	}
}

// TestPushback has a first server that asks not to be retried.
func TestPushback(t *testing.T) {
	t.Parallel()
	a := testkit.Start(t, "a", grpc.ChainUnaryInterceptor(func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
		if err := grpc.SetTrailer(ctx, metadata.Pairs("grpc-retry-pushback-ms", "-1")); err != nil {
			return nil, err
		}
		return handler(ctx, req)
	}))
	a.Script(testkit.U)
	s := append(servers{a}, testkit.Start(t, "b"))
	s.check(t, "Envoy", viaEnvoy(t, s.clusters(nil), retry(1, "unavailable")), "1/1", codes.OK)
	s.check(t, "ours", ours(t, s.service(2, nil)), "1/0", codes.Unavailable, "scripted")
}

// TestLargeRequest has a request that is more than gRPC keeps for a retry.
func TestLargeRequest(t *testing.T) {
	t.Parallel()
	s := start(t, testkit.U, testkit.OK)
	send := func(cc grpc.ClientConnInterface, opts ...grpc.CallOption) error {
		_, err := testpb.NewTestServiceClient(cc).UnaryCall(testkit.Context(t), &testpb.SimpleRequest{
			Payload: &testpb.Payload{Body: make([]byte, 300<<10)},
		}, opts...)
		return err
	}
	if err := send(viaEnvoy(t, s.clusters(nil), retry(1, "unavailable"))); err != nil {
		t.Errorf("Envoy: %v: want the second cluster's answer", err)
	}
	cc := ours(t, s.service(2, nil))
	if err := send(cc); status.Code(err) != codes.Unavailable {
		t.Errorf("ours: %v: want UNAVAILABLE", err)
	}
	if err := send(cc, grpc.MaxRetryRPCBufferSize(1<<20)); err != nil {
		t.Errorf("ours, with a larger buffer: %v: want the second cluster's answer", err)
	}
}
