package fromenvoy

import (
	"slices"
	"time"
)

// Fields of clusters that are read, or need no word: the value says why the others
// are not carried over, and is empty for these.
var (
	compositeFields = map[string]string{
		"name": "", "cluster_type": "", "lb_policy": "", "connect_timeout": "", "alt_stat_name": "",
		"@type":            "",
		"circuit_breakers": "Envoy counts max_retries on the composite cluster; " + unlimitedRetries,
		"type":             "a composite cluster has none",
	}
	clusterFields = map[string]string{
		"name": "", "type": "", "@type": "", "type_url": "", "cluster_type": "", "connect_timeout": "", "lb_policy": "", "load_assignment": "",
		"load_balancing_policy": "", "circuit_breakers": "", "outlier_detection": "", "health_checks": "", "transport_socket": "",
		"eds_cluster_config":                "",
		"least_request_lb_config":           "",
		"alt_stat_name":                     "it names Envoy's metrics",
		"http2_protocol_options":            "gRPC speaks HTTP/2 anyway; keepalive is grpc.WithKeepaliveParams",
		"http_protocol_options":             "gRPC speaks HTTP/2 alone",
		"common_http_protocol_options":      "the nearest thing is grpc.WithIdleTimeout, for the whole channel",
		"typed_extension_protocol_options":  "gRPC speaks HTTP/2 anyway; keepalive is grpc.WithKeepaliveParams, and grpc.WithIdleTimeout is for the whole channel",
		"common_lb_config":                  "there is no panic mode (a cluster without a READY connection has no host), and no zone-aware routing",
		"dns_lookup_family":                 "gRPC's resolver takes the addresses of both families",
		"dns_refresh_rate":                  "gRPC's resolver looks again when a connection is lost, at most every 30s",
		"dns_failure_refresh_rate":          "gRPC's resolver has a back-off of its own",
		"dns_jitter":                        "gRPC's resolver looks again when a connection is lost, at most every 30s",
		"respect_dns_ttl":                   "gRPC's resolver looks again when a connection is lost, at most every 30s",
		"typed_dns_resolver_config":         "a DNS server is part of a target: dns://server/name:port",
		"dns_resolvers":                     "a DNS server is part of a target: dns://server/name:port",
		"lb_subset_config":                  "gRPC has no subsets",
		"upstream_bind_config":              "give grpc.WithContextDialer",
		"upstream_connection_options":       "give grpc.WithContextDialer",
		"max_requests_per_connection":       "gRPC has nothing like it",
		"per_connection_buffer_limit_bytes": "give grpc.WithReadBufferSize and grpc.WithWriteBufferSize",
		"transport_socket_matches":          "give the clusters' credentials by composite.NewTransportCredentials",
	}
)

const unlimitedRetries = "gRPC has no limit on retries but retryThrottling, which stops those to healthy clusters too"

// others notes the fields of an object that are not carried over.
func (c *converter) others(n *node, known map[string]string) {
	for _, f := range n.fields {
		switch why, ok := known[f.name]; {
		case !ok:
			c.notef(f.line, "%s: not carried over: a service config has nothing like it", shown(f.name))
		case why != "":
			c.notef(f.line, "%s: not carried over: %s", f.name, why)
		}
	}
}

// cluster makes a cluster of an entry of a composite cluster's list.
func (c *converter) cluster(entry *node, inside []string) *cluster {
	name := entry.text("name")
	out := &cluster{Name: name}
	from := c.byName[name]
	if line, ok := c.defined[name]; ok {
		c.notef(entry.line, "cluster %q: it is listed at line %d too, by another composite cluster: here each has connections and limits of its own", name, line)
	} else {
		c.defined[name] = entry.line
	}
	switch {
	case from == nil:
		out.Target = placeholder
		c.notef(entry.line, "cluster %q: the file does not have it, and in Envoy it has no host: its target here is a placeholder; set it, or take the cluster out, which moves those after it to earlier attempts", name)
		return out
	case isComposite(from) && slices.Contains(inside, name):
		out.Target = placeholder
		c.notef(entry.line, "cluster %q: it is a composite cluster inside itself, which has Envoy crash on the first request: its target here is a placeholder", name)
		return out
	case isComposite(from) && c.policies == maxPolicies:
		out.Target = placeholder
		c.notef(entry.line, "cluster %q: composite clusters are in each other %d times, and this one is too many: its target here is a placeholder", name, maxPolicies)
		return out
	case isComposite(from):
		// The clusters inside have targets of their own; the outer one is given
		// one so that it does not ask the channel's resolver.
		out.Target = "passthrough:///" + policyName
		inner := c.policy(from, inside)
		out.ChildPolicy = []map[string]any{{policyName: inner}}
		for cl := range inner.defined() {
			out.connectTimeout = max(out.connectTimeout, cl.connectTimeout)
		}
		out.ConnectTimeout = seconds(out.connectTimeout)
		return out
	}
	out.Target = c.target(from)
	c.connectTimeout(from, out)
	c.maxRequests(from, out)
	c.childPolicy(from, out)
	c.outlierDetection(from, out)
	c.noteHealth(from)
	if t := from.get("transport_socket"); t != nil {
		c.notef(t.line, "transport_socket: not carried over: credentials are the program's: pass %q to composite.NewTransportCredentials; names are verified by the cluster's target", name)
	}
	c.others(from, clusterFields)
	return out
}

func (c *converter) connectTimeout(from *node, out *cluster) {
	out.connectTimeout = 5 * time.Second // Envoy's default
	n := from.get("connect_timeout")
	switch d, ok := n.duration(); {
	case n == nil:
	case !ok || d < 0:
		c.notef(n.line, "connect_timeout: not carried over: %s is not a duration", shown(n.scalar))
	default:
		out.connectTimeout = d
	}
	out.ConnectTimeout = seconds(out.connectTimeout)
}

func (c *converter) maxRequests(from *node, out *cluster) {
	for _, t := range from.list("circuit_breakers", "thresholds") {
		if p := t.text("priority"); p != "" && p != "DEFAULT" && p != "0" {
			c.notef(t.line, "thresholds of priority %s: not carried over: gRPC has no priorities", shown(p))
			continue
		}
		for _, f := range t.fields {
			switch f.name {
			case "priority":
			case "max_requests":
				if n, ok := uintOf(f.value); ok && n > 0 {
					out.MaxRequests = n
					c.notef(f.line, "max_requests: carried over as maxRequests, but when it is reached the next cluster takes the attempt; in Envoy the request ends")
				} else {
					c.notef(f.line, "max_requests: not carried over: maxRequests must be at least 1")
				}
			default:
				c.notef(f.line, "%s: not carried over: gRPC has requests alone to limit", shown(f.name))
			}
		}
	}
	for _, f := range from.get("circuit_breakers").all() {
		if f.name != "thresholds" {
			c.notef(f.line, "%s: not carried over: gRPC has requests alone to limit", shown(f.name))
		}
	}
}

// all returns the fields of an object, or none.
func (n *node) all() []*field {
	if n == nil {
		return nil
	}
	return n.fields
}
