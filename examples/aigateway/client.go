package main

import (
	"context"
	"fmt"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"github.com/grpc-composite/grpc-composite/balancer/composite"
)

// serviceConfig lists the providers in the order of attempts, each with its
// target and with the metadata that it alone gets. RESOURCE_EXHAUSTED is what
// providers answer at their rate limit. With NEXT_CLUSTER no prompt goes to a
// provider twice: without it, attempt 2 is fallback-a's even if attempt 1 went
// there because preferred was down.
const serviceConfig = `{
	"loadBalancingConfig": [{"composite": {
		"clusters": [
			{"name": "preferred",  "target": %q, "metadata": {"x-provider-version": "2026-09"}},
			{"name": "fallback-a", "target": %q, "metadata": {"x-provider-version": "v3"}},
			{"name": "fallback-b", "target": %q, "metadata": {"x-provider-version": "v1beta"}}
		],
		"progression": "NEXT_CLUSTER"
	}}],
	"methodConfig": [{
		"name": [{}],
		"retryPolicy": {
			"maxAttempts": 3, "initialBackoff": "0.001s", "maxBackoff": "0.01s",
			"backoffMultiplier": 2,
			"retryableStatusCodes": ["RESOURCE_EXHAUSTED", "UNAVAILABLE"]
		}
	}]
}`

// dial opens a channel to the providers. Real ones have certificates of public
// CAs: credentials.NewTLS(nil) is for these.
func dial(preferred, fallbackA, fallbackB string, tls credentials.TransportCredentials) (*grpc.ClientConn, error) {
	keys := composite.NewPerRPCCredentials(map[string]credentials.PerRPCCredentials{
		"preferred":  apiKey("key-of-preferred"), // from your secrets
		"fallback-a": apiKey("key-of-fallback-a"),
		"fallback-b": apiKey("key-of-fallback-b"),
	})
	opts := composite.DialOptions() // before any interceptor of your own
	opts = append(opts,
		grpc.WithDefaultServiceConfig(fmt.Sprintf(serviceConfig, preferred, fallbackA, fallbackB)),
		grpc.WithTransportCredentials(tls),
		grpc.WithPerRPCCredentials(keys),
		// gRPC keeps requests of 256 KiB for a retry, and longer prompts would
		// end at the first provider's error.
		grpc.WithDefaultCallOptions(grpc.MaxRetryRPCBufferSize(4<<20)),
	)
	return grpc.NewClient("composite:///", opts...)
}

// apiKey is a provider's key. It is sent over TLS only.
type apiKey string

func (k apiKey) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	return map[string]string{"authorization": "Bearer " + string(k)}, nil
}

func (apiKey) RequireTransportSecurity() bool { return true }
