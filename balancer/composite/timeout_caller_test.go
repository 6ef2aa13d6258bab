package composite_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"

	"github.com/grpc-composite/grpc-composite/balancer/composite"
	"github.com/grpc-composite/grpc-composite/internal/testkit"
)

// deriving is a stats handler that derives a context for each attempt, as some
// tracing does, and has a goroutine that lives as long as that context.
type deriving struct{ goroutines sync.WaitGroup }

func (d *deriving) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context {
	ctx, cancel := context.WithCancel(ctx)
	d.goroutines.Go(func() {
		<-ctx.Done()
		cancel()
	})
	return ctx
}

func (*deriving) HandleRPC(context.Context, stats.RPCStats) {}

func (*deriving) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }

func (*deriving) HandleConn(context.Context, stats.ConnStats) {}

// derivingInterceptors give each RPC a context that can be cancelled.
func derivingInterceptors() []grpc.DialOption {
	return []grpc.DialOption{
		grpc.WithChainUnaryInterceptor(func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoker grpc.UnaryInvoker, opts ...grpc.CallOption) error {
			ctx, cancel := context.WithCancel(ctx)
			defer cancel()
			return invoker(ctx, method, req, reply, cc, opts...)
		}),
		grpc.WithChainStreamInterceptor(func(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, streamer grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
			ctx, cancel := context.WithCancel(ctx)
			return streamer(ctx, desc, cc, method, append(opts, grpc.OnFinish(func(error) { cancel() }))...)
		}),
	}
}

// neighbours are what a program may have installed beside our own interceptors
// and stats handler, before or after them.
var neighbours = []struct {
	name    string
	options func(*deriving) []grpc.DialOption
}{
	{"nothing else", func(*deriving) []grpc.DialOption { return composite.DialOptions() }},
	{"interceptors inside that derive contexts", func(*deriving) []grpc.DialOption {
		return append(composite.DialOptions(), derivingInterceptors()...)
	}},
	{"interceptors outside that derive contexts", func(*deriving) []grpc.DialOption {
		return append(derivingInterceptors(), composite.DialOptions()...)
	}},
	{"a stats handler after ours that derives contexts", func(d *deriving) []grpc.DialOption {
		return append(composite.DialOptions(), grpc.WithStatsHandler(d))
	}},
	{"a stats handler before ours that derives contexts", func(d *deriving) []grpc.DialOption {
		return append([]grpc.DialOption{grpc.WithStatsHandler(d)}, composite.DialOptions()...)
	}},
	{"stats handlers on both sides, and interceptors", func(d *deriving) []grpc.DialOption {
		opts := append(derivingInterceptors(), grpc.WithStatsHandler(d))
		opts = append(opts, composite.DialOptions()...)
		return append(append(opts, grpc.WithStatsHandler(d)), derivingInterceptors()...)
	}},
	{"dial options given twice", func(*deriving) []grpc.DialOption {
		return append(composite.DialOptions(), composite.DialOptions()...)
	}},
}

