// Package composite registers the resolver scheme "composite".
//
// The target "composite:///" is for channels whose clusters all have targets of
// their own, in a service config that the program gives by
// [google.golang.org/grpc.WithDefaultServiceConfig]: it resolves to nothing.
//
// The package github.com/grpc-composite/grpc-composite/balancer/composite
// imports this one.
package composite

import (
	"fmt"

	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/serviceconfig"
)

// Scheme is the scheme of the targets.
const Scheme = "composite"

// authority is what the channel is called where it has to have a name. Each
// connection has its own cluster's.
const authority = "localhost"

func init() { resolver.Register(builder{}) }

type builder struct{}

func (builder) Scheme() string { return Scheme }

// OverrideAuthority gives the channel an authority: a target that names nothing
// would leave it empty.
func (builder) OverrideAuthority(resolver.Target) string { return authority }

// Build reports the one state there will ever be. An error about the target is
// delivered as one about the service config: RPCs that wait for ready would hang
// on any other.
func (builder) Build(target resolver.Target, cc resolver.ClientConn, _ resolver.BuildOptions) (resolver.Resolver, error) {
	var state resolver.State
	if err := check(target); err != nil {
		state.ServiceConfig = &serviceconfig.ParseResult{Err: err}
	}
	if err := cc.UpdateState(state); err != nil {
		// The policy has nothing to say about endpoints that are not there;
		// asking again would not help.
		return done{}, nil //nolint:nilerr // see above
	}
	return done{}, nil
}

func check(target resolver.Target) error {
	u := target.URL
	if u.Host != "" || u.Opaque != "" || (u.Path != "" && u.Path != "/") || u.RawQuery != "" || u.Fragment != "" {
		return fmt.Errorf("composite: target %q: must be %q, with the clusters in the service config", u.String(), Scheme+":///")
	}
	return nil
}

// done is a resolver that has nothing left to do.
type done struct{}

func (done) ResolveNow(resolver.ResolveNowOptions) {}

func (done) Close() {}
