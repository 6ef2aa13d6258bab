package composite

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/balancer"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/resolver"

	"github.com/grpc-composite/grpc-composite/internal/clustertarget"
	"github.com/grpc-composite/grpc-composite/internal/plan"
	"github.com/grpc-composite/grpc-composite/internal/serializer"
)

// cluster is one tier: where its endpoints come from, the child policy that
// picks among them, and the condition that follows from both.
//
// Locks, in the order in which they are taken:
//
//	childMu -> parent.publishMu -> parent.mu
//
// The child policies report from any goroutine, often from within a call into
// them. So no call into a child, a resolver or the channel is made while
// parent.mu is held.
type cluster struct {
	parent *compositeBalancer
	name   string

	// target is the current target, nil for the channel's own resolver.
	target atomic.Pointer[clustertarget.Target]
	// asking is set while a pick's request to connect is being carried out.
	asking atomic.Bool
	// tried is set when an attempt asks the child's picker though the child is
	// not READY: since it went IDLE, something has asked it to connect in the
	// one way that all policies understand.
	tried atomic.Bool
	// used is set by picks from a lazy cluster, and cleared when that is noted.
	used atomic.Bool
	// guard decides at picks whether the cluster may be used.
	guard *guard
	// events carries what happens to connections from the channel to the child.
	events serializer.Serializer

	// childMu makes the calls into the child policies take turns. They come
	// from the channel, the cluster's own resolver, connections, and
	// goroutines that this package starts. It guards the fields below.
	childMu   sync.Mutex
	config    clusterConfig
	endpoints resolver.State // the latest; written under parent.mu as well
	resolved  bool           // endpoints were delivered, if only an empty list

	// All that follows is guarded by parent.mu. What changes the resolver or the
	// children, or closes the cluster, holds childMu as well.

	resolver         *clusterResolver      // nil for the channel's own
	current, pending *child                // pending replaces current when it can
	resolveErr       error                 // from the resolver, until it delivers endpoints
	unresolved       bool                  // resolving failed and nothing was ever delivered
	source           *clustertarget.Target // that the latest endpoints came from
	empty            error                 // the latest list of endpoints is, as this says; nil if it is not
	closed           bool
	lazy             bool
	asleep           bool        // lazy, and not asked yet: no child, no resolver at work
	lastUsed         time.Time   // when a lazy cluster was asked or last seen in use
	bedtime          *time.Timer // looks whether a lazy cluster is in use

	// held counts the calls that hold back what the children report until they
	// are done, so that nothing in between is published.
	held int
	// reported: the current child has reported since the last settling.
	reported bool

	connectTimeout time.Duration
	failbackDelay  time.Duration
	failback       failback
	since          time.Time // connecting since then; zero if no time runs
	asked          asker     // for the connection that is awaited
	timer          *time.Timer
	deadline       time.Time // that timer is set for

	view   view
	state  connectivity.State // the child's, in view
	log    conditionLog
	counts *counts // of picks; nil until somebody watches
}

// view is what picks see of a cluster.
type view struct {
	condition plan.Condition
	reason    plan.Reason // of NoHost
	since     time.Time   // both
	picker    balancer.Picker
	early     bool // within failbackDelay
	nudge     bool // no host, and a pick may change that: the child is IDLE
	asks      bool // the same, and the child has to be asked, since its picker may not do that
}

// passesOn tells whether an attempt asks the cluster to connect, and does not wait
// for it.
func (v *view) passesOn(cfg *clusterConfig) bool {
	return v.nudge || (v.condition == plan.Idle && cfg.connectTimeout == 0)
}

// newCluster returns a cluster that does nothing until it is updated.
func newCluster(parent *compositeBalancer, name string) *cluster {
	c := &cluster{parent: parent, name: name, asleep: true}
	c.guard = newGuard(c)
	c.view.condition, c.view.since = plan.Idle, time.Now()
	c.state = connectivity.Idle
	return c
}

