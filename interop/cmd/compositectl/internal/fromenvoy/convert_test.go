package fromenvoy_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	_ "github.com/grpc-composite/grpc-composite/balancer/composite"
	"github.com/grpc-composite/grpc-composite/interop/cmd/compositectl/internal/fromenvoy"
)

// config is an Envoy's configuration with a composite cluster of a and b: its routes
// start at line 4, a's settings at line 100 and b's at line 200.
func config(routes []string, a, b string) string {
	lines := make([]string, 210)
	lines[0] = "routes: {virtual_hosts: [{"
	lines[1] = "routes: ["
	copy(lines[3:], routes)
	lines[90] = "]}]}"
	lines[91] = `clusters: [{name: tiers, lb_policy: CLUSTER_PROVIDED, cluster_type: {name: envoy.clusters.composite, typed_config: {clusters: [{name: a}, {name: b}]}}},`
	lines[98] = "{name: a, type: STRICT_DNS, load_assignment: {endpoints: [{lb_endpoints: [{endpoint: {address: {socket_address: {address: a.example, port_value: 1}}}}]}]},"
	lines[99] = a
	lines[100] = "},"
	lines[198] = "{name: b, type: STRICT_DNS, load_assignment: {endpoints: [{lb_endpoints: [{endpoint: {address: {socket_address: {address: b.example, port_value: 2}}}}]}]},"
	lines[199] = b
	lines[200] = "}]"
	return strings.Join(lines, "\n") + "\n"
}

// all is a route for all methods with a retry policy.
func all(policy string) string {
	return "{match: {prefix: /}, route: {cluster: tiers, timeout: 1s, retry_policy: {" + policy + "}}},"
}

const someBackoff = ", num_retries: 1, retry_back_off: {base_interval: 0.001s}"

// methods, clusters and health are the parts of a service config that cases look at.
const (
	codesPart    = `methodConfig.0.retryPolicy.retryableStatusCodes`
	attemptsPart = `methodConfig.0.retryPolicy.maxAttempts`
	clusterA     = `loadBalancingConfig.0.composite.clusters.0`
)

// limits is the note of a composite cluster without circuit_breakers.
const limits = "circuit_breakers: left out, so in Envoy max_retries is 3: no retry is made while 3 others are under way. It is not carried over: gRPC has no limit on retries but retryThrottling, which stops those to healthy clusters too. Nor is max_requests of the clusters that leave it out, which is 1024"

