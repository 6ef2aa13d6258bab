package composite

import (
	"github.com/grpc-composite/grpc-composite/internal/attempt"
	"github.com/grpc-composite/grpc-composite/internal/svcconfig"
)

// nested is what is known of the composite policies inside clusters: all entries of
// methodConfig ask for the same.
type nested struct {
	inside map[*clusterConfig][]*lbConfig
	limits map[limitKey]*attempt.Limit
}

type limitKey struct {
	cluster *clusterConfig
	number  int // of the attempt
}

// limit returns the shortest attemptTimeout that may hold for an attempt, by its
// number, on a cluster: its own, or that of a cluster that the attempt may come to in
// a composite policy inside it. It is nil if there is none.
func (n *nested) limit(c *clusterConfig, number int) *attempt.Limit {
	key := limitKey{c, number}
	shortest, ok := n.limits[key]
	if ok {
		return shortest
	}
	shortest = c.attemptTimeout
	for _, inner := range n.policies(c) {
		first, end := inner.slots.Reach(number, inner.nextCluster)
		for slot := first; slot < end; slot++ {
			t := n.limit(&inner.clusters[inner.slots.Cluster(slot)], number)
			if t != nil && (shortest == nil || t.After < shortest.After) {
				shortest = t
			}
		}
	}
	if n.limits == nil {
		n.limits = make(map[limitKey]*attempt.Limit)
	}
	n.limits[key] = shortest
	return shortest
}

// policies returns the composite policies in use in a cluster, but not those inside
// them.
func (n *nested) policies(c *clusterConfig) []*lbConfig {
	if inner, ok := c.child.config.(*lbConfig); ok {
		return []*lbConfig{inner}
	}
	found, ok := n.inside[c]
	if ok {
		return found
	}
	for _, p := range svcconfig.Find(c.child.policy(), Name) {
		if cfg, _, err := parseConfig(p.Config); err == nil { // else the policy around it does not read it
			found = append(found, cfg)
		}
	}
	if n.inside == nil {
		n.inside = make(map[*clusterConfig][]*lbConfig)
	}
	n.inside[c] = found
	return found
}
