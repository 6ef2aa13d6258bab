package plan

import (
	"slices"
	"strings"
	"testing"
)

// usable is, by cluster, whether its letter is in the text.
func usable(n int, text string) []bool {
	out := make([]bool, n)
	for i := range out {
		out[i] = strings.ContainsRune(text, rune('a'+i))
	}
	return out
}

// members lists the slots of a set.
func members(s Set) []int {
	var slots []int
	for i := range MaxSlots {
		if s&bit(i) != 0 {
			slots = append(slots, i)
		}
	}
	return slots
}

func TestFrom(t *testing.T) {
	for _, tc := range []struct {
		name   string
		list   string
		usable string
		alone  bool // do not skip
		slot   int
		want   []int
	}{
		{"all usable", "a b c", "abc", false, 0, []int{0, 1, 2}},
		{"never backwards", "a b c", "abc", false, 1, []int{1, 2}},
		{"nothing but what comes before", "a b c", "a", false, 1, nil},
		{"over one without a host", "a b c", "ac", false, 1, []int{2}},
		{"none usable", "a b c", "", false, 0, nil},
		{"all slots of a repeated name", "a b a*2 b", "a", false, 1, []int{2, 3}},
		{"the last of 64", "a*63 b", "b", false, 0, []int{63}},
		{"from the last of 64", "a*63 b", "ab", false, 63, []int{63}},
		{"without skipping, usable", "a b c", "abc", true, 1, []int{1}},
		{"without skipping, not usable", "a b c", "ac", true, 1, nil},
		{"without skipping, the last of 64", "a*63 b", "b", true, 63, []int{63}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			table := NewTable(NewSlots(entries(tc.list), Fail, !tc.alone), usable(clusters(tc.list), tc.usable))
			set := table.From(tc.slot)
			if got := members(set); !slices.Equal(got, tc.want) {
				t.Errorf("slots %v: want %v", got, tc.want)
			}
			first, ok := set.First()
			if ok != (len(tc.want) > 0) || ok && first != tc.want[0] {
				t.Errorf("first %d, %v: want the first of %v", first, ok, tc.want)
			}
		})
	}
}

// clusters is how many clusters a list has.
func clusters(list string) int {
	n := 0
	for _, e := range entries(list) {
		n = max(n, e.Cluster+1)
	}
	return n
}

func TestWithout(t *testing.T) {
	for _, tc := range []struct {
		name string
		list string
		from int
		slot int
		want []int
	}{
		{"a name that is there once", "a b c", 0, 0, []int{1, 2}},
		{"a name that is repeated", "a b a*2 b c", 0, 0, []int{1, 4, 5}},
		{"by a later slot of the name", "a b a*2 b c", 1, 3, []int{1, 4, 5}},
		{"the only name", "a*64", 0, 17, nil},
		{"one that is not in the set", "a b c", 1, 0, []int{1, 2}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			table := NewTable(NewSlots(entries(tc.list), Fail, true), usable(clusters(tc.list), "abc"))
			if got := members(table.Without(table.From(tc.from), tc.slot)); !slices.Equal(got, tc.want) {
				t.Errorf("slots %v: want %v", got, tc.want)
			}
		})
	}
}

func TestConsidered(t *testing.T) {
	for _, tc := range []struct {
		name  string
		list  string
		alone bool // do not skip
		slot  int
		want  string
	}{
		{"from the start", "a b c", false, 0, "abc"},
		{"not what comes before", "a b c", false, 1, "bc"},
		{"each once", "a a b a*2 b c", false, 0, "abc"},
		{"in the order from the slot on", "a b a c", false, 1, "bac"},
		{"the last", "a b c", false, 2, "c"},
		{"without skipping", "a b c", true, 1, "b"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			table := NewTable(NewSlots(entries(tc.list), Fail, !tc.alone), usable(clusters(tc.list), "b"))
			if got := letters(clustersAt(&table, slices.Collect(table.Considered(tc.slot).All()))); got != tc.want {
				t.Errorf("clusters %s: want %s", got, tc.want)
			}
		})
	}
}
