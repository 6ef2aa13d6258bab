package metrics

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	otelprometheus "go.opentelemetry.io/otel/exporters/prometheus"
	"google.golang.org/grpc/stats"

	"github.com/grpc-composite/grpc-composite/internal/testkit"
)

// scrape gets what Prometheus would from an endpoint: the lines of composite_*.
func scrape(t *testing.T, url string) []string {
	t.Helper()
	req, err := http.NewRequestWithContext(testkit.Context(t), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("status %d, %v", resp.StatusCode, err)
	}
	var lines []string
	for line := range strings.Lines(string(body)) {
		if strings.Contains(line, "composite_") {
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	return lines
}

// TestPrometheus reads all metrics back through a Prometheus endpoint.
func TestPrometheus(t *testing.T) {
	registry := prometheus.NewRegistry()
	exporter, err := otelprometheus.New(otelprometheus.WithRegisterer(registry), otelprometheus.WithoutScopeInfo())
	if err != nil {
		t.Fatal(err)
	}
	s := testkit.Service{
		Clusters: append([]testkit.Cluster{closed("primary")}, scripted(t, testkit.Reply{Hang: true}, testkit.U)...),
		Attempts: 4, Retryable: []string{"UNAVAILABLE", "DEADLINE_EXCEEDED"},
	}
	s.Clusters[1].More = map[string]any{"attemptTimeout": "0.05s"}
	cc := dial(t, "composite:///", s, plugin(t, exporter, stats.NewMetricSet(all...)))
	server := httptest.NewServer(promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	defer server.Close()
	for n := 1; n <= 2; n++ {
		call(t, cc)
		got := slices.DeleteFunc(scrape(t, server.URL), func(line string) bool { return strings.HasPrefix(line, "# HELP") })
		want := []string{
			`# TYPE composite_attempt_timeouts_total counter`,
			fmt.Sprintf(`composite_attempt_timeouts_total{composite_cluster="a",grpc_target="composite:///"} %d`, 2*n),
			`# TYPE composite_exhausted_total counter`,
			fmt.Sprintf(`composite_exhausted_total{composite_reason="overflow",grpc_target="composite:///"} %d`, n),
			`# TYPE composite_picks_total counter`,
			fmt.Sprintf(`composite_picks_total{composite_attempt="1",composite_cluster="a",grpc_target="composite:///"} %d`, n),
			fmt.Sprintf(`composite_picks_total{composite_attempt="2",composite_cluster="a",grpc_target="composite:///"} %d`, n),
			fmt.Sprintf(`composite_picks_total{composite_attempt="3",composite_cluster="b",grpc_target="composite:///"} %d`, n),
			`# TYPE composite_skips_total counter`,
			fmt.Sprintf(`composite_skips_total{composite_cluster="primary",composite_reason="transient_failure",grpc_target="composite:///"} %d`, n),
		}
		if !slices.Equal(got, want) {
			t.Errorf("after %d RPCs\n\t%s\nwant\n\t%s", n, strings.Join(got, "\n\t"), strings.Join(want, "\n\t"))
		}
	}
	http.DefaultClient.CloseIdleConnections()
}
