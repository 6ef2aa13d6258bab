// Package composite registers the resolver scheme "composite".
//
// The target "composite:///" alone is for channels whose clusters all have
// targets of their own, in a service config that the program gives by
// [google.golang.org/grpc.WithDefaultServiceConfig]: it resolves to nothing.
//
// With clusters in its path the target is the whole configuration, so that an
// address flag or an environment variable is enough to adopt failover:
//
//	composite:///primary=dns:///a.example:443,fallback=dns:///b.example:443?retryOn=UNAVAILABLE
//	composite:///a.example:443,b.example:443
//
// It then delivers a service config with the policy "composite" and, for more
// than one slot, a retry policy of as many attempts as there are slots, with
// back-offs of 1 to 10 ms. A default service config that the program gives is not
// used then, and grpc.WithDisableServiceConfig is an error.
//
// A cluster is "name=target" or a target alone, of which the name is the text of
// its endpoint. The path is split at "," and at the "=" after a name (letters,
// digits, "_", ".", "-") before it is unescaped: what a target itself has of ",",
// "?", "#" and "%" is written %2C, %3F, %23 and %25. The query has these keys:
//
//	retryOn         status codes that the next attempt follows; default
//	                UNAVAILABLE, and DEADLINE_EXCEEDED if there is an attemptTimeout
//	attempts        for each cluster; default 1
//	policy          the clusters' child policy; default round_robin
//	connectTimeout  a duration such as 1.5s or 200ms; default 1s
//	attemptTimeout  a duration; default none
//	overflow        FAIL (default), USE_LAST_CLUSTER or ROUND_ROBIN
//
// Errors reach RPCs at once, whether they wait for ready or not.
//
// The package github.com/grpc-composite/grpc-composite/balancer/composite
// imports this one.
package composite

import (
	"errors"
	"fmt"

	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/serviceconfig"

	"github.com/grpc-composite/grpc-composite/internal/clustertarget"
)

// Scheme is the scheme of the targets.
const Scheme = "composite"

func init() { resolver.Register(builder{}) }

type builder struct{}

func (builder) Scheme() string { return Scheme }

// OverrideAuthority names the channel after its first cluster. It matters little:
// each connection has its own cluster's name.
func (builder) OverrideAuthority(target resolver.Target) string {
	if s, err := parseSpec(target.URL); err == nil && len(s.clusters) > 0 {
		if t, err := clustertarget.Parse(s.clusters[0].target); err == nil && t.Authority != "" {
			return t.Authority
		}
	}
	return "localhost"
}

// Build reports the one state there will ever be.
func (builder) Build(target resolver.Target, cc resolver.ClientConn, opts resolver.BuildOptions) (resolver.Resolver, error) {
	result, err := parse(target, cc)
	if err == nil && result != nil && opts.DisableServiceConfig {
		// gRPC ignores what comes as a service config now, errors too.
		cc.ReportError(errors.New("composite: target: with clusters in it, it is a service config, and grpc.WithDisableServiceConfig forbids those: leave that option out"))
		return done{}, nil
	}
	if err != nil {
		// As an error about the service config it fails all RPCs; any other
		// would have those that wait for ready hang.
		result = &serviceconfig.ParseResult{Err: err}
	}
	// The error that comes back is about endpoints, of which there are none to
	// look for again.
	_ = cc.UpdateState(resolver.State{ServiceConfig: result})
	return done{}, nil
}

// parse returns the service config of a target, or nil for the bare one.
func parse(target resolver.Target, cc resolver.ClientConn) (*serviceconfig.ParseResult, error) {
	s, err := parseSpec(target.URL)
	if err != nil {
		return nil, err
	}
	if len(s.clusters) == 0 {
		return nil, nil
	}
	text, err := s.serviceConfig()
	if err != nil {
		return nil, fmt.Errorf("composite: target: %w", err)
	}
	result := cc.ParseServiceConfig(text)
	if result.Err != nil {
		return nil, fmt.Errorf("composite: target: %w; a target looks like %s", result.Err, example)
	}
	return result, nil
}

// done is a resolver that has nothing left to do.
type done struct{}

func (done) ResolveNow(resolver.ResolveNowOptions) {}

func (done) Close() {}
