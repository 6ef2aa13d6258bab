package composite_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/balancer"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	testpb "google.golang.org/grpc/interop/grpc_testing"

	"github.com/grpc-composite/grpc-composite/internal/testkit"
)

// onePicker picks the same connection whatever its state.
type onePicker struct{ sc balancer.SubConn }

func (p onePicker) Pick(balancer.PickInfo) (balancer.PickResult, error) {
	return balancer.PickResult{SubConn: p.sc}, nil
}

// TestTimeoutOfAnotherPick checks that an attempt which is picked for again has
// the limit of the cluster that it goes to in the end, from then on. The second
// attempt goes to the same cluster, which is the second of the list.
func TestTimeoutOfAnotherPick(t *testing.T) {
	for _, tc := range []struct {
		name   string
		limits [2]time.Duration // of the cluster picked first, and of the next; 0: none
		reply  testkit.Reply    // of the next
		want   string
	}{
		{"from a limit to none", [2]time.Duration{100 * time.Millisecond, 0}, testkit.Reply{Delay: time.Second}, "1.05s 1/0 OK"},
		{"from a limit to none, hung", [2]time.Duration{100 * time.Millisecond, 0}, hang, "1m0s 1/0 DeadlineExceeded"},
		{"from a limit to a longer one", [2]time.Duration{100 * time.Millisecond, time.Second}, hang, "2.05s 2/1 OK"},
		{"from a limit to a shorter one", [2]time.Duration{time.Second, 100 * time.Millisecond}, hang, "250ms 2/1 OK"},
		{"from no limit to one", [2]time.Duration{0, 100 * time.Millisecond}, hang, "250ms 2/1 OK"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				net := newBubbleNet()
				next, last := net.start(t, "next"), net.start(t, "last")
				next.Script(tc.reply)
				// The first cluster picks a connection that is not ready, as happens
				// when a connection is lost at that moment.
				first := testkit.NewPolicy(t)
				first.OnUpdate = func(c *testkit.PolicyChild, s balancer.ClientConnState) error {
					sc, err := c.CC.NewSubConn(s.ResolverState.Endpoints[0].Addresses, balancer.NewSubConnOptions{StateListener: func(balancer.SubConnState) {}})
					c.ReportPicker(connectivity.Ready, onePicker{sc})
					return err
				}
				clusters := append([]testkit.Cluster{
					{Name: "first", Target: "passthrough:///first", More: map[string]any{"childPolicy": first.Config()}},
				}, testkit.Clusters(next, last)...)
				for i, limit := range tc.limits {
					if limit > 0 {
						clusters[i] = timed(limit, clusters[i])[0]
					}
				}
				cc := net.dial(t, goingOn(clusters...))
				time.AfterFunc(50*time.Millisecond, func() {
					first.Child(t, 0).Report(connectivity.TransientFailure, balancer.ErrNoSubConnAvailable)
				})
				if got, err := outcome(t, unaryRPC, cc, next, last); got != tc.want {
					t.Errorf("%s (%v): want %s", got, err, tc.want)
				}
			})
		})
	}
}

// TestTimeoutsOfNestedPolicies checks that of the limits of policies inside each
// other the shorter one holds.
func TestTimeoutsOfNestedPolicies(t *testing.T) {
	type fields = map[string]any
	for _, tc := range []struct {
		name         string
		outer, inner fields
		want         string
		words        string
	}{
		{"the inner one is shorter", fields{"attemptTimeout": "0.2s"}, fields{"attemptTimeout": "0.1s"}, "100ms 1 DeadlineExceeded", `cluster "inner" took longer than its attemptTimeout of 100ms`},
		{"the outer one is shorter", fields{"attemptTimeout": "0.1s"}, fields{"attemptTimeout": "0.2s"}, "100ms 1 DeadlineExceeded", `cluster "outer" took longer than its attemptTimeout of 100ms`},
		{"only the inner one", fields{}, fields{"attemptTimeout": "0.1s"}, "100ms 1 DeadlineExceeded", `cluster "inner" took longer`},
		{"only the inner one, in a cluster with other guards", fields{"maxRequests": 1}, fields{"attemptTimeout": "0.1s"}, "100ms 1 DeadlineExceeded", `cluster "inner" took longer`},
		{"only the outer one", fields{"attemptTimeout": "0.1s"}, fields{}, "100ms 1 DeadlineExceeded", `cluster "outer" took longer`},
		{"only other guards", fields{"maxRequests": 1}, fields{"maxRequests": 1}, "1m0s 1 DeadlineExceeded", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				net := newBubbleNet()
				hung := net.start(t, "hung")
				hung.Script(hang)
				outer := nested("outer", testkit.Service{Clusters: []testkit.Cluster{{Name: "inner", Target: hung.Target(), More: tc.inner}}})
				for k, v := range tc.outer {
					outer.More[k] = v
				}
				got, err := outcome(t, unaryRPC, net.dial(t, testkit.Service{Clusters: []testkit.Cluster{outer}}), hung)
				if got != tc.want {
					t.Errorf("%s (%v): want %s", got, err, tc.want)
				}
				checkMessage(t, err, codes.DeadlineExceeded, tc.words, "")
			})
		})
	}
}

