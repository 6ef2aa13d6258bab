package composite

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/balancer"
	"google.golang.org/grpc/experimental/stats"

	"github.com/grpc-composite/grpc-composite/internal/attempt"
	"github.com/grpc-composite/grpc-composite/internal/inspect"
	"github.com/grpc-composite/grpc-composite/internal/plan"
)

// compositeBalancer joins clusters into one policy. gRPC calls its methods one
// at a time.
type compositeBalancer struct {
	cc   balancer.ClientConn
	opts balancer.BuildOptions
	// outer is what the policy is in, or below, of another composite policy: nil for
	// the outermost one. Channel is what that one got as its ClientConn.
	outer   *child
	channel balancer.ClientConn
	// recorder is nil if nobody records metrics, or the policy is inside another
	// composite one, which counts each attempt, as it is its clusters that a trail
	// has.
	recorder stats.MetricsRecorder

	// reported has the tags of endpoints that were warned about. Only calls
	// from the channel use it.
	reported map[string]bool

	// causes counts what errors of picks tell: see sharedError. It is written with
	// mu held.
	causes atomic.Int64

	// publishMu is held while a picker is made and handed to the channel, so
	// that pickers arrive in the order in which they were made. Whoever waits
	// for it finds, more often than not, that its change has been published
	// with another one's: a burst of changes makes few pickers.
	publishMu sync.Mutex

	// mu guards what follows and the state of all clusters. It is held for
	// moments only, and never while calling into a child policy, a resolver or
	// the channel: each of them may call back.
	mu       sync.Mutex
	config   *lbConfig
	clusters []*cluster // by index in config.clusters
	metrics  *metrics   // nil if nobody records
	dirty    bool       // something changed since the last picker
	lines    []logLine  // not written yet
	closed   bool
	created  time.Time
	watch    *watch // nil until somebody watches
	// background counts the children and resolvers that are being closed, and
	// the goroutines that call into children. Close waits for them.
	background sync.WaitGroup
}

// UpdateClientConnState brings the clusters to a new config: those whose names
// stay are kept. The error is that of the clusters whose endpoints come from
// the channel's resolver.
func (b *compositeBalancer) UpdateClientConnState(s balancer.ClientConnState) error {
	cfg, ok := s.BalancerConfig.(*lbConfig)
	if !ok {
		return fmt.Errorf("composite: config has the type %T: must be what this package's ParseConfig returned", s.BalancerConfig)
	}

	b.mu.Lock()
	old := make(map[string]*cluster)
	for _, c := range b.clusters {
		old[c.name] = c
	}
	clusters := make([]*cluster, len(cfg.clusters))
	for i, cc := range cfg.clusters {
		if clusters[i] = old[cc.name]; clusters[i] == nil {
			clusters[i] = newCluster(b, cc.name)
		}
		delete(old, cc.name)
		clusters[i].holdLocked()
	}
	b.mu.Unlock()

	b.checkCredentials(cfg)
	var errs []error
	share := b.shareEndpoints(cfg, s.ResolverState)
	for i, c := range clusters {
		if err := c.update(cfg.clusters[i], share(cfg.clusters[i].name)); err != nil {
			errs = append(errs, err)
		}
	}

	b.mu.Lock()
	if b.config == nil || b.config.text != cfg.text {
		b.dirty, b.metrics = true, newMetrics(b.recorder, b.opts.Target.String(), cfg)
	}
	b.config, b.clusters = cfg, clusters
	for _, c := range clusters {
		c.releaseLocked()
	}
	for _, name := range slices.Sorted(maps.Keys(old)) {
		old[name].logRemovedLocked()
	}
	b.mu.Unlock()
	b.publish()
	// No pick reaches the removed clusters any more. One that is slow to close
	// must not hold up the channel.
	b.mu.Lock()
	for _, c := range old {
		b.goLocked(c.close)
	}
	b.mu.Unlock()
	err := errors.Join(errs...)
	if len(errs) == 1 {
		err = errs[0] // bare, for those who compare it to ErrBadResolverState
	}
	if b.outer != nil && err != nil {
		b.outer.noteNestedError(err)
	}
	return err
}

// checkCredentials warns about transport credentials for clusters that are not in
// the config. A policy inside another composite one leaves that to the outer one,
// which knows all names.
func (b *compositeBalancer) checkCredentials(cfg *lbConfig) {
	creds, ok := b.opts.DialCreds.(*transportCredentials)
	if !ok || b.outer != nil {
		return
	}
	for _, name := range slices.Sorted(maps.Keys(creds.byCluster)) {
		creds.unknown.check("NewTransportCredentials", name, cfg.names)
	}
}

// ResolverError concerns the clusters whose endpoints come from the channel's
// resolver, and no other.
func (b *compositeBalancer) ResolverError(err error) {
	for _, c := range b.current() {
		if c.target.Load() == nil {
			c.childMu.Lock()
			_ = c.heldBack(func() error { c.fail(err); return nil })
			c.childMu.Unlock()
		}
	}
}