// TestTimeoutAndTheCaller checks that the caller's own cancel and deadline end an
// RPC at once and in their own words, whatever the attempt's limit, and that the
// attempt's limit holds whoever else derives contexts from its own. What was
// derived ends with the RPC at the latest.
func TestTimeoutAndTheCaller(t *testing.T) {
	const limit = 100 * time.Millisecond
	withDeadline := func(call rpc) rpc {
		return func(ctx context.Context, cc *grpc.ClientConn, opts ...grpc.CallOption) error {
			ctx, cancel := context.WithTimeout(ctx, limit/2)
			defer cancel()
			return call(ctx, cc, opts...)
		}
	}
	withCancel := func(call rpc) rpc {
		return func(ctx context.Context, cc *grpc.ClientConn, opts ...grpc.CallOption) error {
			ctx, cancel := context.WithCancel(ctx)
			defer time.AfterFunc(limit/2, cancel).Stop()
			return call(ctx, cc, opts...)
		}
	}
	for _, tc := range []struct {
		name    string
		replies [2]testkit.Reply // of a, b
		limits  [2]time.Duration
		change  func(rpc) rpc
		want    string // time, calls and code
		has     string // the status
		hasNot  string
	}{
		{name: "cancel before the limit", replies: [2]testkit.Reply{hang}, limits: [2]time.Duration{limit, limit}, change: withCancel, want: "50ms 1/0 Canceled", has: "context canceled"},
		{name: "deadline before the limit", replies: [2]testkit.Reply{hang}, limits: [2]time.Duration{limit, limit}, change: withDeadline, want: "50ms 1/0 DeadlineExceeded", hasNot: "attemptTimeout"},
		{name: "cancel in the second attempt", replies: [2]testkit.Reply{hang, hang}, limits: [2]time.Duration{20 * time.Millisecond, limit}, change: withCancel, want: "50ms 1/1 Canceled", has: "context canceled"},
		{name: "deadline in the second attempt", replies: [2]testkit.Reply{hang, hang}, limits: [2]time.Duration{20 * time.Millisecond, limit}, change: withDeadline, want: "50ms 1/1 DeadlineExceeded", hasNot: "attemptTimeout"},
		{name: "the limit", replies: [2]testkit.Reply{hang, testkit.OK}, limits: [2]time.Duration{limit, limit}, change: func(call rpc) rpc { return call }, want: "100ms 1/1 OK"},
		{name: "the limit of both", replies: [2]testkit.Reply{hang, hang}, limits: [2]time.Duration{limit, limit}, change: func(call rpc) rpc { return call }, want: "200ms 1/1 DeadlineExceeded", has: `attempt 2: cluster "b" took longer than its attemptTimeout of 100ms`},
	} {
		for _, n := range neighbours {
			for _, kind := range fourKinds {
				t.Run(tc.name+", "+n.name+", "+kind.name, func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						net, derived := newBubbleNet(), &deriving{}
						var backends []*testkit.Backend
						var clusters []testkit.Cluster
						for i, name := range []string{"a", "b"} {
							backends = append(backends, net.start(t, name))
							backends[i].Script(tc.replies[i])
							clusters = append(clusters, timed(tc.limits[i], testkit.Clusters(backends[i])...)...)
						}
						opts := append(n.options(derived), net.dialer(), grpc.WithDefaultServiceConfig(goingOn(clusters...).JSON()))
						cc := testkit.Dial(t, "composite:///", opts...)
						got, err := outcome(t, tc.change(kind.call), cc, backends...)
						if got != tc.want {
							t.Errorf("%s (%v): want %s", got, err, tc.want)
						}
						checkMessage(t, err, status.Code(err), tc.has, tc.hasNot)
						derived.goroutines.Wait()
					})
				})
			}
		}
	}
}

// TestTimeoutAndTheCallerOnLoopback checks the same for RPCs that are over long
// before the limit, on real connections.
func TestTimeoutAndTheCallerOnLoopback(t *testing.T) {
	for _, kind := range fourKinds {
		for _, tc := range []struct {
			name string
			end  func(context.Context) (context.Context, context.CancelFunc)
			code codes.Code
		}{
			{"cancel", func(ctx context.Context) (context.Context, context.CancelFunc) {
				ctx, cancel := context.WithCancel(ctx)
				time.AfterFunc(cutAfter, cancel)
				return ctx, cancel
			}, codes.Canceled},
			{"deadline", func(ctx context.Context) (context.Context, context.CancelFunc) {
				return context.WithTimeout(ctx, cutAfter)
			}, codes.DeadlineExceeded},
		} {
			t.Run(tc.name+", "+kind.name, func(t *testing.T) {
				t.Parallel()
				hung := testkit.Start(t, "hung")
				hung.Script(hang)
				cc := dial(t, goingOn(timed(testkit.Patience, testkit.Clusters(hung)...)...))
				ctx, cancel := tc.end(testkit.Context(t))
				defer cancel()
				start := time.Now()
				checkMessage(t, kind.call(ctx, cc), tc.code, "", "attemptTimeout")
				if took := time.Since(start); took > testkit.Patience/2 {
					t.Errorf("it took %v: want little more than %v", took, cutAfter)
				}
			})
		}
	}
}
