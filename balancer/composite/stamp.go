package composite

import (
	"google.golang.org/grpc/resolver"

	"github.com/grpc-composite/grpc-composite/internal/clustertarget"
)

// stamp gives addresses of a target the name of its servers, unless their resolver or
// policy gave them one.
func (c *cluster) stamp(addrs []resolver.Address, target *clustertarget.Target) []resolver.Address {
	name := c.serverName(target)
	if name == "" {
		return addrs
	}
	return appendStamped(make([]resolver.Address, 0, len(addrs)), addrs, name)
}

// stampUsed is stamp for addresses that the policy uses. They are of the target that its
// endpoints came from, which the cluster may no longer have.
func (ch *child) stampUsed(addrs []resolver.Address) []resolver.Address {
	c := ch.cluster
	c.parent.mu.Lock()
	source := ch.source
	c.parent.mu.Unlock()
	return c.stamp(addrs, source)
}

// stampEndpoints does the same for the addresses of endpoints, so that a child
// sees that a connection to an old address has the wrong name when the target
// has changed.
func (c *cluster) stampEndpoints(endpoints []resolver.Endpoint, target *clustertarget.Target) []resolver.Endpoint {
	name := c.serverName(target)
	if name == "" {
		return endpoints
	}
	n := 0
	for _, e := range endpoints {
		n += len(e.Addresses)
	}
	all := make([]resolver.Address, 0, n) // one allocation for all endpoints
	stamped := make([]resolver.Endpoint, len(endpoints))
	for i, e := range endpoints {
		begin := len(all)
		all = appendStamped(all, e.Addresses, name)
		e.Addresses = all[begin:len(all):len(all)]
		stamped[i] = e
	}
	return stamped
}

func appendStamped(to, addrs []resolver.Address, name string) []resolver.Address {
	for _, a := range addrs {
		if a.ServerName == "" {
			a.ServerName = name
		}
		to = append(to, a)
	}
	return to
}

// serverName is what servers of a target are called, in TLS and :authority, unless
// their resolver or policy gave them a name: what the cluster's credentials say, or
// else the target. It is "" if they are called like the channel.
func (c *cluster) serverName(target *clustertarget.Target) string {
	if name := serverName(c.parent.opts.DialCreds, c.names()); name != "" {
		return name
	}
	if target != nil {
		return target.Authority
	}
	return ""
}

// names are the cluster's and those of the clusters that it is in, the innermost
// first.
func (c *cluster) names() []string {
	names := []string{c.name}
	if outer := c.parent.outer; outer != nil {
		names = append(names, outer.cluster.names()...)
	}
	return names
}