// UpdateSubConnState is deprecated, and never called for connections that were
// created with a StateListener, as all are here.
func (b *compositeBalancer) UpdateSubConnState(balancer.SubConn, balancer.SubConnState) {}

// ExitIdle asks the first slot's cluster to connect, and all that are not lazy. Of
// composite policies inside, it reaches the first slot's alone: the others keep those
// of their clusters connected that are not lazy.
func (b *compositeBalancer) ExitIdle() {
	for i, c := range b.current() {
		b.mu.Lock()
		lazy, asleep := c.lazy, c.asleep
		ch := c.latestLocked()
		nests := ch != nil && ch.nestsLocked()
		b.mu.Unlock()
		switch { // the list begins with the first slot's cluster
		case i == 0 && (asleep || ch == nil || nests):
			c.connect(byChannel)
		case i == 0:
			c.exitIdle(byChannel) // no time runs for a child that only a pick makes connect
		case !lazy:
			c.exitIdle(byNobody)
		}
	}
	for _, c := range b.awaited() {
		c.connect(byChannel)
	}
}

// isBelow tells whether there is a policy of another kind around this one, in a cluster of
// a composite one.
func (b *compositeBalancer) isBelow() bool {
	for outer := b.outer; outer != nil; outer = outer.cluster.parent.outer {
		if !outer.isComposite() {
			return true
		}
	}
	return false
}

// awaited are the clusters that an attempt would ask to connect if it came here. There are
// none if attempts do come here: a policy of another kind that this one is below need not
// hand them on while it is IDLE.
func (b *compositeBalancer) awaited() []*cluster {
	if !b.isBelow() {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	var awaited []*cluster
	for i, c := range b.clusters {
		if c.view.condition == plan.Idle || c.view.nudge {
			awaited = append(awaited, c)
		}
		if c.view.condition != plan.NoHost && !c.view.passesOn(&b.config.clusters[i]) {
			break
		}
	}
	return awaited
}

// Close ends all clusters. That of the outermost policy returns when their resolvers and
// children are closed. A timer or a pick's request to connect that comes later finds its
// cluster closed.
func (b *compositeBalancer) Close() {
	if b.outer != nil {
		b.outer.unnest(b)
	} else {
		inspect.Remove(b)
	}
	clusters := b.current()
	for _, c := range clusters {
		c.close()
	}
	b.mu.Lock()
	b.closed = true
	b.mu.Unlock()
	if b.outer == nil {
		b.background.Wait()
		return
	}
	// The cluster that this policy is in must not wait, or its next one would have to: the
	// outermost policy does.
	done := b.outer.cluster.parent.track()
	go func() {
		defer done()
		b.background.Wait()
	}()
}

func (b *compositeBalancer) current() []*cluster {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.clusters
}

// goLocked runs f on a goroutine that Close waits for. The caller holds mu.
func (b *compositeBalancer) goLocked(f func()) {
	if b.closed {
		return
	}
	b.background.Go(f)
}

// track has Close wait until the returned function is called.
func (b *compositeBalancer) track() (done func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.background.Add(1)
	return b.background.Done
}

// republish has everybody who waits pick again.
func (b *compositeBalancer) republish() {
	b.mu.Lock()
	b.dirty = true
	b.mu.Unlock()
	b.publish()
}

// publish hands a new picker to the channel if anything changed, and writes to the
// log what has.
func (b *compositeBalancer) publish() {
	b.publishMu.Lock()
	defer b.publishMu.Unlock()
	defer b.writeLog()
	b.mu.Lock()
	if !b.dirty || b.closed || b.config == nil {
		b.mu.Unlock()
		return
	}
	b.dirty = false
	state := b.stateLocked()
	b.mu.Unlock()
	b.cc.UpdateState(state)
}

// stateLocked makes the picker and the channel's state from the clusters' views.
func (b *compositeBalancer) stateLocked() balancer.State {
	b.watchLocked()
	p := &picker{config: b.config, policy: b, metrics: b.metrics, watch: b.watch, clusters: make([]pickCluster, len(b.clusters))}
	p.counting = p.metrics != nil || p.watch != nil
	usable := make([]bool, len(b.clusters))
	conditions := make([]plan.Condition, len(b.clusters))
	for i, c := range b.clusters {
		conditions[i] = c.view.condition
		cfg := &b.config.clusters[i]
		p.clusters[i] = pickCluster{
			cluster:   c,
			config:    cfg,
			identity:  attempt.Cluster{Name: c.name, Known: b.config.names},
			condition: c.view.condition,
			reason:    c.view.reason,
			picker:    c.view.picker,
			passOn:    c.view.passesOn(cfg),
			asks:      c.view.asks,
			lazy:      cfg.lazy,
			guarded:   cfg.guarded(),
			early:     c.view.early,
			counts:    c.countsLocked(),
		}
		usable[i] = c.view.condition != plan.NoHost || c.view.nudge
		if c.view.nudge {
			conditions[i] = plan.Idle // an outer policy must go on picking from this one
		}
	}
	p.setTable(plan.NewTable(b.config.slots, usable))
	return balancer.State{ConnectivityState: plan.ChannelState(conditions), Picker: p}
}