// update brings the cluster to a new config. Endpoints are those that the
// channel's resolver has for it, if it has no target of its own. The caller
// holds it back, and gets the child's error about those endpoints.
func (c *cluster) update(cfg clusterConfig, endpoints resolver.State) error {
	c.childMu.Lock()
	defer c.childMu.Unlock()
	previous := c.config
	c.config = cfg
	c.parent.mu.Lock()
	c.connectTimeout, c.failbackDelay = cfg.connectTimeout, cfg.failbackDelay
	wasLazy := c.lazy
	c.lazy = cfg.lazy
	asleep := c.asleep
	c.parent.mu.Unlock()

	c.guard.breaker.Configure(cfg.cooldown)
	c.setTarget(cfg.target)
	if cfg.target == nil {
		c.note(endpoints)
	}
	switch {
	case asleep && !cfg.lazy:
		return c.wake()
	case asleep:
		return nil
	case cfg.lazy && !wasLazy:
		c.watchUse()
	}
	if wasLazy && !cfg.lazy {
		defer c.exitLatest(byNobody)
	}
	if cfg.target == nil {
		return c.push()
	}
	if c.resolved && !previous.child.equal(cfg.child) {
		_ = c.push() // a refusal is the cluster's condition, and of no concern to the channel's resolver
	}
	return nil
}

// setTarget replaces the resolver if the target has changed. The old endpoints
// serve until the new resolver delivers. The caller holds childMu.
func (c *cluster) setTarget(target *clustertarget.Target) {
	if target != nil && sameTarget(c.target.Load(), target) {
		return
	}
	c.target.Store(target)
	b := c.parent
	b.mu.Lock()
	c.unresolved = false
	c.setResolveErrLocked(nil)
	if c.asleep {
		// Nobody is connected to the old endpoints, and when the cluster wakes
		// nobody must be.
		c.resolved, c.empty, c.endpoints = false, nil, resolver.State{}
	}
	if !c.resolved && !c.asleep {
		c.since = time.Now() // a new name, a new chance
	}
	b.mu.Unlock()
	c.replaceResolver(target)
}

// sameTarget tells whether targets are the same, of which each may be nil.
func sameTarget(a, b *clustertarget.Target) bool {
	return a == b || a != nil && b != nil && a.Text == b.Text
}

// replaceResolver closes the resolver and starts one for the target, unless that
// is nil or the cluster is asleep. The caller holds childMu.
func (c *cluster) replaceResolver(target *clustertarget.Target) {
	b := c.parent
	b.mu.Lock()
	previous := c.resolver
	c.resolver = nil
	if target != nil && !c.asleep {
		c.resolver = newClusterResolver(c, target)
	}
	next := c.resolver
	b.mu.Unlock()
	if previous != nil {
		previous.close()
	}
	if next != nil {
		next.start()
	}
}

// note keeps new endpoints. The caller holds childMu.
func (c *cluster) note(endpoints resolver.State) {
	c.resolved = true
	c.parent.mu.Lock()
	defer c.parent.mu.Unlock()
	c.endpoints, c.source = endpoints, c.target.Load()
	c.unresolved = false
	c.setResolveErrLocked(nil)
	c.empty = nil
	if len(endpoints.Endpoints) == 0 && len(endpoints.Addresses) == 0 {
		c.empty = errNoEndpoints(c.source)
	}
}

// push brings config and endpoints to the child, which it builds or replaces if
// need be. The caller holds childMu, and holds the cluster back.
func (c *cluster) push() error {
	c.parent.mu.Lock()
	ch := c.latestLocked()
	c.parent.mu.Unlock()

	if builder := c.config.child.builder; ch == nil || ch.builder.Name() != builder.Name() {
		ch = c.newChild(builder, c.install)
	}
	c.parent.mu.Lock()
	ch.source, ch.nestedErr = c.source, nil
	c.parent.mu.Unlock()
	err := ch.balancer.UpdateClientConnState(balancer.ClientConnState{
		ResolverState:  c.endpoints,
		BalancerConfig: c.config.child.config,
	})

	c.parent.mu.Lock()
	ch.rejected = err
	if ch.nestedErr != nil && errors.Is(err, ch.nestedErr) {
		ch.rejected = nil // one of its clusters; what it reports tells of all
	}
	ch.unfed = ch.rejected == nil && c.empty != nil
	c.parent.causes.Add(1)
	idle := ch.state.ConnectivityState == connectivity.Idle
	if idle {
		// New endpoints are a new chance for a policy that connects only when
		// it is picked from, and that no pick would reach any more.
		ch.failed = false
		if c.asked == byNobody {
			c.since = time.Time{}
		}
	}
	connect := idle && (!c.lazy || c.asked != byNobody) && ch.heedsLocked(c.asked)
	c.parent.mu.Unlock()
	if connect {
		ch.balancer.ExitIdle()
	}
	return err
}

