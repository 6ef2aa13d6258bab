package xds

import (
	"strings"
	"sync"
	"testing"

	route "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/grpc-composite/grpc-composite/internal/testkit"
	"github.com/grpc-composite/grpc-composite/interop/envoy"
)

// migration is a control plane that serves an Envoy and a gRPC client side by side:
// the same clusters and endpoints, routes that differ by the name of a cluster
// alone, and for Envoy the composite cluster in place of the client's target.
type migration struct {
	*mesh
	envoy *envoy.Envoy
	cc    *grpc.ClientConn

	mu   sync.Mutex
	seen []string // clusters called, in order
}

func newMigration(t *testing.T) *migration {
	t.Helper()
	names := []string{"a", "b", "c"}
	m := &migration{mesh: newMesh(t, names...)}
	m.both(t, func(r *resources) {
		for _, name := range names {
			r.put(overHTTP2(t, newCluster(name)), newEndpoints(t, name, []*testkit.Backend{m.backends[name]}))
		}
	})
	m.update(t, envoyID, func(r *resources) {
		r.put(newProxyListener(t), newCompositeCluster(t, "failover", names...))
	})
	m.route(t, retry(2, "unavailable"))
	m.envoy = startEnvoy(t, m.mesh)
	m.cc = m.dial(t, patient(names...))
	return m
}

// both changes what both are served.
func (m *migration) both(t *testing.T, change func(r *resources)) {
	t.Helper()
	for _, node := range []string{nodeID, envoyID} {
		m.update(t, node, change)
	}
}

// route has both use a retry policy. The route of each goes to what it can read.
func (m *migration) route(t *testing.T, policy *route.RetryPolicy) {
	t.Helper()
	m.update(t, nodeID, func(r *resources) { r.put(newRoutes("a", policy)) })
	m.update(t, envoyID, func(r *resources) { r.put(newRoutes("failover", policy)) })
}

// call makes a call and returns the clusters that the servers say were called, and
// the code.
func (m *migration) call(t *testing.T, cc grpc.ClientConnInterface, replies map[string]testkit.Reply) string {
	t.Helper()
	m.mu.Lock()
	m.seen = nil
	m.mu.Unlock()
	for name, b := range m.backends {
		b.Respond(func(int, testkit.Call) testkit.Reply {
			m.mu.Lock()
			defer m.mu.Unlock()
			m.seen = append(m.seen, name)
			return replies[name]
		})
	}
	_, err := testkit.Unary(testkit.Context(t), cc)
	m.mu.Lock()
	defer m.mu.Unlock()
	return strings.Join(append(m.seen, status.Code(err).String()), " ")
}

// TestMigration is the proof for those who leave their sidecars: both take the same
// ways, whatever the servers answer and the control plane changes.
func TestMigration(t *testing.T) {
	t.Parallel()
	m := newMigration(t)
	empty := func(names ...string) func(*resources) {
		return func(r *resources) {
			for _, name := range names {
				r.put(newEndpoints(t, name))
			}
		}
	}
	full := func(names ...string) func(*resources) {
		return func(r *resources) {
			for _, name := range names {
				r.put(newEndpoints(t, name, []*testkit.Backend{m.backends[name]}))
			}
		}
	}
	exhausted := testkit.Reply{Code: codes.ResourceExhausted, Message: "scripted"}
	afterHeaders := testkit.Reply{Code: codes.Unavailable, Message: "scripted", Headers: true}
	for _, step := range []struct {
		name    string
		change  func(*resources)
		route   *route.RetryPolicy
		replies map[string]testkit.Reply
		want    string
	}{
		{name: "all well", want: "a OK"},
		{name: "the first fails", replies: map[string]testkit.Reply{"a": testkit.U}, want: "a b OK"},
		{name: "two fail", replies: map[string]testkit.Reply{"a": testkit.U, "b": testkit.U}, want: "a b c OK"},
		{name: "all fail", replies: map[string]testkit.Reply{"a": testkit.U, "b": testkit.U, "c": testkit.U}, want: "a b c Unavailable"},
		{name: "an error that is not retried", replies: map[string]testkit.Reply{"a": exhausted}, want: "a ResourceExhausted"},
		{name: "an error that is not retried, later", replies: map[string]testkit.Reply{"a": testkit.U, "b": exhausted}, want: "a b ResourceExhausted"},
		{name: "an error after headers", replies: map[string]testkit.Reply{"a": afterHeaders}, want: "a Unavailable"},

		{name: "the first has no endpoints", change: empty("a"), want: "b OK"},
		{name: "the first has no endpoints and the second fails", replies: map[string]testkit.Reply{"b": testkit.U}, want: "b b c OK"},
		{name: "two have no endpoints", change: empty("b"), want: "c OK"},
		{name: "two have no endpoints and the third fails", replies: map[string]testkit.Reply{"c": testkit.U}, want: "c c c Unavailable"},
		{name: "none has endpoints", change: empty("c"), want: "Unavailable"},
		{name: "all are back", change: full("a", "b", "c"), want: "a OK"},
		{name: "the second has no endpoints", change: empty("b"), replies: map[string]testkit.Reply{"a": testkit.U}, want: "a c OK"},
		{name: "the second is back", change: full("b"), replies: map[string]testkit.Reply{"a": testkit.U}, want: "a b OK"},

		{name: "the first is deleted", change: func(r *resources) { delete(r.clusters, "a") }, want: "b OK"},
		{name: "the first is deleted and the second fails", replies: map[string]testkit.Reply{"b": testkit.U}, want: "b b c OK"},
		{name: "the first returns", change: func(r *resources) { r.put(overHTTP2(t, newCluster("a"))) }, want: "a OK"},

		{name: "another code is retried", route: retry(2, "resource-exhausted"), replies: map[string]testkit.Reply{"a": exhausted, "b": exhausted}, want: "a b c OK"},
		{name: "the code that was retried before", replies: map[string]testkit.Reply{"a": testkit.U}, want: "a Unavailable"},
		{name: "one retry", route: retry(1, "resource-exhausted,unavailable"), replies: map[string]testkit.Reply{"a": testkit.U, "b": exhausted}, want: "a b ResourceExhausted"},
	} {
		if step.change != nil {
			m.both(t, step.change)
		}
		if step.route != nil {
			m.route(t, step.route)
		}
		for side, cc := range map[string]grpc.ClientConnInterface{"Envoy": m.envoy.Route(service), "the client": m.cc} {
			if step.change != nil || step.route != nil {
				testkit.Eventually(t, side+" follows the control plane: "+step.name, func() bool {
					return m.call(t, cc, step.replies) == step.want
				})
			}
			for range 3 {
				if got := m.call(t, cc, step.replies); got != step.want {
					t.Errorf("%s: %s went %q: want %q", step.name, side, got, step.want)
				}
			}
		}
	}
	m.envoy.CheckAlive(t)
	if texts := m.rejections(); len(texts) > 0 {
		t.Errorf("rejected resources: %q", texts)
	}
}
