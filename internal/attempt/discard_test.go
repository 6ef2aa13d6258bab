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
	tr.run("end")
	_ = l.result(nil)
	if got := strings.Join(o.told, " "); got != "1 OK" {
		t.Errorf("told %q: want the outer policy alone", got)
	}
}
