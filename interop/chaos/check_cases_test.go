package chaos

import (
	"errors"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/grpc-composite/grpc-composite/balancer/composite"
)

// TestChecker judges RPCs that have something wrong with them, and their like that
// have not.
func TestChecker(t *testing.T) {
	t.Parallel()
	c := checker{
		clusterOf: map[string]string{"1.1.1.1:1": "a", "2.2.2.2:2": "b"},
		addrOf:    map[string]string{"a/0": "1.1.1.1:1", "b/0": "2.2.2.2:2"},
	}
	begin := time.Now()
	healthy := func(clusters ...string) map[string]time.Time {
		calm := make(map[string]time.Time)
		for _, cluster := range clusters {
			calm[cluster] = begin.Add(-time.Second)
		}
		return calm
	}
	unavailable := status.Error(codes.Unavailable, "down")
	onA := composite.Attempt{Number: 1, Cluster: "a", Peer: "1.1.1.1:1", Start: begin}
	onB := composite.Attempt{Number: 2, Cluster: "b", Peer: "2.2.2.2:2", Start: begin}
	with := func(a composite.Attempt, change func(*composite.Attempt)) composite.Attempt {
		change(&a)
		return a
	}
	lasts := func(d time.Duration) func(*composite.Attempt) { return func(a *composite.Attempt) { a.Duration = d } }
	committed := func(a *composite.Attempt) { a.Committed = true }
	past := func(clusters ...string) func(*composite.Attempt) {
		return func(a *composite.Attempt) {
			a.Number = 1
			for _, cluster := range clusters {
				a.Skipped = append(a.Skipped, composite.Skip{Cluster: cluster, Reason: "transient_failure"})
			}
		}
	}
	trail := func(attempts ...composite.Attempt) composite.Trail { return composite.Trail{Attempts: attempts} }

	for _, tc := range []struct {
		name string
		rpc  observation
		want string // part of what is found, or "" if nothing is
	}{
		{name: "good", rpc: observation{trail: trail(onA), server: "a/0", calm: healthy("a")}},
		{name: "failover", rpc: observation{trail: trail(onA, onB), server: "b/0", calm: healthy("b")}},
		{name: "failed, nothing healthy", rpc: observation{err: unavailable, trail: trail(onA, onB)}},
		{name: "failed, a healthy one", rpc: observation{err: unavailable, trail: trail(onA, onB), calm: healthy("c")}, want: "[c] had been healthy"},
		{name: "failed, healthy too late", rpc: observation{err: unavailable, trail: trail(onA, onB), calm: map[string]time.Time{"c": begin.Add(time.Millisecond)}}},
		{name: "failed, the healthy one was not among its own", rpc: observation{err: unavailable, trail: trail(onA), own: true, order: []string{"a"}, members: []string{"a"}, calm: healthy("c")}},
		{name: "given up", rpc: observation{err: status.Error(codes.Canceled, ""), abandoned: true, trail: trail(onA), calm: healthy("a")}},
		{name: "cancelled by nobody", rpc: observation{err: status.Error(codes.Canceled, ""), trail: trail(onA), calm: healthy("a")}, want: "had been healthy"},
		{name: "committed", rpc: observation{err: unavailable, trail: trail(with(onA, committed)), calm: healthy("b")}},
		{name: "committed on the healthy one", rpc: observation{err: unavailable, trail: trail(with(onA, committed)), calm: healthy("a", "b")}, want: "had been healthy"},
		{name: "closing at a retry", rpc: observation{err: unavailable, calm: healthy("c"), trail: trail(onA, with(onB, func(a *composite.Attempt) { a.Message = "transport is closing" }))}},
		{name: "closing at a transparent retry", rpc: observation{err: unavailable, calm: healthy("c"), trail: trail(onA, with(onA, func(a *composite.Attempt) { a.Transparent, a.Message = true, "transport is closing" }))}},
		{name: "closing at the first attempt", rpc: observation{err: unavailable, calm: healthy("c"), trail: trail(with(onA, func(a *composite.Attempt) { a.Message = "transport is closing" }))}, want: "had been healthy"},
		{name: "conversation with a stopped server", rpc: observation{err: status.Error(codes.DeadlineExceeded, ""), endless: true, trail: trail(onA), calm: healthy("b")}},
		{name: "another call to a stopped server", rpc: observation{err: status.Error(codes.DeadlineExceeded, ""), trail: trail(onA), calm: healthy("b")}, want: "had been healthy"},
		{name: "own list of a removed one", rpc: observation{own: true, changed: true, err: status.Error(codes.Internal, `"a": must be the name of a cluster`), trail: trail(onA), calm: healthy("b")}},
		{name: "no attempt", rpc: observation{err: unavailable, calm: healthy("a")}, want: "had been healthy"},
		{name: "too short", rpc: observation{short: true, trail: trail(onA)}, want: "without all of its messages"},
		{name: "the server minds", rpc: observation{err: status.Error(codes.DataLoss, ""), trail: trail(onA)}, want: "went to the wrong cluster"},
		{name: "another cluster's address", rpc: observation{trail: trail(with(onA, func(a *composite.Attempt) { a.Peer = "2.2.2.2:2" }))}, want: "instead of"},
		{name: "another server answers", rpc: observation{trail: trail(onA), server: "b/0"}, want: "the trail knows nothing of it"},
		{name: "a number is left out", rpc: observation{trail: trail(with(onA, func(a *composite.Attempt) { a.Number = 2 }))}, want: "comes after attempt 0"},
		{name: "a transparent retry", rpc: observation{trail: trail(onA, with(onA, func(a *composite.Attempt) { a.Transparent = true }))}},
		{name: "a number is used again", rpc: observation{trail: trail(onA, onA)}, want: "comes after attempt 1"},
		{name: "passes over one", rpc: observation{trail: trail(with(onB, past("a"))), calm: healthy("b")}},
		{name: "passes over a healthy one", rpc: observation{trail: trail(with(onB, past("a"))), calm: healthy("a")}, want: "passed over a, which was healthy"},
		{name: "passes over one without a word", rpc: observation{trail: trail(with(onB, past()))}, want: "passed over []: want [a]"},
		{name: "goes back", rpc: observation{trail: trail(onA, with(onA, func(a *composite.Attempt) { a.Number = 2 }))}, want: `attempt 2 used "a"`},
		{name: "goes back while the config changes", rpc: observation{changed: true, trail: trail(onA, with(onA, func(a *composite.Attempt) { a.Number = 2 }))}},
		{name: "attempt takes too long", rpc: observation{trail: trail(with(onA, lasts(7*time.Second)))}, want: "attempt 1 took 7s"},
		{name: "attempt takes long on a late machine", rpc: observation{late: 5 * time.Second, trail: trail(with(onA, lasts(7*time.Second)))}},
		{name: "waits before a healthy one", rpc: observation{calm: healthy("b"), trail: trail(with(with(onB, past("a")), lasts(1400*time.Millisecond)))}},
		{name: "waits too long before a healthy one", rpc: observation{calm: healthy("b"), trail: trail(with(with(onB, past("a")), lasts(1600*time.Millisecond)))}, want: "though b was healthy"},
		{name: "RPC takes too long", rpc: observation{end: begin.Add(time.Minute), trail: trail(onA)}, want: "it took 1m0s"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			o := tc.rpc
			o.start = begin
			if o.end.IsZero() {
				o.end = begin.Add(time.Second)
			}
			if !o.own {
				o.members = clusterNames
			}
			if !o.own && !o.changed {
				o.order = clusterNames
			}
			_, findings := c.check(o)
			var got []error
			for _, f := range findings {
				got = append(got, errors.New(f.what))
			}
			text := errors.Join(got...)
			if tc.want == "" && text != nil {
				t.Errorf("found %v: want nothing", text)
			}
			if tc.want != "" && (text == nil || !strings.Contains(text.Error(), tc.want)) {
				t.Errorf("found %v: want %q", text, tc.want)
			}
		})
	}
}
