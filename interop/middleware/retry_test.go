// Package middleware tests composite channels with the interceptors of
// go-grpc-middleware.
package middleware

import (
	"context"
	"testing"
	"time"

	"github.com/grpc-ecosystem/go-grpc-middleware/v2/interceptors/retry"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	testpb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/status"

	"github.com/grpc-composite/grpc-composite/balancer/composite"
	"github.com/grpc-composite/grpc-composite/internal/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// TestRetryInterceptor shows why DialOptions go first: retries by an interceptor
// inside ours are attempts of one RPC, while one outside makes a new RPC of each.
func TestRetryInterceptor(t *testing.T) {
	unary := grpc.WithChainUnaryInterceptor(retry.UnaryClientInterceptor(retryOptions()...))
	stream := grpc.WithChainStreamInterceptor(retry.StreamClientInterceptor(retryOptions()...))
	for _, tc := range []struct {
		name    string
		options []grpc.DialOption
		counts  string
		code    codes.Code
	}{
		{"after DialOptions each retry goes on to the next cluster", append(composite.DialOptions(), unary, stream), "1/1/1", codes.OK},
		{"before DialOptions each retry starts at the first", append([]grpc.DialOption{unary, stream}, composite.DialOptions()...), "3/0/0", codes.Unavailable},
	} {
		for kind, call := range map[string]func(context.Context, *grpc.ClientConn) error{"unary": callUnary, "server stream": callStream} {
			t.Run(tc.name+"/"+kind, func(t *testing.T) {
				t.Parallel()
				backends := []*testkit.Backend{testkit.Start(t, "a"), testkit.Start(t, "b"), testkit.Start(t, "c")}
				backends[0].Script(testkit.U)
				backends[1].Script(testkit.U)
				config := grpc.WithDefaultServiceConfig(testkit.Service{Clusters: testkit.Clusters(backends...)}.JSON())
				cc := testkit.Dial(t, "composite:///", append(tc.options, config)...)
				err := call(testkit.Context(t), cc)
				if got := status.Code(err); got != tc.code {
					t.Errorf("code %v (%v): want %v", got, err, tc.code)
				}
				if got := testkit.Counts(backends...); got != tc.counts {
					t.Errorf("calls %s: want %s", got, tc.counts)
				}
			})
		}
	}
}

func retryOptions() []retry.CallOption {
	return []retry.CallOption{
		retry.WithMax(3),
		retry.WithCodes(codes.Unavailable),
		retry.WithBackoff(retry.BackoffLinear(time.Millisecond)),
	}
}

func callUnary(ctx context.Context, cc *grpc.ClientConn) error {
	_, err := testkit.Unary(ctx, cc)
	return err
}

func callStream(ctx context.Context, cc *grpc.ClientConn) error {
	stream, err := testpb.NewTestServiceClient(cc).StreamingOutputCall(ctx, &testpb.StreamingOutputCallRequest{
		ResponseParameters: []*testpb.ResponseParameters{{Size: 1}},
	})
	if err != nil {
		return err
	}
	_, err = stream.Recv()
	return err
}
