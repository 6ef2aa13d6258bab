package composite

import (
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/balancer"
)

// The tests of this file are about what FuzzEvents has found.

// TestSleeperIsNotPickedFrom has a lazy cluster whose child is IDLE go to sleep:
// what picks see of it is idle before and after, but the child is closed.
func TestSleeperIsNotPickedFrom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLazyBench(t)
		l.configure(nil)
		_ = l.pick()
		child := l.policy.Child(t, 0)
		child.Report(ready, nil)
		p := new(countingPicker)
		child.ReportPicker(idle, p)
		time.Sleep(32 * time.Minute)
		l.wantOpen(0)
		if !child.Closed() {
			t.Error("the child of a cluster that sleeps is not closed")
		}
		if err := l.pick(); err != balancer.ErrNoSubConnAvailable {
			t.Errorf("pick: %v: want it to wait", err)
		}
		if got := p.picks.Load(); got != 0 {
			t.Errorf("%d picks from a child that is closed: want none", got)
		}
		l.wantOpen(1)
	})
}
