package composite

import (
	"errors"

	"google.golang.org/grpc/balancer"

	"github.com/grpc-composite/grpc-composite/internal/attempt"
	"github.com/grpc-composite/grpc-composite/internal/plan"
)

// foundNone tells whether an attempt has passed over all clusters.
func foundNone(a *attempt.Attempt, r attempt.Route) bool {
	p, ok := r.Picker.(*picker)
	return ok && r.End >= p.slots(a.List())
}

// slots is how many slots the config has, or an RPC's own list.
func (p *picker) slots(own *attempt.List) int {
	if own != nil {
		return len(own.Names)
	}
	return p.table.Len()
}

// skipped puts the route of an attempt into words.
func skipped(a *attempt.Attempt, r attempt.Route) []Skip {
	p, ok := r.Picker.(*picker)
	if !ok {
		return nil
	}
	errs, _ := r.Held.Errs.(*pickErrors)
	return p.skips(a.List(), r.Start, r.End, skips{
		full: plan.Set(r.Held.Full), resting: plan.Set(r.Held.Resting), early: plan.Set(r.Held.Early), errs: errs,
	})
}

// skips tells what a pick passed over that started at one slot, of the config's
// list or an RPC's own, and ended at another.
func (p *picker) skips(own *attempt.List, start, end int, s skips) []Skip {
	// Clusters that are held back are used when there is no other: then the pick
	// has passed over those behind, too.
	usedAnyway := s.early.Has(end) || s.resting.Has(end)
	var list []Skip
	for _, slot := range p.considered(own, start) {
		if slot == end {
			continue
		}
		skip, ok := p.skip(own, slot, &s)
		if slot > end && !usedAnyway || !ok {
			break
		}
		list = append(list, skip)
	}
	return list
}

// considered are the slots that a pick which starts at one looks at.
func (p *picker) considered(own *attempt.List, start int) []int {
	if own == nil {
		return p.table.Considered(start)
	}
	var list plan.Own
	for slot := range own.Names {
		_, index := p.at(own, slot)
		list.Add(index, false)
	}
	slots := list.Slots(p.config.slots)
	table := list.Table(&slots)
	return table.Considered(start)
}

// at returns the name of a slot's cluster, and its index or None.
func (p *picker) at(own *attempt.List, slot int) (name string, index int) {
	if own == nil {
		index = p.table.Cluster(slot)
		return p.clusters[index].cluster.name, index
	}
	name = own.Names[slot]
	if index, ok := p.config.index[name]; ok {
		return name, index
	}
	return name, plan.None
}

// skip tells why the pick passed over a slot, and false if it did not.
func (p *picker) skip(own *attempt.List, slot int, s *skips) (Skip, bool) {
	name, index := p.at(own, slot)
	if index == plan.None {
		return Skip{Cluster: name, Reason: string(plan.Removed)}, true
	}
	reason, cause := p.clusters[index].reason, error(nil)
	switch err := s.errs.at(slot); {
	case err == balancer.ErrNoSubConnAvailable:
		reason = plan.ConnectTimeout
	case err != nil:
		reason, cause = plan.PickError, lasting(err)
	case s.full.Has(slot):
		reason = plan.MaxRequests
	case s.resting.Has(slot):
		reason = plan.Cooldown
	case s.early.Has(slot):
		reason = plan.FailbackDelay
	default:
		cause = p.clusters[index].cluster.lastError(reason)
	}
	return Skip{Cluster: name, Reason: string(reason), Err: cause}, reason != ""
}

// lasting returns a picker's error for later. That of a composite policy inside
// this one is about the moment at which it is read, and asks pickers then.
func lasting(err error) error {
	var e *exhausted
	if !errors.As(err, &e) {
		return err
	}
	var parts []string
	for _, skip := range e.picker.skips(nil, e.start, e.table.Len(), e.skips) {
		parts = append(parts, skip.String())
	}
	return errors.New("composite: no host available (no_healthy_upstream): " + joinShort(parts))
}

// lastError is the latest error of the cluster's resolver, child or connections,
// for a reason why it has no host.
func (c *cluster) lastError(reason plan.Reason) error {
	c.parent.mu.Lock()
	defer c.parent.mu.Unlock()
	switch ch := c.current; {
	case ch != nil && ch.rejected != nil && ch.rejected != balancer.ErrBadResolverState: // which only says that
		return ch.rejected
	case ch != nil && ch.connErr != nil && reason != plan.NoEndpoints:
		return ch.connErr
	default:
		return c.resolveErr
	}
}
