package differences

import (
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/grpc-composite/grpc-composite/balancer/composite"
	"github.com/grpc-composite/grpc-composite/internal/testkit"
	"github.com/grpc-composite/grpc-composite/interop/envoy"
)

// TestConnectionRefused has a first cluster with a closed port. Envoy finds out by
// an attempt, which is retried only if the policy has a condition for that. Here
// the cluster is skipped, and each attempt after that starts at its own place: b is
// the second one's too.
func TestConnectionRefused(t *testing.T) {
	t.Parallel()
	s := start(t, testkit.U, testkit.OK)
	clusters := append([]envoy.Cluster{{Name: "dead", Hosts: []string{testkit.ClosedPort}}}, s.clusters(nil)...)
	s.check(t, "Envoy, gRPC's conditions", viaEnvoy(t, clusters, retry(2, "unavailable,internal")), "0/0", codes.Unavailable, "remote connection failure")
	s.check(t, "Envoy, connect-failure", viaEnvoy(t, clusters, retry(2, "unavailable,connect-failure")), "1/1", codes.OK)

	service := s.service(3, nil)
	service.Clusters = append([]testkit.Cluster{{Name: "dead", Target: "passthrough:///" + testkit.ClosedPort}}, service.Clusters...)
	s.check(t, "ours", ours(t, service), "2/1", codes.OK)
	service.More = map[string]any{"progression": "NEXT_CLUSTER"}
	s.check(t, "ours, without a second try", ours(t, service), "1/1", codes.OK)
	service.Attempts = 0
	s[0].Script(testkit.OK)
	s.check(t, "ours, without a retry policy", ours(t, service), "1/0", codes.OK)
}

// TestNoHostAtAll has an attempt that finds no host, as it may look at its own
// place alone. Envoy ends the request; here the retry policy decides.
func TestNoHostAtAll(t *testing.T) {
	t.Parallel()
	s := start(t, testkit.U, testkit.OK)
	clusters := append(s.clusters(nil), envoy.Cluster{Name: "empty"})
	s.check(t, "Envoy", envoyOver(t, false, []string{"a", "empty", "b"}, clusters, retry(2, "unavailable,5xx,gateway-error,reset,connect-failure")), "1/0", codes.Unavailable, "no healthy upstream")

	service := s.service(3, nil)
	service.Clusters = []testkit.Cluster{service.Clusters[0], {Name: "empty", Target: testkit.EmptyTarget}, service.Clusters[1]}
	service.More = map[string]any{"skipClustersWithoutHosts": false}
	s.check(t, "ours", ours(t, service), "1/1", codes.OK)
	service.More["noHost"] = "FAIL_REQUEST"
	s.check(t, "ours, Envoy's way", ours(t, service), "1/0", codes.Unavailable, "no_healthy_upstream", `attempt 1: UNAVAILABLE "scripted"`)
}

// TestPanic has a first cluster whose only host is known to be ill. Envoy still
// uses it, unless its threshold for that is 0.
func TestPanic(t *testing.T) {
	t.Parallel()
	ill := testkit.StartWith(t, "ill", func(server *grpc.Server) {
		h := health.NewServer()
		h.SetServingStatus("", healthpb.HealthCheckResponse_NOT_SERVING)
		healthpb.RegisterHealthServer(server, h)
	})
	well := testkit.StartWith(t, "well", func(server *grpc.Server) { healthpb.RegisterHealthServer(server, health.NewServer()) })
	s := servers{ill, well}
	clusters := s.clusters(nil)
	clusters[0].Hosts, clusters[0].Unhealthy = nil, clusters[0].Hosts
	s.check(t, "Envoy", viaEnvoy(t, clusters, nil), "1/0", codes.OK)
	clusters[0].More = envoy.JSON{"common_lb_config": envoy.JSON{"healthy_panic_threshold": envoy.JSON{"value": 0}}}
	s.check(t, "Envoy, without panic", viaEnvoy(t, clusters, nil), "0/1", codes.OK)

	service := s.service(0, nil)
	service.Other = map[string]any{"healthCheckConfig": map[string]any{"serviceName": ""}}
	s.check(t, "ours", ours(t, service), "0/1", codes.OK)
}

// TestMissingCluster has a list with a cluster that does not exist, which has no
// host for Envoy. Here a list in a config cannot have one, and an RPC's own list
// must not.
func TestMissingCluster(t *testing.T) {
	t.Parallel()
	s := start(t, testkit.OK)
	list := []string{"missing", "a"}
	s.check(t, "Envoy", envoyOver(t, true, list, s.clusters(nil), nil), "1", codes.OK)
	s.check(t, "Envoy, without skipping", envoyOver(t, false, list, s.clusters(nil), retry(1, "unavailable,5xx")), "0", codes.Unavailable, "no healthy upstream")

	cc := ours(t, s.service(0, nil))
	_, err := testkit.Unary(composite.WithClusters(testkit.Context(t), list...), cc)
	if got := s[0].Count(); got != 1 { // Envoy's
		t.Errorf("ours: %d calls: want none", got-1)
	}
	checkCode(t, err, codes.Internal, `"missing"`, "the config has a")
}

// TestSkippingIsOfAChannel has two lists that do not agree about skipping. Envoy's
// runtime feature is the same for both; here it is a field of each config.
func TestSkippingIsOfAChannel(t *testing.T) {
	t.Parallel()
	s := start(t, testkit.OK)
	for _, skip := range []bool{false, true} {
		e := envoy.Start(t, envoy.Config{
			SkipClustersWithoutHosts: skip,
			Clusters: append(s.clusters(nil), envoy.Cluster{Name: "empty"},
				envoy.Cluster{Name: "one", List: []string{"empty", "a"}}, envoy.Cluster{Name: "two", List: []string{"empty", "a"}}),
			Routes: []envoy.Route{{Name: "one", Cluster: "one"}, {Name: "two", Cluster: "two"}},
		})
		for _, route := range []string{"one", "two"} {
			if skip {
				s.check(t, "Envoy "+route, e.Route(route), "1", codes.OK)
			} else {
				s.check(t, "Envoy "+route, e.Route(route), "0", codes.Unavailable, "no healthy upstream")
			}
		}
	}
	service := s.service(0, nil)
	service.Clusters = append([]testkit.Cluster{{Name: "empty", Target: testkit.EmptyTarget}}, service.Clusters...)
	skipping := ours(t, service)
	service.More = map[string]any{"skipClustersWithoutHosts": false}
	own := ours(t, service)
	s.check(t, "ours", skipping, "1", codes.OK)
	s.check(t, "ours, without skipping", own, "0", codes.Unavailable, "no_healthy_upstream")
	s.check(t, "ours", skipping, "1", codes.OK)
}
