package composite

import (
	"sync/atomic"

	"google.golang.org/grpc/balancer"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/grpc-composite/grpc-composite/internal/attempt"
	"github.com/grpc-composite/grpc-composite/internal/plan"
)

// picker sends an attempt to its cluster. It is immutable: a change of any
// cluster makes another one. If the child's pick is used, a pick takes no lock and
// allocates nothing of its own; if attempts are counted leanly, it takes the RPC's.
type picker struct {
	// first is for first attempts, which are nearly all there are: they look at no
	// more than this, in one cache line.
	first    plainCluster
	counting bool // somebody records or watches

	table    plan.Table
	config   *lbConfig
	policy   *compositeBalancer // tells it from those inside or around it
	clusters []pickCluster      // by cluster
	metrics  *metrics           // nil if nobody records
	watch    *watch             // nil if nobody watches

	noHostError atomic.Pointer[sharedError] // the latest one
}

// pickCluster is a cluster as it was when the picker was made.
type pickCluster struct {
	cluster   *cluster
	config    *clusterConfig
	identity  attempt.Cluster
	condition plan.Condition
	reason    plan.Reason     // of NoHost
	picker    balancer.Picker // nil if the child has not reported
	passOn    bool            // is asked to connect, and not waited for
	asks      bool            // has no host, and is asked to connect all the same
	lazy      bool
	guarded   bool    // the config has more to it than a child
	early     bool    // has a host, but not for as long as failbackDelay
	counts    *counts // nil if nobody watches
}

// Pick follows the attempt's slots to the first cluster that has a host, or that
// the attempt has to wait for.
func (p *picker) Pick(info balancer.PickInfo) (balancer.PickResult, error) {
	a := attempt.ForPicker(info, p.policy.channel)
	if a == nil || a.Number() < 1 {
		return balancer.PickResult{}, errUntracked(a)
	}
	a.Pick()
	if p.counting {
		a.WillCount()
	}
	if a.Lean() {
		return p.pickLean(a, info)
	}
	return p.pick(a, info)
}

func (p *picker) pick(a *attempt.Attempt, info balancer.PickInfo) (balancer.PickResult, error) {
	if list := a.List(); list != nil && !a.Nested() {
		return p.pickOwn(a, info, list)
	}
	c := p.first
	if n := a.Number(); n != 1 {
		c = p.plain(n)
	}
	if c.picker != nil {
		// The case of every RPC to a healthy cluster, without what only others
		// need.
		a.Choose(c.identity)
		a.PassOver(p, c.start, c.slot)
		result, err := pickChild(c.picker, a, info)
		if err != nil {
			return p.pickAfter(a, info, c.slot, err)
		}
		result.SubConn = unwrap(result.SubConn)
		return result, nil
	}
	return p.pickFrom(a, info, p.table)
}

// isPlain tells whether a pick of the cluster is that of its child and no more.
func (c *pickCluster) isPlain(cfg *lbConfig) bool {
	return c.condition == plan.HasHost && c.picker != nil && c.config.metadata == nil &&
		!c.lazy && !c.guarded && !c.early && !cfg.nextCluster && !cfg.noteHosts
}

// plainCluster is the cluster for an attempt if nothing needs to be done but to ask
// its child, and else zero.
type plainCluster struct {
	picker      balancer.Picker
	identity    *attempt.Cluster
	start, slot int // where the attempt starts, and the cluster's
}

// plain returns the cluster for attempts of a number.
func (p *picker) plain(number int) plainCluster {
	start, ok := p.table.Start(number)
	if !ok {
		return plainCluster{}
	}
	slot, ok := p.table.From(start).First()
	if !ok {
		return plainCluster{}
	}
	c := &p.clusters[p.table.Cluster(slot)]
	if !c.isPlain(p.config) {
		return plainCluster{}
	}
	return plainCluster{c.picker, &c.identity, start, slot}
}

// setTable completes a picker that has all else.
func (p *picker) setTable(table plan.Table) {
	p.table = table
	p.first = p.plain(1)
}

// pickAfter goes on after the first cluster's child, at a slot, has returned an
// error.
func (p *picker) pickAfter(a *attempt.Attempt, info balancer.PickInfo, slot int, err error) (balancer.PickResult, error) {
	if err == balancer.ErrNoSubConnAvailable || isStatus(err) {
		a.PickNone()
		return balancer.PickResult{}, err
	}
	start, _ := p.table.Start(a.Number())
	s := skips{errs: (*pickErrors)(nil).add(slot, err)}
	return p.pickSet(a, info, p.table, p.table.Without(p.table.From(start), slot), start, a.Number(), &s)
}

