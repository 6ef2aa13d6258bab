package composite_test

import (
	"testing"

	"google.golang.org/grpc"

	"github.com/grpc-composite/grpc-composite/balancer/composite"
	"github.com/grpc-composite/grpc-composite/internal/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// dial opens a channel with the service's config, of which metrics are recorded
// unless it is for a benchmark.
func dial(t testing.TB, s testkit.Service, opts ...grpc.DialOption) *grpc.ClientConn {
	t.Helper()
	return dialTarget(t, "composite:///", s, opts...)
}

func dialTarget(t testing.TB, target string, s testkit.Service, opts ...grpc.DialOption) *grpc.ClientConn {
	t.Helper()
	all := append(composite.DialOptions(), grpc.WithDefaultServiceConfig(s.JSON()))
	if _, bench := t.(*testing.B); bench {
		return testkit.Dial(t, target, append(all, opts...)...)
	}
	metrics := testkit.NewMetrics()
	cc := testkit.Dial(t, target, append(append(all, metrics.DialOption()), opts...)...)
	metricsOf.Store(cc, metrics)
	t.Cleanup(func() { metricsOf.Delete(cc) })
	return cc
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
