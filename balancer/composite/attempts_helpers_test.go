package composite

import (
	"context"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/stats"

	"github.com/grpc-composite/grpc-composite/internal/attempt"
)

// openRPC returns the context of an RPC as its streams get it.
func openRPC(ctx context.Context, t testing.TB) (rpc context.Context) {
	t.Helper()
	err := (&attempt.Interceptors{}).Unary()(ctx, "", nil, nil, nil, func(ctx context.Context, _ string, _, _ any, _ *grpc.ClientConn, _ ...grpc.CallOption) error {
		rpc = ctx
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return rpc
}

// beginAttempt begins the next attempt of a stream, of an RPC that waits for ready or
// not. It is the context that a picker gets.
func beginAttempt(stream context.Context, wait bool) *attempt.Attempt {
	h := attempt.StatsHandler()
	ctx := h.TagRPC(stream, &stats.RPCTagInfo{FailFast: !wait})
	h.HandleRPC(ctx, &stats.Begin{Client: true})
	return attempt.FromContext(ctx)
}

// attemptIn is the first attempt of an RPC that is made in ctx.
func attemptIn(ctx context.Context, t testing.TB) context.Context {
	t.Helper()
	return beginAttempt(openRPC(ctx, t), false)
}

// firstAttempt is the first attempt of an RPC.
func firstAttempt(t testing.TB) context.Context {
	t.Helper()
	return attemptIn(context.Background(), t)
}

// attemptOf is the attempt with a number, of an RPC that waits for ready or not.
func attemptOf(t testing.TB, number int, wait bool) context.Context {
	t.Helper()
	return beginAttempt(openRPC(WithAttempt(context.Background(), number), t), wait)
}
