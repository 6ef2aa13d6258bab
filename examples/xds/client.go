package main

import (
	"encoding/json"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/grpc-composite/grpc-composite/balancer/composite"
	"github.com/grpc-composite/grpc-composite/resolver/xds"
)

// target asks the control plane for the service's listener and routes, and names
// the clusters in the order of attempts. How often an RPC is retried, and on which
// status codes, is in the route.
const target = "composite-xds:///" + service + "?clusters=primary,secondary,fallback"

// dial opens a channel.
func dial(bootstrap []byte) (*grpc.ClientConn, error) {
	opts := composite.DialOptions() // before any interceptor of your own

	// In a program of your own the import of resolver/xds is enough, and the
	// environment names the bootstrap file: GRPC_XDS_BOOTSTRAP. gRPC reads that as the
	// process starts, which is before this one knows the control plane's port.
	builder, err := xds.NewBuilderForTesting(bootstrap)
	if err != nil {
		return nil, err
	}
	opts = append(opts,
		grpc.WithResolvers(builder),
		grpc.WithTransportCredentials(insecure.NewCredentials()),
	)
	return grpc.NewClient(target, opts...)
}

// bootstrapConfig says where the control plane is, and who asks.
func bootstrapConfig(controlPlane string) ([]byte, error) {
	return json.MarshalIndent(map[string]any{
		"xds_servers": []any{map[string]any{
			"server_uri":      controlPlane,
			"channel_creds":   []any{map[string]any{"type": "insecure"}},
			"server_features": []any{"xds_v3"},
		}},
		"node": map[string]any{"id": node},
	}, "", "  ")
}
