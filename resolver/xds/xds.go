// Package xds registers the resolver scheme "composite-xds": failover over the
// clusters of an xDS control plane.
//
//	composite-xds:///NAME?clusters=primary,secondary,fallback
//
// It is the target "xds:///NAME" with another policy. Listener, route, clusters and
// endpoints come from the control plane as they do for "xds:///NAME", and so do
// circuit breakers, outlier detection, the clusters' TLS (with
// [google.golang.org/grpc/credentials/xds]), fault injection, and the route's
// timeout and retry policy. Only the cluster is not the one that the route names:
// each attempt goes to the cluster that the policy "composite" chooses among those
// of the target, which are all subscribed to from the start (one that is lazy:
// when an attempt needs it).
//
// The query has one of these keys, escaped as in a URL:
//
//	clusters  names of xDS clusters, in the order of attempts, one slot each;
//	          a "," within a name is written %2C
//	config    a config of the policy "composite", as JSON. An entry without
//	          "target" and without "childPolicy" is the xDS cluster of its name,
//	          also within a composite policy inside another. An entry that has a
//	          target is a cluster beside xDS, such as a last resort in DNS
//
// An xDS cluster of another name than the entry's is
//
//	{"name": "primary", "childPolicy": [{"cds_experimental": {"cluster": "eu.primary"}}]}
//
// The program needs what every composite channel needs, which is
// composite.DialOptions, and what gRPC's xDS support needs: a bootstrap file named
// by GRPC_XDS_BOOTSTRAP, or its text in GRPC_XDS_BOOTSTRAP_CONFIG. NAME may have an
// authority ("composite-xds://authority/NAME"), as in "xds:". Only programs that
// import this package link gRPC's xDS support in.
//
// # Retries
//
// The route's retry_policy alone decides on retries: gRPC takes no retry policy
// from anywhere else on a channel whose routes come from xDS. Without one an RPC has
// one attempt, and moves on only past clusters that have no host. num_retries is to
// be one less than there are slots (left out: 1). Of retry_on gRPC knows cancelled,
// deadline-exceeded, internal, resource-exhausted and unavailable, and ignores the
// rest: "5xx", "gateway-error", "reset" and "connect-failure" retry nothing. Its
// per_try_timeout is ignored: attemptTimeout of the config is the like.
//
// # Limits
//
// These are gRPC-Go's (1.85), or follow from how the policy is put in:
//
//   - The clusters cannot come from an Envoy composite cluster: gRPC's xDS client
//     rejects such a Cluster resource, for its lb_policy CLUSTER_PROVIDED, and without
//     that for its type, which may be EDS, LOGICAL_DNS or an aggregate cluster. What
//     is rejected cannot be read, and no type can be added. Do not serve one to gRPC
//     clients: some control planes, go-control-plane's among them, send it again and
//     again without a pause. So the list is in the target; a control plane that is to
//     name the clusters has another way, see below.
//   - The clusters that routes name are not used, weights included. A route that
//     matches is needed all the same, and its cluster must exist: gRPC waits for it,
//     up to 15 seconds, before the first RPC. Name the first of the list.
//   - A listed cluster that the control plane does not have counts as connecting
//     until connectTimeout (default 1s), and then as having no host. Its error is
//     known when gRPC gives up on it, after 15 seconds. One that is deleted has no
//     host at once. While the control plane is away all stays as it was.
//   - A full circuit breaker and a drop_overload end the RPC, as gRPC defines:
//     maxRequests of the config has the next cluster take it instead. gRPC counts for
//     the whole process, by the cluster's name and its EDS service name.
//   - Faults are injected once for an RPC, before its first attempt: an abort is not
//     retried, and no cluster is tried.
//   - TLS by the control plane needs gRPC's xDS credentials, which may be an entry or
//     the fallback of composite.NewTransportCredentials. Of the fields that name
//     servers gRPC reads match_subject_alt_names alone: with match_typed_subject_alt_names
//     any certificate of the right authority will do.
//   - A cluster of xDS that is listed under two names must not be lazy: once it is
//     subscribed to, gRPC's policy learns of it only with its next change.
//   - With gRPC-Go v1.79 all this works, but a cluster that loses its
//     endpoints counts as a transient failure, and a route's cluster need not exist.
//   - A service config that the program gives by
//     [google.golang.org/grpc.WithDefaultServiceConfig] is not used.
//     [google.golang.org/grpc.WithDisableServiceConfig] is an error.
//
// # Clusters named by the control plane
//
// A Cluster may carry the policy as its load_balancing_policy (gRFC A52), as an
// xds.type.v3.TypedStruct with the type_url "type.googleapis.com/composite", whose
// value is the config; each entry has the child policy
//
//	{"cds_experimental": {"cluster": "NAME", "isDynamic": true}}
//
// Programs that import balancer/composite, use composite.DialOptions, and dial the
// plain target "xds:///NAME" fail over then, over clusters that the control plane
// names and changes, for the routes that go to that Cluster. This package is not
// needed for it. Two limits come with it: the Cluster must always have an endpoint, of
// which no use is made; and its own circuit breaker and TLS settings hold for all
// clusters of the list, the latter in place of theirs. Without TLS settings of its own
// the clusters get none: xDS credentials then fall back to what they have for that.
package xds

