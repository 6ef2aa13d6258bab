package calls

import (
	"context"
	"testing"
	"time"

	"github.com/grpc-ecosystem/go-grpc-middleware/v2/interceptors/retry"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/grpc-composite/grpc-composite/balancer/composite"
	"github.com/grpc-composite/grpc-composite/internal/testkit"
)

// TestDisabledRetries checks what WithDisableRetry leaves: attempt 1, which passes
// over clusters without a host, transparent retries, and what callers and
// interceptors do.
func TestDisabledRetries(t *testing.T) {
	interceptor := []grpc.DialOption{
		grpc.WithChainUnaryInterceptor(retry.UnaryClientInterceptor(retryOptions...)),
		grpc.WithChainStreamInterceptor(retry.StreamClientInterceptor(retryOptions...)),
	}
	raw := func(t *testing.T, name string, replies ...testkit.RawReply) testkit.Cluster {
		t.Helper()
		s := testkit.StartRaw(t, name, replies...)
		return testkit.Cluster{Name: name, Target: s.Target()}
	}
	scripted := func(t *testing.T, reply testkit.Reply, name string) testkit.Cluster {
		t.Helper()
		b := testkit.Start(t, name)
		b.Script(reply)
		return testkit.Clusters(b)[0]
	}
	closed := testkit.Cluster{Name: "a", Target: "passthrough:///" + testkit.ClosedPort}
	for _, tc := range []struct {
		name     string
		clusters func(t *testing.T) []testkit.Cluster
		after    []grpc.DialOption
		ctx      func(context.Context) context.Context
		code     codes.Code
		story    string
	}{
		{
			name: "the first cluster fails",
			clusters: func(t *testing.T) []testkit.Cluster {
				t.Helper()
				return []testkit.Cluster{scripted(t, testkit.U, "a"), scripted(t, testkit.OK, "b")}
			},
			code: codes.Unavailable, story: "1 a Unavailable",
		},
		{
			name: "the first cluster has no host",
			clusters: func(t *testing.T) []testkit.Cluster {
				t.Helper()
				return []testkit.Cluster{closed, scripted(t, testkit.OK, "b")}
			},
			story: "1 b OK committed past a",
		},
		{
			name: "the first cluster refuses the stream",
			clusters: func(t *testing.T) []testkit.Cluster {
				t.Helper()
				return []testkit.Cluster{raw(t, "a", testkit.RawRefuse, testkit.RawOK), scripted(t, testkit.OK, "b")}
			},
			story: "1 a repeated, 1 a OK transparent committed",
		},
		{
			name: "a retry interceptor after DialOptions",
			clusters: func(t *testing.T) []testkit.Cluster {
				t.Helper()
				return []testkit.Cluster{scripted(t, testkit.U, "a"), scripted(t, testkit.OK, "b")}
			},
			after: interceptor,
			story: "1 a Unavailable, 2 b OK committed",
		},
		{
			name: "the caller's own count",
			clusters: func(t *testing.T) []testkit.Cluster {
				t.Helper()
				return []testkit.Cluster{scripted(t, testkit.U, "a"), scripted(t, testkit.OK, "b")}
			},
			ctx:   func(ctx context.Context) context.Context { return composite.WithAttempt(ctx, 2) },
			story: "2 b OK committed",
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			cc := dial(t, testkit.Service{Clusters: tc.clusters(t), Attempts: 3}, append(tc.after, grpc.WithDisableRetry())...)
			ctx := testkit.Context(t)
			if tc.ctx != nil {
				ctx = tc.ctx(ctx)
			}
			var trail composite.Trail
			_, err := testkit.Unary(ctx, cc, composite.RecordTrail(&trail))
			if got := status.Code(err); got != tc.code {
				t.Errorf("error %v: want %v", err, tc.code)
			}
			wantStory(t, trail, tc.story)
		})
	}
}

var retryOptions = []retry.CallOption{
	retry.WithMax(3),
	retry.WithCodes(codes.Unavailable),
	retry.WithBackoff(retry.BackoffLinear(time.Millisecond)),
}
