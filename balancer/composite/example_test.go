package composite_test

import (
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"github.com/grpc-composite/grpc-composite/balancer/composite"
)

// README.md shows what is between the two marks.

// begin.
const serviceConfig = `{
	"loadBalancingConfig": [{"composite": {"clusters": [
		{"name": "primary",   "target": "dns:///primary.example:443"},
		{"name": "secondary", "target": "dns:///secondary.example:443"},
		{"name": "fallback",  "target": "dns:///fallback.example:443"}
	]}}],
	"methodConfig": [{
		"name": [{}],
		"retryPolicy": {
			"maxAttempts": 3, "initialBackoff": "0.001s", "maxBackoff": "0.01s",
			"backoffMultiplier": 2, "retryableStatusCodes": ["UNAVAILABLE"]
		}
	}]
}`

func Dial(creds credentials.TransportCredentials) (*grpc.ClientConn, error) {
	return grpc.NewClient("composite:///", append(composite.DialOptions(),
		grpc.WithDefaultServiceConfig(serviceConfig),
		grpc.WithTransportCredentials(creds),
	)...)
}

// end.
