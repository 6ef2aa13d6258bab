package xds

import (
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/grpc-composite/grpc-composite/balancer/composite"
	"github.com/grpc-composite/grpc-composite/internal/testkit"
)

// TestClusterIsDeleted has the control plane delete the first cluster, whose
// connection stays open meanwhile, and bring it back.
func TestClusterIsDeleted(t *testing.T) {
	for _, tc := range []struct{ name, routed string }{
		{"no route names it", "b"},
		{"a route names it", "a"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			m := newMesh(t, "a", "b")
			m.change(t, func(r *resources) { r.put(newRoutes(tc.routed, retry(1, "unavailable"))) })
			cc := m.dial(t, patient("a", "b"))
			expect(t, cc, "a")
			for range 2 {
				m.change(t, func(r *resources) { delete(r.clusters, "a") })
				await(t, cc, "-a b")
				m.change(t, func(r *resources) { r.put(newCluster("a")) })
				await(t, cc, "a")
			}
		})
	}
}

// TestAllClustersAreDeleted shows that an RPC then has the cause of each in its
// error.
func TestAllClustersAreDeleted(t *testing.T) {
	t.Parallel()
	m := newMesh(t, "a", "b")
	cc := m.dial(t, patient("a", "b"))
	expect(t, cc, "a")
	m.change(t, func(r *resources) { delete(r.clusters, "b") })
	m.change(t, func(r *resources) { delete(r.clusters, "a") })
	awaitError(t, cc, "no_healthy_upstream", `\"a\" of type \"ClusterResource\" has been removed`, `\"b\" of type \"ClusterResource\" has been removed`)
}

// TestClusterLosesItsEndpoints has them vanish and return, which the cluster's
// resource survives.
func TestClusterLosesItsEndpoints(t *testing.T) {
	t.Parallel()
	m := newMesh(t, "a", "b")
	cc := m.dial(t, patient("a", "b"))
	expect(t, cc, "a")
	for range 2 {
		m.change(t, func(r *resources) { r.put(newEndpoints(t, "a")) })
		await(t, cc, "-a b")
		if got := skip(t, cc); got.Reason != "no_endpoints" {
			t.Errorf("a is passed over for %s: want no_endpoints", got.Reason)
		}
		m.change(t, func(r *resources) { r.put(newEndpoints(t, "a", []*testkit.Backend{m.backends["a"]})) })
		await(t, cc, "a")
	}
}

// TestClusterIsMissing lists one that the control plane never had: RPCs wait for it
// as for one that connects, and from then on pass it over, until it appears.
func TestClusterIsMissing(t *testing.T) {
	t.Parallel()
	m := newMesh(t, "a", "b")
	m.change(t, func(r *resources) {
		delete(r.clusters, "a")
		r.put(newRoutes("b", nil))
	})
	cc := m.dial(t, configured(`{"name":"a","connectTimeout":"0.05s"}`, `{"name":"b"}`))
	expect(t, cc, "-a b")
	m.change(t, func(r *resources) { r.put(newCluster("a")) })
	await(t, cc, "a")
}

// TestReasonOfAStoppedServer tells a cluster without endpoints from one whose
// servers cannot be reached, though the resolver delivers no endpoints for either.
func TestReasonOfAStoppedServer(t *testing.T) {
	t.Parallel()
	m := newMesh(t, "a", "b")
	cc := m.dial(t, patient("a", "b"))
	expect(t, cc, "a")
	m.backends["a"].Stop()
	await(t, cc, "-a b")
	if got := skip(t, cc); got.Reason != "transient_failure" || got.Err == nil {
		t.Errorf("a is passed over for %s, %v: want transient_failure, and why", got.Reason, got.Err)
	}
}

// skip makes a call that passes a cluster over on its first attempt, and says why.
func skip(t testing.TB, cc grpc.ClientConnInterface) composite.Skip {
	t.Helper()
	var trail composite.Trail
	if _, err := testkit.Unary(testkit.Context(t), cc, composite.RecordTrail(&trail)); err != nil {
		t.Fatal(err)
	}
	if len(trail.Attempts) == 0 || len(trail.Attempts[0].Skipped) == 0 {
		t.Fatalf("nothing is passed over: %+v", trail.Attempts)
	}
	return trail.Attempts[0].Skipped[0]
}

