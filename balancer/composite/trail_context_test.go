package composite_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/balancer"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/stats"

	"github.com/grpc-composite/grpc-composite/balancer/composite"
	"github.com/grpc-composite/grpc-composite/internal/testkit"
)

// witness notes which attempt those see that gRPC calls within one: a stats handler,
// call credentials and a child policy's picker.
type witness struct {
	mu   sync.Mutex
	seen []string
}

var (
	_ stats.Handler                 = (*witness)(nil)
	_ credentials.PerRPCCredentials = (*witness)(nil)
	_ balancer.Picker               = (*witness)(nil)
)

func (w *witness) note(ctx context.Context, who string) {
	text := who + ": none"
	if a, ok := composite.AttemptFromContext(ctx); ok {
		text = fmt.Sprintf("%s: %d %s", who, a.Number, a.Cluster)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.seen = append(w.seen, text)
}

func (w *witness) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context {
	w.note(ctx, "tag")
	return ctx
}

func (w *witness) HandleRPC(ctx context.Context, e stats.RPCStats) {
	switch e.(type) {
	case *stats.Begin:
		w.note(ctx, "begin")
	case *stats.OutHeader:
		w.note(ctx, "sent")
	case *stats.InHeader:
		w.note(ctx, "header")
	case *stats.End:
		w.note(ctx, "end")
	}
}

func (*witness) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }

func (*witness) HandleConn(context.Context, stats.ConnStats) {}

func (w *witness) GetRequestMetadata(ctx context.Context, _ ...string) (map[string]string, error) {
	w.note(ctx, "token")
	return nil, nil
}

func (*witness) RequireTransportSecurity() bool { return false }

// Pick always fails, so that the attempt goes on.
func (w *witness) Pick(info balancer.PickInfo) (balancer.PickResult, error) {
	w.note(info.Ctx, "pick")
	return balancer.PickResult{}, fmt.Errorf("nothing here")
}

// TestAttemptFromContext checks what is known of an attempt from within it, moment
// by moment.
func TestAttemptFromContext(t *testing.T) {
	tracked := []string{
		"tag: none", "begin: 1 ", "pick: 1 p", "token: 1 b", "sent: 1 b", "end: 1 b",
		"tag: none", "begin: 2 ", "token: 2 b", "sent: 2 b", "end: 2 b",
		"tag: none", "begin: 3 ", "token: 3 c", "sent: 3 c", "header: 3 c", "end: 3 c",
	}
	none := []string{"tag: none", "begin: none", "token: none", "sent: none", "end: none"}
	for _, tc := range []struct {
		name      string
		composite bool
		opts      []grpc.DialOption
		want      []string
	}{
		{"on a composite channel", true, composite.DialOptions(), tracked},
		{"without dial options", false, nil, none},
		{"with another policy", false, composite.DialOptions(), []string{"tag: none", "begin: 1 ", "token: 1 ", "sent: 1 ", "end: 1 "}},
	} {
		for _, kind := range rpcKinds {
			t.Run(tc.name+"/"+kind.name, func(t *testing.T) {
				t.Parallel()
				w := &witness{}
				backends := startAll(t, "b", "c")
				backends[0].Script(testkit.U)
				target, config := backends[0].Target(), roundRobin
				if tc.composite {
					p, _ := policyCluster(t, "p", w)
					target = "composite:///"
					config = testkit.Service{Clusters: append([]testkit.Cluster{p}, testkit.Clusters(backends...)...), Attempts: 3}.JSON()
				}
				cc := testkit.Dial(t, target, append(slices.Clip(tc.opts), grpc.WithDefaultServiceConfig(config), grpc.WithStatsHandler(w), grpc.WithPerRPCCredentials(w))...)
				// Whatever the first RPC waits for, connected is everyone then.
				_ = kind.call(testkit.Context(t), cc)
				w.mu.Lock()
				w.seen = nil
				w.mu.Unlock()
				_ = kind.call(testkit.Context(t), cc)
				w.mu.Lock()
				defer w.mu.Unlock()
				if !slices.Equal(w.seen, tc.want) {
					t.Errorf("seen %q\nwant %q", w.seen, tc.want)
				}
			})
		}
	}
}

// TestAttemptThatFoundNone checks that an attempt which found no host belongs to no
// cluster, though it asked one.
func TestAttemptThatFoundNone(t *testing.T) {
	t.Parallel()
	w := &witness{}
	p, _ := policyCluster(t, "p", w)
	cc := dial(t, testkit.Service{Clusters: []testkit.Cluster{p}}, grpc.WithStatsHandler(w))
	trail, _ := record(testkit.Context(t), t, cc, unaryRPC)
	checkStory(t, trail, "1 - Unavailable unsent past p:pick_error")
	if last := w.seen[len(w.seen)-1]; last != "end: 1 " {
		t.Errorf("at its end the attempt is %q: want no cluster", last)
	}
}
