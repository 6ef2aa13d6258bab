package main

import (
	"encoding/json"
	"fmt"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/grpc-composite/grpc-composite/balancer/composite"
)

// dial opens a channel on which attempt 1 of an RPC goes to the first cluster,
// attempt 2 to the second, and so on. This, and a service config, is all that a
// program has to have; its RPCs are made as on any other channel.
func dial(clusters []cluster, more ...grpc.DialOption) (*grpc.ClientConn, error) {
	opts := composite.DialOptions() // before any interceptor of your own
	opts = append(opts,
		grpc.WithDefaultServiceConfig(serviceConfig(clusters)),
		grpc.WithTransportCredentials(insecure.NewCredentials()), // no TLS in this example
	)
	return grpc.NewClient("composite:///", append(opts, more...)...)
}

// cluster is a cluster's name and its target: where its servers are found, such
// as "dns:///primary.example:443".
type cluster struct {
	Name   string `json:"name"`
	Target string `json:"target,omitempty"`
}

// serviceConfig lists the clusters in the order of attempts. The retry policy
// says when there is a next attempt, and has to allow as many attempts as there
// are clusters, or the last ones would be reached only when those before them
// are down. Most programs have such a config in a file or a constant.
func serviceConfig(clusters []cluster) string {
	list, err := json.Marshal(clusters)
	if err != nil {
		panic(err) // strings can always be written
	}
	retry := ""
	if len(clusters) > 1 { // gRPC refuses a retry policy without retries
		retry = fmt.Sprintf(`,
		"retryPolicy": {
			"maxAttempts": %d,
			"initialBackoff": "0.001s",
			"maxBackoff": "0.01s",
			"backoffMultiplier": 2,
			"retryableStatusCodes": ["UNAVAILABLE"]
		}`, len(clusters))
	}
	return fmt.Sprintf(`{
	"loadBalancingConfig": [{"composite": {
		"clusters": %s
	}}],
	"methodConfig": [{
		"name": [{}]%s
	}]
}`, list, retry)
}
