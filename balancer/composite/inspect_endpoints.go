package composite

import (
	"maps"
	"slices"

	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/resolver"

	"github.com/grpc-composite/grpc-composite/internal/inspect"
)

// noConnection is the state of an endpoint for which the child policy has created
// no connection.
const noConnection = "NO_CONNECTION"

// endpointsLocked tells which endpoints the cluster has, in what states, and the
// errors of their connections. Connections of the child to other addresses, as
// some policies make, follow. The caller holds parent.mu.
func (c *cluster) endpointsLocked() (list []inspect.Endpoint, errs []error, omitted int) {
	byHost := c.connectionsLocked()
	seen := make(map[string]bool)
	add := func(addrs []resolver.Address) {
		if len(list) == inspect.MaxEndpoints {
			omitted++
		} else {
			e, err := newEndpoint(addrs, byHost)
			list, errs = append(list, e), append(errs, err)
		}
		for _, a := range addrs {
			seen[a.Addr] = true
		}
	}
	list = []inspect.Endpoint{}
	for _, e := range c.endpoints.Endpoints {
		add(e.Addresses)
	}
	for _, host := range slices.Sorted(maps.Keys(byHost)) {
		if !seen[host] {
			add([]resolver.Address{{Addr: host}})
		}
	}
	return list, errs, omitted
}

// connectionsLocked returns the best of the current child's connections to each
// host, and of the child's that is to replace it. The caller holds parent.mu.
func (c *cluster) connectionsLocked() map[string]*subConn {
	best := make(map[string]*subConn)
	for _, ch := range []*child{c.current, c.pending} {
		if ch == nil {
			continue
		}
		for sc := range ch.subConns {
			if old := best[sc.host]; old == nil || sc.rank() > old.rank() {
				best[sc.host] = sc
			}
		}
	}
	return best
}

// rank orders connections by how near they are to be used.
func (s *subConn) rank() int {
	if s == nil {
		return 0
	}
	switch s.state.ConnectivityState {
	case connectivity.Ready:
		return 4
	case connectivity.Connecting:
		return 3
	case connectivity.TransientFailure:
		return 2
	default:
		return 1
	}
}

// newEndpoint describes an endpoint by the best of its connections. The caller
// holds the balancer's mu.
func newEndpoint(addrs []resolver.Address, byHost map[string]*subConn) (inspect.Endpoint, error) {
	e := inspect.Endpoint{Addresses: []string{}, State: noConnection}
	var best *subConn
	for _, a := range addrs {
		if len(e.Addresses) == inspect.MaxAddresses {
			e.Omitted++
		} else {
			e.Addresses = append(e.Addresses, a.Addr)
		}
		if sc := byHost[a.Addr]; sc.rank() > best.rank() {
			best = sc
		}
	}
	if best == nil {
		return e, nil
	}
	e.State = best.state.ConnectivityState.String()
	if since := best.since; !since.IsZero() {
		e.Since = &since
	}
	if h := best.health; h != nil && h.ConnectivityState != best.state.ConnectivityState {
		e.Health = h.ConnectivityState.String()
		return e, h.ConnectionError
	}
	return e, best.state.ConnectionError
}
