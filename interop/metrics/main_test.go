// Package metrics reads this library's metrics back through what programs use to
// export them: gRPC's OpenTelemetry plugin, the OpenTelemetry SDK and Prometheus.
package metrics

import (
	"fmt"
	"testing"

	"go.opentelemetry.io/otel/sdk/metric"
	"google.golang.org/grpc"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/stats/opentelemetry"

	"github.com/grpc-composite/grpc-composite/balancer/composite"
	"github.com/grpc-composite/grpc-composite/internal/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// all are the names by which a program turns the metrics on.
var all = []string{"composite.picks", "composite.skips", "composite.exhausted", "composite.attempt_timeouts"}

// plugin is gRPC's plugin, which exports metrics of these names to a reader.
func plugin(t *testing.T, reader metric.Reader, names *stats.MetricSet) grpc.DialOption {
	t.Helper()
	provider := metric.NewMeterProvider(metric.WithReader(reader))
	t.Cleanup(func() {
		if err := provider.Shutdown(t.Context()); err != nil {
			t.Log(err) // the test's context is over by now
		}
	})
	return opentelemetry.DialOption(opentelemetry.Options{
		MetricsOptions: opentelemetry.MetricsOptions{MeterProvider: provider, Metrics: names},
	})
}

// dial opens a composite channel with the plugin.
func dial(t *testing.T, target string, s testkit.Service, plugin grpc.DialOption) *grpc.ClientConn {
	t.Helper()
	return testkit.Dial(t, target, append(composite.DialOptions(), plugin, grpc.WithDefaultServiceConfig(s.JSON()))...)
}

// cluster is a cluster with more settings.
func cluster(name, target string, more map[string]any) testkit.Cluster {
	return testkit.Cluster{Name: name, Target: target, More: more}
}

// closed is a cluster that nobody listens for.
func closed(name string) testkit.Cluster {
	return cluster(name, "passthrough:///"+testkit.ClosedPort, nil)
}

// scripted starts a server for each reply, and returns their clusters: a, b, ...
func scripted(t *testing.T, replies ...testkit.Reply) []testkit.Cluster {
	t.Helper()
	var clusters []testkit.Cluster
	for i, reply := range replies {
		b := testkit.Start(t, fmt.Sprint(string(rune('a'+i))))
		b.Script(reply)
		clusters = append(clusters, cluster(b.Name, b.Target(), nil))
	}
	return clusters
}
