package debugz_test

import (
	"context"
	"testing"

	"google.golang.org/grpc"

	"github.com/grpc-composite/grpc-composite/balancer/composite/debugz"
	"github.com/grpc-composite/grpc-composite/internal/inspect"
	"github.com/grpc-composite/grpc-composite/internal/testkit"
)

// TestWaysPastHeldBack: where attempts would go past clusters that are held back, and
// that they do.
func TestWaysPastHeldBack(t *testing.T) {
	resting := map[string]any{"cooldown": map[string]any{"consecutiveFailures": 1, "time": "300s"}}
	for _, tc := range []struct {
		name string
		// clusters are made of two servers, a and b.
		clusters   func(t *testing.T, c []testkit.Cluster) []testkit.Cluster
		before     func(t *testing.T, cc *grpc.ClientConn, a, b *testkit.Backend)
		conditions string
		want       string
		answer     string // of the next RPC, or "" if it fails
	}{
		{
			name: "a full cluster is not used",
			clusters: func(_ *testing.T, c []testkit.Cluster) []testkit.Cluster {
				c[0].More = map[string]any{"maxRequests": 1}
				return c[:1]
			},
			before: func(t *testing.T, cc *grpc.ClientConn, a, _ *testkit.Backend) {
				t.Helper()
				a.Script(testkit.Reply{Hang: true})
				ctx, cancel := context.WithCancel(testkit.Context(t))
				done := make(chan struct{})
				go func() {
					defer close(done)
					_, _ = testkit.Unary(ctx, cc)
				}()
				t.Cleanup(func() { cancel(); <-done })
				testkit.Eventually(t, "a call of a", func() bool { return a.Count() == 1 })
			},
			conditions: "has a host [max_requests]", want: "a>", answer: "",
		},
		{
			name: "a cluster at rest is used rather than that the attempt waits",
			clusters: func(t *testing.T, c []testkit.Cluster) []testkit.Cluster {
				t.Helper()
				c[0].More = resting
				c[1], _ = connecting(t, "b")
				return c
			},
			before: func(t *testing.T, cc *grpc.ClientConn, a, _ *testkit.Backend) {
				t.Helper()
				a.Script(testkit.U, testkit.OK)
				_, _ = testkit.Unary(testkit.Context(t), cc)
			},
			conditions: "has a host [cooldown], connecting", want: "a>a, b>b?", answer: "a",
		},
		{
			name: "one that came back is used rather than one at rest",
			clusters: func(_ *testing.T, c []testkit.Cluster) []testkit.Cluster {
				c[0].More, c[1].More = resting, map[string]any{"failbackDelay": "300s"}
				return c
			},
			before: func(t *testing.T, cc *grpc.ClientConn, a, b *testkit.Backend) {
				t.Helper()
				await(t, cc.Target(), "b connects", func(c inspect.Channel) bool { return conditions(c) == "has a host, has a host" })
				b.Stop()
				await(t, cc.Target(), "b is gone", func(c inspect.Channel) bool { return conditions(c) == "has a host, no host (transient_failure)" })
				b.Restart(t)
				await(t, cc.Target(), "b is back", func(c inspect.Channel) bool { return conditions(c) == "has a host, has a host [failback_delay]" })
				a.Script(testkit.U, testkit.OK)
				_, _ = testkit.Unary(testkit.Context(t), cc)
			},
			conditions: "has a host [cooldown], has a host [failback_delay]", want: "a>b, b>b", answer: "b",
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			debugz.Handler()
			a, b := testkit.Start(t, "a"), testkit.Start(t, "b")
			cc, target := dial(t, testkit.Service{Clusters: tc.clusters(t, testkit.Clusters(a, b))})
			testkit.AwaitServer(t, cc, "a")
			tc.before(t, cc, a, b)
			c := await(t, target, tc.conditions, func(c inspect.Channel) bool { return conditions(c) == tc.conditions })
			expect(t, "ways", ways(c), tc.want)
			if got, err := testkit.Unary(testkit.Context(t), cc); got != tc.answer {
				t.Errorf("%q answers, %v: want %q", got, err, tc.answer)
			}
		})
	}
}
