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
	return p.skips(a.List(), r.Start, r.End, heldBack(r.Held))
}

// heldBack is what a pick has noted of what it passed over.
func heldBack(h attempt.Held) skips {
	errs, _ := h.Errs.(*pickErrors)
	return skips{full: plan.Set(h.Full), resting: plan.Set(h.Resting), early: plan.Set(h.Early), errs: errs}
}

// skips tells what a pick passed over that started at one slot, of the config's
// list or an RPC's own, and ended at another.
func (p *picker) skips(own *attempt.List, start, end int, s skips) []Skip {
	var list []Skip
	for slot := range p.passedOver(own, start, end, &s).All() {
		list = append(list, p.skip(own, slot, &s))
	}
	return list
}

// passedOver are the slots that such a pick has passed over.
func (p *picker) passedOver(own *attempt.List, start, end int, s *skips) plan.Set {
	// Clusters that are held back are used when there is no other: then the pick
	// has passed over those behind, too.
	usedAnyway := (s.early | s.resting).Has(end)
	var set plan.Set
	for slot := range p.considered(own, start).All() {
		if slot == end {
			continue
		}
		_, index := p.at(own, slot)
		if slot > end && !usedAnyway || p.why(index, slot, s) == "" {
			break
		}
		set = set.With(slot)
	}
	return set
}

// considered are the slots that a pick which starts at one looks at.
func (p *picker) considered(own *attempt.List, start int) plan.Set {
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

// why is the reason for which the pick passed over a slot, whose cluster has an
// index, or "" if it did not.
func (p *picker) why(index, slot int, s *skips) plan.Reason {
	if index == plan.None {
		return plan.Removed
	}
	switch err := s.errs.at(slot); {
	case err == balancer.ErrNoSubConnAvailable && p.clusters[index].condition != plan.NoHost:
		return plan.ConnectTimeout // which is zero
	case err == balancer.ErrNoSubConnAvailable:
		return p.clusters[index].reason // asked, and passed over all the same
	case err != nil:
		return plan.PickError
	case s.full.Has(slot):
		return plan.MaxRequests
	case s.resting.Has(slot):
		return plan.Cooldown
	case s.early.Has(slot):
		return plan.FailbackDelay
	default:
		return p.clusters[index].reason
	}
}

// skip puts into words why the pick passed over a slot.
func (p *picker) skip(own *attempt.List, slot int, s *skips) Skip {
	name, index := p.at(own, slot)
	reason, cause := p.why(index, slot, s), error(nil)
	switch {
	case reason == plan.PickError:
		cause = lasting(s.errs.at(slot))
	case index != plan.None && reason == p.clusters[index].reason:
		cause = p.clusters[index].cluster.lastError(reason)
	}
	return Skip{Cluster: name, Reason: string(reason), Err: cause}
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
	return c.lastErrorLocked(reason)
}

// lastErrorLocked is lastError for those who hold parent.mu.
func (c *cluster) lastErrorLocked(reason plan.Reason) error {
	switch ch := c.current; {
	case c.emptyHandedLocked() && c.resolveErr == nil:
		return c.empty
	case ch != nil && ch.rejected != nil && ch.rejected != balancer.ErrBadResolverState: // which only says that
		return ch.rejected
	case ch != nil && ch.connErr != nil && reason != plan.NoEndpoints:
		return ch.connErr
	default:
		return c.resolveErr
	}
}
