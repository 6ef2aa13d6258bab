package composite

import (
	"errors"
	"fmt"
	"sync"

	"google.golang.org/grpc/balancer"
	"google.golang.org/grpc/resolver"

	"github.com/grpc-composite/grpc-composite/internal/plan"
)

// compositeBalancer joins clusters into one policy. gRPC calls its methods one
// at a time.
type compositeBalancer struct {
	cc   balancer.ClientConn
	opts balancer.BuildOptions

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
	dirty    bool       // something changed since the last picker
	closed   bool
	// background counts the goroutines and resolvers that Close waits for.
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

	var errs []error
	endpoints := channelEndpoints(cfg, s.ResolverState)
	for i, c := range clusters {
		if err := c.update(cfg.clusters[i], endpoints); err != nil {
			errs = append(errs, err)
		}
	}

	b.mu.Lock()
	b.dirty = b.dirty || b.config == nil || b.config.text != cfg.text
	b.config, b.clusters = cfg, clusters
	for _, c := range clusters {
		c.releaseLocked()
	}
	b.mu.Unlock()
	b.publish()
	// No pick reaches the removed clusters any more.
	for _, c := range old {
		c.close()
	}
	if len(errs) == 1 {
		return errs[0] // bare, for those who compare it to ErrBadResolverState
	}
	return errors.Join(errs...)
}

// channelEndpoints returns what the channel's resolver has for the clusters
// without a target: all of it if there is one such cluster, and no endpoints if
// there are several, since nothing tells which one they belong to.
func channelEndpoints(cfg *lbConfig, state resolver.State) resolver.State {
	targetless := 0
	for _, c := range cfg.clusters {
		if c.target == nil {
			targetless++
		}
	}
	if targetless > 1 {
		state.Endpoints, state.Addresses = nil, nil
	}
	return state
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

// ExitIdle asks all clusters to connect.
func (b *compositeBalancer) ExitIdle() {
	for _, c := range b.current() {
		c.exitIdle()
	}
}

// Close ends all clusters and returns when nothing of them runs any more.
func (b *compositeBalancer) Close() {
	clusters := b.current()
	for _, c := range clusters {
		c.close()
	}
	b.mu.Lock()
	b.closed = true
	b.mu.Unlock()
	b.background.Wait()
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

// publish hands a new picker to the channel if anything changed.
func (b *compositeBalancer) publish() {
	b.publishMu.Lock()
	defer b.publishMu.Unlock()
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
	p := &picker{
		failRequest: b.config.failRequest,
		clusters:    make([]pickCluster, len(b.clusters)),
	}
	usable := make([]bool, len(b.clusters))
	conditions := make([]plan.Condition, len(b.clusters))
	for i, c := range b.clusters {
		conditions[i] = c.view.condition
		p.clusters[i] = pickCluster{
			cluster:   c,
			condition: c.view.condition,
			reason:    c.view.reason,
			picker:    c.view.picker,
			passOn:    c.view.condition == plan.Idle && c.connectTimeout == 0,
		}
		usable[i] = c.view.condition != plan.NoHost
	}
	p.table = plan.NewTable(b.config.slots, usable)
	return balancer.State{ConnectivityState: plan.ChannelState(conditions), Picker: p}
}
