package differences

import (
	"context"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	_ "google.golang.org/grpc/xds" // registers outlier_detection_experimental

	"github.com/grpc-composite/grpc-composite/internal/testkit"
	"github.com/grpc-composite/grpc-composite/interop/envoy"
)

// TestFullCircuitBreaker has a first cluster with room for one request, and a
// request in it. Envoy ends the next one, whatever the retry policy; here it goes to
// the next cluster.
func TestFullCircuitBreaker(t *testing.T) {
	t.Parallel()
	s := start(t, testkit.Reply{Hang: true}, testkit.OK)
	full := viaEnvoy(t, s.clusters(envoy.JSON{"circuit_breakers": envoy.JSON{"thresholds": []envoy.JSON{{"max_requests": 1}}}}),
		retry(1, "unavailable,5xx,gateway-error,reset,connect-failure,refused-stream"))
	occupy(t, s[0], full)
	s.check(t, "Envoy", full, "0/0", codes.Unavailable, "overflow")

	own := ours(t, s.service(2, map[string]any{"maxRequests": 1}))
	occupy(t, s[0], own)
	s.check(t, "ours", own, "0/1", codes.OK)
}

// occupy has a call hang in a server until the test ends.
func occupy(t *testing.T, b *testkit.Backend, cc grpc.ClientConnInterface) {
	t.Helper()
	before := b.Count()
	ctx, cancel := context.WithCancel(context.Background())
	var call sync.WaitGroup
	call.Go(func() { _, _ = testkit.Unary(ctx, cc) })
	t.Cleanup(func() {
		cancel()
		call.Wait()
	})
	testkit.Eventually(t, "a call hangs in "+b.Name, func() bool { return b.Count() > before })
}

// outliers has Envoy eject a host after two failures, and keep it out.
func outliers() envoy.JSON {
	return envoy.JSON{
		"consecutive_5xx": 2, "enforcing_consecutive_5xx": 100, "enforcing_success_rate": 0,
		"interval": "0.05s", "base_ejection_time": "300s", "max_ejection_percent": 100,
	}
}

// TestOutlierHost has a cluster with a host that fails and one that does not. Both
// sides take out the host, and go on with the cluster.
func TestOutlierHost(t *testing.T) {
	t.Parallel()
	s := start(t, testkit.U, testkit.OK, testkit.OK)
	bad, good, next := s[0], s[1], s[2]
	r := testkit.NewResolver(t)
	_ = r.Update(bad, good)
	for side, cc := range map[string]grpc.ClientConnInterface{
		"Envoy": viaEnvoy(t, []envoy.Cluster{
			{Name: "pair", Hosts: []string{bad.Addr, good.Addr}, More: envoy.JSON{"outlier_detection": outliers()}},
			{Name: "next", Hosts: []string{next.Addr}},
		}, nil),
		"ours": ours(t, testkit.Service{Clusters: append([]testkit.Cluster{{Name: "pair", Target: r.Target(), More: map[string]any{
			"childPolicy": []any{map[string]any{"outlier_detection_experimental": map[string]any{
				"interval": "0.05s", "baseEjectionTime": "300s", "maxEjectionPercent": 100,
				"failurePercentageEjection": map[string]any{"threshold": 50, "enforcementPercentage": 100, "minimumHosts": 1, "requestVolume": 2},
				"childPolicy":               []any{map[string]any{"round_robin": map[string]any{}}},
			}}},
		}}}, testkit.Clusters(next)...)}),
	} {
		testkit.Eventually(t, side+": the host is ejected", func() bool {
			before := bad.Count()
			for range 6 {
				_, _ = testkit.Unary(testkit.Context(t), cc)
			}
			return bad.Count() == before
		})
		s.check(t, side, cc, "0/1/0", codes.OK)
	}
}

// TestOutlierCluster has a cluster whose only host fails. Envoy panics and goes on
// with it, request by request; cooldown takes the whole cluster out.
func TestOutlierCluster(t *testing.T) {
	t.Parallel()
	s := start(t, testkit.U, testkit.OK)
	for name, more := range map[string]envoy.JSON{
		"Envoy":                {"outlier_detection": outliers()},
		"Envoy, without panic": {"outlier_detection": outliers(), "common_lb_config": envoy.JSON{"healthy_panic_threshold": envoy.JSON{"value": 0}}},
	} {
		cc := viaEnvoy(t, s.clusters(more), retry(1, "unavailable"))
		if name == "Envoy" {
			for range 10 {
				s.check(t, name, cc, "1/1", codes.OK)
			}
			continue
		}
		testkit.Eventually(t, "the host is ejected", func() bool {
			before := s[0].Count()
			_, _ = testkit.Unary(testkit.Context(t), cc)
			return s[0].Count() == before
		})
		s.check(t, name, cc, "0/1", codes.OK)
	}
	own := ours(t, s.service(2, map[string]any{"cooldown": map[string]any{"consecutiveFailures": 2, "time": "300s"}}))
	s.check(t, "ours", own, "1/1", codes.OK)
	s.check(t, "ours", own, "1/1", codes.OK)
	s.check(t, "ours, at rest", own, "0/1", codes.OK)
}
