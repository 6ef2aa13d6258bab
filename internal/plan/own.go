package plan

// None is the cluster of a slot whose cluster the config no longer has.
const None = -1

// Own makes the table for an RPC that brought its own list of clusters, one slot
// each. It is meant to live on the stack: a pick makes it anew. So it does not
// keep its slots, since what points to itself does not stay there.
type Own struct {
	clusters  [MaxSlots]int
	positions [MaxSlots]Set
	n         int
	usable    Set
}

// Add adds a slot, MaxSlots at the most. The cluster is an index in the config,
// or None.
func (o *Own) Add(cluster int, usable bool) {
	o.clusters[o.n] = cluster
	if cluster != None {
		o.positions[cluster] |= bit(o.n)
		if usable {
			o.usable |= bit(o.n)
		}
	}
	o.n++
}

// Slots returns the slots added. What holds for the config's list besides its
// clusters holds for them too. They are valid as long as o is.
func (o *Own) Slots(config *Slots) Slots {
	return Slots{clusters: o.clusters[:o.n], positions: o.positions[:], overflow: config.overflow, skip: config.skip}
}

// Table returns the table of the slots.
func (o *Own) Table(slots *Slots) Table { return Table{Slots: slots, usable: o.usable} }