// install makes a new child known to the cluster, as the current one or as the
// one that replaces it.
func (c *cluster) install(ch *child) {
	b := c.parent
	b.mu.Lock()
	defer b.mu.Unlock()
	if c.current == nil {
		c.current = ch
		return
	}
	if c.pending != nil {
		c.retireLocked(c.pending)
	}
	c.pending = ch
}

// fail tells the child that the cluster's endpoints could not be resolved. The
// caller holds childMu, and holds the cluster back.
func (c *cluster) fail(err error) {
	c.parent.mu.Lock()
	c.setResolveErrLocked(err)
	c.unresolved = !c.resolved
	ch := c.latestLocked()
	c.parent.mu.Unlock()
	if ch != nil {
		ch.balancer.ResolverError(err)
	}
}

// setResolveErrLocked sets what errors of picks tell of the resolver. The caller holds
// parent.mu.
func (c *cluster) setResolveErrLocked(err error) {
	c.resolveErr = err
	c.parent.causes.Add(1)
}

// exitLatest asks the child to connect. The caller holds childMu.
func (c *cluster) exitLatest(by asker) {
	c.parent.mu.Lock()
	ch := c.latestLocked()
	heeds := ch != nil && ch.heedsLocked(by)
	c.parent.mu.Unlock()
	if heeds {
		ch.balancer.ExitIdle()
	}
}

// close ends the cluster: its resolver, its children and their connections. RPCs
// in flight go on to their end.
func (c *cluster) close() {
	c.childMu.Lock()
	defer c.childMu.Unlock()
	b := c.parent
	b.mu.Lock()
	c.closed = true
	for _, timer := range []*time.Timer{c.timer, c.bedtime, c.failback.timer, c.log.timer} {
		if timer != nil {
			timer.Stop()
		}
	}
	c.guard.breaker.Close()
	children := c.dismissLocked()
	own := c.resolver
	b.mu.Unlock()

	if own != nil {
		own.close()
	}
	for _, ch := range children {
		ch.close()
	}
}

// dismissLocked takes the children from the cluster, for the caller to close
// once it holds no more than childMu. The caller holds parent.mu.
func (c *cluster) dismissLocked() []*child {
	var children []*child
	for _, ch := range []*child{c.pending, c.current} {
		if ch != nil {
			ch.closed = true
			children = append(children, ch)
		}
	}
	c.pending, c.current = nil, nil
	c.reported = true // no pick may ask them any more
	return children
}

// latestLocked is the child that gets endpoints. The caller holds parent.mu.
func (c *cluster) latestLocked() *child {
	if c.pending != nil {
		return c.pending
	}
	return c.current
}

// retireLocked closes a child that is replaced. The caller holds parent.mu.
func (c *cluster) retireLocked(ch *child) {
	ch.closed = true
	c.parent.goLocked(func() {
		c.childMu.Lock()
		defer c.childMu.Unlock()
		ch.close()
	})
}

// holdLocked and releaseLocked enclose calls into children, whose reports count
// only when all is done. The caller holds parent.mu.
func (c *cluster) holdLocked() { c.held++ }

func (c *cluster) releaseLocked() {
	c.held--
	c.settleLocked()
}

// heldBack runs f, which calls into children, and publishes what came of it. The
// caller holds childMu.
func (c *cluster) heldBack(f func() error) error {
	b := c.parent
	b.mu.Lock()
	c.holdLocked()
	b.mu.Unlock()
	err := f()
	b.mu.Lock()
	c.releaseLocked()
	b.mu.Unlock()
	b.publish()
	return err
}

// buildOptions are what a child would get in a channel to the cluster's own
// target.
func (c *cluster) buildOptions() balancer.BuildOptions {
	opts := c.parent.opts
	target := c.target.Load()
	if target != nil {
		opts.Target = target.Parsed
	}
	if name := c.serverName(target); name != "" {
		opts.Authority = name
	}
	return opts
}
