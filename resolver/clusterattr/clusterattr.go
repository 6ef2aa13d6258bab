// Package clusterattr lets a resolver say which cluster of the load-balancing
// policy "composite" an endpoint belongs to.
//
// A cluster without a target gets the endpoints that the channel's own resolver
// tagged with the cluster's name. If it is the only such cluster, it gets those
// without a tag too. An endpoint that is tagged with the name of no such cluster
// is not used, and reported once. The tag itself stays behind: a policy inside
// the cluster does not see it.
//
// A resolver that knows no endpoints can tag addresses by their
// BalancerAttributes, which gRPC makes an endpoint's:
//
//	addr.BalancerAttributes = clusterattr.Set(resolver.Endpoint{}, "primary").Attributes
//
// Where an environment variable such as HTTPS_PROXY makes gRPC connect by a proxy,
// gRPC drops the attributes of endpoints, and so the tags;
// [google.golang.org/grpc.WithNoProxy] keeps them.
package clusterattr

import "google.golang.org/grpc/resolver"

type key struct{}

// Set returns a copy of the endpoint that belongs to the cluster of that name.
// The endpoint itself is not changed; an earlier tag is replaced.
func Set(e resolver.Endpoint, cluster string) resolver.Endpoint {
	e.Attributes = e.Attributes.WithValue(key{}, cluster)
	return e
}

// Get returns the name of the cluster that the endpoint belongs to, or "" if it
// has no tag.
func Get(e resolver.Endpoint) string {
	cluster, _ := e.Attributes.Value(key{}).(string)
	return cluster
}
