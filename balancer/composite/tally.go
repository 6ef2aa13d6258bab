package composite

import (
	"github.com/grpc-composite/grpc-composite/internal/attempt"
	"github.com/grpc-composite/grpc-composite/internal/plan"
)

// tally is told what attempts came to. Clusters are indexes in the config.
type tally interface {
	// picked: an attempt with a number was sent to a cluster, and took longer than
	// its limit or not. Slots is the length of its list.
	picked(index, number, slots int, timedOut bool)
	// skipped: it passed over a cluster, which the config may no longer have; then
	// the index is None.
	skipped(index int, name string, reason plan.Reason)
	// foundNone: it found no cluster, or was past the end of the list.
	foundNone(pastEnd bool)
}

// Count counts an attempt for which the picker has picked last.
func (p *picker) Count(a *attempt.Attempt, timedOut bool) {
	if p.metrics != nil {
		p.count(a, timedOut, p.metrics)
	}
	if p.watch != nil {
		p.count(a, timedOut, watchTally{p})
	}
}

func (p *picker) count(a *attempt.Attempt, timedOut bool, to tally) {
	own, r := a.List(), a.Route()
	start, end := r.Start, r.End
	if end > start || r.Held.Early|r.Held.Resting != 0 {
		p.countSkips(own, start, end, heldBack(r.Held), to)
	}
	switch n := p.slots(own); {
	case end >= n:
		to.foundNone(start >= n)
	case !r.None:
		_, index := p.at(own, end)
		to.picked(index, a.Number(), n, timedOut)
	}
}

func (p *picker) countSkips(own *attempt.List, start, end int, s skips, to tally) {
	for slot := range p.passedOver(own, start, end, &s).All() {
		name, index := p.at(own, slot)
		to.skipped(index, name, p.why(index, slot, &s))
	}
}
