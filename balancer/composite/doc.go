// Package composite is the load-balancing policy "composite": an RPC's first
// attempt goes to the first cluster, the first retry to the second, and so on. A
// cluster without a READY connection is skipped within the same attempt. It is
// for gRPC-Go clients what Envoy's composite cluster is for a proxy.
//
// Importing the package registers the policy, and the resolver scheme
// "composite". A channel uses it by its service config, and needs [DialOptions]
// besides, since gRPC tells a policy nothing about attempts:
//
//	cc, err := grpc.NewClient("composite:///", append(composite.DialOptions(),
//		grpc.WithDefaultServiceConfig(`{
//			"loadBalancingConfig": [{"composite": {"clusters": [
//				{"name": "primary",   "target": "dns:///primary.example:443"},
//				{"name": "secondary", "target": "dns:///secondary.example:443"}
//			]}}],
//			"methodConfig": [{
//				"name": [{}],
//				"retryPolicy": {
//					"maxAttempts": 2, "initialBackoff": "0.001s", "maxBackoff": "0.01s",
//					"backoffMultiplier": 2, "retryableStatusCodes": ["UNAVAILABLE"]
//				}
//			}]
//		}`),
//		grpc.WithTransportCredentials(creds))...)
//
// The schema of the config is the message composite.v1.LoadBalancingConfig in
// proto/composite/v1; JSON is its protojson form.
//
// # How it works
//
// An RPC's way is: interceptor, ledger, stats handler, picker, child policy,
// connection. The interceptor opens a ledger for the RPC, the stats handler
// stamps each attempt's number into the attempt's context, and the picker maps
// the number to a cluster and lets that cluster's child policy pick. Each
// cluster has a resolver, a child policy, connections and back-off of its own,
// and no cluster's trouble reaches another. With [LeanCounting] there is no stats
// handler, and the picker does its part.
package composite
