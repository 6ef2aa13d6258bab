package composite

import (
	"fmt"
	"slices"
	"time"

	"google.golang.org/grpc/balancer"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/experimental/stats"
	"google.golang.org/grpc/resolver"

	"github.com/grpc-composite/grpc-composite/internal/clustertarget"
)

// child is a policy that picks within a cluster, and the ClientConn that the
// policy sees. A cluster has one, or two while one replaces the other.
type child struct {
	balancer.ClientConn
	cluster *cluster
	builder balancer.Builder

	// balancer is written once, under cluster.childMu, right after Build has
	// returned; only calls that hold that lock use it.
	balancer balancer.Balancer

	// Guarded by the composite balancer's mu.
	state    balancer.State // CONNECTING, without a picker, until the first report
	failed   bool           // was in TRANSIENT_FAILURE and not READY since
	rejected error          // what UpdateClientConnState returned last
	// unfed: it has taken an empty list of endpoints, and so has its own.
	unfed    bool
	source   *clustertarget.Target // of the endpoints that it has
	connErr  error                 // the last connection error
	subConns map[*subConn]struct{}
	nested   []*compositeBalancer // the policy, if it is one of these, or those below it
	// nestedErr is what one of them has refused, of the latest endpoints.
	nestedErr error
	closed    bool
}

// newChild builds the policy. The caller holds c.childMu, and has made ch known
// to the cluster by install, since Build may call back inline.
func (c *cluster) newChild(builder balancer.Builder, install func(ch *child)) *child {
	ch := &child{
		ClientConn: c.parent.cc,
		cluster:    c,
		builder:    builder,
		state:      balancer.State{ConnectivityState: connectivity.Connecting},
		subConns:   make(map[*subConn]struct{}),
	}
	install(ch)
	ch.balancer = builder.Build(ch, c.buildOptions())
	if ch.balancer == nil {
		ch.balancer = noPolicy{name: builder.Name()}
	}
	return ch
}

// call runs f, which calls into the policy, unless the policy is closed. Calls
// into one policy are made one at a time, as it may rely on.
func (ch *child) call(f func()) {
	ch.cluster.childMu.Lock()
	defer ch.cluster.childMu.Unlock()
	if !ch.isClosed() {
		f()
	}
}

func (ch *child) isClosed() bool {
	ch.cluster.parent.mu.Lock()
	defer ch.cluster.parent.mu.Unlock()
	return ch.closed
}

// close ends the policy and its connections; RPCs on them go on to their end.
// The caller holds cluster.childMu and has set closed.
func (ch *child) close() {
	if ch.balancer != nil {
		ch.balancer.Close()
	}
	ch.cluster.parent.mu.Lock()
	left := ch.subConns
	ch.subConns = nil
	ch.cluster.parent.mu.Unlock()
	for sc := range left {
		sc.SubConn.Shutdown()
	}
}

func (ch *child) noteConnectionError(err error) {
	if err == nil {
		return
	}
	ch.cluster.parent.mu.Lock()
	ch.connErr = err
	ch.cluster.parent.causes.Add(1)
	ch.cluster.parent.mu.Unlock()
}

// nestingRecorder is how a composite policy finds the one that it is in: the policies
// in between embed the ClientConn that they got.
type nestingRecorder struct {
	stats.MetricsRecorder
	child *child
}

// MetricsRecorder is the channel's.
func (ch *child) MetricsRecorder() stats.MetricsRecorder {
	return nestingRecorder{ch.ClientConn.MetricsRecorder(), ch}
}

// outerOf returns the child of another composite policy which the policy that gets cc
// is, or is below; nil if it is in none.
func outerOf(cc balancer.ClientConn) *child {
	recorder, _ := cc.MetricsRecorder().(nestingRecorder)
	return recorder.child
}

// nest notes a composite policy that this one is, or that is below it.
func (ch *child) nest(b *compositeBalancer) {
	ch.cluster.parent.mu.Lock()
	ch.nested = append(ch.nested, b)
	ch.cluster.parent.mu.Unlock()
}

// unnest forgets one that is closed.
func (ch *child) unnest(b *compositeBalancer) {
	ch.cluster.parent.mu.Lock()
	ch.nested = slices.DeleteFunc(ch.nested, func(other *compositeBalancer) bool { return other == b })
	ch.cluster.parent.mu.Unlock()
}

// noteNestedError notes what one of these refuses, so that it is known when the policy
// that it is below hands that on.
func (ch *child) noteNestedError(err error) {
	ch.cluster.parent.mu.Lock()
	ch.nestedErr = err
	ch.cluster.parent.mu.Unlock()
}

// nestsLocked tells whether the policy is a composite one, or has any below it. The
// caller holds parent.mu.
func (ch *child) nestsLocked() bool { return len(ch.nested) > 0 }

// isComposite tells whether the policy itself is a composite one.
func (ch *child) isComposite() bool {
	return ch.builder.Name() == Name
}

