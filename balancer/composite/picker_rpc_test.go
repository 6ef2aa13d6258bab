package composite

import (
	"context"
	"strings"
	"testing"

	"google.golang.org/grpc/balancer"
	"google.golang.org/grpc/codes"

	"github.com/grpc-composite/grpc-composite/internal/attempt"
	"github.com/grpc-composite/grpc-composite/internal/plan"
)

// pickedRPC is an RPC of one stream, whose attempts a test has picked for.
type pickedRPC struct {
	t       *testing.T
	picker  *picker
	begin   func() *attempt.Attempt
	current *attempt.Attempt
}

func newPickedRPC(ctx context.Context, t *testing.T, p *picker) *pickedRPC {
	t.Helper()
	stream := openRPC(ctx, t)
	return &pickedRPC{t: t, picker: p, begin: func() *attempt.Attempt { return beginAttempt(stream, false) }}
}

// next begins the RPC's next attempt and picks for it.
func (r *pickedRPC) next() (balancer.PickResult, error) {
	r.current = r.begin()
	return r.again()
}

// again picks for the same attempt.
func (r *pickedRPC) again() (balancer.PickResult, error) {
	return r.picker.Pick(balancer.PickInfo{Ctx: r.current})
}

// clusters makes n attempts, all of which fail, and returns the clusters that they
// went to, with "-" for those that found none.
func (r *pickedRPC) clusters(n int) string {
	r.t.Helper()
	var text strings.Builder
	for range n {
		result, err := r.next()
		if err != nil {
			text.WriteByte('-')
		} else {
			text.WriteString(result.SubConn.(namedSubConn).name)
		}
		endAttempt(r.current, codes.Unavailable)
	}
	return text.String()
}

// TestPicksOfOneRPC checks where the attempts of an RPC go, one after the other.
func TestPicksOfOneRPC(t *testing.T) {
	next := lbConfig{nextCluster: true}
	for _, tc := range []struct {
		name     string
		clusters string
		start    int // default 1
		config   lbConfig
		overflow plan.Overflow
		want     string
	}{
		{name: "each at its own slot", clusters: "HHH", want: "abc--"},
		{name: "to the last cluster", clusters: "HHH", overflow: plan.UseLastCluster, want: "abccc"},
		{name: "from the start", clusters: "HHH", overflow: plan.RoundRobin, want: "abcab"},
		{name: "a failover does not shift later ones", clusters: "nHH", want: "bbc--"},
		{name: "a failover shifts later ones", clusters: "nHH", config: next, want: "bc---"},
		{name: "from the start, after a failover", clusters: "nHH", config: next, overflow: plan.RoundRobin, want: "bcbcb"},
		{name: "from the start, after a failover at the second round", clusters: "HneH", config: next, overflow: plan.RoundRobin, want: "adada"},
		{name: "one held back, at the second round", clusters: "Hny", config: next, overflow: plan.RoundRobin, want: "acaca"},
		{name: "with a start, next clusters", clusters: "HHHH", start: 2, config: next, want: "bcd--"},
		{name: "with a start", clusters: "HHHH", start: 3, want: "cd---"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p := pickerOf(t, tc.clusters, tc.config, true)
			p.config.slots = plan.NewSlots(entriesOf(len(tc.clusters)), tc.overflow, true)
			p.table.Slots = p.config.slots
			p.setTable(p.table)
			r := newPickedRPC(WithAttempt(context.Background(), max(tc.start, 1)), t, p)
			if got := r.clusters(5); got != tc.want {
				t.Errorf("attempts go to %s: want %s", got, tc.want)
			}
		})
	}
}