// pickFrom picks by a table, which it does not keep.
func (p *picker) pickFrom(a *attempt.Attempt, info balancer.PickInfo, table plan.Table) (balancer.PickResult, error) {
	position := a.Number()
	if p.config.nextCluster {
		position = a.NextSlot(p.policy) + 1
	}
	start, ok := table.Start(position)
	if !ok {
		return balancer.PickResult{}, p.overflow(a, table.Clone())
	}
	var s skips
	return p.pickSet(a, info, table, table.From(start), start, position, &s)
}

// pickSet picks from the slots of set, in order.
func (p *picker) pickSet(a *attempt.Attempt, info balancer.PickInfo, table plan.Table, set plan.Set, start, position int, s *skips) (balancer.PickResult, error) {
	for {
		slot, ok := set.First()
		if !ok {
			break
		}
		c := &p.clusters[table.Cluster(slot)]
		result, then, err := c.try(a, info, slot, s, false)
		switch then {
		case use:
			s.route(p, a, start, slot)
			return p.use(a, c, result, position-1+slot-start), nil
		case end:
			s.route(p, a, start, slot)
			a.PickNone()
			return balancer.PickResult{}, err
		case wait:
			s.await(slot)
			set = 0
		case goOn:
			set = table.Without(set, slot)
		}
	}
	if s.waits && !s.heldBack() && s.errs == nil {
		return balancer.PickResult{}, p.wait(a, table, start, s)
	}
	return p.pickHeldBack(a, info, table, start, position, s)
}

// pickHeldBack goes on when a pick has passed over clusters and found no other
// that has a host. What is merely held back is used rather than that the RPC
// fails or waits.
func (p *picker) pickHeldBack(a *attempt.Attempt, info balancer.PickInfo, table plan.Table, start, position int, s *skips) (balancer.PickResult, error) {
	for _, set := range [2]plan.Set{s.early, s.resting} {
		for {
			slot, ok := set.First()
			if !ok {
				break
			}
			c := &p.clusters[table.Cluster(slot)]
			result, then, err := c.try(a, info, slot, s, true)
			switch then {
			case use:
				s.route(p, a, start, slot)
				return p.use(a, c, result, position-1+slot-start), nil
			case end:
				s.route(p, a, start, slot)
				a.PickNone()
				return balancer.PickResult{}, err
			case wait:
				s.await(slot)
			case goOn:
			}
			set = table.Without(set, slot)
		}
	}
	if (s.waits || !a.FailFast()) && (!p.awaitPlaces(table, s.full) || !s.errs.awaitPlaces()) {
		return p.pickFrom(a, info, table) // there is a place by now
	}
	if s.waits {
		return balancer.PickResult{}, p.wait(a, table, start, s)
	}
	if p.config.nextCluster && !p.config.slots.Skip() {
		a.UseSlotInVain(p.policy, position-1) // or it would be the next attempt's, too
	}
	if a.List() == nil && *s == (skips{}) && !p.config.failRequest && !a.Nested() {
		return balancer.PickResult{}, p.sharedNoHost(a, start, info, s)
	}
	return balancer.PickResult{}, p.noHost(a, table.Clone(), start, info, *s)
}

// wait makes the attempt wait, for the first cluster that had it wait.
func (p *picker) wait(a *attempt.Attempt, table plan.Table, start int, s *skips) error {
	a.Choose(&p.clusters[table.Cluster(s.waitsAt)].identity)
	s.route(p, a, start, s.waitsAt)
	a.PickNone()
	return balancer.ErrNoSubConnAvailable
}

// awaitPlaces has the RPC pick again when there is a place in one of the clusters
// at these slots. It returns false if there is one already.
func (p *picker) awaitPlaces(table plan.Table, set plan.Set) bool {
	for {
		slot, ok := set.First()
		if !ok {
			return true
		}
		c := &p.clusters[table.Cluster(slot)]
		if !c.cluster.guard.awaitPlace(c.config.maxRequests) {
			return false
		}
		set = table.Without(set, slot)
	}
}

// use makes a child's pick the attempt's. Slots count on where a list starts over.
func (p *picker) use(a *attempt.Attempt, c *pickCluster, result balancer.PickResult, slot int) balancer.PickResult {
	if p.config.nextCluster {
		a.UseSlot(p.policy, slot)
	}
	if p.config.noteHosts {
		a.UseHost(hostOf(result))
	}
	result.SubConn = unwrap(result.SubConn)
	switch md := c.config.metadata; {
	case md == nil:
	case result.Metadata == nil:
		result.Metadata = md
	default:
		result.Metadata = metadata.Join(result.Metadata, md)
	}
	return result
}

