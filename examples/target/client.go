package main

import (
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"github.com/grpc-composite/grpc-composite/balancer/composite"
)

// dial opens a channel to whatever the target says. The import, which registers
// the scheme "composite:", and DialOptions are all that a program needs, once: a
// target such as dns:///a.example:443 works as it did before.
func dial(target string, creds credentials.TransportCredentials) (*grpc.ClientConn, error) {
	opts := composite.DialOptions() // before any interceptor of your own
	opts = append(opts, grpc.WithTransportCredentials(creds))
	return grpc.NewClient(target, opts...)
}
