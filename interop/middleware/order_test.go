package middleware

import (
	"slices"
	"testing"
	"time"

	"github.com/grpc-ecosystem/go-grpc-middleware/v2/interceptors/logging"
	"github.com/grpc-ecosystem/go-grpc-middleware/v2/interceptors/retry"
	"github.com/grpc-ecosystem/go-grpc-middleware/v2/interceptors/timeout"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/grpc-composite/grpc-composite/balancer/composite"
	"github.com/grpc-composite/grpc-composite/internal/testkit"
	"github.com/grpc-composite/grpc-composite/interop/internal/observe"
)

// TestAttemptNumbers checks which attempts RPCs make, and where, with interceptors
// before and after DialOptions, and with the retry policy of the service config
// besides.
func TestAttemptNumbers(t *testing.T) {
	retries := retrying(retry.WithMax(3))
	// WithCodes never matches DEADLINE_EXCEEDED.
	always := retrying(retry.WithMax(3), retry.WithRetriable(func(error) bool { return true }))
	timed := retrying(retry.WithMax(3), retry.WithPerRetryTimeout(500*time.Millisecond))
	twice := retrying(retry.WithMax(2))
	outermost := []grpc.DialOption{
		grpc.WithUnaryInterceptor(retry.UnaryClientInterceptor(retryOptions()...)),
		grpc.WithStreamInterceptor(retry.StreamClientInterceptor(retryOptions()...)),
	}
	loggers := []grpc.DialOption{
		grpc.WithChainUnaryInterceptor(logging.UnaryClientInterceptor(&logs{})),
		grpc.WithChainStreamInterceptor(logging.StreamClientInterceptor(&logs{})),
	}
	limit := func(d time.Duration) []grpc.DialOption {
		return []grpc.DialOption{grpc.WithChainUnaryInterceptor(timeout.UnaryClientInterceptor(d))}
	}
	short, long := limit(500*time.Millisecond), limit(testkit.Patience)
	u, ok, hang := testkit.U, testkit.OK, testkit.Reply{Hang: true}

	for _, tc := range []struct {
		name          string
		before, after []grpc.DialOption
		policy        int // attempts of the retry policy
		servers       []testkit.Reply
		attempts      string
		code          codes.Code
		unaryOnly     bool
	}{
		{name: "retry before", before: retries, servers: []testkit.Reply{u, u, ok}, attempts: "1 a, 1 a, 1 a", code: codes.Unavailable},
		{name: "retry after", after: retries, servers: []testkit.Reply{u, u, ok}, attempts: "1 a, 2 b, 3 c"},
		{name: "retry by WithUnaryInterceptor is before", after: outermost, servers: []testkit.Reply{u, u, ok}, attempts: "1 a, 1 a, 1 a", code: codes.Unavailable},
		{name: "retry before, with a policy", before: twice, policy: 2, servers: []testkit.Reply{u, u, ok}, attempts: "1 a, 2 b, 1 a, 2 b", code: codes.Unavailable},
		{name: "retry after, with a policy", after: twice, policy: 2, servers: []testkit.Reply{u, u, ok}, attempts: "1 a, 2 b, 3 c"},
		{name: "retry before and after", before: twice, after: twice, servers: []testkit.Reply{u, u, ok}, attempts: "1 a, 2 b, 1 a, 2 b", code: codes.Unavailable},
		{name: "retry after, past the end", after: retries, servers: []testkit.Reply{u, u}, attempts: "1 a, 2 b, 3 ", code: codes.Unavailable},

		{name: "logging before", before: loggers, policy: 3, servers: []testkit.Reply{u, u, ok}, attempts: "1 a, 2 b, 3 c"},
		{name: "logging after", after: loggers, policy: 3, servers: []testkit.Reply{u, u, ok}, attempts: "1 a, 2 b, 3 c"},

		{name: "timeout before", before: long, policy: 3, servers: []testkit.Reply{u, u, ok}, attempts: "1 a, 2 b, 3 c", unaryOnly: true},
		{name: "timeout after", after: long, policy: 3, servers: []testkit.Reply{u, u, ok}, attempts: "1 a, 2 b, 3 c", unaryOnly: true},
		{name: "timeout before runs out", before: short, policy: 2, servers: []testkit.Reply{hang, ok}, attempts: "1 a", code: codes.DeadlineExceeded, unaryOnly: true},
		{name: "timeout after runs out", after: short, policy: 2, servers: []testkit.Reply{hang, ok}, attempts: "1 a", code: codes.DeadlineExceeded, unaryOnly: true},

		{name: "retry and timeout before", before: slices.Concat(always, short), servers: []testkit.Reply{hang, ok}, attempts: "1 a, 1 a, 1 a", code: codes.DeadlineExceeded, unaryOnly: true},
		{name: "retry and timeout after", after: slices.Concat(always, short), servers: []testkit.Reply{hang, u, ok}, attempts: "1 a, 2 b, 3 c", unaryOnly: true},
		{name: "retry before, timeout after", before: always, after: short, servers: []testkit.Reply{hang, ok}, attempts: "1 a, 1 a, 1 a", code: codes.DeadlineExceeded, unaryOnly: true},
		{name: "timeout before, retry after", before: short, after: always, servers: []testkit.Reply{hang, ok}, attempts: "1 a", code: codes.DeadlineExceeded, unaryOnly: true},
		{name: "retry by codes and timeout after", after: slices.Concat(retrying(retry.WithCodes(codes.DeadlineExceeded)), short), servers: []testkit.Reply{hang, ok}, attempts: "1 a", code: codes.DeadlineExceeded, unaryOnly: true},
		{name: "retry's own timeout before", before: timed, servers: []testkit.Reply{hang, ok}, attempts: "1 a, 1 a, 1 a", code: codes.DeadlineExceeded, unaryOnly: true},
		{name: "retry's own timeout after", after: timed, servers: []testkit.Reply{hang, u, ok}, attempts: "1 a, 2 b, 3 c", unaryOnly: true},
	} {
		for _, kind := range kinds {
			if tc.unaryOnly && kind.name != "unary" {
				continue // streams have no such interceptor
			}
			t.Run(tc.name+"/"+kind.name, func(t *testing.T) {
				t.Parallel()
				var seen observe.Attempts
				backends := start(t, tc.servers...)
				service := testkit.Service{Clusters: testkit.Clusters(backends...), Attempts: tc.policy}
				opts := slices.Concat(tc.before, composite.DialOptions(), tc.after, []grpc.DialOption{
					grpc.WithDefaultServiceConfig(service.JSON()), grpc.WithStatsHandler(&seen),
				})
				err := kind.call(testkit.Context(t), testkit.Dial(t, "composite:///", opts...))
				if got := status.Code(err); got != tc.code {
					t.Errorf("error %v: want %v", err, tc.code)
				}
				if got := seen.String(); got != tc.attempts {
					t.Errorf("attempts %q: want %q", got, tc.attempts)
				}
			})
		}
	}
}