// TestRoutedCluster lists what the route names as well, alone and in any place. gRPC
// is subscribed to it before the policy is.
func TestRoutedCluster(t *testing.T) {
	for _, tc := range []struct {
		name, query, want string
		down              []string
	}{
		{"alone", patient("a"), "a", nil},
		{"last", patient("b", "a"), "-b a", []string{"b"}},
		{"lazy, alone", configured(`{"name":"a","lazy":true}`), "a", nil},
		{"lazy, last", configured(`{"name":"b"}`, `{"name":"a","lazy":true}`), "-b a", []string{"b"}},
		{"not named by the route, lazy", configured(`{"name":"b","lazy":true}`), "b", nil},
		{"under another name", configured(`{"name":"x","childPolicy":[{"cds_experimental":{"cluster":"a","isDynamic":true}}]}`), "x", nil},
		{"not named by the route, under another name", configured(`{"name":"x","childPolicy":[{"cds_experimental":{"cluster":"b"}}]}`), "x", nil},
		{"under two names", configured(`{"name":"x","childPolicy":[{"cds_experimental":{"cluster":"b"}}]}`, `{"name":"b"}`), "x", nil},
		{"within another composite policy", configured(`{"name":"n","childPolicy":[{"composite":{"clusters":[{"name":"a","connectTimeout":"20s"}]}}]}`), "n", nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			m := newMesh(t, "a", "b")
			for _, name := range tc.down {
				m.backends[name].Stop()
			}
			cc := m.dial(t, tc.query)
			expect(t, cc, tc.want)
		})
	}
}

// TestUnderTwoNames has a cluster of xDS twice in the list, which is two clusters to
// the policy.
func TestUnderTwoNames(t *testing.T) {
	t.Parallel()
	m := newMesh(t, "a", "b")
	cc := m.dial(t, configured(
		`{"name":"b"}`,
		`{"name":"x","childPolicy":[{"cds_experimental":{"cluster":"b"}}]}`,
	))
	m.backends["b"].Respond(func(n int, _ testkit.Call) testkit.Reply {
		if n == 1 {
			return testkit.U
		}
		return testkit.OK
	})
	expect(t, cc, "b x")
}

// TestRouteMovesOn has the routes name another cluster in turn, which changes what
// gRPC itself is subscribed to, and no RPC notices.
func TestRouteMovesOn(t *testing.T) {
	t.Parallel()
	m := newMesh(t, "a", "b", "elsewhere")
	cc := m.dial(t, patient("a", "b"))
	expect(t, cc, "a")
	for _, routed := range []string{"b", "elsewhere", "a", "elsewhere", "b", "a"} {
		retries := uint32(1)
		m.change(t, func(r *resources) { r.put(newRoutes(routed, retry(retries, "internal"))) })
		m.backends["a"].Script(testkit.Reply{Code: 13, Message: "internal"})
		await(t, cc, "a b") // the new routes are in use
		m.backends["a"].Script(testkit.OK)
		expect(t, cc, "a")
		m.change(t, func(r *resources) { r.put(newRoutes(routed, nil), newEndpoints(t, "a")) })
		await(t, cc, "-a b") // news of the cluster go on to arrive
		m.change(t, func(r *resources) { r.put(newEndpoints(t, "a", []*testkit.Backend{m.backends["a"]})) })
		await(t, cc, "a")
	}
}

// TestListenerGoesAndReturns has RPCs fail while it is gone, with the cause, and
// those wait that wait for ready.
func TestListenerGoesAndReturns(t *testing.T) {
	t.Parallel()
	m := newMesh(t, "a", "b")
	cc := m.dial(t, patient("b", "a"))
	expect(t, cc, "b")
	for range 2 {
		m.change(t, func(r *resources) { delete(r.listeners, service) })
		awaitError(t, cc, service, "has been removed")
		waited := make(chan error, 1)
		go func() {
			_, err := testkit.Unary(testkit.Context(t), cc, grpc.WaitForReady(true))
			waited <- err
		}()
		m.change(t, func(r *resources) { r.put(newListener(t)) })
		await(t, cc, "b")
		if err := <-waited; err != nil {
			t.Errorf("the RPC that waits for ready: %v", err)
		}
	}
}

// TestLastResortBesideXDS has a cluster with a target of its own as the last one.
func TestLastResortBesideXDS(t *testing.T) {
	t.Parallel()
	m := newMesh(t, "a", "b")
	dns := testkit.Start(t, "dns")
	cc := m.dial(t, configured(`{"name":"a"}`, `{"name":"last","target":"`+dns.Target()+`"}`))
	expect(t, cc, "a")
	m.change(t, func(r *resources) { delete(r.clusters, "a") })
	await(t, cc, "-a last")
}

// TestPlainList has the clusters as a list, with the default time to connect.
func TestPlainList(t *testing.T) {
	t.Parallel()
	m := newMesh(t, "a", "b")
	cc := m.dial(t, listed("b", "a", "b"))
	await(t, cc, "b")
	m.backends["b"].Script(testkit.U, testkit.OK)
	await(t, cc, "b a")
	m.backends["b"].Stop()
	start := time.Now()
	await(t, cc, "-b a")
	t.Logf("noticed within %v", time.Since(start))
}