import (
	"errors"
	"fmt"

	"google.golang.org/grpc/grpclog"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/serviceconfig"
	"google.golang.org/grpc/xds"

	_ "github.com/grpc-composite/grpc-composite/balancer/composite" // the policy
)

// Scheme is the scheme of the targets.
const Scheme = "composite-xds"

var logger = grpclog.Component("composite")

func init() { resolver.Register(builder{}) }

// NewBuilderForTesting returns a builder whose channels read this bootstrap config
// instead of the one that the environment names, and share no xDS client with
// others: for tests, which may so run in parallel. Pass it to
// [google.golang.org/grpc.WithResolvers]. The error
// is gRPC's own, which as of v1.85 is nil: a bootstrap config that is wrong fails the RPCs.
func NewBuilderForTesting(bootstrap []byte) (resolver.Builder, error) {
	inner, err := xds.NewXDSResolverWithConfigForTesting(bootstrap)
	if err != nil {
		return nil, fmt.Errorf("composite-xds: bootstrap: %w", err)
	}
	return builder{inner}, nil
}

type builder struct {
	inner resolver.Builder // nil for gRPC's own
}

func (builder) Scheme() string { return Scheme }

var errDisabled = errors.New("composite-xds: target: its clusters are a service config, and grpc.WithDisableServiceConfig forbids those: leave that option out")

// Build starts gRPC's own xDS resolver, behind a ClientConn that puts the policy in.
func (b builder) Build(target resolver.Target, cc resolver.ClientConn, opts resolver.BuildOptions) (resolver.Resolver, error) {
	s, err := parseSpec(target.URL)
	switch {
	case opts.DisableServiceConfig:
		// gRPC ignores what comes as a service config now, errors too.
		if err == nil {
			err = errDisabled
		}
		logger.Error(err)
		cc.ReportError(err)
		return done{}, nil
	case err != nil:
		return fail(cc, err)
	}
	wrapped := &clientConn{ClientConn: cc, spec: s}
	if result := wrapped.withRouted(nil); result.Err != nil {
		return fail(cc, fmt.Errorf("composite-xds: target: %s: %w", s.part, result.Err))
	}
	inner := b.inner
	if inner == nil {
		inner = resolver.Get(xdsScheme)
	}
	r, err := inner.Build(s.target, wrapped, opts)
	if err != nil {
		return fail(cc, fmt.Errorf("composite-xds: %w", err))
	}
	return r, nil
}

// fail has all RPCs fail with an error. An error from Build, or any but one about
// the service config, would have those that wait for ready hang.
func fail(cc resolver.ClientConn, err error) (resolver.Resolver, error) {
	_ = cc.UpdateState(resolver.State{ServiceConfig: &serviceconfig.ParseResult{Err: err}})
	return done{}, nil
}

// done is a resolver that has nothing left to do.
type done struct{}

func (done) ResolveNow(resolver.ResolveNowOptions) {}

func (done) Close() {}
