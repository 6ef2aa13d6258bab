package fromenvoy

import (
	"slices"
	"strings"
	"time"

	"github.com/grpc-composite/grpc-composite/internal/plan"
)

// retryFields are the fields of a retry policy, as in clusterFields.
var retryFields = map[string]string{
	"retry_on": "", "num_retries": "", "per_try_timeout": "", "retry_back_off": "", "retry_host_predicate": "", "host_selection_retry_max_attempts": "",
	"per_try_idle_timeout":        "gRPC has no limit on the silence of a stream",
	"retry_priority":              "list a cluster for each priority instead",
	"retry_options_predicates":    "it is an extension",
	"retriable_status_codes":      "they are HTTP's; a gRPC server's error is HTTP 200",
	"retriable_headers":           "gRPC retries by status code alone",
	"retriable_request_headers":   "gRPC retries by status code alone",
	"rate_limited_retry_back_off": "gRPC obeys a server's grpc-retry-pushback-ms instead",
	"refresh_cluster_on_retry":    "clusters are chosen by the number of the attempt",
}

// grpcConditions are the conditions of retry_on that look at a gRPC status.
var grpcConditions = map[string]string{
	"cancelled": "CANCELLED", "deadline-exceeded": "DEADLINE_EXCEEDED", "internal": "INTERNAL",
	"resource-exhausted": "RESOURCE_EXHAUSTED", "unavailable": "UNAVAILABLE",
}

// otherConditions are those that look at connections and HTTP, with what is to be
// said of them. Those of true become UNAVAILABLE.
var otherConditions = map[string]struct {
	carried bool
	text    string
}{
	"5xx":                        {true, "it never matches a gRPC server's error reply, which is HTTP 200: in Envoy it is about connections that fail or break, tries that time out, and HTTP errors of proxies"},
	"gateway-error":              {true, "it never matches a gRPC server's error reply, which is HTTP 200: in Envoy it is about connections that fail or break, tries that time out, and HTTP 502 to 504 of proxies"},
	"connect-failure":            {true, "a cluster whose connections fail has no host here, and is skipped within the attempt"},
	"refused-stream":             {true, "gRPC first retries it transparently, on the same cluster and in the same attempt"},
	"reset":                      {true, "a lost connection is UNAVAILABLE here; a stream that is reset with INTERNAL_ERROR is INTERNAL, which you may add"},
	"reset-before-request":       {true, "a lost connection is UNAVAILABLE here, whether or not the request was sent"},
	"http3-post-connect-failure": {false, "gRPC does not speak HTTP/3"},
	"envoy-ratelimited":          {false, "it is about a header of Envoy's"},
	"retriable-4xx":              {false, "it is about HTTP 409, and a gRPC server's error is HTTP 200"},
	"retriable-status-codes":     {false, "they are HTTP's, and a gRPC server's error is HTTP 200"},
	"retriable-headers":          {false, "gRPC retries by status code alone"},
}

// conditions returns what retry_on lists.
func conditions(retry *node) []string {
	var list []string
	seen := make(map[string]bool)
	for _, text := range strings.Split(retry.text("retry_on"), ",") {
		if text = strings.TrimSpace(text); text != "" && !seen[text] {
			seen[text] = true
			list = append(list, text)
		}
	}
	return list
}

// retryPolicy makes the retry policy of a route, or nil.
func (c *converter) retryPolicy(r route) *retryPolicy {
	if r.retry == nil {
		c.notef(r.line, "this route has no retry_policy: an RPC has one attempt")
		return nil
	}
	c.others(r.retry, retryFields)
	codes := c.codes(r)
	retries := c.retries(r)
	switch {
	case retries == 0:
		return nil
	case len(codes) == 0:
		c.notef(r.retry.get("retry_on").at(r.retry.line), "retry_on: none of its conditions has a gRPC status code: there is no retry policy, and an RPC has one attempt")
		return nil
	}
	first, most := c.backoff(r)
	return &retryPolicy{
		MaxAttempts: retries + 1, InitialBackoff: seconds(first), MaxBackoff: seconds(most),
		BackoffMultiplier: 2, RetryableStatusCodes: codes,
	}
}

