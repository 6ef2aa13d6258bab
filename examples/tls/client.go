package main

import (
	"context"
	"crypto/x509"
	"fmt"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/grpc-composite/grpc-composite/balancer/composite"
)

// dial opens a channel to three clusters. Each has its own credentials: the CA
// that has to have signed its certificates, and the token that its servers want.
// A server is verified by the name in its own cluster's target.
func dial(targets targets, roots roots) (*grpc.ClientConn, error) {
	transport := composite.NewTransportCredentials(map[string]credentials.TransportCredentials{
		"primary":   credentials.NewClientTLSFromCert(roots.primary, ""),
		"secondary": credentials.NewClientTLSFromCert(roots.secondary, ""),
		"plaintext": insecure.NewCredentials(),
	}, nil) // for clusters without an entry; nil: they cannot connect

	perRPC := composite.NewPerRPCCredentials(map[string]credentials.PerRPCCredentials{
		"primary":   bearer("token-of-primary"),
		"secondary": bearer("token-of-secondary"),
		// plaintext has no entry: it gets no token.
	})

	opts := composite.DialOptions() // before any interceptor of your own
	opts = append(opts,
		grpc.WithDefaultServiceConfig(serviceConfig(targets)),
		grpc.WithTransportCredentials(transport),
		grpc.WithPerRPCCredentials(perRPC),
	)
	return grpc.NewClient("composite:///", opts...)
}

// bearer is a token that is sent with each RPC, and over TLS only: were it given
// to the plaintext cluster by mistake, the attempt would fail instead.
type bearer string

func (b bearer) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	return map[string]string{"authorization": "Bearer " + string(b)}, nil
}

func (bearer) RequireTransportSecurity() bool { return true }

// targets are where the clusters' servers are, such as
// "dns:///primary.example:443".
type targets struct{ primary, secondary, plaintext string }

// roots are the CAs that the client trusts.
type roots struct{ primary, secondary *x509.CertPool }

// serviceConfig lists the clusters in the order of attempts. With FAIL_REQUEST,
// an RPC that finds no cluster up ends at its first attempt, and the error tells
// of all clusters; the retry policy is for what servers answer.
func serviceConfig(t targets) string {
	return fmt.Sprintf(`{
	"loadBalancingConfig": [{"composite": {
		"clusters": [
			{"name": "primary",   "target": %q},
			{"name": "secondary", "target": %q},
			{"name": "plaintext", "target": %q}
		],
		"noHost": "FAIL_REQUEST"
	}}],
	"methodConfig": [{
		"name": [{}],
		"retryPolicy": {
			"maxAttempts": 3, "initialBackoff": "0.001s", "maxBackoff": "0.01s",
			"backoffMultiplier": 2, "retryableStatusCodes": ["UNAVAILABLE"]
		}
	}]
}`, t.primary, t.secondary, t.plaintext)
}
