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
// used then.
//
// A cluster is "name=target" or a target alone, of which the name is its endpoint:
// "dns:///a.example:443" is called "a.example:443". A name that is listed again,
// with the same target, gives its cluster a later attempt too. The path is split
// at "," and at the "=" after a name (letters, digits, "_", ".", "-") before it is
// unescaped: what a target itself has of ",", "?", "#" and "%" is written %2C,
// %3F, %23 and %25. The query has these keys, each at most once:
//
//	retryOn         status codes that the next attempt follows; default
//	                UNAVAILABLE, and DEADLINE_EXCEEDED if there is an attemptTimeout.
//	                A list without that code makes the timeout the RPC's end
//	attempts        for each cluster; default 1, and 64 in all at the most
//	policy          the clusters' child policy; default round_robin
//	connectTimeout  a duration such as 1.5s or 200ms; default 1s
//	attemptTimeout  a duration; default none
//	overflow        FAIL (default), USE_LAST_CLUSTER or ROUND_ROBIN
//
// # Errors
//
// A target that is wrong fails every RPC at once, whether it waits for ready or
// not, with an error that names the part. What is no URL does not get here: gRPC
// takes it for a host to look up, which fails ("composite://[::1]:443,[::2]:443",
// with two slashes), or [google.golang.org/grpc.NewClient] returns the error (a bad
// escape such as "%zz").
//
// gRPC has no way to deliver two errors to RPCs that wait for ready. They wait
// until their deadline, whose error has the cause; other RPCs fail at once, and the
// cause is logged as an error:
//
//   - [google.golang.org/grpc.WithDisableServiceConfig] with clusters in the target;
//   - the target alone, without a service config or with one that has a cluster
//     without a target. The first RPC may say "produced zero addresses" instead.
//
// The package github.com/grpc-composite/grpc-composite/balancer/composite
// imports this one.
package composite

import (
	"errors"
	"fmt"

	"google.golang.org/grpc/grpclog"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/serviceconfig"
)

// Scheme is the scheme of the targets.
const Scheme = "composite"

var logger = grpclog.Component("composite")

func init() { resolver.Register(builder{}) }

type builder struct{}

func (builder) Scheme() string { return Scheme }

// OverrideAuthority names the channel after its first cluster. It matters little:
// each connection has its own cluster's name.
func (builder) OverrideAuthority(target resolver.Target) string {
	if s, err := parseSpec(target.URL); err == nil && len(s.clusters) > 0 && s.clusters[0].target.Authority != "" {
		return s.clusters[0].target.Authority
	}
	return "localhost"
}

var (
	errDisabled = errors.New("composite: target: with clusters in it, it is a service config, and grpc.WithDisableServiceConfig forbids those: leave that option out")
	errBare     = errors.New("composite: target: without clusters in it, it has no endpoints: give a service config whose clusters all have targets, or list them as in " + example)
)

// Build reports the one state there will ever be.
func (builder) Build(target resolver.Target, cc resolver.ClientConn, opts resolver.BuildOptions) (resolver.Resolver, error) {
	result, err := parse(target, cc)
	switch {
	case opts.DisableServiceConfig && (result != nil || err != nil):
		// gRPC ignores what comes as a service config now, errors too.
		if err == nil {
			err = errDisabled
		}
		report(cc, err)
	case err != nil:
		// As an error about the service config it fails all RPCs; any other
		// would have those that wait for ready hang.
		_ = cc.UpdateState(resolver.State{ServiceConfig: &serviceconfig.ParseResult{Err: err}})
	default:
		// An error that comes back is about endpoints, of which there are none
		// to look for again. Clusters in the target have their own.
		if err := cc.UpdateState(resolver.State{ServiceConfig: result}); err != nil && result == nil {
			report(cc, errBare)
		}
	}
	return done{}, nil
}

// report reports an error that RPCs which wait for ready do not get to see, and so
// must be in the log.
func report(cc resolver.ClientConn, err error) {
	logger.Error(err)
	cc.ReportError(err)
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
		return nil, fmt.Errorf("composite: target: its service config: %w", result.Err)
	}
	return result, nil
}

// done is a resolver that has nothing left to do.
type done struct{}

func (done) ResolveNow(resolver.ResolveNowOptions) {}

func (done) Close() {}
