package composite

import (
	"fmt"
	"time"
)

// eventModel is what has to be true of the policy, as the documentation has it.
// It shares no code with the policy, and knows neither goroutines nor timers.
type eventModel struct {
	habits map[string]*eventHabits // of children, by cluster
	builds map[string]*eventBuild  // what resolvers say when they are built, by cluster

	now        time.Duration
	config     eventConfig // delivered last
	configured bool
	closed     bool
	tiers      []*eventTier                  // in the order of the list
	children   map[string][]*eventModelChild // all that there ever were
	later      []func()                      // what follows when a call into the policy is over
	changes    int                           // of what a pick may see

	built      map[string]int // the resolvers of a cluster
	resolved   map[string]int // how often they were asked to resolve
	channelAsk int            // and the channel's
}

// eventTier is a cluster.
type eventTier struct {
	m        *eventModel
	name     string
	settings eventSettings
	asleep   bool // lazy, and nothing has asked for it
	gone     bool
	held     int // calls whose reports count when they are over

	current, next *eventModelChild // next is to replace current
	reported      bool             // the current child has, since the last look

	open          int  // the target that is being resolved; 0: none
	building      bool // one, which is ready at readyAt
	readyAt       time.Duration
	endpoints     string // the latest
	empty, listed bool   // they are none; there is a list, if only an empty one
	nowhere       string // what is said if they are none
	source        int    // the target that they are of
	unresolved    bool   // resolving failed, and there never was a list
	resolverError string

	// clock is when the cluster began to connect, if ticking; wanted is set if
	// an attempt made it. Tried: an IDLE child was asked for a connection.
	clock           time.Duration
	ticking, wanted bool
	tried           bool
	seen            eventState // of the child, at the last look

	// A cluster that had no host has had one again since back.
	hadHost, lost, isBack bool
	back                  time.Duration

	used            bool // since the last check
	unsure          bool // whether it was: an attempt has used and woken it at once
	lastUsed, check time.Duration
	checks          bool

	condition eventCondition
	reason    string
	early     bool // has a host, and not for long enough
	nudge     bool // no host, and a pick may change that
}

type eventCondition int

const (
	evNoHost eventCondition = iota
	evHasHost
	evWaits
	evSleeps
)

// deliver is an update of the config and the channel's endpoints. It tells whether
// an error goes back.
func (m *eventModel) deliver(cfg eventConfig, endpoints eventEndpoints) bool {
	if !m.configured || m.config.text != cfg.text {
		m.changes++
	}
	old := m.tiers
	m.tiers = nil
	for _, name := range cfg.names() {
		t := find(old, name)
		if t == nil {
			t = &eventTier{m: m, name: name, asleep: true, seen: stateIdle, condition: evSleeps}
		}
		t.held++
		m.tiers = append(m.tiers, t)
	}
	failed := false
	for _, t := range m.tiers {
		if !t.update(cfg.settings[t.name], endpoints.of(cfg, t.name)) {
			failed = true
		}
	}
	m.config, m.configured = cfg, true
	for _, t := range m.tiers {
		t.held--
		t.look()
	}
	for _, t := range old {
		if find(m.tiers, t.name) == nil {
			t.close()
		}
	}
	m.settle()
	return failed
}

// settle is what happens until nothing is left to be done.
func (m *eventModel) settle() {
	for len(m.later) > 0 {
		f := m.later[0]
		m.later = m.later[1:]
		f()
	}
}

func find(tiers []*eventTier, name string) *eventTier {
	for _, t := range tiers {
		if t.name == name {
			return t
		}
	}
	return nil
}

// update returns false if the child refuses what is new.
func (t *eventTier) update(s eventSettings, share string) bool {
	before := t.settings
	t.settings = s
	t.retarget(before.target, s.target)
	if s.target == 0 {
		t.list(share)
	}
	switch {
	case t.asleep && !s.lazy:
		return t.wake()
	case t.asleep:
		return true
	case s.lazy && !before.lazy:
		t.watch()
	}
	ok := true
	switch {
	case s.target == 0:
		ok = t.push()
	case t.listed && before.policy != s.policy:
		t.push()
	}
	if before.lazy && !s.lazy {
		t.latest().exit()
	}
	return ok
}

// retarget has another resolver find the endpoints. Those that there are serve
// until it has.
func (t *eventTier) retarget(from, to int) {
	if from == to {
		return
	}
	t.unresolved, t.resolverError = false, ""
	switch {
	case t.asleep:
		t.listed, t.empty = false, false
	case !t.listed:
		t.start()
	}
	t.open = 0
	if !t.asleep {
		t.openResolver(to)
	}
}