// heedsLocked tells whether to ask the policy to connect, given who has asked the
// cluster. What is idle in a composite policy, or below another one, are lazy clusters:
// they must not be asked without need, and the picker of a composite policy asks for
// those that an attempt needs. The caller holds parent.mu.
func (ch *child) heedsLocked(by asker) bool {
	switch by {
	case byChannel:
		return true
	case byPick:
		return !ch.isComposite()
	default:
		return !ch.nestsLocked()
	}
}

// forget stops tracking a connection that is shut down.
func (ch *child) forget(sc *subConn) {
	ch.cluster.parent.mu.Lock()
	delete(ch.subConns, sc)
	ch.cluster.parent.mu.Unlock()
}

// UpdateState is called by the policy, from any goroutine, also from within a
// call into it.
func (ch *child) UpdateState(state balancer.State) {
	b, c := ch.cluster.parent, ch.cluster
	b.mu.Lock()
	if ch.closed {
		b.mu.Unlock()
		return
	}
	before := ch.state.ConnectivityState
	ch.state = state
	b.causes.Add(1)
	switch state.ConnectivityState {
	case connectivity.Ready:
		ch.failed, ch.connErr = false, nil
	case connectivity.TransientFailure:
		ch.failed = true
	case connectivity.Idle:
		if before == connectivity.Idle {
			break
		}
		c.tried.Store(false)
		// A lazy cluster that loses its connection is left alone until an
		// attempt needs another; one that has yet to get it goes on trying.
		if ch.heedsLocked(c.asked) && (!c.lazy || before != connectivity.Ready) {
			b.goLocked(ch.exitIdle)
		}
	default: // CONNECTING says nothing about failures; SHUTDOWN is not a policy's to report
	}
	if ch == c.current {
		c.reported = true
	}
	c.settleLocked()
	b.mu.Unlock()
	b.publish()
}

// exitIdle asks the policy to connect. It takes cluster.childMu.
func (ch *child) exitIdle() {
	ch.call(func() { ch.balancer.ExitIdle() })
}

// NewSubConn is called by the policy.
func (ch *child) NewSubConn(addrs []resolver.Address, opts balancer.NewSubConnOptions) (balancer.SubConn, error) {
	b := ch.cluster.parent
	sc := &subConn{child: ch, since: time.Now()}
	if len(addrs) > 0 {
		sc.host = addrs[0].Addr
	}
	opts.StateListener = sc.stateListener(opts.StateListener)
	opts.CredsBundle = bundleFor(b.opts.DialCreds, opts.CredsBundle, ch.cluster.name)
	if ch.isClosed() {
		return nil, fmt.Errorf("composite: cluster %q: a policy that is closed cannot create connections", ch.cluster.name)
	}
	inner, err := b.cc.NewSubConn(ch.stampUsed(addrs), opts)
	if err != nil {
		return nil, err
	}
	sc.SubConn = inner
	b.mu.Lock()
	closed := ch.closed || ch.subConns == nil
	if !closed {
		ch.subConns[sc] = struct{}{}
	}
	b.mu.Unlock()
	if closed {
		inner.Shutdown()
		return nil, fmt.Errorf("composite: cluster %q: a policy was closed while it created a connection", ch.cluster.name)
	}
	return sc, nil
}

// UpdateAddresses is the deprecated way for a policy to change a connection.
func (ch *child) UpdateAddresses(sc balancer.SubConn, addrs []resolver.Address) {
	sc.UpdateAddresses(addrs)
}

// RemoveSubConn is the deprecated way for a policy to end a connection.
func (ch *child) RemoveSubConn(sc balancer.SubConn) {
	sc.Shutdown()
}

// ResolveNow reaches the resolver that the cluster's endpoints come from, and no
// other.
func (ch *child) ResolveNow(opts resolver.ResolveNowOptions) {
	if !ch.resolveOwn(opts) {
		ch.ClientConn.ResolveNow(opts)
	}
}

// resolveOwn asks the cluster's own resolver, and returns false if the channel's
// serves the cluster. A policy that is being replaced has no say any more.
func (ch *child) resolveOwn(opts resolver.ResolveNowOptions) bool {
	b, c := ch.cluster.parent, ch.cluster
	b.mu.Lock()
	own, latest := c.resolver, c.latestLocked() == ch
	b.mu.Unlock()
	if own != nil && latest {
		own.resolveNow(opts)
	}
	return c.target.Load() != nil
}

// Target is what the policy's endpoints were resolved from.
func (ch *child) Target() string {
	if t := ch.cluster.target.Load(); t != nil {
		return t.Text
	}
	return ch.ClientConn.Target()
}

// noPolicy stands for a policy whose builder builds none.
type noPolicy struct{ name string }

func (p noPolicy) UpdateClientConnState(balancer.ClientConnState) error {
	return fmt.Errorf("composite: the builder of the policy %q returned nil", p.name)
}

func (noPolicy) ResolverError(error) {}

func (noPolicy) UpdateSubConnState(balancer.SubConn, balancer.SubConnState) {}

func (noPolicy) ExitIdle() {}

func (noPolicy) Close() {}
