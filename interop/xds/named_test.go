package xds

import (
	"testing"

	xdstype "github.com/cncf/xds/go/xds/type/v3"
	cluster "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	aggregate "github.com/envoyproxy/go-control-plane/envoy/extensions/clusters/aggregate/v3"
	compositev3 "github.com/envoyproxy/go-control-plane/envoy/extensions/clusters/composite/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/xds"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/grpc-composite/grpc-composite/balancer/composite"
	"github.com/grpc-composite/grpc-composite/internal/testkit"
)

// newCustomCluster is a cluster of one of Envoy's cluster types.
func newCustomCluster(t testing.TB, name, clusterType string, config proto.Message) *cluster.Cluster {
	t.Helper()
	return &cluster.Cluster{Name: name, ClusterDiscoveryType: &cluster.Cluster_ClusterType{
		ClusterType: &cluster.Cluster_CustomClusterType{Name: clusterType, TypedConfig: pack(t, config)},
	}}
}

// newCompositeCluster is Envoy's composite cluster.
func newCompositeCluster(t testing.TB, name string, list ...string) *cluster.Cluster {
	t.Helper()
	config := &compositev3.ClusterConfig{}
	for _, name := range list {
		config.Clusters = append(config.Clusters, &compositev3.ClusterConfig_ClusterEntry{Name: name})
	}
	c := newCustomCluster(t, name, "envoy.clusters.composite", config)
	c.LbPolicy = cluster.Cluster_CLUSTER_PROVIDED // which Envoy insists on
	return c
}

// TestEnvoysCompositeCluster shows why the list cannot come from one: gRPC rejects
// the resource, for its lb_policy, and without that for its type. The cluster has no
// host, the others of the list go on.
func TestEnvoysCompositeCluster(t *testing.T) {
	for name, tc := range map[string]struct {
		policy cluster.Cluster_LbPolicy
		want   string
	}{
		"as Envoy has it":       {cluster.Cluster_CLUSTER_PROVIDED, "unexpected lbPolicy CLUSTER_PROVIDED"},
		"without its lb_policy": {cluster.Cluster_ROUND_ROBIN, "unsupported cluster type"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := newMesh(t, "a", "b", "c")
			rejected := newCompositeCluster(t, "envoys", "a", "b")
			rejected.LbPolicy = tc.policy
			m.change(t, func(r *resources) { r.put(rejected) })
			cc := m.dial(t, patient("envoys", "c"))
			expect(t, cc, "-envoys c")
			m.awaitRejection(t, tc.want)
		})
	}
}

// TestAggregateCluster is a cluster of the list that gRPC knows: within it, gRPC
// uses the first of its own list that can be reached, whatever the attempt.
func TestAggregateCluster(t *testing.T) {
	t.Parallel()
	m := newMesh(t, "a", "b", "c")
	m.change(t, func(r *resources) {
		r.put(newCustomCluster(t, "both", "envoy.clusters.aggregate", &aggregate.ClusterConfig{Clusters: []string{"a", "b"}}))
	})
	cc := m.dial(t, patient("both", "c"))
	testkit.AwaitServer(t, cc, "a")
	m.backends["a"].Script(testkit.U)
	expect(t, cc, "both c")
	m.backends["a"].Stop()
	testkit.AwaitServer(t, cc, "b")
	expect(t, cc, "both")
	m.backends["b"].Stop()
	await(t, cc, "-both c")
}

// carrier is the cluster "failover", whose load-balancing policy is the policy
// composite over these clusters (gRFC A52).
func carrier(t testing.TB, list ...string) *cluster.Cluster {
	t.Helper()
	var entries []any
	for _, name := range list {
		entries = append(entries, map[string]any{
			"name": name, "connectTimeout": "20s",
			"childPolicy": []any{map[string]any{"cds_experimental": map[string]any{"cluster": name, "isDynamic": true}}},
		})
	}
	config, err := structpb.NewStruct(map[string]any{"clusters": entries})
	if err != nil {
		t.Fatal(err)
	}
	c := newCluster("failover")
	c.LoadBalancingPolicy = &cluster.LoadBalancingPolicy{Policies: []*cluster.LoadBalancingPolicy_Policy{{
		TypedExtensionConfig: &core.TypedExtensionConfig{
			Name:        "composite",
			TypedConfig: pack(t, &xdstype.TypedStruct{TypeUrl: "type.googleapis.com/composite", Value: config}),
		},
	}}}
	return c
}

// dialPlain opens a channel to the mesh by gRPC's own scheme.
func (m *mesh) dialPlain(t testing.TB, providers map[string]any, opts ...grpc.DialOption) *grpc.ClientConn {
	t.Helper()
	builder, err := xds.NewXDSResolverWithConfigForTesting(m.bootstrap(t, providers))
	if err != nil {
		t.Fatal(err)
	}
	return testkit.Dial(t, "xds:///"+service, append(append(composite.DialOptions(), grpc.WithResolvers(builder)), opts...)...)
}

// TestNamedByTheControlPlane has the list come with the route's cluster, and change,
// in a channel to a plain target.
func TestNamedByTheControlPlane(t *testing.T) {
	t.Parallel()
	m := newMesh(t, "a", "b", "c")
	m.change(t, func(r *resources) {
		// Its host is not used, but it must have one.
		r.put(carrier(t, "a", "b"), newEndpoints(t, "failover", []*testkit.Backend{m.backends["c"]}))
		r.put(newRoutes("failover", retry(2, "unavailable")))
	})
	cc := m.dialPlain(t, nil)
	expect(t, cc, "a")
	m.backends["a"].Script(testkit.U)
	expect(t, cc, "a b")
	m.backends["a"].Stop()
	await(t, cc, "-a b")
	m.change(t, func(r *resources) { r.put(carrier(t, "c", "b", "a")) })
	await(t, cc, "c")
	m.backends["c"].Script(testkit.U)
	expect(t, cc, "c b")
	m.change(t, func(r *resources) { delete(r.clusters, "c") })
	await(t, cc, "-c b")
	m.change(t, func(r *resources) { r.put(newCluster("c")) })
	await(t, cc, "c b")
}

// TestNamedByTheControlPlaneTLS shows the price of that: the TLS settings of the
// cluster that carries the list replace those of the clusters in it.
func TestNamedByTheControlPlaneTLS(t *testing.T) {
	t.Parallel()
	m, providers := secureMesh(t)
	change := func(c *cluster.Cluster) {
		m.change(t, func(r *resources) {
			r.put(c, newEndpoints(t, "failover", []*testkit.Backend{m.backends["c"]}))
			r.put(newRoutes("failover", retry(2, "unavailable")))
		})
	}
	change(carrier(t, "a", "b", "c"))
	cc := m.dialPlain(t, providers, grpc.WithTransportCredentials(xdsCredentials(t)))
	expect(t, cc, "-a -b c") // the plaintext one
	change(secured(t, carrier(t, "a", "b", "c"), "ca-b", "b.example"))
	m.backends["c"].Stop() // what is connected stays so
	await(t, cc, "-a b")
}
