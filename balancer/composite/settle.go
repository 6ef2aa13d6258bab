package composite

import (
	"time"

	"google.golang.org/grpc/balancer"
	"google.golang.org/grpc/connectivity"

	"github.com/grpc-composite/grpc-composite/internal/plan"
)

// settleLocked derives the view from what the children have reported and from
// the time, and has it published if it changed. The caller holds parent.mu.
//
// Besides what the child says, it goes by when the cluster began to connect (since;
// zero if no time runs), and by who asked it to (asked):
//
//	child goes to  from           since      asked
//	READY          any            zero       byNobody
//	other          READY          now        byNobody   it connects by itself
//	IDLE           READY, lazy    zero       byNobody   it waits to be asked
//	IDLE, nests, not asked        zero       byNobody   the same, of clusters inside
//	CONNECTING     IDLE           now        as it was
//	IDLE, timed out, not tried    zero       byNobody   it waits to be picked from
//	IDLE, timed out, composite    zero       byNobody   the same
//
// An attempt that asks sets both (lazy.go), and an IDLE child is tried if something
// has asked it, or picked from it, since it went IDLE.
func (c *cluster) settleLocked() {
	if c.held > 0 || c.closed {
		return
	}
	c.swapLocked()
	now := time.Now()
	state, picker := connectivity.Connecting, balancer.Picker(nil)
	nests := false  // composite policies, of which an IDLE one has lazy clusters
	direct := false // the child is one of them itself
	if c.asleep {
		state = connectivity.Idle
	}
	facts := plan.Facts{Unresolved: c.unresolved, Empty: c.empty != nil}
	if ch := c.current; ch != nil {
		state, picker = ch.state.ConnectivityState, ch.state.Picker
		nests = ch.nestsLocked()
		direct = ch.isComposite()
		facts.Failed, facts.Rejected = ch.failed, ch.rejected != nil
		// A policy of xDS gets an empty list, and has endpoints all the same.
		facts.Empty = c.empty != nil && len(ch.subConns) == 0
	}
	switch {
	case state == connectivity.Ready:
		c.since, c.asked = time.Time{}, byNobody
	case c.state == connectivity.Ready && state == connectivity.Idle && c.lazy:
		c.since, c.asked = time.Time{}, byNobody // until an attempt needs it again
	case state == connectivity.Idle && nests && c.asked == byNobody:
		c.since = time.Time{}
	case c.state == connectivity.Ready:
		c.since, c.asked = now, byNobody
	case c.since.IsZero() && state == connectivity.Connecting:
		c.since = now
	}
	c.state = state

	facts.State = state
	facts.TimedOut = !c.since.IsZero() && now.Sub(c.since) >= c.connectTimeout
	if facts.TimedOut && state == connectivity.Idle && (direct || !c.tried.Load()) {
		// A policy that connects only when picked: no time runs until then.
		c.since, c.asked, facts.TimedOut = time.Time{}, byNobody, false
	}
	facts.Asked = !c.since.IsZero()

	condition, reason := plan.Evaluate(facts)
	c.setTimerLocked(condition, now)
	early := c.failbackLocked(condition, now)
	// An IDLE child does nothing until it is asked, or (ring_hash) picked from:
	// attempts that pass the cluster over do both, or it would never have a host
	// again.
	nudge := condition == plan.NoHost && state == connectivity.Idle && picker != nil && !facts.Rejected
	if condition == plan.Idle && c.view.condition != plan.Idle || nudge && !c.view.nudge {
		c.asking.Store(false)
	}
	// Nobody picks from any other child of a cluster without a host, so that its
	// reports change nothing.
	if condition != c.view.condition || reason != c.view.reason || early != c.view.early || nudge != c.view.nudge || (c.reported && (condition != plan.NoHost || nudge)) {
		c.parent.dirty = true
	}
	if condition != c.view.condition || reason != c.view.reason {
		c.view.since = now
	}
	// Policies between this one and a composite one may hand no picks on while they are IDLE.
	c.view.nudge, c.view.asks = nudge, nudge && nests && !direct
	c.reported = false
	before := c.view.condition
	changed := condition != before || reason != c.view.reason || early != c.view.early
	c.view.condition, c.view.reason, c.view.picker, c.view.early = condition, reason, picker, early
	if changed {
		c.logLocked(before)
	}
}

// swapLocked lets the pending child replace the current one, as soon as the
// pending one can serve or the current one cannot. The caller holds parent.mu.
func (c *cluster) swapLocked() {
	if c.pending == nil {
		return
	}
	serves := c.current.state.ConnectivityState == connectivity.Ready && c.current.rejected == nil
	switch c.pending.state.ConnectivityState {
	case connectivity.Ready, connectivity.Idle: // Idle: connects when it is picked from
		serves = false
	default:
	}
	// An empty list is the end of endpoints that the current child may still have, but not
	// of its own, nor of those of another target, if the pending one takes it.
	if serves && (c.empty == nil || c.current.unfed || !sameTarget(c.current.source, c.source) && c.pending.rejected == nil) {
		return
	}
	c.retireLocked(c.current)
	c.current, c.pending = c.pending, nil
	c.reported = true
	c.since, c.asked = time.Now(), byNobody
	c.state = connectivity.Connecting
}

// setTimerLocked has the cluster settled again when its time to connect is over.
// The caller holds parent.mu.
func (c *cluster) setTimerLocked(condition plan.Condition, now time.Time) {
	if condition != plan.Connecting {
		if c.timer != nil {
			c.timer.Stop()
			c.timer, c.deadline = nil, time.Time{}
		}
		return
	}
	deadline := c.since.Add(c.connectTimeout)
	if c.timer != nil && c.deadline.Equal(deadline) {
		return
	}
	if c.timer != nil {
		c.timer.Stop()
	}
	c.deadline = deadline
	c.timer = time.AfterFunc(deadline.Sub(now), c.resettle)
}

// resettle settles the cluster when a time is over.
func (c *cluster) resettle() {
	c.parent.mu.Lock()
	c.settleLocked()
	c.parent.mu.Unlock()
	c.parent.publish()
}
