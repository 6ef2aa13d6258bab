package fromenvoy_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/grpc-composite/grpc-composite/interop/cmd/compositectl/internal/fromenvoy"
)

// maxSeed is how large a file may be to begin with, in bytes: from larger ones the
// fuzzer gets nowhere.
const maxSeed = 1 << 10

// FuzzConvert checks that a file either makes a service config that is accepted, or an
// error, and that what is said can be shown.
func FuzzConvert(f *testing.F) {
	files, err := filepath.Glob("../../testdata/envoy/*.*")
	if err != nil || len(files) == 0 {
		f.Fatalf("no files to begin with: %v", err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		if len(data) <= maxSeed {
			f.Add(data)
		}
	}
	f.Add([]byte(compact(all("retry_on: reset, per_try_timeout: 0.2s"), "outlier_detection: {interval: 5s}", "health_checks: [{grpc_health_check: {}}]")))
	f.Add([]byte(`{"clusters":[{"name":"t","clusterType":{"name":"envoy.clusters.composite","typedConfig":{"clusters":[{"name":"a"}]}}},{"name":"a"}]}`))
	f.Fuzz(func(t *testing.T, data []byte) { convert(t, data) })
}

// FuzzConvertParts is FuzzConvert for files of which only a route and the settings of
// two clusters are odd: the fuzzer hardly ever makes a whole file that can be read.
func FuzzConvertParts(f *testing.F) {
	for _, policy := range []string{
		`retry_on: "cancelled,deadline-exceeded,internal,resource-exhausted,unavailable", num_retries: 3`,
		`retry_on: "connect-failure,envoy-ratelimited,5xx,reset", num_retries: 64, per_try_timeout: 0.2s`,
		"retry_on: unavailable, retry_back_off: {base_interval: 0.001s, max_interval: 1ms}",
		"retry_host_predicate: [{name: envoy.retry_host_predicates.previous_hosts}], host_selection_retry_max_attempts: 3",
	} {
		f.Add(all(policy), "", "")
	}
	for _, route := range []string{
		"{match: {path: /p.S/M}, route: {cluster: tiers, timeout: 1s}},",
		"{match: {path_separated_prefix: /p.S}, route: {weighted_clusters: {clusters: [{name: tiers, weight: 90}, {name: a}]}}},",
		"{match: {safe_regex: {regex: x}}, redirect: {}, route: {cluster_header: x}},",
		"{match: {path: /p.S/M}, route: {cluster: a}}, {match: {prefix: /p.S/}, route: {cluster: tiers}}, {match: {path: /p.S/M}, route: {cluster: tiers}},",
		"{match: {prefix: /p., headers: [{name: x}]}, route: {cluster: a}}, {match: {prefix: /P.s/M, case_sensitive: false}, route: {cluster: a}}, {match: {path: /p.S/M}, route: {cluster: tiers}},",
		"]}], rds: {route_config_name: far}, x: [{y: [",
	} {
		f.Add(route, "", "")
	}
	for _, settings := range []string{
		"health_checks: [{grpc_health_check: {service_name: s}}]",
		"load_balancing_policy: {policies: [{typed_extension_config: {name: envoy.load_balancing_policies.least_request}}]}",
		"lb_policy: LEAST_REQUEST, least_request_lb_config: {choice_count: 11}",
		"cluster_type: {name: x, typed_config: {'@type': t/envoy.extensions.clusters.dns.v3.DnsCluster}}",
		"load_assignment: {policy: {drop_overloads: []}, endpoints: [{lb_endpoints: [{health_status: DRAINING}, {endpoint: {hostname: h}}]}]}",
		"lb_policy: RING_HASH, connect_timeout: 2s, dns_lookup_family: V4_ONLY, respect_dns_ttl: true",
		"outlier_detection: {interval: 5s, consecutive_5xx: 7, enforcing_success_rate: 0, success_rate_stdev_factor: x}",
		"circuit_breakers: {thresholds: [{priority: HIGH, max_requests: 0}, {max_requests: 5}], per_host_thresholds: []}",
		"type: STATIC, load_assignment: {endpoints: [{priority: 1, lb_endpoints: [{endpoint: {address: {pipe: {path: /x}}}}]}]}",
		"transport_socket: {name: envoy.transport_sockets.tls, typed_config: {sni: x}}",
		"cluster_type: {name: envoy.clusters.composite, typed_config: {clusters: [{name: b}, {name: tiers}]}}",
	} {
		f.Add(all("retry_on: unavailable"), settings, "")
		f.Add("", settings, settings)
	}
	f.Fuzz(func(t *testing.T, route, a, b string) { convert(t, []byte(compact(route, a, b))) })
}

var blankLines = regexp.MustCompile(`\n{2,}`)

// compact is config without blank lines.
func compact(route, a, b string) string {
	return blankLines.ReplaceAllString(config([]string{route}, a, b), "\n")
}

func convert(t *testing.T, data []byte) {
	t.Helper()
	got, err := fromenvoy.Convert(data, "")
	if err != nil {
		if !utf8.ValidString(err.Error()) {
			t.Errorf("the error %q is not valid UTF-8", err)
		}
		return
	}
	cc, err := grpc.NewClient("passthrough:///", grpc.WithDefaultServiceConfig(got.ServiceConfig), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatalf("the service config\n%s\nis refused: %v", got.ServiceConfig, err)
	}
	_ = cc.Close()
	for _, n := range got.Notes {
		if n.Line < 1 || n.Text == "" || !utf8.ValidString(n.Text) || strings.ContainsAny(n.Text, "\n\x1b") {
			t.Errorf("the note %d: %q cannot be shown", n.Line, n.Text)
		}
	}
}
