package attempt

import (
	"slices"
	"sync/atomic"
)

// use is a slot or a host that the latest pick for an attempt has used, and a list
// of those it used before. It is immutable: attempts of other streams read it while
// the picker is at work.
type use struct {
	policy any // nil for a host
	slot   int
	vain   bool // the slot has no host
	host   *string
	next   *use
}

// inVain are those of slots that have no host.
func (u *use) inVain() *use {
	for u != nil && !u.vain {
		u = u.next
	}
	if u == nil {
		return nil
	}
	kept := *u
	kept.next = u.next.inVain()
	return &kept
}

// used is what attempts have used: the last slot of each policy's list, since
// policies inside others have lists of their own, and the hosts. Its lists are never
// written to, since attempts keep what there was when they began.
type used struct {
	slots []usedSlot
	hosts []string
}

type usedSlot struct {
	policy any
	last   int
}

// addSlots adds the slots among an attempt's uses.
func (u *used) addSlots(list *use) {
	for ; list != nil; list = list.next {
		if list.policy == nil {
			continue
		}
		i := slices.IndexFunc(u.slots, func(s usedSlot) bool { return s.policy == list.policy })
		switch {
		case i < 0:
			u.slots = append(slices.Clip(u.slots), usedSlot{list.policy, list.slot})
		case list.slot > u.slots[i].last:
			u.slots = slices.Clone(u.slots)
			u.slots[i].last = list.slot
		}
	}
}

// addHost adds the host among an attempt's uses, once.
func (u *used) addHost(list *use) {
	for ; list != nil; list = list.next {
		if list.host == nil {
			continue
		}
		if !slices.Contains(u.hosts, *list.host) {
			u.hosts = append(slices.Clip(u.hosts), *list.host)
		}
		return // that of a policy inside is the same
	}
}

// useSlotsLocked has the slots of an attempt count that is followed by another one,
// or over. Those of one that no server has seen, and that gRPC-Go repeats, do not.
// The caller holds l.mu.
func (l *Ledger) useSlotsLocked(a *Attempt) {
	if list := a.uses(); list != nil {
		l.rareLocked().used.addSlots(list)
	}
}

// useHostLocked has the host of an attempt count that is over. The caller holds l.mu.
func (l *Ledger) useHostLocked(a *Attempt) {
	if list := a.uses(); list != nil {
		l.rareLocked().used.addHost(list)
	}
}

// usedLocked is what earlier attempts have used, of which there is one: those of other
// streams that are under way, too. The caller holds l.mu.
func (l *Ledger) usedLocked() used {
	u := l.rare.used
	for a := l.heads; a != nil; a = a.sibling {
		list := a.uses()
		u.addSlots(list)
		if a.ended == nil {
			u.addHost(list)
		}
	}
	return u
}

// uses is what the attempt uses.
func (a *Attempt) uses() *use {
	if m := a.more.Load(); m != nil {
		return m.uses.Load()
	}
	return nil
}

func (a *Attempt) use(u *use) {
	m := a.mark()
	u.next = m.uses.Load()
	m.uses.Store(u)
}

// UseSlot notes that the attempt uses a slot of a policy's list. Slots count from
// 0, and go on counting where the list starts over.
func (a *Attempt) UseSlot(policy any, slot int) {
	a.use(&use{policy: policy, slot: slot})
}

// UseSlotInVain notes that the attempt has come to a slot of a policy's list which has
// no host, and goes to no other one.
func (a *Attempt) UseSlotInVain(policy any, slot int) {
	a.use(&use{policy: policy, slot: slot, vain: true})
}

// NextSlot is the slot after the last one of the policy's list that earlier
// attempts of the RPC used. It is that of the RPC's first attempt if they used
// none.
func (a *Attempt) NextSlot(policy any) int {
	if a.history != nil {
		for _, s := range a.history.used.slots {
			if s.policy == policy {
				return s.last + 1
			}
		}
	}
	return a.ledger.start() - 1
}

// UseHost notes the host that the attempt is sent to, nil if that is not known. It
// must not change.
func (a *Attempt) UseHost(host *string) {
	if host != nil {
		a.use(&use{host: host})
	}
}

// HostUsed tells whether an earlier attempt of the RPC was sent to the host, nil if
// that is not known.
func (a *Attempt) HostUsed(host *string) bool {
	return host != nil && a.history != nil && slices.Contains(a.history.used.hosts, *host)
}

// List is the RPC's own list of clusters, or nil if it has none.
func (a *Attempt) List() *List {
	if s := a.ledger.special; s != nil {
		return s.list
	}
	return nil
}

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