// TestTimeoutCountsFromThePick checks that an attempt that waits for a cluster to
// connect is not cut for that.
func TestTimeoutCountsFromThePick(t *testing.T) {
	for _, tc := range []struct {
		name  string
		reply testkit.Reply
		opts  []grpc.CallOption
		want  string
	}{
		{"then it is answered", testkit.OK, nil, "1s 1/0 OK"},
		{"then the server hangs", hang, nil, "1.1s 1/1 OK"},
		{"then the server hangs, wait-for-ready", hang, []grpc.CallOption{grpc.WaitForReady(true)}, "1.1s 1/1 OK"},
	} {
		for _, kind := range fourKinds {
			t.Run(tc.name+", "+kind.name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					net := newBubbleNet()
					net.dialing = time.Second
					a, b := net.start(t, "a"), net.start(t, "b")
					a.Script(tc.reply)
					cc := net.dial(t, goingOn(timed(100*time.Millisecond, testkit.Clusters(a, b)...)...), grpc.WithDefaultCallOptions(tc.opts...))
					if got, err := outcome(t, kind.call, cc, a, b); got != tc.want {
						t.Errorf("%s (%v): want %s", got, err, tc.want)
					}
				})
			})
		}
	}
}

// takeOnlyStream opens a stream to the first cluster of a channel, whose server
// allows no other beside it.
func takeOnlyStream(t *testing.T, cc *grpc.ClientConn, first *testkit.Backend) {
	t.Helper()
	first.Script(testkit.Reply{Headers: true})
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	stream, err := testpb.NewTestServiceClient(cc).FullDuplexCall(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if md, _ := stream.Header(); len(md["from"]) != 1 || md["from"][0] != first.Name {
		t.Fatalf("the stream's headers are %v: want one from %s", md, first.Name)
	}
	first.Script(testkit.OK)
}

// TestTimeoutAtStreamLimit checks that the time in gRPC-Go's queue counts, in
// which an RPC waits if its server takes no more streams.
func TestTimeoutAtStreamLimit(t *testing.T) {
	for _, kind := range rpcKinds {
		t.Run(kind.name, func(t *testing.T) {
			t.Parallel()
			backends := append([]*testkit.Backend{testkit.Start(t, "a", grpc.MaxConcurrentStreams(1))}, startAll(t, "b", "c")...)
			clusters := testkit.Clusters(backends...)
			cc := dial(t, goingOn(append(timed(cutAfter, clusters[0]), timed(inTime, clusters[1:]...)...)...))
			takeOnlyStream(t, cc, backends[0])
			start := time.Now()
			checkError(t, kind.call(testkit.Context(t), cc), codes.OK)
			if took := time.Since(start); took < cutAfter || took > testkit.Patience/2 {
				t.Errorf("it took %v: want little more than %v", took, cutAfter)
			}
			if got := testkit.Counts(backends...); got != "0/1/0" {
				t.Errorf("calls %s: want 0/1/0", got)
			}
		})
	}
}

// TestTimeoutTimesAtStreamLimit checks the same for all kinds of RPC, with
// somebody who derives contexts: gRPC-Go begins the second attempt twice then.
// An RPC whose client streams has not even begun to send when it waits, and so
// its time does not run yet.
func TestTimeoutTimesAtStreamLimit(t *testing.T) {
	for _, tc := range []struct {
		name string
		call rpc
		want string
	}{
		{"unary", unaryRPC, "100ms 0/1/0 OK"},
		{"server streaming", download, "100ms 0/1/0 OK"},
		{"client streaming", upload, "1m0s 0/0/0 DeadlineExceeded"},
		{"bidi", bidiRPC, "1m0s 0/0/0 DeadlineExceeded"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				net, derived := newBubbleNet(), &deriving{}
				backends := []*testkit.Backend{net.start(t, "a", grpc.MaxConcurrentStreams(1)), net.start(t, "b"), net.start(t, "c")}
				clusters := timed(100*time.Millisecond, testkit.Clusters(backends...)...)
				cc := net.dial(t, goingOn(clusters...), grpc.WithStatsHandler(derived))
				takeOnlyStream(t, cc, backends[0])
				if got, err := outcome(t, tc.call, cc, backends...); got != tc.want {
					t.Errorf("%s (%v): want %s", got, err, tc.want)
				}
				_ = cc.Close()
				derived.goroutines.Wait()
			})
		})
	}
}
