package plan

import (
	"slices"
	"testing"
)

// ownTable is the table of an own list in which each letter is a cluster and "-"
// one that was removed.
func ownTable(own *Own, list, usable string, config *Slots) Table {
	for _, letter := range list {
		if letter == '-' {
			own.Add(None, false)
			continue
		}
		own.Add(int(letter-'a'), slices.Contains([]rune(usable), letter))
	}
	slots := own.Slots(config)
	return own.Table(&slots)
}

func TestOwn(t *testing.T) {
	config := NewSlots(entries("a b c"), Fail, true)
	for _, tc := range []struct {
		name       string
		list       string
		usable     string
		config     *Slots // default: skips, and ends with the list
		attempt    int
		past       bool
		want       []int // slots that it may choose
		considered []int
	}{
		{name: "its own order", list: "cba", usable: "abc", attempt: 1, want: []int{0, 1, 2}, considered: []int{0, 1, 2}},
		{name: "not what it leaves out", list: "b", usable: "ac", attempt: 1, considered: []int{0}},
		{name: "one slot each", list: "ba", usable: "abc", attempt: 2, want: []int{1}, considered: []int{1}},
		{name: "over one without a host", list: "cba", usable: "ab", attempt: 1, want: []int{1, 2}, considered: []int{0, 1, 2}},
		{name: "over one that was removed", list: "-a-b", usable: "ab", attempt: 1, want: []int{1, 3}, considered: []int{0, 1, 2, 3}},
		{name: "from one that was removed", list: "a-b", usable: "ab", attempt: 2, want: []int{2}, considered: []int{1, 2}},
		{name: "nothing but removed ones", list: "--", usable: "ab", attempt: 1, considered: []int{0, 1}},
		{name: "a repeated name", list: "aba", usable: "a", attempt: 1, want: []int{0, 2}, considered: []int{0, 1}},
		{name: "past its end", list: "ab", usable: "abc", attempt: 3, past: true},
		{name: "past its end, to its last", list: "cb", usable: "abc", config: NewSlots(entries("a b c"), UseLastCluster, true), attempt: 7, want: []int{1}, considered: []int{1}},
		{name: "past its end, from its start", list: "cb", usable: "abc", config: NewSlots(entries("a b c"), RoundRobin, true), attempt: 3, want: []int{0, 1}, considered: []int{0, 1}},
		{name: "without skipping", list: "cba", usable: "abc", config: NewSlots(entries("a b c"), Fail, false), attempt: 2, want: []int{1}, considered: []int{1}},
		{name: "without skipping, removed", list: "c-a", usable: "abc", config: NewSlots(entries("a b c"), Fail, false), attempt: 2, considered: []int{1}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if tc.config == nil {
				tc.config = config
			}
			var own Own
			table := ownTable(&own, tc.list, tc.usable, tc.config)
			start, ok := table.Start(tc.attempt)
			if ok == tc.past {
				t.Fatalf("attempt %d starts: %v", tc.attempt, ok)
			}
			if tc.past {
				return
			}
			if got := members(table.From(start)); !slices.Equal(got, tc.want) {
				t.Errorf("slots %v: want %v", got, tc.want)
			}
			if got := members(table.Considered(start)); !slices.Equal(got, tc.considered) {
				t.Errorf("it looks at %v: want %v", got, tc.considered)
			}
		})
	}
}

// TestOwnClone changes a list after its table was cloned.
func TestOwnClone(t *testing.T) {
	var own Own
	table := ownTable(&own, "b-a", "ab", NewSlots(entries("a b"), RoundRobin, true))
	clone := table.Clone()
	own = Own{}
	_ = ownTable(&own, "aaaa", "", NewSlots(entries("a b"), Fail, false))
	if got := members(clone.From(0)); !slices.Equal(got, []int{0, 2}) || clone.Len() != 3 || clone.Cluster(0) != 1 || clone.Cluster(1) != None {
		t.Errorf("the clone has the slots %v of %d, %d first", got, clone.Len(), clone.Cluster(0))
	}
	if start, ok := clone.Start(5); start != 1 || !ok {
		t.Errorf("attempt 5 starts at %d, %v: want 1", start, ok)
	}
	if got := members(clone.Without(clone.From(0), 0)); !slices.Equal(got, []int{2}) {
		t.Errorf("without the first: %v", got)
	}
}

// FuzzOwn compares the choice of a cluster by an own list with the second
// implementation that the config's list is compared with: an own list is a list
// like any other, in which what was removed has no host.
//
// Each byte of list is a slot: its cluster, or if that is none of the config's,
// one that was removed.
func FuzzOwn(f *testing.F) {
	f.Add([]byte{2, 1, 0}, byte(3), uint64(0b111), uint64(0), 1, byte(0), true)
	f.Add([]byte{2, 9, 0}, byte(3), uint64(0b011), uint64(0b001), 2, byte(1), true)
	f.Add([]byte{1, 1, 1, 0}, byte(2), uint64(0b11), uint64(0b10), 1, byte(2), true)
	f.Add([]byte{9, 9}, byte(1), uint64(1), uint64(0), 2, byte(2), false)
	f.Add(slices.Repeat([]byte{63, 0}, 32), byte(64), uint64(1)<<63, uint64(0), 64, byte(0), true)
	f.Fuzz(func(t *testing.T, list []byte, clusters byte, conditions, errors uint64, attempt int, overflow byte, skip bool) {
		known := 1 + int(clusters%MaxSlots)
		list = list[:min(len(list), MaxSlots)]
		if len(list) == 0 {
			return
		}
		in := fuzzInput{attempt: max(attempt, 1), overflow: Overflow(overflow % 3), skip: skip}
		for i := range known {
			in.usable = append(in.usable, conditions>>i&1 == 1)
			in.fails = append(in.fails, errors>>i&1 == 1)
		}
		config := NewSlots([]Entry{{Cluster: 0, Attempts: 1}}, in.overflow, skip)
		var own Own
		for _, b := range list {
			cluster := int(b)
			if cluster < known {
				own.Add(cluster, in.usable[cluster])
			} else {
				own.Add(None, false)
				// Another cluster for each, since the errors name each.
				cluster = len(in.usable)
				in.usable, in.fails = append(in.usable, false), append(in.fails, false)
			}
			in.entries = append(in.entries, Entry{Cluster: cluster, Attempts: 1})
		}
		slots := own.Slots(config)
		table := own.Table(&slots)
		got, want := in.pick(&table), in.pickNaively()
		for i, cluster := range want.considered {
			if cluster >= known {
				want.considered[i] = None
			}
		}
		if !got.equal(want) {
			t.Errorf("%+v:\n got %+v\nwant %+v", in, got, want)
		}
		clone := table.Clone()
		if again := in.pick(&clone); !got.equal(again) {
			t.Errorf("%+v:\n got %+v\nby the clone %+v", in, got, again)
		}
	})
}