func TestConvert(t *testing.T) {
	const (
		backoff = "retry_back_off: Envoy draws each wait from nothing to the interval (base 1ms, doubled up to 10ms); gRPC waits the interval, give or take 20 %. The next attempt goes to another cluster: it need not wait, and 0.001s will do"
		refused = "retry_on: in Envoy a refused connection ends the request, for want of connect-failure, reset, 5xx or gateway-error; here the cluster has no host, and is skipped within the attempt"
		carried = "per_try_timeout: carried over as attemptTimeout of each cluster, which is DEADLINE_EXCEEDED here"
		want5xx = ", for want of 5xx, gateway-error or reset in retry_on"
	)
	for _, tc := range []struct {
		name   string
		routes []string
		a, b   string
		part   string // of the service config
		want   string
		notes  []string // besides those of retry_back_off, refused connections and Envoy's limits by default
	}{
		{name: "a gRPC condition", routes: []string{all("retry_on: unavailable" + someBackoff)}, part: codesPart, want: `["UNAVAILABLE"]`},
		{name: "all gRPC conditions", routes: []string{all(`retry_on: "cancelled,deadline-exceeded,internal,resource-exhausted,unavailable"` + someBackoff)},
			part: codesPart, want: `["CANCELLED","DEADLINE_EXCEEDED","INTERNAL","RESOURCE_EXHAUSTED","UNAVAILABLE"]`},
		{name: "other conditions", routes: []string{all(`retry_on: "unavailable,connect-failure,envoy-ratelimited,made-up"` + someBackoff)}, part: codesPart, want: `["UNAVAILABLE"]`, notes: []string{
			`4: retry_on "connect-failure": carried over as UNAVAILABLE: a cluster whose connections fail has no host here, and is skipped within the attempt`,
			`4: retry_on "envoy-ratelimited": not carried over: it is about a header of Envoy's`,
			`4: retry_on "made-up": not carried over: it is not a condition of Envoy 1.40`}},
		{name: "no condition with a code", routes: []string{all(`retry_on: "retriable-4xx"` + someBackoff)}, part: `methodConfig.0`, want: `{"name":[{}],"timeout":"1s"}`, notes: []string{
			`4: retry_on "retriable-4xx": not carried over: it is about HTTP 409, and a gRPC server's error is HTTP 200`,
			`4: retry_on: none of its conditions has a gRPC status code: there is no retry policy, and an RPC has one attempt`}},

		{name: "no retries", routes: []string{all("retry_on: unavailable, num_retries: 0")}, part: `methodConfig.0`, want: `{"name":[{}],"timeout":"1s"}`},
		{name: "one retry by default", routes: []string{all("retry_on: unavailable, retry_back_off: {base_interval: 0.001s}")}, part: attemptsPart, want: "2", notes: []string{
			"4: num_retries: left out, so in Envoy it is 1, which is carried over"}},
		{name: "many retries", routes: []string{all("retry_on: unavailable, num_retries: 64, retry_back_off: {base_interval: 0.001s}")}, part: attemptsPart, want: "64", notes: []string{
			"4: num_retries: 64 is more than a channel makes: 64 attempts are the most"}},
		{name: "a number of retries that is none", routes: []string{all("retry_on: unavailable, num_retries: many, retry_back_off: {base_interval: 0.001s}")}, part: attemptsPart, want: "2", notes: []string{
			"4: num_retries: not carried over: many is not a number of retries; 1 is taken"}},
		{name: "back-offs that are none", routes: []string{all("retry_on: unavailable, num_retries: 1, retry_back_off: {base_interval: 0.001s, max_interval: 1ms}")}, part: `methodConfig.0.retryPolicy.maxBackoff`, want: `"0.01s"`, notes: []string{
			"4: max_interval: not carried over: 1ms is not a duration"}},

		{name: "a timeout of tries that is retried", routes: []string{all("retry_on: reset, per_try_timeout: 0.2s" + someBackoff)}, part: codesPart, want: `["UNAVAILABLE","DEADLINE_EXCEEDED"]`, notes: []string{
			`4: retry_on "reset": carried over as UNAVAILABLE: a lost connection is UNAVAILABLE here; a stream that is reset with INTERNAL_ERROR is INTERNAL, which you may add`,
			"4: retry_on: in Envoy this policy never moves on from a gRPC error reply: it has none of cancelled, deadline-exceeded, internal, resource-exhausted and unavailable",
			"4: retry_on: gRPC cannot tell a lost connection from a server's own UNAVAILABLE, so that is retried, too; in Envoy it was not",
			"4: " + carried + ", so that code is retried; a server's own DEADLINE_EXCEEDED is, too"}},
		{name: "a timeout of tries that is not retried", routes: []string{all("retry_on: unavailable, per_try_timeout: 0.2s" + someBackoff)}, part: clusterA + ".attemptTimeout", want: `"0.2s"`, notes: []string{
			"4: " + carried + ", and ends the RPC, as in Envoy" + want5xx + "; add DEADLINE_EXCEEDED to retryableStatusCodes to have it go on to the next cluster"}},
		{name: "a timeout of tries that Envoy does not retry", routes: []string{all("retry_on: deadline-exceeded, per_try_timeout: 0.2s" + someBackoff)}, part: codesPart, want: `["DEADLINE_EXCEEDED"]`, notes: []string{
			"4: " + carried + ", so that it is retried; in Envoy it was not" + want5xx}},
		{name: "a timeout of tries that is none", routes: []string{all("retry_on: unavailable, per_try_timeout: 200ms" + someBackoff)}, part: clusterA + ".attemptTimeout", want: "", notes: []string{
			"4: per_try_timeout: not carried over: 200ms is not a duration"}},
		{name: "timeouts of several routes", routes: []string{
			"{match: {path: /p.S/M}, route: {cluster: tiers, timeout: 1s, retry_policy: {retry_on: unavailable, per_try_timeout: 0.3s" + someBackoff + "}}},",
			all("retry_on: unavailable, per_try_timeout: 0.2s" + someBackoff)}, part: clusterA + ".attemptTimeout", want: `"0.3s"`, notes: []string{
			"4: " + carried + ", and ends the RPC, as in Envoy" + want5xx + "; add DEADLINE_EXCEEDED to retryableStatusCodes to have it go on to the next cluster",
			"5: per_try_timeout: 200ms is carried over as 300ms: attemptTimeout is of a cluster, and holds for all methods, and the route at line 4 has that",
			"5: " + carried + ", and ends the RPC, as in Envoy" + want5xx + "; add DEADLINE_EXCEEDED to retryableStatusCodes to have it go on to the next cluster"}},
		{name: "a route without a timeout of tries", routes: []string{
			"{match: {path: /p.S/M}, route: {cluster: tiers, timeout: 1s}},",
			all("retry_on: unavailable, per_try_timeout: 0.2s" + someBackoff)}, part: clusterA + ".attemptTimeout", want: "", notes: []string{
			"4: this route has no retry_policy: an RPC has one attempt",
			"5: per_try_timeout: not carried over: attemptTimeout is of a cluster, and holds for all methods, and the route at line 4 has no per_try_timeout"}},

		{name: "no timeout", routes: []string{"{match: {prefix: /}, route: {cluster: tiers, timeout: 0s}},"}, part: `methodConfig.0`, want: `{"name":[{}]}`, notes: []string{
			"4: this route has no retry_policy: an RPC has one attempt"}},
		{name: "a timeout that is none", routes: []string{"{match: {prefix: /}, route: {cluster: tiers, timeout: -1s}},"}, part: `methodConfig.0`, want: `{"name":[{}]}`, notes: []string{
			"4: this route has no retry_policy: an RPC has one attempt",
			"4: timeout: not carried over: -1s is not a duration"}},
		{name: "routes", routes: []string{
			"{match: {path: /p.S/M}, route: {cluster: tiers, timeout: 1s, retry_policy: {retry_on: internal" + someBackoff + "}}},",
			"{match: {path: /p.S/M}, route: {cluster: tiers}},",
			"{match: {path_separated_prefix: /p.S}, route: {cluster: tiers, timeout: 2s, retry_policy: {retry_on: internal" + someBackoff + "}}},",
			"{match: {path: /p.S/N}, route: {cluster: tiers}},",
			"{match: {path: /p}, route: {cluster: tiers}},",
			"{match: {safe_regex: {regex: x}}, route: {cluster: tiers}},",
			"{match: {prefix: /p.S/M}, route: {cluster: tiers}},",
			"{match: {prefix: /}, route: {cluster: other}},",
			"{match: {prefix: /p.T/}, route: {cluster: tiers}},",
		}, part: `methodConfig.1.name`, want: `[{"service":"p.S"}]`, notes: []string{
			"5: this route is not carried over: the one at line 4 comes first",
			"7: this route is not carried over: the one at line 6 comes first",
			"8: this route is not carried over: its match is no method of a service",
			"9: this route is not carried over: a methodConfig tells methods apart by their names alone, and not by safe_regex",
			"10: this route is not carried over: a methodConfig names a whole service or one method, and not what begins with /p.S/M",
			"12: this route is never reached: the one at line 11 takes every request"}},
		{name: "a route behind one to another cluster", routes: []string{
			"{match: {prefix: /p.S/}, route: {cluster: other}},",
			"{match: {path: /p.S/M}, route: {cluster: tiers, timeout: 1s}},",
			"{match: {prefix: /p.S/}, route: {cluster: tiers}},",
			"{match: {path: /p.T/M}, redirect: {}},",
			"{match: {path: /p.T/M}, route: {cluster: tiers}},",
			"{match: {path: /p.T/N}, route: {cluster: tiers, timeout: 1s}},",
		}, part: `methodConfig`, want: `[{"name":[{"method":"N","service":"p.T"}],"timeout":"1s"}]`, notes: []string{
			`5: this route is never reached: the one at line 4 takes its requests to cluster "other"`,
			`6: this route is never reached: the one at line 4 takes its requests to cluster "other"`,
			"8: this route is never reached: the one at line 7 takes its requests elsewhere",
			"9: this route has no retry_policy: an RPC has one attempt"}},
		{name: "methods of other clusters", routes: []string{
			"{match: {path: /p.S/M}, route: {cluster: other}},",
			"{match: {path: /p.S/N}, direct_response: {status: 404}},",
			"{match: {path_separated_prefix: /p.T}, route: {cluster: other}},",
			"{match: {prefix: /p.S/}, route: {cluster: tiers, timeout: 2s}},",
			"{match: {path: /p.S/O}, route: {cluster: other}},",
			"{match: {path: /p.T/M}, route: {cluster: other}},",
			all("retry_on: unavailable" + someBackoff),
		}, part: `methodConfig.0.name`, want: `[{"service":"p.S"}]`, notes: []string{
			"7: this route has no retry_policy: an RPC has one attempt",
			`7: p.S/M goes to cluster "other" in Envoy, by the route at line 4, and to this list here`,
			"7: p.S/N goes elsewhere in Envoy, by the route at line 5, and to this list here",
			`10: p.S/M goes to cluster "other" in Envoy, by the route at line 4, and to this list here`,
			"10: p.S/N goes elsewhere in Envoy, by the route at line 5, and to this list here",
			`10: each method of p.T goes to cluster "other" in Envoy, by the route at line 6, and to this list here`}},
		{name: "the rest of a service to another cluster", routes: []string{
			"{match: {path: /p.S/M}, route: {cluster: tiers, timeout: 1s}},",
			"{match: {prefix: /p.S/}, route: {cluster: other}},",
			all("retry_on: unavailable" + someBackoff),
		}, part: `methodConfig.1.name`, want: "[{}]", notes: []string{
			"4: this route has no retry_policy: an RPC has one attempt",
			`6: each other method of p.S goes to cluster "other" in Envoy, by the route at line 5, and to this list here`}},
		{name: "requests of other clusters that have no method's name", routes: []string{
			"{match: {prefix: /, headers: [{name: x-canary, present_match: true}, {name: x-user, present_match: true}], grpc: {}}, route: {cluster: other}},",
			"{match: {prefix: /p.}, redirect: {}},",
			"{match: {safe_regex: {regex: /q/.*}}, route: {cluster: other}},",
			"{match: {path: /q.S/M, runtime_fraction: {default_value: {numerator: 5}}}, route: {cluster: other}},",
			"{match: {path_separated_prefix: /q.S, query_parameters: [{name: q}]}, route: {cluster: other}},",
			"{match: {prefix: /Q.s/m, case_sensitive: false}, route: {cluster: other}},",
			"{match: {path: /q.S/N}, route: {cluster: tiers, timeout: 1s}},",
			"{match: {prefix: /q.S/}, route: {cluster: tiers, timeout: 1s}},",
			all("retry_on: unavailable" + someBackoff),
		}, part: `methodConfig.2.name`, want: `[{}]`, notes: []string{
			"10: this route has no retry_policy: an RPC has one attempt",
			`10: requests that match prefix / and headers x-canary, x-user go to cluster "other" in Envoy, by the route at line 4, and to this list here`,
			`10: requests that match safe_regex /q/.* go to cluster "other" in Envoy, by the route at line 6, and to this list here`,
			`10: requests that match path_separated_prefix /q.S and query_parameters q go to cluster "other" in Envoy, by the route at line 8, and to this list here`,
			"11: this route has no retry_policy: an RPC has one attempt",
			`11: requests that match prefix / and headers x-canary, x-user go to cluster "other" in Envoy, by the route at line 4, and to this list here`,
			`11: requests that match safe_regex /q/.* go to cluster "other" in Envoy, by the route at line 6, and to this list here`,
			`11: requests that match path /q.S/M and runtime_fraction go to cluster "other" in Envoy, by the route at line 7, and to this list here`,
			`11: requests that match path_separated_prefix /q.S and query_parameters q go to cluster "other" in Envoy, by the route at line 8, and to this list here`,
			`11: requests that match prefix /Q.s/m go to cluster "other" in Envoy, by the route at line 9, and to this list here`,
			`12: requests that match prefix / and headers x-canary, x-user go to cluster "other" in Envoy, by the route at line 4, and to this list here`,
			`12: requests that match prefix /p. go elsewhere in Envoy, by the route at line 5, and to this list here`,
			`12: requests that match safe_regex /q/.* go to cluster "other" in Envoy, by the route at line 6, and to this list here`,
			`12: requests that match path /q.S/M and runtime_fraction go to cluster "other" in Envoy, by the route at line 7, and to this list here`,
			`12: requests that match path_separated_prefix /q.S and query_parameters q go to cluster "other" in Envoy, by the route at line 8, and to this list here`,
			`12: requests that match prefix /Q.s/m go to cluster "other" in Envoy, by the route at line 9, and to this list here`}},
		{name: "routes behind one of what begins so", routes: []string{
			"{match: {prefix: /p.}, route: {cluster: other}},",
			"{match: {prefix: /p.S/}, route: {cluster: tiers}},",
			"{match: {path_separated_prefix: /q.S/M}, route: {cluster: other}},",
			"{match: {path: /q.S/M}, route: {cluster: tiers}},",
			"{match: {prefix: /Q.s/n, case_sensitive: false}, route: {cluster: other}},",
			"{match: {path: /q.S/No}, route: {cluster: tiers}},",
			"{match: {path: /q.S/O}, route: {cluster: tiers, timeout: 1s}},",
		}, part: `methodConfig`, want: `[{"name":[{"method":"O","service":"q.S"}],"timeout":"1s"}]`, notes: []string{
			`5: this route is never reached: the one at line 4 takes its requests to cluster "other"`,
			`7: this route is never reached: the one at line 6 takes its requests to cluster "other"`,
			`9: this route is never reached: the one at line 8 takes its requests to cluster "other"`,
			"10: this route has no retry_policy: an RPC has one attempt"}},
		{name: "requests that routes before leave nothing of", routes: []string{
			"{match: {prefix: /p.S/}, route: {cluster: tiers, timeout: 1s}},",
			"{match: {prefix: /p.S/, headers: [{name: x-canary}]}, route: {cluster: other}},",
			"{match: {prefix: /p.S/Get}, route: {cluster: other}},",
			"{match: {path: /p.S/M, dynamic_metadata: []}, route: {cluster: other}},",
			"{match: {prefix: /q.}, route: {cluster: tiers}},",
			"{match: {prefix: /q.S/, headers: [{name: x-canary}]}, route: {cluster: other}},",
			"{match: {prefix: /q.S/}, route: {cluster: other}},",
			"{match: {prefix: /q.a}, route: {cluster: other}},",
			all("retry_on: unavailable" + someBackoff),
		}, part: `methodConfig.1.name`, want: `[{}]`, notes: []string{
			"4: this route has no retry_policy: an RPC has one attempt",
			"8: this route is not carried over: a methodConfig names a whole service or one method, and not what begins with /q."}},
		{name: "requests that gRPC does not make", routes: []string{
			"{match: {path: /healthz}, route: {cluster: other}},",
			"{match: {prefix: /static/css/}, route: {cluster: other}},",
			"{match: {prefix: static}, route: {cluster: other}},",
			"{match: {path: ''}, route: {cluster: other}},",
			"{match: {connect_matcher: {}}, route: {cluster: other}},",
			"{match: {}, route: {cluster: other}}, {route: {cluster: other}},",
			all("retry_on: unavailable" + someBackoff),
		}, part: `methodConfig.0.name`, want: `[{}]`},
		{name: "a table of routes that is there twice", routes: []string{
			"{match: {prefix: /p.S/}, route: {cluster: tiers, timeout: 1s}}", "]}]}",
			"again: {virtual_hosts: [{routes: [", "{match: {prefix: /p.S/}, route: {cluster: tiers, timeout: 1s}}", "]}]}",
			"another: {virtual_hosts: [{routes: [", "{match: {prefix: /p.S/}, route: {cluster: tiers, timeout: 2s}}",
		}, part: `methodConfig`, want: `[{"name":[{"service":"p.S"}],"timeout":"1s"}]`, notes: []string{
			"4: this route has no retry_policy: an RPC has one attempt",
			"10: this route is not carried over: the one at line 4 comes first"}},
		{name: "another cluster's route in another virtual host", routes: []string{
			"{match: {path: /p.S/M}, route: {cluster: other}}, {match: {prefix: /p.T/}, route: {cluster: other}}]}, {routes: [",
			"{match: {path: /p.T/M}, route: {cluster: tiers, timeout: 1s}},",
			all("retry_on: unavailable" + someBackoff),
		}, part: `methodConfig.0.name`, want: `[{"method":"M","service":"p.T"}]`, notes: []string{
			"5: this route has no retry_policy: an RPC has one attempt"}},
		{name: "no route", routes: []string{"{match: {prefix: /}, route: {cluster: other}},"}, part: `methodConfig`, want: "", notes: []string{
			`92: the file has no route to "tiers" that a methodConfig can name: there is no retry policy, and so no retry`}},
		{name: "routes elsewhere", routes: []string{"]}], rds: {route_config_name: far}, x: [{y: ["}, part: `methodConfig`, want: "", notes: []string{
			`4: the file has no route to "tiers" that a methodConfig can name; those of RDS are not in it: there is no retry policy, and so no retry`}},

		{name: "the same health check", a: "health_checks: [{grpc_health_check: {service_name: s}}]", b: "health_checks: [{grpc_health_check: {service_name: s}}]",
			routes: []string{all("retry_on: unavailable" + someBackoff)}, part: `healthCheckConfig.serviceName`, want: `"s"`, notes: []string{
				"100: grpc_health_check: Envoy asks at intervals; gRPC watches, so interval, timeout and thresholds are not carried over",
				"100: grpc_health_check: carried over as healthCheckConfig, for programs that import google.golang.org/grpc/health",
				"200: grpc_health_check: Envoy asks at intervals; gRPC watches, so interval, timeout and thresholds are not carried over"}},
		{name: "different health checks", a: "health_checks: [{grpc_health_check: {}}]", b: "health_checks: [{http_health_check: {path: /}}]",
			routes: []string{all("retry_on: unavailable" + someBackoff)}, part: `healthCheckConfig`, want: "", notes: []string{
				"100: grpc_health_check: Envoy asks at intervals; gRPC watches, so interval, timeout and thresholds are not carried over",
				"100: grpc_health_check: not carried over: healthCheckConfig holds for all clusters, and they do not have the same check",
				"200: health_checks: not carried over: gRPC-Go has grpc_health_check alone"}},
		{name: "a policy by the newer field", a: "load_balancing_policy: {policies: [{typed_extension_config: {name: envoy.load_balancing_policies.least_request}}]}",
			routes: []string{all("retry_on: unavailable" + someBackoff)}, part: clusterA + ".childPolicy", want: `[{"least_request_experimental":{}},{"round_robin":{}}]`, notes: []string{
				"100: LEAST_REQUEST: carried over for programs that import google.golang.org/grpc/balancer/leastrequest; others use round_robin"}},
		{name: "a policy by the type of its config", a: "load_balancing_policy: {policies: [{typed_extension_config: {name: mine, typed_config: {'@type': t/envoy.extensions.load_balancing_policies.least_request.v3.LeastRequest, choice_count: 5, active_request_bias: {default_value: 2}}}}]}",
			routes: []string{all("retry_on: unavailable" + someBackoff)}, part: clusterA + ".childPolicy.0", want: `{"least_request_experimental":{"choiceCount":5}}`, notes: []string{
				"100: LEAST_REQUEST: carried over for programs that import google.golang.org/grpc/balancer/leastrequest; others use round_robin",
				"100: active_request_bias: not carried over: gRPC's hosts have no weights"}},
		{name: "a policy whose name is of another", a: "load_balancing_policy: {policies: [{typed_extension_config: {name: envoy.load_balancing_policies.least_request, typed_config: {'@type': t/envoy.extensions.load_balancing_policies.random.v3.Random}}}]}",
			routes: []string{all("retry_on: unavailable" + someBackoff)}, part: clusterA + ".childPolicy", want: "", notes: []string{
				"100: lb_policy RANDOM: not carried over: hosts are picked by round_robin"}},
		{name: "choices", a: "lb_policy: LEAST_REQUEST, least_request_lb_config: {choice_count: 3}",
			routes: []string{all("retry_on: unavailable" + someBackoff)}, part: clusterA + ".childPolicy.0", want: `{"least_request_experimental":{"choiceCount":3}}`, notes: []string{
				"100: LEAST_REQUEST: carried over for programs that import google.golang.org/grpc/balancer/leastrequest; others use round_robin"}},
		{name: "too many choices", a: "lb_policy: LEAST_REQUEST, least_request_lb_config: {choice_count: 11}",
			routes: []string{all("retry_on: unavailable" + someBackoff)}, part: clusterA + ".childPolicy.0", want: `{"least_request_experimental":{"choiceCount":10}}`, notes: []string{
				"100: LEAST_REQUEST: carried over for programs that import google.golang.org/grpc/balancer/leastrequest; others use round_robin",
				"100: choice_count: 11 is carried over as 10, which is the most that gRPC takes"}},
		{name: "too few choices", a: "lb_policy: LEAST_REQUEST, least_request_lb_config: {choice_count: 1}",
			routes: []string{all("retry_on: unavailable" + someBackoff)}, part: clusterA + ".childPolicy.0", want: `{"least_request_experimental":{}}`, notes: []string{
				"100: LEAST_REQUEST: carried over for programs that import google.golang.org/grpc/balancer/leastrequest; others use round_robin",
				"100: choice_count: not carried over: choiceCount must be at least 2"}},
		{name: "choices of another policy", a: "least_request_lb_config: {choice_count: 3}",
			routes: []string{all("retry_on: unavailable" + someBackoff)}, part: clusterA + ".childPolicy", want: "", notes: []string{
				"100: least_request_lb_config: not carried over: Envoy reads it for lb_policy LEAST_REQUEST alone"}},
		{name: "a cluster by the type of its config", a: "cluster_type: {name: envoy.clusters.composite, typed_config: {'@type': t/envoy.extensions.clusters.dns.v3.DnsCluster, respect_dns_ttl: true}}",
			routes: []string{all("retry_on: unavailable" + someBackoff)}, part: clusterA + ".target", want: `"dns:///a.example:1"`, notes: []string{
				"100: respect_dns_ttl: not carried over: gRPC's resolver looks again when a connection is lost, at most every 30s"}},
		{name: "a cluster by the type in a struct", a: "cluster_type: {name: mine, typed_config: {'@type': t/xds.type.v3.TypedStruct, type_url: t/envoy.extensions.clusters.dns.v3.DnsCluster}}",
			routes: []string{all("retry_on: unavailable" + someBackoff)}, part: clusterA + ".target", want: `"dns:///a.example:1"`},
		{name: "a cluster by name, of an empty config", a: "cluster_type: {name: envoy.cluster.strict_dns, typed_config: {'@type': t/google.protobuf.Empty}}",
			routes: []string{all("retry_on: unavailable" + someBackoff)}, part: clusterA + ".target", want: `"dns:///a.example:1"`},
		{name: "a host predicate by the type of its config", routes: []string{all("retry_on: unavailable, retry_host_predicate: [{name: mine, typed_config: {'@type': t/envoy.extensions.retry.host.previous_hosts.v3.PreviousHostsPredicate}}]" + someBackoff)},
			part: clusterA + ".avoidPreviousHosts", want: "1", notes: []string{
				"4: retry_host_predicate previous_hosts: carried over as avoidPreviousHosts of each cluster, for all methods"}},
		{name: "a filter by the type of its config", routes: []string{all("retry_on: unavailable" + someBackoff),
			"]}], h: {rds: {route_config_name: ''}, http_filters: [{name: mine, typed_config: {'@type': t/envoy.extensions.filters.http.router.v3.Router}}, {name: envoy.filters.http.router, typed_config: {'@type': t/x.Y}}]}, x: [{y: ["},
			part: `methodConfig.0.name`, want: "[{}]", notes: []string{
				"5: h: not carried over: a service config has nothing like it",
				"5: x: not carried over: a service config has nothing like it",
				"5: http_filters envoy.filters.http.router: not carried over: no proxy is in the way any more; what is still needed is an interceptor's or the server's to do"}},

		{name: "endpoints out of use", a: "load_assignment: {endpoints: [{lb_endpoints: [{health_status: UNHEALTHY, endpoint: {}}, {health_status: 3, endpoint: {}}]}, {lb_endpoints: [{health_status: DEGRADED, endpoint: {address: {pipe: {path: /x}}}}, {health_status: TIMEOUT}, {health_status: HEALTHY}]}]}",
			routes: []string{all("retry_on: unavailable" + someBackoff)}, part: clusterA + ".target", want: `"unix:/x"`, notes: []string{
				`100: another endpoint of cluster "a": not carried over: a target has one name; give all hosts one name in DNS, or have a resolver of your own tag them (package clusterattr)`,
				`100: health_status 3: this endpoint of cluster "a" is not carried over: Envoy does not use it either, panic mode apart`,
				`100: health_status TIMEOUT: this endpoint of cluster "a" is not carried over: Envoy does not use it either, panic mode apart`,
				`100: health_status UNHEALTHY: this endpoint of cluster "a" is not carried over: Envoy does not use it either, panic mode apart`,
				"100: health_status: not carried over: whether a host is used is told by its connection, and by healthCheckConfig"}},
		{name: "no endpoint in use", a: "load_assignment: {endpoints: [{lb_endpoints: [{health_status: DRAINING}]}]}",
			routes: []string{all("retry_on: unavailable" + someBackoff)}, part: clusterA + ".target", want: `"dns:///set-this-target.invalid:443"`, notes: []string{
				`100: cluster "a": health_status takes all its endpoints out of use: its target here is a placeholder; set it`,
				`100: health_status DRAINING: this endpoint of cluster "a" is not carried over: Envoy does not use it either, panic mode apart`}},
		{name: "settings of endpoints", a: "load_assignment: {cluster_name: a, named_endpoints: {}, policy: {drop_overloads: [], overprovisioning_factor: 140}, endpoints: [{lb_endpoints: [{load_balancing_weight: 2, metadata: {}, endpoint: {hostname: h, health_check_config: {}, additional_addresses: [], address: {pipe: {path: /x}}}}]}]}",
			routes: []string{all("retry_on: unavailable" + someBackoff)}, part: clusterA + ".target", want: `"unix:/x"`, notes: []string{
				"100: named_endpoints: not carried over: a service config has nothing like it",
				"100: drop_overloads: not carried over: gRPC drops no requests by a service config",
				"100: overprovisioning_factor: not carried over: a cluster's target has no localities and no priorities",
				"100: load_balancing_weight: not carried over: the addresses of a target have no weights",
				"100: metadata: not carried over: gRPC has no subsets",
				"100: hostname: not carried over: a cluster's servers are called in :authority by its target",
				"100: health_check_config: not carried over: gRPC checks a host by the connection that it has to it",
				"100: additional_addresses: not carried over: a target has one name; give all addresses one name in DNS"}},
		{name: "outlier detection", a: "outlier_detection: {interval: 5s, consecutive_5xx: 7, enforcing_success_rate: 0, success_rate_stdev_factor: x}",
			routes: []string{all("retry_on: unavailable" + someBackoff)}, part: clusterA + ".childPolicy.0.outlier_detection_experimental", want: `{"childPolicy":[{"round_robin":{}}],"interval":"5s","successRateEjection":{"enforcementPercentage":0}}`, notes: []string{
				`100: consecutive_5xx: not carried over: gRPC's outlier detection does not count failures in a row; the cluster's "cooldown": {"consecutiveFailures": 7} does, for the cluster as a whole`,
				"100: outlier_detection.success_rate_stdev_factor: not carried over: x is not a value for it",
				"100: outlier_detection: carried over for programs that import google.golang.org/grpc/xds; others do without",
				"100: outlier_detection: a cluster whose hosts are all ejected has no host: there is no panic mode"}},
		{name: "outlier detection of failures in a row by default", a: "outlier_detection: {}",
			routes: []string{all("retry_on: unavailable" + someBackoff)}, part: clusterA + ".childPolicy.0.outlier_detection_experimental.interval", want: "", notes: []string{
				`100: consecutive_5xx: left out, so in Envoy it is 5, which is not carried over: gRPC's outlier detection does not count failures in a row; the cluster's "cooldown": {"consecutiveFailures": 5} does, for the cluster as a whole`,
				"100: outlier_detection: carried over for programs that import google.golang.org/grpc/xds; others do without",
				"100: outlier_detection: a cluster whose hosts are all ejected has no host: there is no panic mode"}},
		{name: "outlier detection of failures in a row, not enforced", a: "outlier_detection: {consecutive_5xx: 7, enforcing_consecutive_5xx: 0, consecutive_gateway_failure: 6}",
			routes: []string{all("retry_on: unavailable" + someBackoff)}, part: clusterA + ".childPolicy.0.outlier_detection_experimental.interval", want: "", notes: []string{
				`100: consecutive_gateway_failure: not carried over: gRPC's outlier detection does not count failures in a row; the cluster's "cooldown": {"consecutiveFailures": 6} does, for the cluster as a whole`,
				"100: outlier_detection: carried over for programs that import google.golang.org/grpc/xds; others do without",
				"100: outlier_detection: a cluster whose hosts are all ejected has no host: there is no panic mode"}},
		{name: "outlier detection of failures in a row, enforced in part", a: "outlier_detection: {enforcing_consecutive_5xx: 50}",
			routes: []string{all("retry_on: unavailable" + someBackoff)}, part: clusterA + ".childPolicy.0.outlier_detection_experimental.interval", want: "", notes: []string{
				`100: consecutive_5xx: left out, so in Envoy it is 5, which is not carried over: gRPC's outlier detection does not count failures in a row; the cluster's "cooldown": {"consecutiveFailures": 5} does, for the cluster as a whole`,
				`100: enforcing_consecutive_5xx: not carried over: gRPC's outlier detection does not count failures in a row; the cluster's "cooldown": {"consecutiveFailures": 5} does, for the cluster as a whole`,
				"100: outlier_detection: carried over for programs that import google.golang.org/grpc/xds; others do without",
				"100: outlier_detection: a cluster whose hosts are all ejected has no host: there is no panic mode"}},
		{name: "no requests", a: "circuit_breakers: {thresholds: [{max_requests: 0}], per_host_thresholds: []}", routes: []string{all("retry_on: unavailable" + someBackoff)}, part: clusterA + ".maxRequests", want: "", notes: []string{
			"100: max_requests: not carried over: maxRequests must be at least 1",
			"100: per_host_thresholds: not carried over: gRPC has requests alone to limit"}},
		{name: "an odd name", a: `"a\u001b[31m": 1, connect_timeout: soon`, routes: []string{all("retry_on: unavailable" + someBackoff)}, part: clusterA + ".connectTimeout", want: `"5s"`, notes: []string{
			"100: connect_timeout: not carried over: soon is not a duration",
			`100: "a\x1b[31m": not carried over: a service config has nothing like it`}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			text := config(tc.routes, tc.a, tc.b)
			got, err := fromenvoy.Convert([]byte(text), "")
			if err != nil {
				t.Fatalf("Convert: %v", err)
			}
			if part := partOf(t, got.ServiceConfig, tc.part); part != tc.want {
				t.Errorf("%s is %s, want %s", tc.part, part, tc.want)
			}
			var notes []string
			for _, n := range got.Notes {
				if n.Text != backoff && n.Text != refused && n.Text != limits {
					notes = append(notes, fmt.Sprintf("%d: %s", n.Line, n.Text))
				}
			}
			// Those of one line may come in any order.
			slices.Sort(notes)
			want := slices.Sorted(slices.Values(tc.notes))
			if !slices.Equal(notes, want) {
				t.Errorf("the notes are\n%s\nwant\n%s", strings.Join(notes, "\n"), strings.Join(want, "\n"))
			}
		})
	}
}

