package composite

import "time"

// look finds out what the cluster can do for an attempt.
func (t *eventTier) look() {
	if t.held > 0 || t.gone {
		return
	}
	t.swap()
	state := t.state()
	switch {
	case state == stateReady, t.seen == stateReady && state == stateIdle && t.settings.lazy:
		t.stop()
	case t.seen == stateReady:
		t.stop()
		t.start()
	case state == stateConnecting && !t.ticking:
		t.start()
	}
	t.seen = state
	if state == stateIdle && t.over() && !t.tried {
		t.stop() // a policy that connects when it is picked from
	}
	before := *t
	t.condition, t.reason = t.judge(state)
	t.failback()
	ch := t.current
	t.nudge = t.condition == evNoHost && state == stateIdle && ch != nil && ch.picker && ch.rejected == ""
	if t.condition != before.condition || t.reason != before.reason || t.early != before.early || t.nudge != before.nudge ||
		t.reported && (t.condition != evNoHost || t.nudge) {
		t.m.changes++
	}
	t.reported = false
}

func (t *eventTier) state() eventState {
	switch {
	case t.current != nil:
		return t.current.state
	case t.asleep:
		return stateIdle
	default:
		return stateConnecting
	}
}

// swap lets the next child replace the current one when it can serve, or the other
// cannot.
func (t *eventTier) swap() {
	if t.next == nil {
		return
	}
	able := t.next.state == stateReady || t.next.state == stateIdle
	serves := t.current.state == stateReady && t.current.rejected == "" &&
		(!t.empty || t.current.unfed || t.current.source != t.source && t.next.rejected == "")
	if serves && !able {
		return
	}
	t.current.closed = true
	t.current, t.next = t.next, nil
	t.reported = true
	t.stop()
	t.start()
	t.seen = stateConnecting
}

func (t *eventTier) judge(state eventState) (eventCondition, string) {
	why := "transient failure"
	ch := t.current
	if t.empty && (ch == nil || !ch.conn) {
		why = "no endpoints"
	}
	switch {
	case ch != nil && ch.rejected != "":
		return evNoHost, why
	case state == stateReady:
		return evHasHost, ""
	case t.unresolved, ch != nil && ch.failed:
		return evNoHost, why
	case state == stateIdle && !t.ticking:
		return evSleeps, ""
	case t.over():
		return evNoHost, "connect timeout"
	default:
		return evWaits, ""
	}
}

// failback has a cluster that had no host passed over until it has had one for
// long enough.
func (t *eventTier) failback() {
	delay := t.settings.failbackDelay
	switch {
	case t.asleep:
		t.hadHost, t.lost, t.isBack, t.early = false, false, false, false
	case t.condition == evHasHost:
		if !t.isBack {
			t.isBack, t.back = true, t.m.now
		}
		t.hadHost = true
		t.lost = t.lost && t.m.now-t.back < delay
		t.early = t.lost
	default:
		t.isBack = false
		if t.condition == evNoHost && t.hadHost {
			t.lost = true
		}
		t.early = t.lost && t.condition == evWaits && delay > 0
	}
}

// advance has time go on.
func (m *eventModel) advance(d time.Duration) {
	end := m.now + d
	for {
		var next *eventTier
		at := end
		for _, t := range m.tiers {
			if due, ok := t.due(); ok && !t.gone && due <= at {
				next, at = t, due
			}
		}
		if next == nil {
			break
		}
		m.now = at
		next.tick()
		m.settle()
	}
	m.now = end
}

// due is when something happens to the cluster next.
func (t *eventTier) due() (at time.Duration, ok bool) {
	add := func(when time.Duration, is bool) {
		if is && (!ok || when < at) {
			at, ok = when, true
		}
	}
	add(t.clock+t.settings.connectTimeout, t.condition == evWaits)
	add(t.back+t.settings.failbackDelay, t.condition == evHasHost && t.early)
	add(t.check, t.checks)
	add(t.readyAt, t.building)
	return at, ok
}

func (t *eventTier) tick() {
	if t.building && t.readyAt <= t.m.now {
		t.building = false
		if b := t.m.builds[t.name]; t.open != 0 && b.zone != zoneSilent {
			t.resolve(b.zone, b.err)
		}
		return
	}
	if t.checks && t.check <= t.m.now {
		t.checks = false
		if t.asleep || !t.settings.lazy {
			return
		}
		if t.used {
			t.used, t.lastUsed = false, t.m.now
		}
		if t.m.now-t.lastUsed >= 30*time.Minute {
			t.sleep()
		} else {
			t.checks, t.check = true, t.m.now+time.Minute
		}
		return
	}
	t.look()
}
