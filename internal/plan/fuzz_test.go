package plan

import (
	"math"
	"slices"
	"testing"
)

// FuzzPick compares the choice of a cluster, made as the picker makes it, with a
// second implementation that walks over a list.
//
// Each two bytes of list are an entry: its cluster and its attempts. Bit i of
// conditions says whether cluster i may be chosen, and bit i of errors whether
// its pick then fails.
func FuzzPick(f *testing.F) {
	const all = math.MaxUint64
	f.Add([]byte{0, 0}, uint64(all), uint64(0), 1, byte(0), true)
	f.Add([]byte{0, 0, 1, 0, 2, 0}, uint64(all), uint64(0), 2, byte(0), true)
	f.Add([]byte{0, 0, 1, 0, 2, 0}, uint64(0b100), uint64(0), 1, byte(0), true)
	f.Add([]byte{0, 0, 1, 0, 2, 0}, uint64(0), uint64(0), 1, byte(0), true)
	f.Add([]byte{0, 0, 1, 0, 2, 0}, uint64(0b110), uint64(0b010), 1, byte(0), true)
	f.Add([]byte{0, 0, 1, 0, 2, 0}, uint64(0b101), uint64(0), 2, byte(0), false)
	f.Add([]byte{0, 1, 1, 0, 0, 2, 2, 0}, uint64(all), uint64(0b001), 1, byte(0), true)
	f.Add([]byte{0, 1, 1, 0, 0, 2, 2, 0}, uint64(0b011), uint64(0b010), 3, byte(1), true)
	f.Add([]byte{0, 0, 1, 0, 2, 0}, uint64(all), uint64(all), 4, byte(0), true)
	f.Add([]byte{0, 0, 1, 0, 2, 0}, uint64(all), uint64(0), 4, byte(1), true)
	f.Add([]byte{0, 0, 1, 0, 2, 0}, uint64(0b001), uint64(0), 5, byte(2), true)
	f.Add([]byte{0, 0, 1, 0, 2, 0}, uint64(all), uint64(0), math.MaxInt, byte(2), true)
	f.Add([]byte{0, 62, 1, 0}, uint64(0b10), uint64(0), 1, byte(0), true)
	f.Add([]byte{0, 63}, uint64(1), uint64(1), 64, byte(0), true)
	f.Add([]byte{0, 63}, uint64(1), uint64(0), 65, byte(1), false)
	var each []byte
	for i := range byte(MaxSlots) {
		each = append(each, i, 0)
	}
	f.Add(each, uint64(1)<<63, uint64(0), 1, byte(0), true)
	f.Add(each, uint64(all), uint64(all)>>1, 1, byte(0), true)
	f.Add(each, uint64(0xaaaa5555cccc3333), uint64(0x0f0f0f0ff0f0f0f0), 17, byte(2), true)

	f.Fuzz(func(t *testing.T, list []byte, conditions, errors uint64, attempt int, overflow byte, skip bool) {
		in := newFuzzInput(list, conditions, errors)
		if len(in.entries) == 0 {
			return
		}
		in.attempt, in.overflow, in.skip = max(attempt, 1), Overflow(overflow%3), skip

		slots := NewSlots(in.entries, in.overflow, in.skip)
		table := NewTable(slots, in.usable)
		got := in.pick(&table)
		if want := in.pickNaively(); !got.equal(want) {
			t.Errorf("%+v:\n got %+v\nwant %+v", in, got, want)
		}
		if again := in.pick(&table); !got.equal(again) {
			t.Errorf("%+v:\n first %+v\nthen %+v", in, got, again)
		}
	})
}

// fuzzInput is a config, the conditions of its clusters, and an attempt.
type fuzzInput struct {
	entries  []Entry
	usable   []bool // by cluster
	fails    []bool // by cluster: its pick is an error
	attempt  int
	overflow Overflow
	skip     bool
}

func newFuzzInput(list []byte, conditions, errors uint64) fuzzInput {
	var in fuzzInput
	slots, clusters := 0, 0
	for i := 0; i+1 < len(list) && slots < MaxSlots; i += 2 {
		e := Entry{Cluster: int(list[i] % MaxSlots), Attempts: 1 + int(list[i+1]%MaxSlots)}
		e.Attempts = min(e.Attempts, MaxSlots-slots)
		slots += e.Attempts
		clusters = max(clusters, e.Cluster+1)
		in.entries = append(in.entries, e)
	}
	for range clusters {
		in.usable = append(in.usable, conditions%2 == 1)
		in.fails = append(in.fails, errors%2 == 1)
		conditions, errors = conditions/2, errors/2
	}
	return in
}

// fuzzChoice is what became of an attempt.
type fuzzChoice struct {
	past       bool  // past the end, and the overflow mode is Fail
	candidates []int // slots that it may choose at its start
	tried      []int // slots whose clusters were asked, in order
	chosen     int   // slot, -1 if no cluster was left
	considered []int // clusters that an error would name
}

func (c fuzzChoice) equal(o fuzzChoice) bool {
	return c.past == o.past && c.chosen == o.chosen && slices.Equal(c.candidates, o.candidates) &&
		slices.Equal(c.tried, o.tried) && slices.Equal(c.considered, o.considered)
}

// pick follows the table as the picker does.
func (in fuzzInput) pick(table *Table) fuzzChoice {
	choice := fuzzChoice{chosen: -1}
	start, ok := table.Start(in.attempt)
	if !ok {
		choice.past = true
		return choice
	}
	choice.candidates = members(table.From(start))
	choice.considered = clustersAt(table, members(table.Considered(start)))
	for set := table.From(start); ; {
		slot, ok := set.First()
		if !ok {
			return choice
		}
		choice.tried = append(choice.tried, slot)
		if !in.fails[table.Cluster(slot)] {
			choice.chosen = slot
			return choice
		}
		set = table.Without(set, slot)
	}
}

// pickNaively does what the specification says, one slot at a time.
func (in fuzzInput) pickNaively() fuzzChoice {
	choice := fuzzChoice{chosen: -1}
	var clusters []int // of each slot
	for _, e := range in.entries {
		for range e.Attempts {
			clusters = append(clusters, e.Cluster)
		}
	}
	last := len(clusters) - 1
	start := in.attempt - 1
	if start > last {
		switch in.overflow {
		case Fail:
			choice.past = true
			return choice
		case UseLastCluster:
			start = last
		case RoundRobin:
			start %= len(clusters)
		}
	}
	end := last
	if !in.skip {
		end = start
	}
	var tried []int // clusters
	for slot := start; slot <= end; slot++ {
		cluster := clusters[slot]
		if !slices.Contains(choice.considered, cluster) {
			choice.considered = append(choice.considered, cluster)
		}
		if !in.usable[cluster] {
			continue
		}
		choice.candidates = append(choice.candidates, slot)
		if choice.chosen >= 0 || slices.Contains(tried, cluster) {
			continue
		}
		tried = append(tried, cluster)
		choice.tried = append(choice.tried, slot)
		if !in.fails[cluster] {
			choice.chosen = slot
		}
	}
	return choice
}

// clustersAt returns the clusters of slots.
func clustersAt(table *Table, slots []int) []int {
	var clusters []int
	for _, slot := range slots {
		clusters = append(clusters, table.Cluster(slot))
	}
	return clusters
}
