package plan

import (
	"iter"
	"math/bits"
	"slices"
)

// Set is a set of slots.
type Set uint64

func bit(slot int) Set { return 1 << uint(slot) }

// Has tells whether the set has a slot.
func (s Set) Has(slot int) bool { return s&bit(slot) != 0 }

// With returns the set with a slot more.
func (s Set) With(slot int) Set { return s | bit(slot) }

// Table is the slots together with the condition of each cluster. It is
// immutable and safe for concurrent use.
type Table struct {
	*Slots
	usable Set
}

// NewTable returns the table for slots in which usable tells, by cluster,
// whether an attempt may choose it: whether it is in any condition but "no
// host".
func NewTable(slots *Slots, usable []bool) Table {
	t := Table{Slots: slots}
	for cluster, ok := range usable {
		if ok {
			t.usable |= slots.positions[cluster]
		}
	}
	return t
}

// From returns the slots that an attempt which starts at slot may choose: never
// one before its own, since an attempt does not wrap.
func (t *Table) From(slot int) Set {
	if !t.skip {
		return t.usable & bit(slot)
	}
	return t.usable &^ (bit(slot) - 1)
}

// Without returns the set without any slot of the cluster at slot: a pick that
// passed over a cluster does not come back to it under a repeated name.
func (t *Table) Without(set Set, slot int) Set {
	return set &^ t.positions[t.clusters[slot]]
}

// First returns the first slot of the set, and false if the set is empty.
func (s Set) First() (slot int, ok bool) {
	return bits.TrailingZeros64(uint64(s)) & (MaxSlots - 1), s != 0
}

// All returns the slots of the set, in order.
func (s Set) All() iter.Seq[int] {
	return func(yield func(int) bool) {
		for ; s != 0; s &= s - 1 {
			if !yield(bits.TrailingZeros64(uint64(s))) {
				return
			}
		}
	}
}

// Len is the number of slots in the set.
func (s Set) Len() int { return bits.OnesCount64(uint64(s)) }

// Considered returns the slots that an attempt which starts at slot looks at: the
// first of each cluster, and those whose cluster was removed.
func (t *Table) Considered(slot int) Set {
	if !t.skip {
		return bit(slot)
	}
	var seen, slots Set
	for i := slot; i < len(t.clusters); i++ {
		if !seen.Has(i) {
			slots = slots.With(i)
			if cluster := t.clusters[i]; cluster != None {
				seen |= t.positions[cluster]
			}
		}
	}
	return slots
}

// Clone returns a table that shares nothing with t, for those who keep it: that
// of an RPC's own list lives no longer than a pick.
func (t *Table) Clone() Table {
	// Written out, since a copy of t.Slots would have its arrays escape, and
	// with them that of every pick by an own list.
	s := &Slots{clusters: slices.Clone(t.clusters), positions: slices.Clone(t.positions), overflow: t.overflow, skip: t.skip}
	return Table{Slots: s, usable: t.usable}
}
