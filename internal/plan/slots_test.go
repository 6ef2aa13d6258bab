package plan

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// entries reads a list such as "a a b*3": a cluster for each letter, and how
// many attempts an entry has.
func entries(list string) []Entry {
	var out []Entry
	for field := range strings.FieldsSeq(list) {
		attempts := 1
		if _, n, ok := strings.Cut(field, "*"); ok {
			var err error
			if attempts, err = strconv.Atoi(n); err != nil {
				panic(err) // a mistake in a test
			}
		}
		out = append(out, Entry{Cluster: int(field[0] - 'a'), Attempts: attempts})
	}
	return out
}

// letters writes clusters as entries reads them.
func letters(clusters []int) string {
	var text strings.Builder
	for _, c := range clusters {
		text.WriteByte('a' + byte(c)) //nolint:gosec // a letter
	}
	return text.String()
}

func TestSlots(t *testing.T) {
	for _, tc := range []struct{ name, list, want string }{
		{"one entry", "a", "a"},
		{"in order", "a b c", "abc"},
		{"several attempts", "a*2 b c*3", "aabccc"},
		{"a name again, at once", "a a b", "aab"},
		{"a name again, later", "a b a*2 c b", "abaacb"},
		{"as many as there may be", "a*63 b", strings.Repeat("a", 63) + "b"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := NewSlots(entries(tc.list), Fail, true)
			clusters := make([]int, s.Len())
			for i := range clusters {
				clusters[i] = s.Cluster(i)
			}
			if got := letters(clusters); got != tc.want {
				t.Errorf("%q: slots %s, want %s", tc.list, got, tc.want)
			}
		})
	}
}

func TestStart(t *testing.T) {
	const past = -1
	for _, tc := range []struct {
		name     string
		list     string
		overflow Overflow
		attempts []int
		want     []int
	}{
		{"each at its own slot", "a b*2", Fail, []int{1, 2, 3}, []int{0, 1, 2}},
		{"past the end", "a b*2", Fail, []int{4, 5, math.MaxInt}, []int{past, past, past}},
		{"past the end, to the last cluster", "a b*2", UseLastCluster, []int{1, 3, 4, 5, math.MaxInt}, []int{0, 2, 2, 2, 2}},
		{"past the end, round robin", "a b*2", RoundRobin, []int{1, 3, 4, 5, 6, 7, math.MaxInt}, []int{0, 2, 0, 1, 2, 0, (math.MaxInt - 1) % 3}},
		{"one slot, round robin", "a", RoundRobin, []int{1, 2, math.MaxInt}, []int{0, 0, 0}},
		{"64 slots", "a*64", Fail, []int{1, 64, 65}, []int{0, 63, past}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := NewSlots(entries(tc.list), tc.overflow, true)
			var got []int
			for _, a := range tc.attempts {
				slot, ok := s.Start(a)
				if !ok {
					slot = past
				}
				got = append(got, slot)
			}
			if !slices.Equal(got, tc.want) {
				t.Errorf("attempts %v start at %v: want %v", tc.attempts, got, tc.want)
			}
		})
	}
}

func TestReach(t *testing.T) {
	for _, tc := range []struct {
		name       string
		overflow   Overflow
		skip, next bool
		attempt    int
		want       [2]int // of three slots: the first, and the end
	}{
		{"the first attempt", Fail, true, false, 1, [2]int{0, 3}},
		{"a later attempt", Fail, true, false, 3, [2]int{2, 3}},
		{"its own slot alone", Fail, false, false, 2, [2]int{1, 2}},
		{"past the end", Fail, true, false, 4, [2]int{3, 3}},
		{"past the end, its own slot alone", Fail, false, false, 4, [2]int{3, 3}},
		{"past the end, to the last cluster", UseLastCluster, true, false, 5, [2]int{2, 3}},
		{"past the end, round robin", RoundRobin, true, false, 5, [2]int{1, 3}},
		{"after those that are used", Fail, true, true, 3, [2]int{0, 3}},
		{"after those that are used, of which nothing is skipped", Fail, false, true, 2, [2]int{0, 2}},
		{"after those that are used, past the end", Fail, false, true, 5, [2]int{0, 3}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := NewSlots(entries("a b c"), tc.overflow, tc.skip)
			if first, end := s.Reach(tc.attempt, tc.next); [2]int{first, end} != tc.want {
				t.Errorf("attempt %d comes to the slots from %d to before %d: want %v", tc.attempt, first, end, tc.want)
			}
		})
	}
}
