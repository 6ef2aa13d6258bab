package composite

import (
	"fmt"
	"math/rand/v2"
	"time"

	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/serviceconfig"

	"github.com/grpc-composite/grpc-composite/internal/clustertarget"
	"github.com/grpc-composite/grpc-composite/internal/serializer"
)

// clusterResolver resolves a cluster's own target. It is the ClientConn that the
// resolver reports to.
type clusterResolver struct {
	cluster *cluster
	target  *clustertarget.Target

	// calls makes the calls into the resolver take turns, on a goroutine of
	// their own: a resolver that is slow to build holds up no other cluster,
	// and one that reports from within ResolveNow finds no lock taken.
	calls serializer.Serializer
	// Used by calls alone.
	resolver resolver.Resolver
	retry    *time.Timer
	failures int
}

func newClusterResolver(c *cluster, target *clustertarget.Target) *clusterResolver {
	return &clusterResolver{cluster: c, target: target}
}

// start builds the resolver.
func (r *clusterResolver) start() { r.calls.Schedule(r.build) }

func (r *clusterResolver) build() {
	if r.isClosed() {
		return
	}
	b := r.cluster.parent
	built, err := r.target.Builder.Build(r.target.Parsed, r, resolver.BuildOptions{
		DisableServiceConfig: true,
		DialCreds:            b.opts.DialCreds,
		CredsBundle:          b.opts.CredsBundle,
		Dialer:               b.opts.Dialer,
		Authority:            r.cluster.serverName(r.target),
		MetricsRecorder:      b.channel.MetricsRecorder(),
	})
	if err == nil {
		r.resolver, r.failures = built, 0
		return
	}
	r.ReportError(fmt.Errorf("resolver for %q: %w", r.target.Text, err))
	r.retry = time.AfterFunc(r.delay(), func() { r.calls.Schedule(r.build) })
	r.failures++
}

// delay is how long to wait before building is tried again.
func (r *clusterResolver) delay() time.Duration {
	d := float64(backoff.DefaultConfig.BaseDelay)
	for range r.failures {
		d = min(d*backoff.DefaultConfig.Multiplier, float64(backoff.DefaultConfig.MaxDelay))
	}
	return time.Duration(d * (1 + backoff.DefaultConfig.Jitter*(2*rand.Float64()-1))) //nolint:gosec // spreads the load, and is no secret
}

func (r *clusterResolver) resolveNow(opts resolver.ResolveNowOptions) {
	r.calls.Schedule(func() {
		if r.resolver != nil {
			r.resolver.ResolveNow(opts)
		}
	})
}

// close ends the resolver without waiting for it; the balancer's Close waits.
// What the resolver reports from now on is ignored. The caller may hold
// cluster.childMu or not.
func (r *clusterResolver) close() {
	done := r.cluster.parent.track()
	r.calls.Schedule(func() {
		defer done()
		if r.retry != nil {
			r.retry.Stop()
		}
		if r.resolver != nil {
			r.resolver.Close()
			r.resolver = nil
		}
	})
}

// isClosed tells whether the resolver was replaced or its cluster removed.
func (r *clusterResolver) isClosed() bool {
	b := r.cluster.parent
	b.mu.Lock()
	defer b.mu.Unlock()
	return r.cluster.closed || r.cluster.resolver != r
}

// UpdateState is called by the resolver. The error is the child policy's, for
// the resolver to back off and resolve again.
func (r *clusterResolver) UpdateState(state resolver.State) error {
	c := r.cluster
	c.childMu.Lock()
	defer c.childMu.Unlock()
	if r.isClosed() {
		return nil
	}
	state.ServiceConfig = nil
	if state.Endpoints == nil {
		state.Endpoints = endpointsOf(state.Addresses)
	}
	state.Addresses = c.stamp(state.Addresses, r.target)
	state.Endpoints = c.stampEndpoints(state.Endpoints, r.target)
	return c.heldBack(func() error {
		c.note(state)
		return c.push()
	})
}

// ReportError is called by the resolver.
func (r *clusterResolver) ReportError(err error) {
	c := r.cluster
	c.childMu.Lock()
	defer c.childMu.Unlock()
	if r.isClosed() {
		return
	}
	_ = c.heldBack(func() error { c.fail(err); return nil })
}

// NewAddress is the deprecated form of UpdateState.
func (r *clusterResolver) NewAddress(addrs []resolver.Address) {
	_ = r.UpdateState(resolver.State{Addresses: addrs})
}

// ParseServiceConfig returns an empty result: a cluster's service config is
// ignored.
func (r *clusterResolver) ParseServiceConfig(string) *serviceconfig.ParseResult {
	return &serviceconfig.ParseResult{}
}
