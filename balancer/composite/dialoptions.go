package composite

import (
	"context"

	"google.golang.org/grpc"

	"github.com/grpc-composite/grpc-composite/internal/attempt"
	"github.com/grpc-composite/grpc-composite/internal/plan"
)

// Option changes what [DialOptions] installs: see [LeanCounting].
type Option interface{ apply(i *attempt.Interceptors) }

// DialOptions returns what a channel needs for its attempts to be counted: a
// unary and a stream interceptor and a stats handler. Without it, every RPC on a
// channel with the policy "composite" fails with INTERNAL. On channels with
// other policies it changes nothing.
//
// Pass it to [grpc.NewClient] before any other interceptor and stats handler:
// retries by an interceptor that comes after it advance to the next cluster, as
// retries by the service config's policy do, while one that comes before it makes a
// new RPC of each retry, which starts at the first cluster again, as do RPCs that an
// interceptor makes on the channel itself. [grpc.WithUnaryInterceptor]
// and [grpc.WithStreamInterceptor] always come before; give such interceptors by
// [grpc.WithChainUnaryInterceptor] and [grpc.WithChainStreamInterceptor] instead.
// With a stats handler before it that derives a cancelable context for each
// attempt, attempts are counted wrong.
//
// It also raises gRPC-Go's limit of 5 attempts to 64; [grpc.WithMaxCallAttempts]
// after it sets another. The options may be used for any number of channels. A
// channel that gets those of two calls, as from a library too, counts once, whatever
// interceptors do between them; it must not get those of one call twice.
func DialOptions(opts ...Option) []grpc.DialOption {
	interceptors := attempt.Interceptors{Failed: withTrail, Started: startTrail}
	for _, opt := range opts {
		opt.apply(&interceptors)
	}
	dialOptions := []grpc.DialOption{
		grpc.WithChainUnaryInterceptor(interceptors.Unary()),
		grpc.WithChainStreamInterceptor(interceptors.Stream()),
		grpc.WithMaxCallAttempts(plan.MaxSlots),
	}
	if !interceptors.Lean {
		dialOptions = append(dialOptions, grpc.WithStatsHandler(attempt.StatsHandler()))
	}
	return dialOptions
}

// maxStart leaves room for any number of attempts after it.
const maxStart = 1 << 30

// WithAttempt returns a context that makes each RPC made with it start at attempt n
// instead of 1, for callers with a retry loop of their own. If n is below 1 the
// RPC fails with INTERNAL; past the end of the list, the config's overflow mode
// decides. Numbers beyond 1<<30 count as that.
//
// It holds for the first channel with [DialOptions] that the context enters, and
// no further: a call that is made while that RPC is under way, on its behalf, starts
// at 1 again.
func WithAttempt(ctx context.Context, n int) context.Context {
	return attempt.WithStart(ctx, min(n, maxStart))
}
