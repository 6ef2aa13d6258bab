package composite

import (
	"slices"

	"github.com/grpc-composite/grpc-composite/internal/breaker"
	"github.com/grpc-composite/grpc-composite/internal/inspect"
	"github.com/grpc-composite/grpc-composite/internal/plan"
)

// What a policy tells those who look into it. Facts are copied while mu is held.
// What may call others, such as the text of an error, is done after that.

// Watched is called when the first watcher comes. The picker that is published
// then counts.
func (b *compositeBalancer) Watched() {
	b.mu.Lock()
	if b.closed {
		b.mu.Unlock()
		return
	}
	b.background.Add(1)
	b.mu.Unlock()
	defer b.background.Done()
	b.republish()
}

// Inspect describes the policy as it is now. It returns false if the policy has no
// config yet.
func (b *compositeBalancer) Inspect() (inspect.Channel, bool) {
	b.mu.Lock()
	cfg := b.config
	if cfg == nil {
		b.mu.Unlock()
		return inspect.Channel{}, false
	}
	channel := inspect.Channel{
		Created:  b.created,
		Clusters: make([]inspect.Cluster, len(b.clusters)),
		Slots:    b.slotsLocked(),
	}
	watch := b.watch
	conditions := make([]plan.Condition, len(b.clusters))
	later := make([]clusterFacts, len(b.clusters))
	for i, c := range b.clusters {
		conditions[i] = c.view.condition
		later[i] = c.factsLocked(&cfg.clusters[i], &channel.Clusters[i])
	}
	b.mu.Unlock()

	channel.Target = inspect.Text(b.opts.Target.String())
	channel.State = plan.ChannelState(conditions).String()
	cfg.describe(&channel)
	for i := range later {
		later[i].complete(&channel.Clusters[i])
	}
	for i := range channel.Slots {
		s := &channel.Slots[i]
		s.Cluster = channel.Clusters[s.ClusterIndex].Name
		if s.GoesToIndex != plan.None {
			s.GoesTo = channel.Clusters[s.GoesToIndex].Name
		}
	}
	channel.Exhausted, channel.Trails = watch.read()
	return channel, true
}

// describe tells what the config says of the channel as a whole.
func (c *lbConfig) describe(channel *inspect.Channel) {
	channel.Progression, channel.NoHost = "ATTEMPT_COUNT", "FAIL_ATTEMPT"
	if c.nextCluster {
		channel.Progression = "NEXT_CLUSTER"
	}
	if c.failRequest {
		channel.NoHost = "FAIL_REQUEST"
	}
	channel.Overflow = c.slots.Overflow().String()
	channel.SkipClustersWithoutHosts = c.slots.Skip()
}

// slotsLocked tells where an attempt that starts at each slot would go. The
// caller holds mu.
func (b *compositeBalancer) slotsLocked() []inspect.Slot {
	var free, early, resting [plan.MaxSlots]bool // by cluster
	for i, c := range b.clusters {
		cfg := &b.config.clusters[i]
		switch {
		case c.view.condition == plan.NoHost, c.view.passesOn(cfg):
		case c.guard.holds(cfg, true) != "": // full, whatever else it is
		case c.view.early:
			early[i] = true
		case c.guard.holds(cfg, false) != "":
			resting[i] = true
		default:
			free[i] = true
		}
	}
	n := len(b.clusters)
	table := plan.NewTable(b.config.slots, free[:n])
	held := []plan.Table{plan.NewTable(b.config.slots, early[:n]), plan.NewTable(b.config.slots, resting[:n])}
	slots := make([]inspect.Slot, table.Len())
	for i := range slots {
		slots[i] = inspect.Slot{Attempt: i + 1, ClusterIndex: table.Cluster(i), GoesToIndex: plan.None}
		if slot, ok := b.goesToLocked(i, &table, held); ok {
			slots[i].GoesToIndex = table.Cluster(slot)
			slots[i].Waits = b.waitsLocked(slot)
		}
	}
	return slots
}

// goesToLocked returns the slot that an attempt which starts at one would go to, and
// false if there is none. Clusters that are held back are used if they have a host and
// the attempt would otherwise wait, or fail: see picker.pickHeldBack. The caller holds
// mu.
func (b *compositeBalancer) goesToLocked(start int, free *plan.Table, held []plan.Table) (slot int, ok bool) {
	slot, ok = free.From(start).First()
	if ok && !b.waitsLocked(slot) {
		return slot, true
	}
	end := free.Len()
	if ok {
		end = slot // a pick goes no further
	}
	for _, table := range held {
		for s := range table.From(start).All() {
			switch {
			case s >= end:
			case !b.waitsLocked(s):
				return s, true
			case !ok:
				slot, ok = s, true
			}
		}
	}
	return slot, ok
}

