package composite_test

import (
	"maps"
	"strings"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

	"github.com/grpc-composite/grpc-composite/balancer/composite"
	"github.com/grpc-composite/grpc-composite/internal/testkit"
)

// metricsOf has what was counted on the channels of tests, by *grpc.ClientConn.
var metricsOf sync.Map

func countsOf(cc *grpc.ClientConn) map[string]int64 {
	if m, ok := metricsOf.Load(cc); ok {
		return m.(*testkit.Metrics).Counts()
	}
	return nil
}

// checkCounts compares what was counted for an RPC, in addition to what was before
// it, with the RPC's trail. What a trail does not tell may be either way: whether
// an attempt that was not sent was picked for, and whether one that failed with
// INTERNAL and without a cluster had a list to go along.
func checkCounts(t *testing.T, trail composite.Trail, before, after map[string]int64) {
	t.Helper()
	if after == nil {
		return
	}
	got := make(map[string]int64)
	for name, n := range after {
		if n -= before[name]; n != 0 {
			got[shorten(name)] += n
		}
	}
	want, more := wantCounts(trail)
	most := maps.Clone(want)
	for name, n := range more {
		most[name] += n
	}
	for name := range got {
		if strings.HasPrefix(name, "attempt_timeouts") {
			delete(got, name) // trails know of no timeouts
		}
	}
	for _, list := range []map[string]int64{got, want, most} {
		for name := range list {
			if n := got[name]; n < want[name] || n > most[name] {
				t.Errorf("%s: counted %d times: want %d to %d for the trail %q", name, n, want[name], most[name], story(trail))
			}
		}
	}
}

// shorten leaves out of a count's name what a trail does not tell: whether a number
// is past the end of the list.
func shorten(name string) string {
	words := strings.Fields(name)
	switch words[0] {
	case "picks":
		return words[0] + " " + words[1]
	case "exhausted":
		return words[0]
	default:
		return name
	}
}

// wantCounts are the counts that a trail makes, and those that it may make besides.
func wantCounts(trail composite.Trail) (want, more map[string]int64) {
	want, more = make(map[string]int64), make(map[string]int64)
	repeated := make(map[int]bool)
	for i := len(trail.Attempts) - 1; i >= 0; i-- {
		a := trail.Attempts[i]
		if repeated[a.Number] {
			continue
		}
		repeated[a.Number] = a.Transparent
		for _, s := range a.Skipped {
			want["skips "+s.Cluster+" "+s.Reason]++
		}
		switch {
		case a.Cluster != "" && a.Peer != "":
			want["picks "+a.Cluster]++
		case a.Cluster != "":
			more["picks "+a.Cluster]++
		case a.Code != codes.Internal:
			want["exhausted"]++
		default:
			more["exhausted"]++
		}
	}
	return want, more
}
