package main

import (
	"context"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/failsafe-go/failsafe-go"
	"github.com/failsafe-go/failsafe-go/retrypolicy"
	"github.com/grpc-ecosystem/go-grpc-middleware/v2/interceptors/retry"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/grpc-composite/grpc-composite/internal/testkit"
)

// jitter is by how much a back-off differs from what it is said to be, up or down,
// as with gRPC-Go's own.
const jitter = 0.2

// channels has a channel for each cluster, in the order of attempts.
type channels []*grpc.ClientConn

func dialAll(t testing.TB, s setup) channels {
	t.Helper()
	var ccs channels
	for _, addr := range s.addrs {
		ccs = append(ccs, testkit.Dial(t, target(addr)))
	}
	return ccs
}

// at is the channel of an attempt, which counts from 0.
func (ccs channels) at(attempt int) *grpc.ClientConn { return ccs[min(attempt, len(ccs)-1)] }

// loop tries one channel after the other. Streams move on if they cannot be opened.
type loop struct {
	channels
	backoff time.Duration
}

func newLoop(t testing.TB, s setup) grpc.ClientConnInterface {
	t.Helper()
	return &loop{dialAll(t, s), s.backoff}
}

func (l *loop) Invoke(ctx context.Context, method string, args, reply any, opts ...grpc.CallOption) (err error) {
	for i, cc := range l.channels {
		if i > 0 && l.backoff > 0 {
			if err := pause(ctx, l.backoff); err != nil {
				return err
			}
		}
		if err = cc.Invoke(ctx, method, args, reply, opts...); status.Code(err) != codes.Unavailable {
			break
		}
	}
	return err
}

func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(time.Duration(float64(d) * (1 - jitter + 2*jitter*rand.Float64()))) //nolint:gosec // nobody guesses
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return status.FromContextError(ctx.Err()).Err()
	}
}

func (l *loop) NewStream(ctx context.Context, desc *grpc.StreamDesc, method string, opts ...grpc.CallOption) (stream grpc.ClientStream, err error) {
	for _, cc := range l.channels {
		if stream, err = cc.NewStream(ctx, desc, method, opts...); status.Code(err) != codes.Unavailable {
			break
		}
	}
	return stream, err
}

// middleware is go-grpc-middleware's retry, which may be given any invoker: this one
// takes another channel each time.
type middleware struct {
	channels
	unary  grpc.UnaryClientInterceptor
	stream grpc.StreamClientInterceptor
}

func newMiddleware(t testing.TB, s setup) grpc.ClientConnInterface {
	t.Helper()
	opts := []retry.CallOption{
		retry.WithMax(uint(len(s.addrs))),
		retry.WithCodes(codes.Unavailable),
		retry.WithBackoff(retry.BackoffLinearWithJitter(s.backoff, jitter)),
	}
	return &middleware{dialAll(t, s), retry.UnaryClientInterceptor(opts...), retry.StreamClientInterceptor(opts...)}
}

func (m *middleware) Invoke(ctx context.Context, method string, args, reply any, opts ...grpc.CallOption) error {
	next := 0
	invoker := func(ctx context.Context, method string, req, reply any, _ *grpc.ClientConn, opts ...grpc.CallOption) error {
		cc := m.at(next)
		next++
		return cc.Invoke(ctx, method, req, reply, opts...)
	}
	return m.unary(ctx, method, args, reply, m.at(0), invoker, opts...)
}

func (m *middleware) NewStream(ctx context.Context, desc *grpc.StreamDesc, method string, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	next := 0
	streamer := func(ctx context.Context, desc *grpc.StreamDesc, _ *grpc.ClientConn, method string, opts ...grpc.CallOption) (grpc.ClientStream, error) {
		cc := m.at(next)
		next++
		return cc.NewStream(ctx, desc, method, opts...)
	}
	return m.stream(ctx, desc, m.at(0), method, streamer, opts...)
}

// failsafeRetry is failsafe-go's retry policy around a choice of channel by the
// attempt's number.
type failsafeRetry struct {
	channels
	executor failsafe.Executor[any]
}

func newFailsafe(t testing.TB, s setup) grpc.ClientConnInterface {
	t.Helper()
	policy := retrypolicy.NewBuilder[any]().
		HandleIf(func(_ any, err error) bool { return status.Code(err) == codes.Unavailable }).
		WithMaxAttempts(len(s.addrs)).
		ReturnLastFailure()
	if s.backoff > 0 {
		policy = policy.WithDelay(s.backoff).WithJitterFactor(jitter)
	}
	return &failsafeRetry{dialAll(t, s), failsafe.With[any](policy.Build())}
}

func (f *failsafeRetry) Invoke(ctx context.Context, method string, args, reply any, opts ...grpc.CallOption) error {
	return f.executor.WithContext(ctx).RunWithExecution(func(e failsafe.Execution[any]) error {
		return f.at(e.Retries()).Invoke(e.Context(), method, args, reply, opts...)
	})
}

// NewStream gives streams the caller's context, since that of an attempt may end with it.
func (f *failsafeRetry) NewStream(ctx context.Context, desc *grpc.StreamDesc, method string, opts ...grpc.CallOption) (stream grpc.ClientStream, err error) {
	err = f.executor.WithContext(ctx).RunWithExecution(func(e failsafe.Execution[any]) (err error) {
		stream, err = f.at(e.Retries()).NewStream(ctx, desc, method, opts...)
		return err
	})
	return stream, err
}
