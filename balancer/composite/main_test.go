package composite_test

import (
	"testing"

	"google.golang.org/grpc"

	"github.com/grpc-composite/grpc-composite/balancer/composite"
	"github.com/grpc-composite/grpc-composite/internal/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// dial opens a channel with the service's config.
func dial(t testing.TB, s testkit.Service, opts ...grpc.DialOption) *grpc.ClientConn {
	t.Helper()
	return dialTarget(t, "composite:///", s, opts...)
}

func dialTarget(t testing.TB, target string, s testkit.Service, opts ...grpc.DialOption) *grpc.ClientConn {
	t.Helper()
	all := append(composite.DialOptions(), grpc.WithDefaultServiceConfig(s.JSON()))
	return testkit.Dial(t, target, append(all, opts...)...)
}

// startAll starts a server for each name.
func startAll(t testing.TB, names ...string) []*testkit.Backend {
	t.Helper()
	var backends []*testkit.Backend
	for _, name := range names {
		backends = append(backends, testkit.Start(t, name))
	}
	return backends
}
