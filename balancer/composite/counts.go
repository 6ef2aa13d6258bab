package composite

import (
	"slices"
	"sync/atomic"

	"github.com/grpc-composite/grpc-composite/internal/inspect"
	"github.com/grpc-composite/grpc-composite/internal/plan"
)

// counts is how often a cluster was picked and passed over. There are none until
// somebody watches.
type counts struct {
	// picks are by attempt; the last has those of all later attempts.
	picks [plan.MaxSlots]atomic.Uint64
	skips [len(plan.Reasons)]atomic.Uint64
}

// watch is what is noted of a channel besides. There is none until somebody
// watches, and none of a policy inside another composite one: it is the outer one's
// clusters that attempts go to.
type watch struct {
	noHost   atomic.Uint64 // attempts that no cluster could take
	overflow atomic.Uint64 // attempts past the end of the list
	trails   inspect.Trails
}

// watchLocked begins to note, if somebody watches. The caller holds mu.
func (b *compositeBalancer) watchLocked() {
	if b.watch == nil && b.outer == nil && inspect.Watching() {
		b.watch = new(watch)
	}
}

// countsLocked returns where to count, or nil. The caller holds parent.mu.
func (c *cluster) countsLocked() *counts {
	if c.counts == nil && c.parent.watch != nil {
		c.counts = new(counts)
	}
	return c.counts
}

// watchTally is the tally of those who watch.
type watchTally struct{ *picker }

func (t watchTally) picked(index, number, _ int, _ bool) {
	t.clusters[index].counts.picks[min(number, plan.MaxSlots)-1].Add(1)
}

func (t watchTally) skipped(index int, _ string, reason plan.Reason) {
	if index == plan.None {
		return
	}
	t.clusters[index].counts.skips[slices.Index(plan.Reasons[:], reason)].Add(1)
}

func (t watchTally) foundNone(pastEnd bool) {
	if pastEnd {
		t.watch.overflow.Add(1)
	} else {
		t.watch.noHost.Add(1)
	}
}

// read returns what was counted, without what never happened.
func (c *counts) read() (picks []inspect.Pick, skips []inspect.Count) {
	picks, skips = []inspect.Pick{}, []inspect.Count{}
	if c == nil {
		return picks, skips
	}
	for i := range c.picks {
		if n := c.picks[i].Load(); n > 0 {
			picks = append(picks, inspect.Pick{Attempt: i + 1, Count: n})
		}
	}
	for i := range c.skips {
		if n := c.skips[i].Load(); n > 0 {
			skips = append(skips, inspect.Count{Reason: string(plan.Reasons[i]), Count: n})
		}
	}
	return picks, skips
}