// TestPickPastTheEnd checks how an attempt past the end ends its RPC: like the last
// attempt, or as Envoy does.
func TestPickPastTheEnd(t *testing.T) {
	for _, tc := range []struct {
		name        string
		failRequest bool
		nested      bool
		want        string
	}{
		{"the last attempt's status", false, false, `rpc error: code = Aborted desc = scripted; composite: attempt 2: no host available (no_healthy_upstream): past the end of the list of 1 (a)`},
		{"Envoy's", true, false, `rpc error: code = Unavailable desc = composite: attempt 2: no host available (no_healthy_upstream): past the end of the list of 1 (a); attempt 1: ABORTED "scripted"`},
		{"of a policy inside", false, true, `rpc error: code = Unavailable desc = composite: attempt 2: no host available (no_healthy_upstream): past the end of the list of 1 (a); attempt 1: ABORTED "scripted"`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := newPickedRPC(context.Background(), t, pickerOf(t, "H", lbConfig{failRequest: tc.failRequest}, true))
			_, _ = r.next()
			endAttempt(r.current, codes.Aborted)
			_, err := r.next()
			if tc.nested {
				r.current.EnterNested()
				_, err = r.again()
				r.current.LeaveNested()
			}
			if err == nil || err.Error() != tc.want || isStatus(err) == tc.nested {
				t.Errorf("error %v, which ends the RPC: %v\nwant  %s", err, isStatus(err), tc.want)
			}
		})
	}
}

// TestPicksByAnOwnList checks where RPCs with a list of their own go, and which lists
// are refused.
func TestPicksByAnOwnList(t *testing.T) {
	many := func(n int) string { return strings.Repeat("a ", n) }
	for _, tc := range []struct {
		name     string
		clusters string
		list     string
		want     string // of three attempts
		err      string // of the first
	}{
		{name: "its own order", clusters: "HHH", list: "c a", want: "ca-"},
		{name: "over one without a host", clusters: "Hnn", list: "c b a", want: "aaa"},
		{name: "over one that fails", clusters: "HeH", list: "b c", want: "cc-"},
		{name: "nothing left", clusters: "Hnn", list: "c b", want: "---", err: "composite: attempt 1: no host available (no_healthy_upstream): c skipped: transient failure; b skipped: transient failure"},
		{name: "no name", clusters: "HH", want: "---", err: "0 names: must be 1 to 64, and the config has"},
		{name: "as many as may be", clusters: "HH", list: many(64), want: "aaa"},
		{name: "one more", clusters: "HH", list: many(65), want: "---", err: "65 names: must be 1 to 64"},
		{name: "an unknown name", clusters: "HH", list: "a x", want: "---", err: `"x": must be the name of a cluster`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p := pickerOf(t, tc.clusters, lbConfig{}, true)
			p.indexByName()
			r := newPickedRPC(WithClusters(context.Background(), strings.Fields(tc.list)...), t, p)
			_, err := r.next()
			if tc.err != "" && (err == nil || !strings.Contains(err.Error(), tc.err)) {
				t.Errorf("error %v: want %s in it", err, tc.err)
			}
			r = newPickedRPC(WithClusters(context.Background(), strings.Fields(tc.list)...), t, p)
			if got := r.clusters(3); got != tc.want {
				t.Errorf("attempts go to %s: want %s", got, tc.want)
			}
		})
	}
}

// indexByName has own lists find the clusters.
func (p *picker) indexByName() {
	p.config.index = make(map[string]int)
	for i := range p.clusters {
		p.config.index[p.clusters[i].cluster.name] = i
		p.config.clusters = append(p.config.clusters, clusterConfig{name: p.clusters[i].cluster.name})
	}
}

// TestOwnListOfARemovedCluster has a cluster removed while an RPC is under way whose
// list names it. A policy inside knows nothing of the list.
func TestOwnListOfARemovedCluster(t *testing.T) {
	p := pickerOf(t, "HnH", lbConfig{}, true)
	p.indexByName()
	r := newPickedRPC(WithClusters(context.Background(), "a", "b", "c"), t, p)
	if got := r.clusters(1); got != "a" {
		t.Fatalf("attempt 1 goes to %s", got)
	}
	delete(p.config.index, "c")
	_, err := r.next()
	const want = "composite: attempt 2: no host available (no_healthy_upstream): b skipped: transient failure; c skipped: removed"
	if err == nil || err.Error() != want {
		t.Errorf("error %v: want %s", err, want)
	}
	if got := skipped(r.current, r.current.Route()); len(got) != 2 || got[1].Reason != string(plan.Removed) {
		t.Errorf("skipped %v: want b, and c as removed", got)
	}
	r.current.EnterNested()
	defer r.current.LeaveNested()
	if result, err := pickerOf(t, "nH", lbConfig{}, true).Pick(balancer.PickInfo{Ctx: r.current}); err != nil || result.SubConn.(namedSubConn).name != "b" {
		t.Errorf("a policy inside picks %v, %v: want its own b", result.SubConn, err)
	}
}
