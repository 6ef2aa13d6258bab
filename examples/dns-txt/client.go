package main

import (
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/grpc-composite/grpc-composite/balancer/composite"
)

// dial opens a channel to an ordinary target of DNS. Nothing here says where an
// RPC goes when a server fails: that is for the service config that DNS delivers.
// The import, which registers the policy, and DialOptions have to be there before
// it is delivered.
func dial(target string) (*grpc.ClientConn, error) {
	opts := composite.DialOptions() // before any interceptor of your own
	opts = append(opts, grpc.WithTransportCredentials(insecure.NewCredentials()))
	return grpc.NewClient(target, opts...)
}
