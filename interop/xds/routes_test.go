package xds

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	cluster "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	route "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	commonfault "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/common/fault/v3"
	fault "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/fault/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	testpb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/grpc-composite/grpc-composite/balancer/composite"
	"github.com/grpc-composite/grpc-composite/internal/testkit"
)

// TestRetryPolicyOfTheRoute shows which retry policies move RPCs on. The one that
// the program gives never does.
func TestRetryPolicyOfTheRoute(t *testing.T) {
	t.Parallel()
	const programs = `{"methodConfig":[{"name":[{}],"retryPolicy":{"maxAttempts":3,"initialBackoff":"0.001s","maxBackoff":"0.001s","backoffMultiplier":1,"retryableStatusCodes":["UNAVAILABLE","RESOURCE_EXHAUSTED"]}}]}`
	clusters := []string{"a", "b", "c", "d", "e", "f", "g"}
	m := newMesh(t, clusters...)
	cc := m.dial(t, patient(clusters...), grpc.WithDefaultServiceConfig(programs))
	expect(t, cc, "a")
	for _, tc := range []struct {
		name  string
		retry *route.RetryPolicy
		code  codes.Code
		want  string
	}{
		{"none", nil, codes.Unavailable, "a"},
		{"unavailable", retry(6, "unavailable"), codes.Unavailable, "a b c d e f g"}, // past gRPC's limit of 5
		{"fewer than there are clusters", retry(2, "unavailable"), codes.Unavailable, "a b c"},
		{"num_retries left out", &route.RetryPolicy{RetryOn: "unavailable", RetryBackOff: retry(1, "").GetRetryBackOff()}, codes.Unavailable, "a b"},
		{"another code", retry(6, "unavailable"), codes.ResourceExhausted, "a"},
		{"all that gRPC knows", retry(2, "cancelled,deadline-exceeded,internal,resource-exhausted,unavailable"), codes.ResourceExhausted, "a b c"},
		{"conditions of HTTP", retry(6, "5xx,gateway-error,reset,connect-failure,refused-stream,retriable-4xx"), codes.Unavailable, "a"},
		{"conditions of HTTP and one of gRPC", retry(2, "5xx,unavailable"), codes.Unavailable, "a b c"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			m.change(t, func(r *resources) { r.put(newRoutes("a", tc.retry)) })
			for _, b := range m.backends {
				b.Script(testkit.Reply{Code: tc.code, Message: "scripted"})
			}
			var got string
			var err error
			end := time.Now().Add(testkit.Patience)
			for got != tc.want && time.Now().Before(end) { // until the route is in use
				got, err = way(t, cc)
			}
			if got != tc.want || status.Code(err) != tc.code {
				t.Errorf("the call went %q, error %v: want %q", got, err, tc.want)
			}
		})
	}
}

// TestRoutesByMethod has retry policies and timeouts of their own. What the routes
// name as clusters is not used, weights included.
func TestRoutesByMethod(t *testing.T) {
	t.Parallel()
	m := newMesh(t, "a", "b", "c")
	const method = "/grpc.testing.TestService/"
	short := newRoute(method+"StreamingInputCall", "c", retry(1, "unavailable"))
	short.GetRoute().MaxStreamDuration = &route.RouteAction_MaxStreamDuration{MaxStreamDuration: durationpb.New(50 * time.Millisecond)}
	weighted := newRoute("", "", retry(1, "unavailable"))
	weighted.GetRoute().ClusterSpecifier = &route.RouteAction_WeightedClusters{WeightedClusters: &route.WeightedCluster{Clusters: []*route.WeightedCluster_ClusterWeight{
		{Name: "b", Weight: wrapperspb.UInt32(1)}, {Name: "c", Weight: wrapperspb.UInt32(1)},
	}}}
	m.change(t, func(r *resources) {
		r.put(&route.RouteConfiguration{Name: routeName, VirtualHosts: []*route.VirtualHost{{
			Name: "all", Domains: []string{service},
			Routes: []*route.Route{newRoute(method+"UnaryCall", "c", nil), short, weighted},
		}}})
	})
	cc := m.dial(t, patient("a", "b"))
	expect(t, cc, "a")
	m.backends["a"].Script(testkit.U)
	if got, err := way(t, cc); got != "a" || err == nil {
		t.Errorf("a unary call went %q, error %v: want a alone, and its error", got, err)
	}
	client := testpb.NewTestServiceClient(cc)
	var trail composite.Trail
	stream, err := client.StreamingOutputCall(testkit.Context(t), &testpb.StreamingOutputCallRequest{ResponseParameters: make([]*testpb.ResponseParameters, 1)}, composite.RecordTrail(&trail))
	if err != nil {
		t.Fatal(err)
	}
	for err == nil {
		_, err = stream.Recv()
	}
	if got := trailText(trail); got != "a b" {
		t.Errorf("a server stream went %q, error %v: want a b", got, err)
	}
	m.backends["a"].Script(testkit.OK)
	upload, err := client.StreamingInputCall(testkit.Context(t))
	if err != nil {
		t.Fatal(err)
	}
	if err := upload.RecvMsg(&testpb.StreamingInputCallResponse{}); status.Code(err) != codes.DeadlineExceeded {
		t.Errorf("an upload that never ends: %v: want the route's timeout", err)
	}
	if n := m.backends["c"].Count(); n != 0 {
		t.Errorf("%d calls of the routes' cluster: want none", n)
	}
}

