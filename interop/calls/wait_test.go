package calls

import (
	"context"
	"testing"
	"time"

	"github.com/grpc-ecosystem/go-grpc-middleware/v2/interceptors/timeout"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/status"

	"github.com/grpc-composite/grpc-composite/balancer/composite"
	"github.com/grpc-composite/grpc-composite/internal/testkit"
)

// waysToWait are the ways to make RPCs wait for ready.
var waysToWait = map[string]struct {
	service testkit.Service
	channel []grpc.DialOption
	call    []grpc.CallOption
}{
	"by the call":           {call: []grpc.CallOption{grpc.WaitForReady(true)}},
	"by the channel":        {channel: []grpc.DialOption{grpc.WithDefaultCallOptions(grpc.WaitForReady(true))}},
	"by the service config": {service: testkit.Service{Other: map[string]any{"methodConfig": []any{map[string]any{"name": []any{map[string]any{}}, "waitForReady": true}}}}},
}

// TestWaitForReady has RPCs that wait while no cluster has a host, and are
// answered by the one that is there first, in their first attempt.
func TestWaitForReady(t *testing.T) {
	for way, w := range waysToWait {
		for sort, call := range calls {
			t.Run(way+"/"+sort, func(t *testing.T) {
				t.Parallel()
				servers := backends(t, testkit.OK, testkit.OK)
				s := w.service
				s.Clusters = testkit.Clusters(servers...)
				for _, b := range servers {
					b.Stop()
				}
				cc := dial(t, s, w.channel...)
				cc.Connect()
				testkit.AwaitState(t, cc, connectivity.TransientFailure)
				var trail composite.Trail
				done := make(chan error, 1)
				go func() {
					done <- call(testkit.Context(t), cc, 1, append(w.call, composite.RecordTrail(&trail))...)
				}()
				servers[1].Restart(t)
				if err := <-done; err != nil {
					t.Fatal(err)
				}
				wantStory(t, trail, "1 b OK committed past a")
			})
		}
	}
}

// TestWaitForReadyRetries has an RPC that waits, and whose first attempt fails: its
// second attempt waits for what is left.
func TestWaitForReadyRetries(t *testing.T) {
	for sort, call := range calls {
		t.Run(sort, func(t *testing.T) {
			t.Parallel()
			servers := backends(t, testkit.U, testkit.OK)
			servers[1].Stop()
			cc := dial(t, testkit.Service{Clusters: testkit.Clusters(servers...), Attempts: 2})
			testkit.Eventually(t, "the second cluster has no host", func() bool {
				var trail composite.Trail
				_ = call(testkit.Context(t), cc, 1, composite.RecordTrail(&trail))
				last := trail.Attempts[len(trail.Attempts)-1]
				return last.Number == 2 && last.Cluster == ""
			})
			servers[0].Script(testkit.U)
			var trail composite.Trail
			done := make(chan error, 1)
			go func() {
				done <- call(testkit.Context(t), cc, 1, grpc.WaitForReady(true), composite.RecordTrail(&trail))
			}()
			testkit.Eventually(t, "the first attempt", func() bool { return servers[0].Count() > 0 })
			servers[1].Restart(t)
			if err := <-done; err != nil {
				t.Fatal(err)
			}
			if a := trail.Attempts; len(a) != 2 || a[1].Number != 2 || a[1].Cluster != "b" {
				t.Errorf("trail %v: want a second attempt on b", a)
			}
		})
	}
}

// TestTimeoutInterceptorEndsTheWait has go-grpc-middleware's timeout before and
// after DialOptions: either way it bounds all attempts and the wait.
func TestTimeoutInterceptorEndsTheWait(t *testing.T) {
	limit := grpc.WithChainUnaryInterceptor(timeout.UnaryClientInterceptor(50 * time.Millisecond))
	for name, around := range map[string][2][]grpc.DialOption{
		"before": {{limit}, nil},
		"after":  {nil, {limit}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			service := testkit.Service{Clusters: []testkit.Cluster{{Name: "a", Target: "passthrough:///" + testkit.ClosedPort}}}
			opts := append(append(around[0], composite.DialOptions()...), around[1]...)
			cc := testkit.Dial(t, "composite:///", append(opts, grpc.WithDefaultServiceConfig(service.JSON()))...)
			var trail composite.Trail
			_, err := testkit.Unary(context.Background(), cc, grpc.WaitForReady(true), composite.RecordTrail(&trail))
			if status.Code(err) != codes.DeadlineExceeded {
				t.Errorf("error %v: want DEADLINE_EXCEEDED", err)
			}
			if a := trail.Attempts; len(a) != 1 || a[0].Number != 1 || a[0].Code != codes.DeadlineExceeded {
				t.Errorf("trail %v: want one attempt that ran into the deadline", a)
			}
		})
	}
}
