package attempt

import (
	"slices"
	"sync/atomic"
)

// progress is what the attempts of an RPC have used. Pickers note slots without
// a lock; hosts are noted when an attempt is over.
type progress struct {
	slots [maxDepth]atomic.Int32 // the last slot used by each nested policy, plus 1
	hosts []string               // guarded by Ledger.mu
}

// UseSlot notes that the attempt used a slot of the policy that asks. Slots count
// from 0, and go on counting where a list starts over.
func (a *Attempt) UseSlot(slot int) {
	if a.depth >= maxDepth {
		return
	}
	last := &a.ledger.progress.slots[a.depth]
	for {
		old := last.Load()
		if int32(slot) < old || last.CompareAndSwap(old, int32(slot)+1) { //nolint:gosec // a slot is below 64, an attempt's number at most some thousands
			return
		}
	}
}

// NextSlot is the slot after the last one that earlier attempts of the RPC used.
// It is that of the RPC's first attempt if they used none.
func (a *Attempt) NextSlot() int {
	if a.depth < maxDepth && a.from[a.depth] > 0 {
		return int(a.from[a.depth])
	}
	return a.ledger.start - 1
}

// UseHost notes the host that the attempt was sent to.
func (a *Attempt) UseHost(host string) {
	a.marked = true
	a.host = host
}

// HostUsed tells whether an earlier attempt of the RPC was sent to the host.
func (a *Attempt) HostUsed(host string) bool { return slices.Contains(a.hosts, host) }

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
