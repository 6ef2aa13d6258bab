package fromenvoy

import (
	"fmt"
	"net"
	"strconv"

	"github.com/grpc-composite/grpc-composite/internal/clustertarget"
)

// placeholder is the target of a cluster whose hosts are not known. The name is
// reserved (RFC 6761), so it is never somebody's.
const placeholder = "dns:///set-this-target.invalid:443"

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
	case "STATIC", "STRICT_DNS", "LOGICAL_DNS", "envoy.cluster.static", "envoy.cluster.strict_dns", "envoy.cluster.logical_dns", "envoy.cluster.dns", "envoy.clusters.dns":
	default:
		return unknown(line, fmt.Sprintf("it is of the type %s, for which gRPC has no target", shown(kind)))
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
	for _, e := range endpoints[1:] {
		c.notef(e.line, "another endpoint of cluster %q: not carried over: a target has one name; give all hosts one name in DNS, or have a resolver of your own tag them (package clusterattr)", name)
	}
	target, why := targetOf(endpoints[0])
	if why != "" {
		return unknown(endpoints[0].line, why)
	}
	return target
}

// targetOf returns the target for an endpoint, or why there is none.
func targetOf(endpoint *node) (target, why string) {
	address := endpoint.get("endpoint", "address")
	if path := address.text("pipe", "path"); path != "" {
		target = "unix:" + path
	} else {
		socket := address.get("socket_address")
		port, ok := uintOf(socket.get("port_value"))
		host := socket.text("address")
		if !ok || host == "" || port > 65535 {
			return "", "its first endpoint has no address and port"
		}
		target = "dns:///" + net.JoinHostPort(host, strconv.FormatUint(port, 10))
	}
	if _, err := clustertarget.Parse(target); err != nil {
		return "", fmt.Sprintf("%s is no target", shown(target))
	}
	return target, ""
}
