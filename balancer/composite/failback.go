package composite

import (
	"time"

	"github.com/grpc-composite/grpc-composite/internal/plan"
)

// failback is what a cluster's failbackDelay needs to know. It is guarded by the
// balancer's mu.
type failback struct {
	hadHost bool      // ever
	lost    bool      // had no host since, and has not been back for long enough
	since   time.Time // has a host again since then; zero if it has none
	timer   *time.Timer
}

// failbackLocked tells whether attempts pass over the cluster in its new
// condition, because it has not had a host for as long as failbackDelay. That
// holds also while it reconnects: nobody has to wait for what would be passed
// over. It has the cluster settled again when the delay is over. The caller holds
// parent.mu.
func (c *cluster) failbackLocked(condition plan.Condition, now time.Time) bool {
	f := &c.failback
	f.stop()
	if c.asleep {
		*f = failback{} // when it wakes, it is a first connect
		return false
	}
	if condition != plan.HasHost {
		f.since = time.Time{}
		f.lost = f.lost || (f.hadHost && condition == plan.NoHost)
		return f.lost && condition == plan.Connecting && c.failbackDelay > 0
	}
	f.hadHost = true
	if f.since.IsZero() {
		f.since = now
	}
	if f.lost = f.lost && now.Sub(f.since) < c.failbackDelay; f.lost {
		f.timer = time.AfterFunc(f.since.Add(c.failbackDelay).Sub(now), c.resettle)
	}
	return f.lost
}

func (f *failback) stop() {
	if f.timer != nil {
		f.timer.Stop()
		f.timer = nil
	}
}
