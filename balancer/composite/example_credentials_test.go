package composite_test

import (
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"github.com/grpc-composite/grpc-composite/balancer/composite"
)

// README.md shows what is between the two marks.

// begin.
func DialWithCredentials(own, provider credentials.TransportCredentials, key credentials.PerRPCCredentials) (*grpc.ClientConn, error) {
	return grpc.NewClient("composite:///primary=dns:///a.example:443,fallback=dns:///b.example:443", append(composite.DialOptions(),
		grpc.WithTransportCredentials(composite.NewTransportCredentials(map[string]credentials.TransportCredentials{
			"fallback": provider, // another CA, say
		}, own)), // all other clusters
		grpc.WithPerRPCCredentials(composite.NewPerRPCCredentials(map[string]credentials.PerRPCCredentials{
			"fallback": key, // sent to fallback, and to no other cluster
		})),
	)...)
}

// end.
