package fromenvoy

import "strings"

// maxChoices is the most hosts that gRPC's least_request (gRFC A48) chooses among.
const maxChoices = 10

// leastRequestFields are the fields of Envoy's LeastRequest, as in clusterFields.
var leastRequestFields = map[string]string{
	"@type": "", "type_url": "", "choice_count": "",
	"active_request_bias": "gRPC's hosts have no weights",
	"slow_start_config":   "gRPC has no slow start",
	"locality_lb_config":  "a cluster's target has no localities",
	"enable_full_scan":    "gRPC looks at choiceCount hosts alone",
	"selection_method":    "gRPC looks at choiceCount hosts alone",
}

// childPolicy reads how hosts are picked. The default here, as in Envoy, is
// round-robin.
func (c *converter) childPolicy(from *node, out *cluster) {
	kind, line := from.text("lb_policy"), from.get("lb_policy").at(from.line)
	old := from.get("least_request_lb_config")
	settings := old
	if policies := from.list("load_balancing_policy", "policies"); len(policies) > 0 {
		extension := policies[0].get("typed_extension_config")
		kind, line = policyKind(extension), policies[0].line
		settings = extension.get("typed_config")
	}
	if old != nil && (kind != leastRequest || settings != old) {
		c.notef(old.line, "least_request_lb_config: not carried over: Envoy reads it for lb_policy LEAST_REQUEST alone")
	}
	switch kind {
	case "", "ROUND_ROBIN", "CLUSTER_PROVIDED":
	case leastRequest:
		out.ChildPolicy = []map[string]any{{"least_request_experimental": c.leastRequest(settings)}, {"round_robin": map[string]any{}}}
		c.notef(line, `LEAST_REQUEST: carried over for programs that import google.golang.org/grpc/balancer/leastrequest; others use round_robin`)
	case "RING_HASH", "MAGLEV":
		c.notef(line, "%s: not carried over: hosts are picked by round_robin, since gRPC hashes only what an xDS route tells it to", kind)
	default:
		c.notef(line, "lb_policy %s: not carried over: hosts are picked by round_robin", shown(kind))
	}
}

const leastRequest = "LEAST_REQUEST"

// policyKind returns what lb_policy calls the policy of an extension.
func policyKind(extension *node) string {
	kind := extension.kind()
	if typed, ok := strings.CutPrefix(kind, "envoy.extensions.load_balancing_policies."); ok {
		kind, _, _ = strings.Cut(typed, ".")
	}
	return strings.ToUpper(strings.TrimPrefix(kind, "envoy.load_balancing_policies."))
}

// leastRequest makes the config of gRPC's least_request of Envoy's.
func (c *converter) leastRequest(settings *node) map[string]any {
	config := make(map[string]any)
	if settings == nil {
		return config
	}
	c.others(settings, leastRequestFields)
	n := settings.get("choice_count")
	switch count, ok := uintOf(n); {
	case n == nil:
	case !ok || count < 2:
		c.notef(n.line, "choice_count: not carried over: choiceCount must be at least 2")
	case count > maxChoices:
		c.notef(n.line, "choice_count: %d is carried over as %d, which is the most that gRPC takes", count, maxChoices)
		config["choiceCount"] = maxChoices
	default:
		config["choiceCount"] = count
	}
	return config
}
