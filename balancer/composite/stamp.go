package composite

import "google.golang.org/grpc/resolver"

// stamp gives addresses the name of the cluster's servers, unless their resolver
// or policy gave them one.
func (c *cluster) stamp(addrs []resolver.Address) []resolver.Address {
	name := c.serverName()
	if name == "" {
		return addrs
	}
	return appendStamped(make([]resolver.Address, 0, len(addrs)), addrs, name)
}

// stampEndpoints does the same for the addresses of endpoints, so that a child
// sees that a connection to an old address has the wrong name when the target
// has changed.
func (c *cluster) stampEndpoints(endpoints []resolver.Endpoint) []resolver.Endpoint {
	name := c.serverName()
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

// serverName is what the cluster's servers are called, in TLS and :authority,
// unless their resolver or policy gave them a name: what their credentials say,
// or else the target. It is "" if they are called like the channel.
func (c *cluster) serverName() string {
	if name := serverName(c.parent.opts.DialCreds, c.names()); name != "" {
		return name
	}
	if target := c.target.Load(); target != nil {
		return target.Authority
	}
	return ""
}

// names are the cluster's and those of the clusters that it is in, the innermost
// first.
func (c *cluster) names() []string {
	names := []string{c.name}
	if outer, ok := c.parent.cc.(*child); ok {
		names = append(names, outer.cluster.names()...)
	}
	return names
}
