package plan

// MaxSlots is the most slots that a config may have: one for each bit of a word,
// so that a pick costs the same however many clusters have no host.
const MaxSlots = 64

// Overflow is what an attempt past the last slot does.
type Overflow uint8

const (
	// Fail ends the RPC.
	Fail Overflow = iota
	// UseLastCluster starts the attempt at the last slot.
	UseLastCluster
	// RoundRobin starts over with the first slot.
	RoundRobin
)

// String is the mode's name in a config.
func (o Overflow) String() string {
	switch o {
	case UseLastCluster:
		return "USE_LAST_CLUSTER"
	case RoundRobin:
		return "ROUND_ROBIN"
	default:
		return "FAIL"
	}
}

// Entry is one entry of a config's list of clusters.
type Entry struct {
	Cluster  int // index of the cluster, the same for a repeated name
	Attempts int // how many consecutive attempts map to the entry, 1 or more
}

// Slots maps attempts to clusters. It is immutable.
type Slots struct {
	clusters  []int // cluster of each slot
	positions []Set // by cluster: its slots
	overflow  Overflow
	skip      bool
}

// NewSlots returns the slots of entries, which have MaxSlots attempts at most.
// If skip is false, an attempt looks at its own slot alone.
func NewSlots(entries []Entry, overflow Overflow, skip bool) *Slots {
	s := &Slots{overflow: overflow, skip: skip}
	for _, e := range entries {
		for range e.Attempts {
			for len(s.positions) <= e.Cluster {
				s.positions = append(s.positions, 0)
			}
			s.positions[e.Cluster] |= bit(len(s.clusters))
			s.clusters = append(s.clusters, e.Cluster)
		}
	}
	return s
}

// Len is the number of slots.
func (s *Slots) Len() int { return len(s.clusters) }

// Overflow is what an attempt past the last slot does.
func (s *Slots) Overflow() Overflow { return s.overflow }

// Cluster returns the index of the cluster at a slot.
func (s *Slots) Cluster(slot int) int { return s.clusters[slot] }

// Start returns the slot at which an attempt starts, and false if the attempt
// is past the end and the overflow mode is Fail. Attempts count from 1, as in
// Envoy.
func (s *Slots) Start(attempt int) (slot int, ok bool) {
	i, n := attempt-1, len(s.clusters)
	if i < n {
		return i, true
	}
	switch s.overflow {
	case UseLastCluster:
		return n - 1, true
	case RoundRobin:
		return i % n, true
	default:
		return 0, false
	}
}

// Reach returns the slots that an attempt may come to, from first to before end: where
// it starts, and all after it if attempts pass over clusters. There are none if it is
// past the end and the overflow mode is Fail.
//
// If next is set, it starts after the slots that attempts before it have used, which
// may be none: at any slot that is not past its own, or, if attempts pass over
// clusters, at any slot.
func (s *Slots) Reach(attempt int, next bool) (first, end int) {
	n := len(s.clusters)
	start, ok := s.Start(attempt)
	switch {
	case next && s.skip:
		return 0, n
	case next:
		return 0, min(attempt, n)
	case !ok:
		return n, n
	case s.skip:
		return start, n
	default:
		return start, start + 1
	}
}

// Skip tells whether attempts pass over clusters that have no host.
func (s *Slots) Skip() bool { return s.skip }