// TestAttemptTimeout is the policy's way to have a timeout for each attempt. The
// route's per_try_timeout is ignored by gRPC.
func TestAttemptTimeout(t *testing.T) {
	t.Parallel()
	m := newMesh(t, "a", "b")
	policy := retry(1, "deadline-exceeded")
	policy.PerTryTimeout = durationpb.New(50 * time.Millisecond)
	m.change(t, func(r *resources) { r.put(newRoutes("a", policy)) })
	m.backends["a"].Script(testkit.Reply{Hang: true})
	cc := m.dial(t, configured(`{"name":"a","attemptTimeout":"0.05s"}`, `{"name":"b"}`))
	expect(t, cc, "a b")

	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	var trail composite.Trail
	_, err := testkit.Unary(ctx, m.dial(t, patient("a", "b")), composite.RecordTrail(&trail))
	if got := trailText(trail); got != "a" || status.Code(err) != codes.DeadlineExceeded {
		t.Errorf("without attemptTimeout the call went %q, error %v: want a alone until the RPC's deadline", got, err)
	}
}

// TestHashPolicyOfTheRoute has a header choose the host within each cluster.
func TestHashPolicyOfTheRoute(t *testing.T) {
	t.Parallel()
	m := newMesh(t, "a", "b")
	routes := newRoutes("a", retry(1, "unavailable"))
	routes.GetVirtualHosts()[0].GetRoutes()[0].GetRoute().HashPolicy = []*route.RouteAction_HashPolicy{{
		PolicySpecifier: &route.RouteAction_HashPolicy_Header_{Header: &route.RouteAction_HashPolicy_Header{HeaderName: "user"}},
	}}
	hosts := make(map[string][]*testkit.Backend)
	for _, name := range []string{"a", "b"} {
		for range 4 {
			hosts[name] = append(hosts[name], testkit.Start(t, fmt.Sprint(name, len(hosts[name]))))
		}
	}
	m.change(t, func(r *resources) {
		r.put(routes)
		for name, list := range hosts {
			c := newCluster(name)
			c.LbPolicy = cluster.Cluster_RING_HASH
			r.put(c, newEndpoints(t, name, list))
		}
	})
	cc := m.dial(t, patient("a", "b"))
	answers := func(user string) map[string]bool {
		names := make(map[string]bool)
		ctx := metadata.AppendToOutgoingContext(testkit.Context(t), "user", user)
		for range 20 {
			name, err := testkit.Unary(ctx, cc)
			if err != nil {
				t.Fatal(err)
			}
			names[name] = true
		}
		return names
	}
	for _, user := range []string{"x", "y"} {
		if got := answers(user); len(got) != 1 {
			t.Errorf("answers for one user from %v: want one host", got)
		}
	}
	for _, host := range hosts["a"] {
		host.Script(testkit.U)
	}
	for _, user := range []string{"x", "y"} {
		if got := answers(user); len(got) != 1 {
			t.Errorf("answers for one user of the next cluster from %v: want one host", got)
		}
	}
}