// skips is what a pick has passed over, and why.
type skips struct {
	waits   bool     // for a cluster that is connecting
	waitsAt int      // its slot
	full    plan.Set // at maxRequests
	resting plan.Set // in a cooldown
	early   plan.Set // within failbackDelay
	errs    *pickErrors
}

// await notes that the attempt has to wait for the cluster at a slot, unless it
// waits already.
func (s *skips) await(slot int) {
	if !s.waits {
		s.waits, s.waitsAt = true, slot
	}
}

// route notes what was passed over before the slot.
func (s *skips) route(p *picker, a *attempt.Attempt, start, slot int) {
	a.PassOver(p, start, slot)
	if !s.heldBack() && s.errs == nil {
		return
	}
	a.HoldBack(attempt.Held{Full: uint64(s.full), Resting: uint64(s.resting), Early: uint64(s.early), Errs: s.errs})
}

// heldBack tells whether a cluster was passed over though it has a host.
func (s *skips) heldBack() bool { return s.full|s.resting|s.early != 0 }

// verdict is what follows from a try of one cluster.
type verdict uint8

const (
	use  verdict = iota // its pick
	goOn                // to the next cluster
	wait                // for this cluster
	end                 // the RPC
)

// try has a cluster pick, unless it is held back and that is not put aside.
func (c *pickCluster) try(a *attempt.Attempt, info balancer.PickInfo, slot int, s *skips, anyway bool) (balancer.PickResult, verdict, error) {
	if c.early && !anyway {
		s.early = s.early.With(slot)
		return balancer.PickResult{}, goOn, nil
	}
	var result balancer.PickResult
	var err error
	if c.guarded {
		var held plan.Reason
		if result, held, err = c.pickGuarded(a, info, anyway); held != "" {
			switch held {
			case plan.Cooldown:
				s.resting = s.resting.With(slot)
			case plan.MaxRequests:
				s.full = s.full.With(slot)
			default: // there are no others
			}
			return balancer.PickResult{}, goOn, nil
		}
	} else {
		result, err = c.pick(a, info)
	}
	switch {
	case err == nil:
		return result, use, nil
	case err == balancer.ErrNoSubConnAvailable && !c.passOn:
		return balancer.PickResult{}, wait, nil
	case err != balancer.ErrNoSubConnAvailable && isStatus(err):
		return balancer.PickResult{}, end, err
	}
	s.errs = s.errs.add(slot, err)
	return balancer.PickResult{}, goOn, nil
}

// pick asks the child's picker. A child that is connecting is asked as well,
// since some policies connect only when they are.
func (c *pickCluster) pick(a *attempt.Attempt, info balancer.PickInfo) (balancer.PickResult, error) {
	a.Choose(&c.identity)
	if c.condition != plan.HasHost && c.picker != nil {
		c.cluster.tried.Store(true)
	}
	if c.condition == plan.Idle || c.asks {
		c.cluster.ask()
	}
	if c.lazy {
		c.cluster.use()
	}
	if c.picker == nil {
		return balancer.PickResult{}, balancer.ErrNoSubConnAvailable
	}
	return pickChild(c.picker, a, info)
}

// pickChild calls a child's picker. A composite policy among the children learns
// that it is one: what ends an RPC on its own is a cluster without a host here.
func pickChild(p balancer.Picker, a *attempt.Attempt, info balancer.PickInfo) (balancer.PickResult, error) {
	a.EnterNested()
	result, err := p.Pick(info)
	a.LeaveNested()
	return result, err
}

// isStatus tells whether a picker's error ends the RPC, as gRPC defines.
func isStatus(err error) bool {
	_, ok := status.FromError(err)
	return ok
}

// overflow is the error for an attempt past the end of the list.
func (p *picker) overflow(a *attempt.Attempt, table plan.Table) error {
	a.PassOver(p, table.Len(), table.Len())
	err := &overflowError{names: p.names(a, &table), number: a.Number(), last: a.LastFailure()}
	if a.Nested() {
		return plain{err} // the outer policy goes on with its next cluster
	}
	if err.last != nil && !p.config.failRequest {
		err.status = err.last.Status()
		a.EndRPC(err)
	}
	return err
}

// noHost is the error for an attempt that no cluster could take.
func (p *picker) noHost(a *attempt.Attempt, table plan.Table, start int, info balancer.PickInfo, s skips) error {
	s.route(p, a, start, table.Len())
	e := &exhausted{picker: p, attempt: a, table: table, start: start, info: info, skips: s}
	if p.config.failRequest && a.FailFast() && !a.Nested() {
		e.last = a.LastFailure()
		return status.Error(codes.Unavailable, e.Error())
	}
	return e
}