// TestConvertManyParts has more routes that a methodConfig cannot name than are compared
// with others.
func TestConvertManyParts(t *testing.T) {
	var routes strings.Builder
	for i := range 30_000 {
		fmt.Fprintf(&routes, "{match: {prefix: /p%d.}, route: {cluster: other}},", i)
	}
	routes.WriteString(all("retry_on: unavailable" + someBackoff))
	for i := range 20_000 {
		fmt.Fprintf(&routes, "{match: {prefix: /q%d.}, route: {cluster: tiers}},", i)
	}
	got, err := fromenvoy.Convert([]byte(config([]string{routes.String()}, "", "")), "")
	if err != nil {
		t.Fatal(err)
	}
	const want = "this route, and those after it whose requests a methodConfig cannot name, are not compared with others: there are more than 1000"
	if len(got.Notes) != 1001 || got.Notes[0].Text != want {
		t.Errorf("there are %d notes, of which the first is %q; want 1001, and %q", len(got.Notes), got.Notes[0].Text, want)
	}
}

// TestConvertLimits checks that Envoy's limit on retries is noted for the composite
// cluster alone, whether or not the file has it.
func TestConvertLimits(t *testing.T) {
	const text = `routes: {virtual_hosts: [{routes: [{match: {prefix: /}, route: {cluster: outer}}]}]}
clusters:
- {name: outer, %s cluster_type: {name: envoy.clusters.composite, typed_config: {clusters: [{name: inner}]}}}
- {name: inner, lb_policy: CLUSTER_PROVIDED, cluster_type: {name: envoy.clusters.composite, typed_config: {clusters: [{name: a}]}}}
- {name: a, type: STATIC}
`
	const written = "circuit_breakers: not carried over: Envoy counts max_retries on the composite cluster; gRPC has no limit on retries but retryThrottling, which stops those to healthy clusters too"
	for _, tc := range []struct{ name, breakers, want string }{
		{"left out", "", "3: " + limits},
		{"written", "circuit_breakers: {thresholds: [{max_retries: 5}]},", "3: " + written},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := fromenvoy.Convert(fmt.Appendf(nil, text, tc.breakers), "")
			if err != nil {
				t.Fatal(err)
			}
			var notes []string
			for _, n := range got.Notes {
				if strings.HasPrefix(n.Text, "circuit_breakers") {
					notes = append(notes, fmt.Sprintf("%d: %s", n.Line, n.Text))
				}
			}
			if !slices.Equal(notes, []string{tc.want}) {
				t.Errorf("the notes are %q, want %q", notes, tc.want)
			}
		})
	}
}

