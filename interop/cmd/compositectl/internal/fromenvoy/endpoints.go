package fromenvoy

import (
	"fmt"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/grpc-composite/grpc-composite/internal/clustertarget"
)

// placeholder is the target of a cluster whose hosts are not known. The name is
// reserved (RFC 6761), so it is never somebody's.
const placeholder = "dns:///set-this-target.invalid:443"

const dnsType = "envoy.extensions.clusters.dns.v3.DnsCluster"

// unusable are the values of health_status, by name and by number, of endpoints that
// Envoy does not send requests to.
var unusable = []string{"UNHEALTHY", "DRAINING", "TIMEOUT", "2", "3", "4"}

// Fields of a load_assignment and of what is in it, as in clusterFields.
var (
	assignmentFields       = map[string]string{"@type": "", "cluster_name": "", "endpoints": "", "policy": ""}
	assignmentPolicyFields = map[string]string{
		"drop_overloads":           "gRPC drops no requests by a service config",
		"overprovisioning_factor":  "a cluster's target has no localities and no priorities",
		"weighted_priority_health": "a cluster's target has no localities and no priorities",
		"endpoint_stale_after":     "gRPC's resolver keeps addresses until it has others",
	}
	lbEndpointFields = map[string]string{
		"endpoint":              "",
		"health_status":         "whether a host is used is told by its connection, and by healthCheckConfig",
		"load_balancing_weight": "the addresses of a target have no weights",
		"metadata":              "gRPC has no subsets",
	}
	endpointFields = map[string]string{
		"address":              "",
		"hostname":             "a cluster's servers are called in :authority by its target",
		"health_check_config":  "gRPC checks a host by the connection that it has to it",
		"additional_addresses": "a target has one name; give all addresses one name in DNS",
	}
)

// target returns the target of a cluster.
func (c *converter) target(cluster *node) string {
	name := cluster.text("name")
	unknown := func(line int, why string) string {
		c.notef(line, "cluster %q: %s: its target here is a placeholder; set it", name, why)
		return placeholder
	}
	kind := clusterType(cluster)
	line := cluster.get("type").at(cluster.get("cluster_type").at(cluster.line))
	switch kind {
	case "EDS":
		return unknown(line, "its hosts come from a control plane (EDS)")
	case "ORIGINAL_DST":
		return unknown(line, "its hosts are where the client wanted to go (ORIGINAL_DST)")
	case "STATIC", "STRICT_DNS", "LOGICAL_DNS", "envoy.cluster.static", "envoy.cluster.strict_dns", "envoy.cluster.logical_dns", "envoy.cluster.dns", "envoy.clusters.dns", dnsType:
	default:
		return unknown(line, fmt.Sprintf("it is of the type %s, for which gRPC has no target", shown(kind)))
	}
	if config := cluster.get("cluster_type", "typed_config"); config != nil {
		c.others(config, clusterFields) // DnsCluster has some of them
	}
	if assignment := cluster.get("load_assignment"); assignment != nil {
		c.others(assignment, assignmentFields)
	}
	if policy := cluster.get("load_assignment", "policy"); policy != nil {
		c.others(policy, assignmentPolicyFields)
	}
	var endpoints []*node
	for _, locality := range cluster.list("load_assignment", "endpoints") {
		endpoints = append(endpoints, locality.list("lb_endpoints")...)
		for _, f := range locality.fields {
			if f.name != "lb_endpoints" && f.name != "locality" {
				c.notef(f.line, "%s: not carried over: a cluster's target has no localities; list a cluster for each priority", shown(f.name))
			}
		}
	}
	if len(endpoints) == 0 {
		return unknown(cluster.get("load_assignment").at(cluster.line), "it has no endpoints")
	}
	var taken *node
	for _, e := range endpoints {
		switch status := e.text("health_status"); {
		case slices.Contains(unusable, status):
			c.notef(e.get("health_status").line, "health_status %s: this endpoint of cluster %q is not carried over: Envoy does not use it either, panic mode apart", status, name)
		case taken == nil:
			taken = e
		default:
			c.notef(e.line, "another endpoint of cluster %q: not carried over: a target has one name; give all hosts one name in DNS, or have a resolver of your own tag them (package clusterattr)", name)
		}
	}
	if taken == nil {
		return unknown(endpoints[0].line, "health_status takes all its endpoints out of use")
	}
	target, why := targetOf(taken)
	if why != "" {
		return unknown(taken.line, why)
	}
	c.others(taken, lbEndpointFields)
	c.others(taken.get("endpoint"), endpointFields)
	return target
}

// pipeTarget returns the target for a Unix domain socket, or why there is none. gRPC
// undoes the escapes of an absolute path, and takes any other as it stands.
func pipeTarget(path string) (target, why string) {
	switch {
	case strings.HasPrefix(path, "/"):
		// With two slashes before it, so that what follows is not taken for a host.
		u := url.URL{Scheme: "unix", Path: path, OmitHost: !strings.HasPrefix(path, "//")}
		return u.String(), ""
	case strings.ContainsAny(path, "?#"):
		return "", fmt.Sprintf("its pipe %s is not an absolute path, and a target cannot have ? and # in any other", shown(path))
	default:
		return "unix:" + path, ""
	}
}

// targetOf returns the target for an endpoint, or why there is none.
func targetOf(endpoint *node) (target, why string) {
	address := endpoint.get("endpoint", "address")
	if path := address.text("pipe", "path"); path != "" {
		if target, why = pipeTarget(path); why != "" {
			return "", why
		}
	} else {
		socket := address.get("socket_address")
		port, ok := uintOf(socket.get("port_value"))
		host := socket.text("address")
		if !ok || host == "" || port > 65535 {
			return "", "its first endpoint in use has no address and port"
		}
		target = "dns:///" + net.JoinHostPort(host, strconv.FormatUint(port, 10))
	}
	if _, err := clustertarget.Parse(target); err != nil {
		return "", fmt.Sprintf("%s is no target", shown(target))
	}
	return target, ""
}
