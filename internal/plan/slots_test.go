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
