package composite

import (
	"fmt"
	"strings"

	"google.golang.org/grpc/balancer"
)

// What a pick of the model comes to: the label of a child whose connection it is,
// evWait, or an error's text after one of the others.
const (
	evWait   = "wait"
	evError  = "error: "
	evStatus = "status: "
)

// pick says what an attempt with a number comes to. What follows from it for the
// clusters happens when it is over.
func (m *eventModel) pick(number int, failFast bool) string {
	slots := m.config.slots()
	start := number - 1
	if start >= len(slots) {
		switch m.config.overflow {
		case 1:
			start = len(slots) - 1
		case 2:
			start %= len(slots)
		default:
			return fmt.Sprintf("%srpc error: code = Unavailable desc = composite: attempt %d: no host available (no_healthy_upstream): past the end of the list of %d (%s)",
				evStatus, number, len(slots), strings.Join(slots, "; "))
		}
	}
	candidates := slots[start:]
	if m.config.noSkip {
		candidates = candidates[:1]
	}
	var early, order []*eventTier
	errs := make(map[*eventTier]string)
	waits := false
	visited := make(map[string]bool)
	for _, name := range candidates {
		t := find(m.tiers, name)
		if visited[name] {
			continue
		}
		visited[name] = true
		order = append(order, t)
		switch {
		case waits, t.condition == evNoHost && !t.nudge:
		case t.early:
			early = append(early, t)
		default:
			if outcome := t.ask(errs); outcome == evWait {
				waits = true
			} else if outcome != "" {
				return outcome
			}
		}
	}
	if waits && len(early) == 0 {
		return evWait
	}
	for _, t := range early {
		if outcome := t.ask(errs); outcome == evWait {
			waits = true
		} else if outcome != "" {
			return outcome
		}
	}
	if waits {
		return evWait
	}
	return m.noHost(number, failFast, order, errs)
}

// ask has a cluster's child pick, and returns "" if the attempt goes on.
func (t *eventTier) ask(errs map[*eventTier]string) string {
	ch := t.current
	picker := ch != nil && ch.picker
	if t.condition != evHasHost && picker {
		t.tried = true
	}
	if t.condition == evSleeps {
		t.m.later = append(t.m.later, t.connect)
		t.unsure = true
	}
	if t.settings.lazy {
		t.used = true
	}
	answer := answerWait
	if picker {
		answer = ch.report.answers()
	}
	switch answer {
	case answerConn:
		return ch.label
	case answerWait:
		if !t.nudge && (t.condition != evSleeps || t.settings.connectTimeout > 0) {
			return evWait
		}
		if errs[t] = "connecting"; t.condition == evNoHost {
			errs[t] = t.why()
		}
		return ""
	case answerStatus:
		return evStatus + ch.report.err().Error()
	default:
		errs[t] = fmt.Sprintf("pick error (%q)", ch.report.err().Error())
		return ""
	}
}

func (m *eventModel) noHost(number int, failFast bool, order []*eventTier, errs map[*eventTier]string) string {
	var parts []string
	for _, t := range order {
		why, ok := errs[t]
		if !ok {
			why = t.why()
		}
		parts = append(parts, t.name+" skipped: "+why)
	}
	text := fmt.Sprintf("composite: attempt %d: no host available (no_healthy_upstream): %s", number, strings.Join(parts, "; "))
	if m.config.failRequest && failFast {
		return evStatus + "rpc error: code = Unavailable desc = " + text
	}
	return evError + text
}

// why the cluster has no host.
func (t *eventTier) why() string {
	text := t.reason
	if text == "connect timeout" {
		text += fmt.Sprintf(" after %v", t.settings.connectTimeout)
	}
	var child string
	if ch := t.current; ch != nil {
		child = ch.connErr
		if ch.rejected != "" {
			child = ch.rejected
		}
		none := t.empty && ch.rejected == balancer.ErrBadResolverState.Error()
		if none {
			child = t.nowhere
		}
		switch err := ch.report.err(); {
		case ch.state != stateFailure || err == nil:
		case none:
			child += ": " + err.Error()
		default:
			child = err.Error()
		}
	}
	switch {
	case child == "" && t.resolverError == "":
		return text
	case t.resolverError == "", child != "" && strings.Contains(child, t.resolverError):
		return fmt.Sprintf("%s (%q)", text, child)
	case child == "":
		return fmt.Sprintf("%s (%q)", text, t.resolverError)
	default:
		return fmt.Sprintf("%s (%q, and its resolver: %q)", text, child, t.resolverError)
	}
}

// state is the channel's.
func (m *eventModel) state() eventState {
	state := stateFailure
	for _, t := range m.tiers {
		switch {
		case t.condition == evHasHost:
			return stateReady
		case t.condition == evWaits:
			state = stateConnecting
		case (t.condition == evSleeps || t.nudge) && state != stateConnecting:
			state = stateIdle
		}
	}
	return state
}

// exitIdle is the channel's wish to connect, which is kept for a child that is yet
// to come.
func (m *eventModel) exitIdle() {
	for i, t := range m.tiers {
		switch {
		case i == 0 && (t.asleep || t.current == nil):
			t.connect()
		case i == 0, !t.settings.lazy:
			t.exitIdle()
		}
	}
	m.settle()
}

func (m *eventModel) resolverError(err string) {
	for _, t := range m.tiers {
		if t.settings.target == 0 {
			t.held++
			t.fail(err)
			t.held--
			t.look()
		}
	}
	m.settle()
}

func (m *eventModel) close() {
	m.closed = true
	for _, t := range m.tiers {
		t.close()
	}
	m.later = nil
}