// waitsLocked tells whether an attempt waits for the cluster at a slot. The caller
// holds mu.
func (b *compositeBalancer) waitsLocked(slot int) bool {
	return b.clusters[b.config.slots.Cluster(slot)].view.condition != plan.HasHost
}

// heldBackLocked returns why the cluster is passed over though it has a host, or
// "". The caller holds parent.mu.
func (c *cluster) heldBackLocked(cfg *clusterConfig) plan.Reason {
	if c.view.condition == plan.NoHost {
		return ""
	}
	if c.view.early {
		return plan.FailbackDelay
	}
	return c.guard.holds(cfg, false)
}

// clusterFacts is what is told of a cluster after mu was let go of.
type clusterFacts struct {
	name, target  string
	cause         error
	resolverError error
	endpoints     []inspect.Endpoint
	errs          []error // of the endpoints
	nested        []*compositeBalancer
	counts        *counts
}

// factsLocked tells what is known of the cluster. The caller holds parent.mu.
func (c *cluster) factsLocked(cfg *clusterConfig, to *inspect.Cluster) clusterFacts {
	*to = inspect.Cluster{
		Policy:         cfg.child.builder.Name(),
		Condition:      c.view.condition.String(),
		Since:          c.view.since,
		Reason:         string(c.view.reason),
		HeldBack:       string(c.heldBackLocked(cfg)),
		Lazy:           cfg.lazy,
		MaxRequests:    cfg.maxRequests,
		ConnectTimeout: cfg.connectTimeout.Seconds(),
		FailbackDelay:  cfg.failbackDelay.Seconds(),
		Cooldown:       cooldownSeconds(cfg.cooldown),
		InFlight:       c.guard.inFlight.Load(),
	}
	if cfg.attemptTimeout != nil {
		to.AttemptTimeout = cfg.attemptTimeout.After.Seconds()
	}
	facts := clusterFacts{name: c.name, resolverError: c.resolveErr, counts: c.counts}
	if target := c.target.Load(); target != nil {
		facts.target = target.Text
	}
	if c.view.condition == plan.NoHost {
		facts.cause = c.lastErrorLocked(c.view.reason)
	}
	if ch := c.current; ch != nil {
		to.Policy = ch.builder.Name()
		facts.nested = slices.Clone(ch.nested)
	}
	if ch := c.pending; ch != nil {
		to.NextPolicy = ch.builder.Name()
	}
	facts.endpoints, facts.errs, to.EndpointsOmitted = c.endpointsLocked()
	return facts
}

// complete tells the rest.
func (f *clusterFacts) complete(to *inspect.Cluster) {
	to.Name, to.Target = inspect.Text(f.name), inspect.Text(f.target)
	to.Cause = inspect.Error(f.cause)
	if to.ResolverError = inspect.Error(f.resolverError); to.ResolverError == to.Cause {
		to.ResolverError = ""
	}
	for i := range f.endpoints {
		e := &f.endpoints[i]
		for j, addr := range e.Addresses {
			e.Addresses[j] = inspect.Text(addr)
		}
		e.Error = inspect.Error(f.errs[i])
	}
	to.Endpoints = f.endpoints
	to.Picks, to.Skips = f.counts.read()
	for _, nested := range f.nested {
		if inner, ok := nested.Inspect(); ok {
			to.Nested = &inner
			return // policies in between that have several are rare
		}
	}
}

func cooldownSeconds(cfg *breaker.Config) *float64 {
	if cfg == nil {
		return nil
	}
	seconds := cfg.Time.Seconds()
	return &seconds
}

// read returns what was noted of the channel.
func (w *watch) read() ([]inspect.Count, []inspect.Trail) {
	if w == nil {
		return []inspect.Count{}, []inspect.Trail{}
	}
	exhausted := []inspect.Count{}
	for _, e := range []inspect.Count{{Reason: "no_host", Count: w.noHost.Load()}, {Reason: "overflow", Count: w.overflow.Load()}} {
		if e.Count > 0 {
			exhausted = append(exhausted, e)
		}
	}
	return exhausted, w.trails.Latest()
}