// codes returns the status codes for the conditions of a retry policy.
func (c *converter) codes(r route) []string {
	var codes []string
	add := func(code string) {
		if !slices.Contains(codes, code) {
			codes = append(codes, code)
		}
	}
	line := r.retry.get("retry_on").at(r.retry.line)
	byStatus, mapped := false, false
	for _, condition := range conditions(r.retry) {
		if code, ok := grpcConditions[condition]; ok {
			byStatus = true
			add(code)
			continue
		}
		other, ok := otherConditions[condition]
		switch {
		case !ok:
			c.notef(line, "retry_on %q: not carried over: it is not a condition of Envoy 1.40", shown(condition))
		case other.carried:
			mapped = true
			c.notef(line, "retry_on %q: carried over as UNAVAILABLE: %s", condition, other.text)
			add("UNAVAILABLE")
		default:
			c.notef(line, "retry_on %q: not carried over: %s", condition, other.text)
		}
	}
	if mapped && !slices.Contains(conditions(r.retry), "unavailable") {
		if !byStatus {
			c.notef(line, "retry_on: in Envoy this policy never moves on from a gRPC error reply: it has none of cancelled, deadline-exceeded, internal, resource-exhausted and unavailable")
		}
		c.notef(line, "retry_on: gRPC cannot tell a lost connection from a server's own UNAVAILABLE, so that is retried, too; in Envoy it was not")
	}
	if byStatus && !mapped {
		c.notef(line, "retry_on: in Envoy a refused connection ends the request, for want of connect-failure, reset, 5xx or gateway-error; here the cluster has no host, and is skipped within the attempt")
	}
	if c.retriedTry(r, codes) {
		add("DEADLINE_EXCEEDED")
	}
	return codes
}

// retries returns the number of retries.
func (c *converter) retries(r route) uint64 {
	n := r.retry.get("num_retries")
	if n == nil {
		c.notef(r.retry.line, "num_retries: left out, so in Envoy it is 1, which is carried over")
		return 1
	}
	retries, ok := uintOf(n)
	if !ok {
		c.notef(n.line, "num_retries: not carried over: %s is not a number of retries; 1 is taken", shown(n.scalar))
		return 1
	}
	if retries >= plan.MaxSlots {
		c.notef(n.line, "num_retries: %d is more than a channel makes: %d attempts are the most", retries, plan.MaxSlots)
		return plan.MaxSlots - 1
	}
	return retries
}

// backoff returns the shortest and longest back-off.
func (c *converter) backoff(r route) (first, most time.Duration) {
	const envoyBase = 25 * time.Millisecond
	first = envoyBase
	n := r.retry.get("retry_back_off")
	if base := n.get("base_interval"); base != nil {
		if d, ok := base.duration(); ok && d > 0 {
			first = d
		} else {
			c.notef(base.line, "base_interval: not carried over: %s is not a duration", shown(base.scalar))
		}
	}
	most = 10 * first
	if limit := n.get("max_interval"); limit != nil {
		if d, ok := limit.duration(); ok && d > 0 {
			most = d
		} else {
			c.notef(limit.line, "max_interval: not carried over: %s is not a duration", shown(limit.scalar))
		}
	}
	c.notef(n.at(r.retry.line), "retry_back_off: Envoy draws each wait from nothing to the interval (base %v, doubled up to %v); gRPC waits the interval, give or take 20 %%. The next attempt goes to another cluster: it need not wait, and 0.001s will do", first, most)
	return first, most
}

// previousHosts reads retry_host_predicate.
func (c *converter) previousHosts(r route, p *policy) {
	for _, predicate := range r.retry.list("retry_host_predicate") {
		kind := predicate.kind()
		if !strings.HasSuffix(kind, "previous_hosts") && !strings.HasSuffix(kind, "previous_hosts.v3.PreviousHostsPredicate") {
			c.notef(predicate.line, "retry_host_predicate %s: not carried over: gRPC has nothing like it", shown(predicate.text("name")))
			continue
		}
		times := uint64(1)
		if n, ok := uintOf(r.retry.get("host_selection_retry_max_attempts")); ok {
			times = min(n, plan.MaxSlots)
		}
		c.notef(predicate.line, "retry_host_predicate previous_hosts: carried over as avoidPreviousHosts of each cluster, for all methods")
		for cl := range p.defined() {
			cl.AvoidPreviousHosts = max(cl.AvoidPreviousHosts, times)
		}
	}
}
