package attempt

import (
	"slices"
	"sync/atomic"
)

// progress is what slots the attempts of an RPC have used. Pickers note them
// without a lock.
type progress struct {
	slots atomic.Pointer[slotUse] // a list, with an entry for each policy
}

// slotUse is the last slot that attempts have used of one policy's list. Policies
// inside others have lists of their own.
type slotUse struct {
	policy any
	next   *slotUse
	last   atomic.Int64
}

func (u *slotUse) find(policy any) *slotUse {
	for ; u != nil; u = u.next {
		if u.policy == policy {
			return u
		}
	}
	return nil
}

// of returns the entry of a policy.
func (p *progress) of(policy any) *slotUse {
	for {
		first := p.slots.Load()
		if u := first.find(policy); u != nil {
			return u
		}
		u := &slotUse{policy: policy, next: first}
		u.last.Store(-1)
		if p.slots.CompareAndSwap(first, u) {
			return u
		}
	}
}

// usedSlot is an entry as it was when an attempt began.
type usedSlot struct {
	policy any
	last   int
}

// snapshot returns what was used so far.
func (p *progress) snapshot() []usedSlot {
	var list []usedSlot
	for u := p.slots.Load(); u != nil; u = u.next {
		list = append(list, usedSlot{u.policy, int(u.last.Load())})
	}
	return list
}

// UseSlot notes that the attempt used a slot of a policy's list. Slots count from
// 0, and go on counting where the list starts over.
func (a *Attempt) UseSlot(policy any, slot int) {
	last := &a.ledger.progress.of(policy).last
	for {
		old := last.Load()
		if int64(slot) <= old || last.CompareAndSwap(old, int64(slot)) {
			return
		}
	}
}

// NextSlot is the slot after the last one of the policy's list that earlier
// attempts of the RPC used. It is that of the RPC's first attempt if they used
// none.
func (a *Attempt) NextSlot(policy any) int {
	if a.history != nil {
		for _, u := range a.history.from {
			if u.policy == policy && u.last >= 0 {
				return u.last + 1
			}
		}
	}
	return a.ledger.start - 1
}

// UseHost notes the host that the attempt was sent to.
func (a *Attempt) UseHost(host string) { a.mark().host = host }

// HostUsed tells whether an earlier attempt of the RPC was sent to the host.
func (a *Attempt) HostUsed(host string) bool {
	return a.history != nil && slices.Contains(a.history.hosts, host)
}

// List is the RPC's own list of clusters, or nil if it has none.
func (a *Attempt) List() *List { return a.ledger.list }

// List is a list of clusters that the caller of an RPC gave.
type List struct {
	Names []string
	known atomic.Bool
}

// Known tells whether all names were known when an attempt of the RPC was picked
// for first, which SetKnown says. A name that is unknown later was removed.
func (l *List) Known() bool { return l.known.Load() }

// SetKnown says that all names are known.
func (l *List) SetKnown() { l.known.Store(true) }
