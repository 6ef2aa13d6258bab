package composite_test

import (
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"

	"github.com/grpc-composite/grpc-composite/balancer/composite"
	"github.com/grpc-composite/grpc-composite/internal/testkit"
)

// TestHealthChecksCarryNoToken looks at what a health check brings to a server.
// It belongs to a connection and not to an attempt.
func TestHealthChecksCarryNoToken(t *testing.T) {
	t.Parallel()
	checks := make(chan metadata.MD, 16)
	a := testkit.StartWith(t, "a",
		func(s *grpc.Server) { healthpb.RegisterHealthServer(s, health.NewServer()) },
		grpc.StreamInterceptor(func(srv any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
			md, _ := metadata.FromIncomingContext(stream.Context())
			checks <- md
			return handler(srv, stream)
		}))
	cc := dial(t, testkit.Service{
		Clusters: patient([]*testkit.Backend{a}),
		Other:    map[string]any{"healthCheckConfig": map[string]any{"serviceName": ""}},
	}, grpc.WithPerRPCCredentials(composite.NewPerRPCCredentials(callByCluster{"a": &token{value: "a"}})))
	call(t, cc)
	if md := <-checks; len(md["authorization"]) > 0 {
		t.Errorf("a health check brought %v: want no token", md)
	}
	wantSeen(t, "authorization", []*testkit.Backend{a}, "[a]")
}
