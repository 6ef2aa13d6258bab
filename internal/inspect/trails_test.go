package inspect

import (
	"fmt"
	"slices"
	"testing"
)

func methods(r *Trails) []string {
	var list []string
	for _, t := range r.Latest() {
		list = append(list, t.Method)
	}
	return list
}

func named(name string, attempts int) Trail {
	return Trail{Method: name, Attempts: make([]Attempt, attempts)}
}

func TestTrailsKeepTheLatest(t *testing.T) {
	var r Trails
	var want []string
	for i := range 3 * MaxTrails {
		r.Put(nil, named(fmt.Sprint(i), 2))
		want = append(want, fmt.Sprint(i))
	}
	slices.Reverse(want)
	if got := methods(&r); !slices.Equal(got, want[:MaxTrails]) {
		t.Errorf("%v: want %v", got, want[:MaxTrails])
	}
}

// TestTrailsOfOneAttempt: RPCs that did not move on must not push out those that
// did.
func TestTrailsOfOneAttempt(t *testing.T) {
	var r Trails
	r.Put(nil, named("moved on", 2))
	for i := range 3 * MaxTrails {
		r.Put(nil, named(fmt.Sprint(i), 1))
	}
	got := methods(&r)
	if len(got) != maxSingles+1 || got[0] != fmt.Sprint(3*MaxTrails-1) || got[maxSingles] != "moved on" {
		t.Errorf("%v", got)
	}
}

func TestTrailsReplace(t *testing.T) {
	var r Trails
	first := r.Put(nil, named("first", 1))
	r.Put(nil, named("second", 2))
	if again := r.Put(first, named("first, again", 2)); again != first {
		t.Error("Put returned another one")
	}
	if got := methods(&r); !slices.Equal(got, []string{"second", "first, again"}) {
		t.Errorf("%v", got)
	}
	for range MaxTrails {
		r.Put(nil, named("later", 2))
	}
	r.Put(first, named("dropped by now", 3))
	if got := methods(&r); len(got) != MaxTrails || slices.Contains(got, "dropped by now") {
		t.Errorf("%v", got)
	}
}