// TestFaultInjection has the listener abort calls, or delay them. gRPC does so once
// for an RPC, before its first attempt: an abort is not retried.
func TestFaultInjection(t *testing.T) {
	t.Parallel()
	all := &typev3.FractionalPercent{Numerator: 100, Denominator: typev3.FractionalPercent_HUNDRED}
	m := newMesh(t, "a", "b")
	cc := m.dial(t, patient("a", "b"))
	expect(t, cc, "a")
	m.backends["a"].Script(testkit.OK)
	m.change(t, func(r *resources) {
		r.put(newListener(t, newFilter(t, "fault", &fault.HTTPFault{Abort: &fault.FaultAbort{
			ErrorType: &fault.FaultAbort_GrpcStatus{GrpcStatus: uint32(codes.Unavailable)}, Percentage: all,
		}})))
	})
	var got string
	var err error
	testkit.Eventually(t, "an abort", func() bool {
		got, err = way(t, cc)
		return err != nil
	})
	if got != "" || status.Code(err) != codes.Unavailable || !strings.Contains(err.Error(), "fault injection") {
		t.Errorf("the call went %q, error %v: want an abort before any attempt", got, err)
	}
	if n := m.backends["b"].Count(); n != 0 {
		t.Errorf("%d calls of b: want none", n)
	}

	const delay = 200 * time.Millisecond
	m.change(t, func(r *resources) {
		r.put(newListener(t, newFilter(t, "fault", &fault.HTTPFault{Delay: &commonfault.FaultDelay{
			FaultDelaySecifier: &commonfault.FaultDelay_FixedDelay{FixedDelay: durationpb.New(delay)}, Percentage: all,
		}})))
	})
	await(t, cc, "a")
	m.backends["a"].Script(testkit.U)
	start := time.Now()
	expect(t, cc, "a b")
	if took := time.Since(start); took < delay {
		t.Errorf("a call took %v: want it delayed by %v", took, delay)
	}
}

// TestControlPlaneRestarts has it go away: all stays as it was, failover included.
// When it is back, with no memory of the clients, its news arrive.
func TestControlPlaneRestarts(t *testing.T) {
	t.Parallel()
	m := newMesh(t, "a", "b", "c")
	cc := m.dial(t, patient("a", "b"))
	if _, err := testkit.Unary(composite.WithClusters(testkit.Context(t), "b"), cc); err != nil {
		t.Fatal(err) // all is known of both
	}
	for range 2 {
		m.stop()
		expect(t, cc, "a")
		m.backends["a"].Script(testkit.U)
		expect(t, cc, "a b")
		m.backends["a"].Stop()
		await(t, cc, "-a b")
		m.backends["a"].Script(testkit.OK)
		m.backends["a"].Restart(t)
		await(t, cc, "a")

		m.start(t)
		expect(t, cc, "a")
		m.change(t, func(r *resources) { r.put(newEndpoints(t, "a", []*testkit.Backend{m.backends["c"]})) })
		testkit.AwaitServer(t, cc, "c")
		m.change(t, func(r *resources) { delete(r.clusters, "a") })
		await(t, cc, "-a b")
		m.change(t, func(r *resources) {
			r.put(newCluster("a"), newEndpoints(t, "a", []*testkit.Backend{m.backends["a"]}))
		})
		testkit.AwaitServer(t, cc, "a")
	}
}

// TestControlPlaneStartsLate has it come up after the first RPC has begun.
func TestControlPlaneStartsLate(t *testing.T) {
	t.Parallel()
	m := newMesh(t, "a", "b")
	m.stop()
	cc := m.dial(t, patient("a", "b"))
	testkit.Eventually(t, "an error that names the control plane", func() bool {
		_, err := testkit.Unary(testkit.Context(t), cc)
		if err == nil {
			t.Fatal("a call succeeded without a control plane")
		}
		return strings.Contains(err.Error(), m.addr)
	})
	waited := make(chan error, 1)
	go func() {
		_, err := testkit.Unary(testkit.Context(t), cc, grpc.WaitForReady(true))
		waited <- err
	}()
	m.start(t)
	if err := <-waited; err != nil {
		t.Errorf("the RPC that waits for ready: %v", err)
	}
	expect(t, cc, "a")
}

// TestRouteWithoutItsCluster has the route name one that the control plane does not
// have. gRPC waits for it before anything else, for seconds: name one that exists.
func TestRouteWithoutItsCluster(t *testing.T) {
	t.Parallel()
	m := newMesh(t, "a", "b")
	m.change(t, func(r *resources) { r.put(newRoutes("nope", nil)) })
	cc := m.dial(t, patient("a", "b"))
	waited := make(chan error, 1)
	go func() {
		_, err := testkit.Unary(testkit.Context(t), cc)
		waited <- err
	}()
	testkit.Eventually(t, "the client has asked for the route's cluster", func() bool { return m.asked("nope") })
	select {
	case err := <-waited:
		t.Errorf("the call ended early, error %v: want it to wait for the route's cluster", err)
	default:
	}
	m.change(t, func(r *resources) {
		nope := newCluster("nope")
		nope.EdsClusterConfig = &cluster.Cluster_EdsClusterConfig{EdsConfig: ads(), ServiceName: "a"}
		r.put(nope)
	})
	if err := <-waited; err != nil {
		t.Error(err)
	}
	expect(t, cc, "a")
}
