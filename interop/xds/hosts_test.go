package xds

import (
	"testing"
	"time"

	cluster "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	endpoint "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/grpc"
	testpb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/grpc-composite/grpc-composite/internal/testkit"
)

// TestPriorities has two priorities within the first cluster: the second takes over
// within the cluster, so that the next cluster is used only when both are down.
func TestPriorities(t *testing.T) {
	t.Parallel()
	m := newMesh(t, "a", "b")
	second := testkit.StartOn(t, "a's second", testkit.Loopback())
	m.change(t, func(r *resources) {
		r.put(newEndpoints(t, "a", []*testkit.Backend{m.backends["a"]}, []*testkit.Backend{second}))
	})
	cc := m.dial(t, patient("a", "b"))
	answers := func(name string) { t.Helper(); testkit.AwaitServer(t, cc, name) }
	expect(t, cc, "a")
	if n := second.Count(); n != 0 {
		t.Errorf("%d calls of the second priority: want none", n)
	}
	m.backends["a"].Stop()
	answers("a's second")
	expect(t, cc, "a") // the cluster
	m.backends["b"].Script(testkit.OK)
	second.Script(testkit.U)
	expect(t, cc, "a b") // a priority that answers with errors is one cluster's failure
	second.Stop()
	await(t, cc, "-a b")
	second.Script(testkit.OK)
	second.Restart(t)
	answers("a's second")
	m.backends["a"].Restart(t)
	answers("a")
}

// TestCircuitBreaker has the control plane allow one attempt in flight. At that
// limit gRPC ends the RPC, wherever it could go on; the policy's own limit sends it
// to the next cluster.
func TestCircuitBreaker(t *testing.T) {
	for _, tc := range []struct {
		name, query string
		served      uint32 // max_requests of the control plane, 0 for none
		want        string // the way of an RPC at the limit
		ends        string // its error
	}{
		{"the control plane's", configured(`{"name":"a"}`, `{"name":"b"}`), 1, "a", "max requests 1 exceeded"},
		{"the policy's", configured(`{"name":"a","maxRequests":1}`, `{"name":"b"}`), 0, "-a b", ""},
		{"both, the policy's first", configured(`{"name":"a","maxRequests":1}`, `{"name":"b"}`), 1, "-a b", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			m := newMesh(t, "a", "b")
			// gRPC counts by the cluster's name, over all channels of the process.
			name := "a of " + t.Name()
			c := newCluster("a")
			c.EdsClusterConfig.ServiceName = name
			if tc.served > 0 {
				c.CircuitBreakers = &cluster.CircuitBreakers{Thresholds: []*cluster.CircuitBreakers_Thresholds{{MaxRequests: wrapperspb.UInt32(tc.served)}}}
			}
			m.change(t, func(r *resources) { r.put(c, newEndpoints(t, name, []*testkit.Backend{m.backends["a"]})) })
			cc := m.dial(t, tc.query)
			expect(t, cc, "a")
			stream, err := testpb.NewTestServiceClient(cc).FullDuplexCall(testkit.Context(t))
			if err != nil {
				t.Fatal(err)
			}
			got, err := way(t, cc)
			switch {
			case got != tc.want:
				t.Errorf("at the limit the call went %q, error %v: want %q", got, err, tc.want)
			case tc.ends != "":
				testkit.Contains(t, err, tc.ends)
			case err != nil:
				t.Error(err)
			}
			if n := m.backends["b"].Count(); tc.ends != "" && n > 0 {
				t.Errorf("%d calls of b: want none", n)
			}
			if err := stream.CloseSend(); err != nil {
				t.Fatal(err)
			}
			if _, err := stream.Recv(); err == nil {
				t.Error("the stream goes on")
			}
			await(t, cc, "a")
		})
	}
}

// TestDropOverload has the control plane drop all of the first cluster's calls,
// which ends RPCs as a full circuit breaker does.
func TestDropOverload(t *testing.T) {
	t.Parallel()
	m := newMesh(t, "a", "b")
	dropped := newEndpoints(t, "a", []*testkit.Backend{m.backends["a"]})
	dropped.Policy = &endpoint.ClusterLoadAssignment_Policy{DropOverloads: []*endpoint.ClusterLoadAssignment_Policy_DropOverload{{
		Category: "all", DropPercentage: &typev3.FractionalPercent{Numerator: 100, Denominator: typev3.FractionalPercent_HUNDRED},
	}}}
	m.change(t, func(r *resources) { r.put(dropped) })
	cc := m.dial(t, patient("a", "b"))
	_, err := way(t, cc, grpc.WaitForReady(true))
	testkit.Contains(t, err, "RPC is dropped")
	if got := testkit.Counts(m.backends["a"], m.backends["b"]); got != "0/0" {
		t.Errorf("calls of a/b: %s: want none", got)
	}
}

// TestOutlierDetection has the control plane ask for the ejection of hosts that
// fail. A cluster whose only host is ejected has no host, and RPCs no longer spend
// an attempt on it.
func TestOutlierDetection(t *testing.T) {
	t.Parallel()
	m := newMesh(t, "a", "b")
	c := newCluster("a")
	c.OutlierDetection = &cluster.OutlierDetection{
		Interval:           durationpb.New(100 * time.Millisecond),
		BaseEjectionTime:   durationpb.New(300 * time.Millisecond),
		MaxEjectionTime:    durationpb.New(300 * time.Millisecond),
		MaxEjectionPercent: wrapperspb.UInt32(100),

		FailurePercentageThreshold:     wrapperspb.UInt32(50),
		EnforcingFailurePercentage:     wrapperspb.UInt32(100),
		FailurePercentageMinimumHosts:  wrapperspb.UInt32(1),
		FailurePercentageRequestVolume: wrapperspb.UInt32(5),
	}
	m.change(t, func(r *resources) { r.put(c) })
	cc := m.dial(t, patient("a", "b"))
	expect(t, cc, "a")
	m.backends["a"].Script(testkit.U)
	expect(t, cc, "a b")
	await(t, cc, "-a b")
	m.backends["a"].Script(testkit.OK)
	await(t, cc, "a")
}
