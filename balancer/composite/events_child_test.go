package composite

import "fmt"

// eventModelChild is a policy of a cluster.
type eventModelChild struct {
	tier  *eventTier
	label string
	kind  string // of policy

	state    eventState
	report   eventReport // the latest
	picker   bool        // there is one
	failed   bool        // in TRANSIENT_FAILURE, and not READY since
	unfed    bool        // it has taken an empty list
	source   int         // the target that its endpoints are of
	rejected string      // the error for the latest endpoints
	connErr  string
	conn     bool // has a connection
	ready    bool // which is READY
	closed   bool

	reports, updates, exits, errors int
	endpoints                       string
}

// update gives the child endpoints, and returns its error.
func (c *eventModelChild) update(endpoints string) string {
	h := c.tier.m.habits[c.tier.name]
	c.updates++
	c.endpoints = endpoints
	switch {
	case endpoints != "" && h.connects && !c.conn:
		c.conn, c.ready = true, false
	case endpoints == "" && !h.keepsConn:
		c.conn = false
	}
	for _, s := range h.reports(endpoints != "") {
		c.set(eventReport{state: s})
	}
	return h.refusal(c.label, c.updates, endpoints != "")
}

// exit asks the child to connect.
func (c *eventModelChild) exit() {
	if c == nil || c.closed {
		return
	}
	c.exits++
	if s := c.tier.m.habits[c.tier.name].onExitIdle; s != stateNone && c.state == stateIdle {
		c.set(eventReport{state: s})
	}
}

func (c *eventModelChild) resolverFailed() {
	if c == nil {
		return
	}
	c.errors++
	if s := c.tier.m.habits[c.tier.name].onError; s != stateNone {
		c.set(eventReport{state: s})
	}
}

// set is a report of the child.
func (c *eventModelChild) set(r eventReport) {
	c.reports++
	if c.closed {
		return
	}
	t, before := c.tier, c.state
	c.state, c.report, c.picker = r.state, r, true
	c.report.text = fmt.Sprint(c.label, " report ", c.reports)
	switch r.state {
	case stateReady:
		c.failed, c.connErr = false, ""
	case stateFailure:
		c.failed = true
	case stateIdle:
		if before == stateIdle {
			break
		}
		t.tried = false
		if !t.settings.lazy || before != stateReady {
			t.m.later = append(t.m.later, c.exit)
		}
	default:
	}
	if c == t.current {
		t.reported = true
	}
	t.look()
}

// connection is a change of the child's connection.
func (c *eventModelChild) connection(s eventState, err string) {
	if c.closed {
		return
	}
	lost := c.ready && s == stateIdle
	c.ready = s == stateReady
	if s == stateFailure {
		c.connErr = err
	}
	if lost || s == stateFailure {
		c.resolveOwn()
	}
}

// resolveNow is the child's wish for new endpoints.
func (c *eventModelChild) resolveNow() {
	if c.tier.settings.target == 0 {
		c.tier.m.channelAsk++
	}
	c.resolveOwn()
}

func (c *eventModelChild) resolveOwn() {
	if t := c.tier; t.open != 0 && t.latest() == c {
		t.m.resolved[t.name]++
	}
}

// child is the current child of a cluster, or the next one; nil if there is none.
func (m *eventModel) child(name string, which int) *eventModelChild {
	t := find(m.tiers, name)
	switch {
	case t == nil:
		return nil
	case which == 0:
		return t.current
	default:
		return t.next
	}
}

// childByAge is one of all the children that a cluster ever had, the youngest being
// 0, or nil.
func (m *eventModel) childByAge(name string, age int) *eventModelChild {
	all := m.children[name]
	if age %= 4; age >= len(all) {
		return nil
	}
	return all[len(all)-1-age]
}
