package xds

import (
	"encoding/json"
	"fmt"
	"maps"

	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/serviceconfig"

	"github.com/grpc-composite/grpc-composite/balancer/composite"
)

// cdsPolicy is gRPC's policy for one xDS cluster.
const cdsPolicy = "cds_experimental"

// clientConn is the channel as gRPC's xDS resolver sees it. The service config
// that the resolver generates, which sends each RPC to its route's cluster, becomes
// one that names the policy. All else of a state stays: the routes, what they say of
// retries, and the clusters' resources, which gRPC's policies find in its attributes.
//
// The resolver makes all calls from one goroutine.
type clientConn struct {
	resolver.ClientConn
	spec *spec

	text   string // of result
	result *serviceconfig.ParseResult
}

// ParseServiceConfig is called with the generated service config, or with an empty
// one when the listener or the route is missing: that goes through, and its policy
// is the one to which the resolver then reports the error.
func (c *clientConn) ParseServiceConfig(text string) *serviceconfig.ParseResult {
	routed, ok := routedClusters(text)
	if !ok {
		return c.ClientConn.ParseServiceConfig(text)
	}
	return c.withRouted(routed)
}

// routedClusters returns the clusters in a generated service config, if that has a
// policy at all.
func routedClusters(text string) (routed map[string]bool, ok bool) {
	var generated struct {
		LoadBalancingConfig []map[string]struct {
			Children map[string]struct {
				ChildPolicy []map[string]struct{ Cluster string }
			}
		}
	}
	// What has another form names no cluster that is known of.
	_ = json.Unmarshal([]byte(text), &generated)
	routed = make(map[string]bool)
	for _, policy := range generated.LoadBalancingConfig {
		for _, manager := range policy {
			for _, child := range manager.Children {
				for _, policy := range child.ChildPolicy {
					routed[policy[cdsPolicy].Cluster] = true
				}
			}
		}
	}
	return routed, generated.LoadBalancingConfig != nil
}

// withRouted returns the service config for the clusters of the target, given
// those that the routes name.
func (c *clientConn) withRouted(routed map[string]bool) *serviceconfig.ParseResult {
	policy := fill(c.spec.policy, routed)
	text, err := json.Marshal(map[string]any{"loadBalancingConfig": []any{map[string]any{composite.Name: policy}}})
	if err != nil {
		return &serviceconfig.ParseResult{Err: fmt.Errorf("must be JSON: %w", err)}
	}
	if string(text) != c.text {
		c.text, c.result = string(text), c.ClientConn.ParseServiceConfig(string(text))
	}
	return c.result
}

// fill returns a config of the policy in which each entry without a target and a
// child policy has the one for the xDS cluster of its name. What is no such config
// stays as it is, for the policy to judge.
func fill(policy map[string]any, routed map[string]bool) map[string]any {
	list, ok := policy["clusters"].([]any)
	if !ok {
		return policy
	}
	clusters := make([]any, len(list))
	seen := make(map[any]bool)
	for i, item := range list {
		clusters[i] = item
		entry, ok := item.(map[string]any)
		if !ok {
			continue
		}
		name, _ := entry["name"].(string)
		if !seen[name] { // a repeated entry shares the settings of the first
			clusters[i] = fillCluster(entry, name, routed)
		}
		seen[name] = true
	}
	filled := maps.Clone(policy)
	filled["clusters"] = clusters
	return filled
}

func fillCluster(entry map[string]any, name string, routed map[string]bool) map[string]any {
	filled := maps.Clone(entry)
	for _, key := range []string{"childPolicy", "child_policy"} { // protojson has both
		list, ok := entry[key].([]any)
		if ok && len(list) > 0 {
			children := make([]any, len(list))
			for i, item := range list {
				children[i] = fillChild(item, routed)
			}
			filled[key] = children
			return filled
		}
		if !ok && entry[key] != nil {
			return filled
		}
		delete(filled, key) // none, or an empty list, which says the same
	}
	if entry["target"] == nil || entry["target"] == "" {
		filled["childPolicy"] = []any{fillChild(map[string]any{cdsPolicy: map[string]any{"cluster": name}}, routed)}
	}
	return filled
}

// fillChild fills in what depends on the routes: gRPC subscribes to their clusters
// itself, and has the policy subscribe to others, which it calls dynamic. For one
// that is subscribed to already, the policy's subscription has no effect, not even
// that of a first state: such a cluster must not be dynamic.
func fillChild(item any, routed map[string]bool) any {
	child, ok := item.(map[string]any)
	if !ok {
		return item
	}
	filled := maps.Clone(child)
	for policy, config := range child {
		config, ok := config.(map[string]any)
		switch {
		case !ok:
		case policy == composite.Name:
			filled[policy] = fill(config, routed)
		case policy == cdsPolicy:
			cds := maps.Clone(config)
			name, _ := cds["cluster"].(string)
			cds["isDynamic"] = !routed[name]
			filled[policy] = cds
		default:
			filled[policy] = fillBelow(config, routed)
		}
	}
	return filled
}

// fillBelow fills in the policies below one that is neither.
func fillBelow(value any, routed map[string]bool) any {
	switch value := value.(type) {
	case map[string]any:
		filled := make(map[string]any, len(value))
		for key, v := range value {
			filled[key] = fillBelow(v, routed)
		}
		return filled
	case []any:
		filled := make([]any, len(value))
		for i, item := range value {
			filled[i] = fillChild(item, routed)
		}
		return filled
	default:
		return value
	}
}
