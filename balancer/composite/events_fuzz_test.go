package composite

import (
	"maps"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// What a byte of an input of FuzzEvents does, by its low four bits. The high ones
// say of what, as do further bytes of those events that are marked.
const (
	evList     = iota // (2) the list of clusters, delivered
	evSettings        // (2) the settings of a cluster, delivered or kept for later
	evPolicy          // what holds for all clusters, delivered
	evChannel         // (2) the endpoints that the channel's resolver has, delivered
	evResolver        // what the resolver of a cluster says
	evCurrent         // the current child of a cluster reports
	evPending         // the one that is to replace it does
	evReport          // (2) any child does, with any picker
	evHabits          // (2) what the children of a cluster do when they are called
	evTime            // time goes on
	evPick            // an attempt
	evCall            // what else the channel or a child may call
	evConn            // a connection changes its state
	evBuild           // what the resolvers of a cluster say when they are built
	evProbe           // the first five attempts
	evAgain           // the config and the endpoints again
)

// The clusters, for the high bits of an event.
const (
	evA = iota << 4
	evB
	evC
	evD
)

// The states that a child or a connection reports.
const (
	evConnecting = iota << 6
	evReady
	evFailure
	evIdle
)

// FuzzEvents has a sequence of events happen to a policy whose channel, resolvers
// and child policies are stubs, on a fake clock, and compares what picks it lets
// the channel make with a model that knows the rules as the documentation has
// them. Each event may come at any time, also when the policy is closed.
func FuzzEvents(f *testing.F) {
	for _, name := range slices.Sorted(maps.Keys(eventSeeds)) {
		f.Add(eventSeeds[name])
	}
	f.Fuzz(func(t *testing.T, events []byte) {
		if len(events) > 64 {
			return
		}
		synctest.Test(t, func(t *testing.T) { playEvents(t, events) })
		forgetLog()
	})
}

// forgetLog keeps the lines of millions of executions from filling the memory.
func forgetLog() {
	Infos.mu.Lock()
	defer Infos.mu.Unlock()
	Infos.lines = nil
}

func playEvents(t *testing.T, events []byte) {
	t.Helper()
	p := newEventPlay(t)
	defer p.finish()
	for s := (eventScript{events}); len(s.left) > 0; {
		p.step(&s)
		p.sleep(eventStep)
		p.compare()
	}
}

// eventScript is what is left of an input.
type eventScript struct{ left []byte }

func (s *eventScript) next() int {
	if len(s.left) == 0 {
		return 0
	}
	b := s.left[0]
	s.left = s.left[1:]
	return int(b)
}

// eventTimes are how long time goes on.
var eventTimes = [16]time.Duration{
	0, time.Millisecond, 500 * time.Millisecond, time.Second - 3*eventStep, time.Second, 9 * time.Second, 10*time.Second - 3*eventStep, 20 * time.Second,
	30*time.Second - 3*eventStep, 30 * time.Second, time.Minute, 2 * time.Minute, 29 * time.Minute, 30 * time.Minute, 32 * time.Minute, 2 * time.Hour,
}

// eventLists are the lists of clusters.
var eventLists = [16]string{
	"a", "ab", "ba", "abc", "cba", "b", "aab", "abab", "bc", "abcd", "dcba", "bbba", "ac", "cdab", "d", "aba",
}

// step has the next event happen to the policy and to the model.
func (p *eventPlay) step(s *eventScript) {
	b := s.next()
	op, arg := b&15, b>>4
	name, rest := eventNames[arg&3], arg>>2
	p.note(op, arg)
	switch op {
	case evList:
		p.config.list = eventLists[s.next()&15]
		p.deliver()
	case evSettings:
		p.config.settings[name] = decodeSettings(s.next(), rest&1+1)
		if rest&2 == 0 {
			p.deliver()
		}
	case evPolicy:
		p.config.overflow, p.config.noSkip, p.config.failRequest = arg&3, arg&4 != 0, arg&8 != 0
		p.deliver()
	case evChannel:
		counts := s.next()
		p.endpoints.untagged = arg & 3
		for i, name := range eventNames {
			p.endpoints.tagged[name] = counts >> (2 * i) & 3
		}
		p.deliver()
	case evResolver:
		p.resolve(name, eventZone(rest))
	case evCurrent:
		p.report(p.model.child(name, 0), eventReport{state: eventStates[rest]})
	case evPending:
		p.report(p.model.child(name, 1), eventReport{state: eventStates[rest]})
	case evReport:
		more := s.next()
		p.report(p.model.childByAge(name, more>>4), eventReport{state: eventStates[rest], answer: eventAnswer(more & 3)})
	case evHabits:
		p.habits(name, decodeHabits(s.next(), rest))
	case evTime:
		p.sleep(eventTimes[arg])
	case evPick:
		p.pick(arg&7+1, arg&8 == 0)
	case evCall:
		p.call(arg)
	case evConn:
		p.connection(name, eventStates[rest])
	case evBuild:
		p.build(name, eventZone(rest))
	case evProbe:
		for n := range 5 {
			p.pick(n+1, arg&1 == 0)
		}
	case evAgain:
		p.deliver()
	}
}

// call is what the channel calls, and what a child calls of its own accord.
func (p *eventPlay) call(arg int) {
	name := eventNames[arg&3]
	switch arg {
	case 0:
		p.exitIdle()
	case 1, 3:
		p.resolverError()
	case 2:
		p.close()
	case 4, 5, 6, 7:
		p.resolveNow(p.model.child(name, 0))
	case 8, 9, 10, 11:
		p.resolveNow(p.model.child(name, 1))
	default:
		p.resolveNow(p.model.childByAge(name, 0))
	}
}

func decodeSettings(b, attempts int) eventSettings {
	return eventSettings{
		target:         []int{0, 1, 2, 1}[b&3],
		policy:         b >> 2 & 3,
		connectTimeout: []time.Duration{time.Second, 0, 10 * time.Second, time.Second}[b>>4&3],
		lazy:           b&(1<<6) != 0,
		failbackDelay:  []time.Duration{0, 30 * time.Second}[b>>7&1],
		attempts:       attempts,
	}
}

func decodeHabits(b, more int) eventHabits {
	return eventHabits{
		onUpdate:   eventState(b & 7),
		onExitIdle: []eventState{stateNone, stateConnecting, stateReady, stateFailure}[b>>3&3],
		onError:    []eventState{stateNone, stateFailure, stateIdle, stateConnecting}[b>>5&3],
		refuses:    b&(1<<7) != 0,
		keepsConn:  more&1 != 0,
		connects:   more&2 == 0,
	}
}
