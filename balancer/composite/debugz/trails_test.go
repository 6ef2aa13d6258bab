package debugz_test

import (
	"context"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/balancer"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/status"

	"github.com/grpc-composite/grpc-composite/balancer/composite"
	"github.com/grpc-composite/grpc-composite/balancer/composite/debugz"
	"github.com/grpc-composite/grpc-composite/internal/inspect"
	"github.com/grpc-composite/grpc-composite/internal/testkit"
)

// unaryInterceptor is what surrounds the RPCs of these tests.
func unaryInterceptor(f func(ctx context.Context, invoke func(context.Context, ...grpc.CallOption) error) error) grpc.DialOption {
	return grpc.WithChainUnaryInterceptor(func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoker grpc.UnaryInvoker, opts ...grpc.CallOption) error {
		return f(ctx, func(ctx context.Context, more ...grpc.CallOption) error {
			return invoker(ctx, method, req, reply, cc, append(opts, more...)...)
		})
	})
}

// connecting is a cluster that connects for ever, and tells of each pick.
func connecting(t *testing.T, name string) (c testkit.Cluster, picks <-chan struct{}) {
	t.Helper()
	policy, told := testkit.NewPolicy(t), make(chan struct{}, 1)
	policy.OnUpdate = func(c *testkit.PolicyChild, _ balancer.ClientConnState) error {
		c.ReportPicker(connectivity.Connecting, waitingPicker(told))
		return nil
	}
	return testkit.Cluster{Name: name, Target: "passthrough:///" + testkit.ClosedPort, More: map[string]any{
		"connectTimeout": "300s", "childPolicy": policy.Config(),
	}}, told
}

// waitingPicker is a picker that has its attempts wait.
type waitingPicker chan<- struct{}

func (p waitingPicker) Pick(balancer.PickInfo) (balancer.PickResult, error) {
	select {
	case p <- struct{}{}:
	default:
	}
	return balancer.PickResult{}, balancer.ErrNoSubConnAvailable
}

// TestTrailsOfDialOptionsTwice: an RPC's trail is kept once, and recorded to its end for
// its caller.
func TestTrailsOfDialOptionsTwice(t *testing.T) {
	t.Parallel()
	debugz.Handler()
	a, b := testkit.Start(t, "a"), testkit.Start(t, "b")
	cc, target := dial(t, testkit.Service{Attempts: 2, Clusters: testkit.Clusters(a, b)}, composite.DialOptions()...)
	testkit.AwaitServer(t, cc, "a")
	a.Script(testkit.U)
	var trail composite.Trail
	if got, err := testkit.Unary(testkit.Context(t), cc, composite.RecordTrail(&trail)); got != "b" {
		t.Fatalf("%q answers: %v", got, err)
	}
	c, _ := find(process(t, debugz.Handler()), target)
	expect(t, "trails", told(c), "OK: 1 a UNAVAILABLE 2 b OK")
	if n := len(trail.Attempts); n != 2 || trail.Attempts[1].Code != codes.OK {
		t.Errorf("the trail is %v", trail)
	}
}

// TestTrailOfOtherError: a trail has the code that the RPC's caller is told, whatever
// the streams of the RPC were.
func TestTrailOfOtherError(t *testing.T) {
	t.Parallel()
	debugz.Handler()
	a := testkit.Start(t, "a")
	cc, target := dial(t, testkit.Service{Clusters: testkit.Clusters(a)}, unaryInterceptor(func(ctx context.Context, invoke func(context.Context, ...grpc.CallOption) error) error {
		if err := invoke(ctx); err != nil {
			return status.Error(codes.ResourceExhausted, "translated")
		}
		return nil
	}))
	testkit.AwaitServer(t, cc, "a")
	a.Script(testkit.U)
	if _, err := testkit.Unary(testkit.Context(t), cc); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("error %v", err)
	}
	c, _ := find(process(t, debugz.Handler()), target)
	expect(t, "trails", told(c), "RESOURCE_EXHAUSTED: 1 a UNAVAILABLE")
}

// TestTrailWhileAnAttemptWaits: an RPC is over while its latest attempt, which runs at
// once with another, waits for a cluster.
func TestTrailWhileAnAttemptWaits(t *testing.T) {
	t.Parallel()
	debugz.Handler()
	a := testkit.Start(t, "a")
	b, picks := connecting(t, "b")
	var waiting sync.WaitGroup
	defer waiting.Wait()
	stop := make(chan struct{})
	defer close(stop)
	cc, target := dial(t, testkit.Service{Clusters: append(testkit.Clusters(a), b)}, unaryInterceptor(func(ctx context.Context, invoke func(context.Context, ...grpc.CallOption) error) error {
		err := invoke(ctx)
		waiting.Go(func() {
			ctx, cancel := context.WithCancel(ctx)
			defer cancel()
			waiting.Go(func() { _ = invoke(ctx) })
			<-stop
		})
		<-picks
		return err
	}))
	await(t, target, "a connects", func(c inspect.Channel) bool { return conditions(c) == "has a host, connecting" })
	a.Script(testkit.U)
	if _, err := testkit.Unary(testkit.Context(t), cc); status.Code(err) != codes.Unavailable {
		t.Errorf("error %v", err)
	}
	c, _ := find(process(t, debugz.Handler()), target)
	expect(t, "trails", told(c), "UNAVAILABLE: 1 a UNAVAILABLE 2  CANCELLED")
}

// TestTrailAcrossPolicies: the channel's policy is replaced, by others, while an
// interceptor tries an RPC again. The trail is with the last one.
func TestTrailAcrossPolicies(t *testing.T) {
	t.Parallel()
	debugz.Handler()
	a, b := testkit.Start(t, "a"), testkit.Start(t, "b")
	s := testkit.Service{Clusters: testkit.Clusters(a, b)}
	r := testkit.NewResolver(t)
	change := func(config string) {
		_ = r.UpdateState(resolver.State{ServiceConfig: r.Parse(config)}) // round_robin has no endpoints
	}
	cc := testkit.Dial(t, r.Target(), append(composite.DialOptions(), unaryInterceptor(func(ctx context.Context, invoke func(context.Context, ...grpc.CallOption) error) error {
		if err := invoke(ctx); status.Code(err) != codes.Unavailable {
			return err
		}
		change(`{"loadBalancingConfig":[{"round_robin":{}}]}`)
		change(s.JSON())
		return invoke(ctx)
	}))...)
	cc.Connect()
	testkit.Eventually(t, "a resolver", func() bool { return r.Parse("{}") != nil })
	change(s.JSON())
	testkit.AwaitServer(t, cc, "a")
	before, _ := find(process(t, debugz.Handler()), r.Target())
	a.Script(testkit.U)
	if got, err := testkit.Unary(testkit.Context(t), cc); got != "b" {
		t.Fatalf("%q answers: %v", got, err)
	}
	after, _ := find(process(t, debugz.Handler()), r.Target())
	if after.ID == before.ID {
		t.Error("the policy is still the same")
	}
	expect(t, "trails", told(after), "OK: 1 a UNAVAILABLE 2 b OK")
}
