package attempt

import (
	"context"
	"strings"
	"testing"
	"time"
)

// TestDiscard has a policy inside another one pick what the outer one discards.
func TestDiscard(t *testing.T) {
	t.Parallel()
	rpc, l, _ := open(context.Background(), channel(t, "UNAVAILABLE"), method, opener)
	tr := newTrace(rpc, t)
	tr.run("tag s1; begin; pick")
	a := FromContext(tr.current.attempt)
	o := &observer{ledger: l}
	a.Observe(o, 1)
	a.EnterNested()
	a.Observe(o, 2)
	a.SetTimeout(&Limit{After: time.Millisecond, Cluster: "inner"})
	a.LeaveNested()
	a.Discard()
	select {
	case <-a.Done():
		t.Error("the discarded limit has ended the attempt")
	case <-time.After(20 * time.Millisecond):
	}
	tr.run("end; close")
	_ = l.result(nil)
	if got := strings.Join(o.told, " "); got != "1 OK" {
		t.Errorf("told %q: want the outer policy alone", got)
	}
}

// TestDiscardKeepsWhatHadNoHost has a slot without a host stay used though what is picked
// in its place is discarded, but not when the attempt is picked for again.
func TestDiscardKeepsWhatHadNoHost(t *testing.T) {
	t.Parallel()
	for _, again := range []bool{false, true} {
		rpc, _, _ := open(context.Background(), channel(t, "UNAVAILABLE"), method, opener)
		tr := newTrace(rpc, t)
		tr.run("tag s1; begin; pick")
		a := FromContext(tr.current.attempt)
		host, inner, other := "host", new(int), new(int)
		a.EnterNested()
		a.UseSlotInVain(inner, 3)
		a.LeaveNested()
		a.EnterNested()
		a.UseSlot(other, 5)
		a.UseHost(&host)
		a.LeaveNested()
		a.Discard()
		if again {
			a.Pick()
		}
		tr.run("end UNAVAILABLE; tag s1; begin; pick")
		b := FromContext(tr.current.attempt)
		want := 4
		if again {
			want = 0
		}
		if got := b.NextSlot(inner); got != want {
			t.Errorf("picked for again %v: the next slot is %d, want %d", again, got, want)
		}
		if got := b.NextSlot(other); got != 0 || b.HostUsed(&host) {
			t.Errorf("picked for again %v: a discarded slot counts (next %d), or the host (%v)", again, got, b.HostUsed(&host))
		}
	}
}
