package composite

import (
	"google.golang.org/grpc/resolver"

	"github.com/grpc-composite/grpc-composite/resolver/clusterattr"
)

// shareEndpoints returns a function that gives each cluster, by its name, the
// state that the channel's resolver has for it. A cluster without a target gets
// the endpoints that are tagged with its name; the only such cluster gets those
// without a tag too.
func (b *compositeBalancer) shareEndpoints(cfg *lbConfig, state resolver.State) func(name string) resolver.State {
	byName := make(map[string][]resolver.Endpoint)
	only := ""
	for _, c := range cfg.clusters {
		if c.target == nil {
			byName[c.name] = []resolver.Endpoint{}
			only = c.name
		}
	}
	if len(byName) != 1 {
		only = ""
	}
	tagged := false
	for _, e := range state.Endpoints {
		name := clusterattr.Get(e)
		if name != "" {
			tagged = true
			// The tag has done its work. A composite policy inside the cluster
			// would take it for the name of one of its own.
			e = clusterattr.Set(e, "")
		} else {
			name = only
		}
		if _, ok := byName[name]; !ok {
			b.reportUnused(name, len(byName))
			continue
		}
		byName[name] = append(byName[name], e)
	}
	return func(name string) resolver.State {
		share := state
		if tagged || only != name {
			share.Endpoints = byName[name]
			share.Addresses = addressesOf(share.Endpoints)
		}
		return share
	}
}

// maxReported is how many tags a channel remembers that no cluster has: a resolver
// may make up ever new ones.
const maxReported = 64

// reportUnused warns about endpoints that no cluster gets, once for each tag.
func (b *compositeBalancer) reportUnused(tag string, targetless int) {
	if tag == "" && targetless == 0 {
		return // every cluster has its own target, so the channel's does not matter
	}
	if b.reported[tag] || len(b.reported) > maxReported {
		return
	}
	if b.reported == nil {
		b.reported = make(map[string]bool)
	}
	b.reported[tag] = true
	if len(b.reported) > maxReported {
		logger.Warningf("endpoints are tagged with more than %d names that no cluster has: no more are told", maxReported)
		return
	}
	if tag == "" {
		logger.Warningf("endpoints without a tag of package clusterattr are not used: %d clusters have no target", targetless)
		return
	}
	logger.Warningf("endpoints that are tagged with the cluster %q are not used: no cluster of that name is without a target", tag)
}

// addressesOf lists the addresses of endpoints, for policies that know no
// endpoints. It is the reverse of endpointsOf.
func addressesOf(endpoints []resolver.Endpoint) []resolver.Address {
	var addrs []resolver.Address
	for _, e := range endpoints {
		for _, a := range e.Addresses {
			if a.BalancerAttributes == nil {
				a.BalancerAttributes = e.Attributes
			}
			addrs = append(addrs, a)
		}
	}
	return addrs
}

// endpointsOf makes an endpoint of each address, as a channel does for resolvers
// that know no endpoints.
func endpointsOf(addrs []resolver.Address) []resolver.Endpoint {
	endpoints := make([]resolver.Endpoint, len(addrs))
	for i, a := range addrs {
		endpoints[i].Attributes = a.BalancerAttributes
		a.BalancerAttributes = nil
		endpoints[i].Addresses = []resolver.Address{a}
	}
	return endpoints
}