func (t *eventTier) openResolver(target int) {
	if t.open = target; target != 0 {
		t.m.built[t.name]++
		t.building, t.readyAt = true, t.m.now+buildTime(t.m.built[t.name])
	}
}

// list keeps new endpoints.
func (t *eventTier) list(endpoints string) {
	t.endpoints, t.listed, t.empty = endpoints, true, endpoints == ""
	t.unresolved, t.resolverError = false, ""
	t.nowhere, t.source = "it has no target, and the channel's resolver has none for it", t.settings.target
	if target := t.settings.target; target != 0 {
		t.nowhere = eventTarget(t.name, target) + " resolved to none"
	}
}

// wake has a cluster begin to connect.
func (t *eventTier) wake() bool {
	t.asleep = false
	if !t.ticking {
		t.start()
	}
	if t.settings.lazy {
		t.watch()
	}
	if t.settings.target != 0 {
		t.openResolver(t.settings.target)
	}
	return !t.listed || t.push()
}

// watch begins to look whether a lazy cluster is used.
func (t *eventTier) watch() {
	t.used, t.lastUsed = false, t.m.now
	t.checks, t.check = true, t.m.now+time.Minute
}

// push gives the endpoints to the child, which is another if the config wants
// another.
func (t *eventTier) push() bool {
	ch := t.latest()
	if kind := t.settings.kind(); ch == nil || ch.kind != kind {
		all := t.m.children[t.name]
		ch = &eventModelChild{tier: t, kind: kind, label: fmt.Sprint(t.name, len(all)), state: stateConnecting}
		t.m.children[t.name] = append(all, ch)
		switch {
		case t.current == nil:
			t.current = ch
		case t.next != nil:
			t.next.closed = true
			t.next = ch
		default:
			t.next = ch
		}
	}
	ch.source = t.source
	ch.rejected = ch.update(t.endpoints)
	ch.unfed = ch.rejected == "" && t.empty
	if ch.state == stateIdle {
		ch.failed = false
		if !t.wanted {
			t.ticking = false
		}
		if !t.settings.lazy || t.wanted {
			ch.exit()
		}
	}
	return ch.rejected == ""
}

// resolve is what the cluster's own resolver says. It returns false if the child
// refuses that.
func (t *eventTier) resolve(zone eventZone, err string) bool {
	t.held++
	ok := true
	if zone == zoneFails {
		t.fail(err)
	} else {
		t.list(zone.endpoints(t.name, t.open))
		ok = t.push()
	}
	t.held--
	t.look()
	t.m.settle()
	return ok
}

// fail is an error of the resolver.
func (t *eventTier) fail(err string) {
	t.resolverError, t.unresolved = err, !t.listed
	t.latest().resolverFailed()
}

func (t *eventTier) latest() *eventModelChild {
	if t.next != nil {
		return t.next
	}
	return t.current
}

// connect is what an attempt, or the channel, has a cluster do.
func (t *eventTier) connect() {
	if t.gone {
		return
	}
	t.wanted = true
	if !t.ticking {
		t.ticking, t.clock = true, t.m.now
	}
	t.look()
	t.exitIdle()
}

func (t *eventTier) exitIdle() {
	t.held++
	if t.asleep {
		t.wake()
	} else {
		t.latest().exit()
	}
	t.held--
	t.look()
}

func (t *eventTier) start() { t.ticking, t.clock = true, t.m.now }

func (t *eventTier) stop() { t.ticking, t.wanted = false, false }

func (t *eventTier) over() bool {
	return t.ticking && t.m.now-t.clock >= t.settings.connectTimeout
}

func (t *eventTier) close() {
	t.gone = true
	t.open = 0
	t.dismiss()
}

func (t *eventTier) dismiss() {
	for _, ch := range []*eventModelChild{t.current, t.next} {
		if ch != nil {
			ch.closed = true
		}
	}
	t.current, t.next = nil, nil
	t.reported = true
}

// sleep gives up a lazy cluster that is not used.
func (t *eventTier) sleep() {
	t.asleep = true
	t.stop()
	if t.settings.target != 0 {
		t.listed, t.unresolved, t.empty, t.resolverError = false, false, false, ""
	}
	t.dismiss()
	t.open = 0
	t.look()
}