// TestConvertManyConditions has a retry_on that a quadratic search would take minutes
// for.
func TestConvertManyConditions(t *testing.T) {
	conditions := make([]string, 200_000)
	for i := range conditions {
		conditions[i] = fmt.Sprint("c", i)
	}
	got, err := fromenvoy.Convert([]byte(config([]string{all(`retry_on: "` + strings.Join(conditions, ",") + `,unavailable"` + someBackoff)}, "", "")), "")
	if err != nil {
		t.Fatal(err)
	}
	if codes := partOf(t, got.ServiceConfig, codesPart); codes != `["UNAVAILABLE"]` || len(got.Notes) != 1001 {
		t.Errorf("the codes are %s, and there are %d notes: want UNAVAILABLE and 1001", codes, len(got.Notes))
	}
}

// partOf returns a part of some JSON, as JSON, or "" if it is not there.
func partOf(t *testing.T, text, path string) string {
	t.Helper()
	var v any
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	for _, step := range strings.Split(path, ".") {
		switch at := v.(type) {
		case map[string]any:
			v = at[step]
		case []any:
			var i int
			if _, err := fmt.Sscan(step, &i); err != nil || i >= len(at) {
				return ""
			}
			v = at[i]
		default:
			return ""
		}
	}
	if v == nil {
		return ""
	}
	part, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(part)
}
