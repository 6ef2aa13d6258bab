// Package breaker is a circuit breaker for a cluster: after a number of failures
// in a row the cluster rests, and when the rest is over one attempt at a time
// probes whether it is well again.
package breaker

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/codes"
)

// Codes is a set of status codes.
type Codes uint32

// CodesOf returns the set of the codes given.
func CodesOf(list ...codes.Code) Codes {
	var set Codes
	for _, c := range list {
		set |= 1 << c
	}
	return set
}

// Has tells whether the set has the code.
func (s Codes) Has(c codes.Code) bool { return c < 32 && s&(1<<c) != 0 }

// Config is what opens a breaker, and for how long.
type Config struct {
	Failures int64         // in a row, at least 1
	Codes    Codes         // what is a failure; any other but CANCELLED is a success
	Time     time.Duration // the first rest
	MaxTime  time.Duration // the longest rest
}

// phase is what the breaker lets pass.
type phase uint64

const (
	closed  phase = iota // everything
	resting              // nothing
	waiting              // one attempt, the probe
	probing              // nothing: it is a probe's turn

	phaseBits = 2
	phaseMask = 1<<phaseBits - 1
)

// Token is the breaker's state at a pick. It tells later whether what became of
// the attempt still counts. The zero Token is for an attempt that was made though
// the breaker did not let it pass, and counts for nothing.
type Token uint64

func (t Token) phase() phase { return phase(t & phaseMask) }

// next is the state after t in a phase. Later states are larger.
func (t Token) next(p phase) Token { return (t>>phaseBits+1)<<phaseBits | Token(p) }

// IsProbe tells whether the attempt is a probe.
func (t Token) IsProbe() bool { return t.phase() == probing }

// Breaker is ready for use as its zero value, in which it lets everything pass
// until it is configured. It is safe for concurrent use.
type Breaker struct {
	// state is a Token. Whoever holds mu may change it in any way; without mu a
	// probe's turn begins and ends, from waiting to probing and back.
	state    atomic.Uint64
	failures atomic.Int64 // in a row; written under mu

	mu       sync.Mutex // guards what follows
	config   *Config    // nil: off
	timer    *time.Timer
	began    Token // the state in which the last rest began
	relapses int
	ended    time.Time // when the last rest ended, zero if there was none
}

// Configure sets the config, or turns the breaker off if that is nil. A rest that
// is under way goes on.
func (b *Breaker) Configure(cfg *Config) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.config = cfg
	if cfg == nil {
		b.stopTimer()
		b.failures.Store(0)
		b.relapses, b.ended = 0, time.Time{}
		if b.Resting() {
			b.enter(closed)
		}
	}
}

// Passes tells whether Allow would let an attempt pass, which changes nothing.
func (b *Breaker) Passes() bool {
	p := b.token().phase()
	return p == closed || p == waiting
}

// Allow tells whether an attempt may pass, which it takes no lock to do. An
// attempt that passes has to be settled or given back.
func (b *Breaker) Allow() (Token, bool) {
	t := b.token()
	switch t.phase() {
	case closed:
		return t, true
	case waiting:
		probe := t.next(probing)
		if !b.change(t, probe) {
			return 0, false
		}
		// Taking the lock here would have the pick wait for others.
		go b.watchProbe(probe)
		return probe, true
	default:
		return 0, false
	}
}

// Resting tells whether the breaker is in a rest that no probe has ended yet.
func (b *Breaker) Resting() bool { return b.token().phase() != closed }

// GiveBack undoes Allow for an attempt that was not made, or of which nobody can
// tell what became. It takes no lock.
func (b *Breaker) GiveBack(t Token) {
	if t.IsProbe() {
		b.change(t, t.next(waiting))
	}
}

// Settle says how an attempt ended: with one of these codes, of which there are
// none if no server has seen it. If not all of them are failures, and not all
// successes, nobody can tell, which counts neither way.
func (b *Breaker) Settle(t Token, oneOf ...codes.Code) {
	if len(oneOf) == 0 || slices.Contains(oneOf, codes.Canceled) {
		b.GiveBack(t)
		return
	}
	if t.phase() == closed && b.failures.Load() == 0 && len(oneOf) == 1 && oneOf[0] == codes.OK {
		return // the case of every healthy RPC
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.config == nil {
		return
	}
	failed := b.config.Codes.Has(oneOf[0])
	switch {
	case slices.ContainsFunc(oneOf, func(c codes.Code) bool { return b.config.Codes.Has(c) != failed }):
		b.GiveBack(t)
	case t.IsProbe():
		b.settleProbe(t, failed)
	case b.token() != t: // picked before the rest began
	case !failed:
		b.failures.Store(0)
	case b.failures.Add(1) >= b.config.Failures:
		relapse := !b.ended.IsZero() && time.Since(b.ended) <= b.config.MaxTime
		b.rest(relapse)
	}
}

// settleProbe counts a probe of the current rest, also one whose turn has passed
// to another by now: a cluster whose answers take long must be able to recover.
// The caller holds mu.
func (b *Breaker) settleProbe(t Token, failed bool) {
	switch p := b.token().phase(); {
	case t < b.began, p != waiting && p != probing: // of an earlier rest, or of one that is over
	case failed:
		b.rest(true)
	default:
		b.stopTimer()
		b.ended = time.Now()
		b.enter(closed)
	}
}

func (b *Breaker) token() Token { return Token(b.state.Load()) }

func (b *Breaker) change(from, to Token) bool {
	return b.state.CompareAndSwap(uint64(from), uint64(to))
}

// enter changes the phase, whether or not a probe's turn begins or ends at the
// same moment, and returns the new state. The caller holds mu.
func (b *Breaker) enter(p phase) Token {
	for {
		t := b.token()
		if next := t.next(p); b.change(t, next) {
			return next
		}
	}
}

func (b *Breaker) stopTimer() {
	if b.timer != nil {
		b.timer.Stop()
		b.timer = nil
	}
}

// rest begins a rest. The caller holds mu.
func (b *Breaker) rest(relapse bool) {
	if relapse {
		b.relapses++
	} else {
		b.relapses = 0
	}
	b.failures.Store(0)
	b.stopTimer()
	t := b.enter(resting)
	b.began = t
	b.timer = time.AfterFunc(b.duration(), func() { b.change(t, t.next(waiting)) })
}

// duration is how long the rest that begins is. The caller holds mu.
func (b *Breaker) duration() time.Duration {
	d := b.config.Time
	for range b.relapses {
		if d > b.config.MaxTime-d {
			return b.config.MaxTime
		}
		d *= 2
	}
	return min(d, b.config.MaxTime)
}

// watchProbe ends a probe's turn if the probe does not end in time.
func (b *Breaker) watchProbe(t Token) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.token() != t || b.config == nil {
		return
	}
	b.stopTimer() // of a probe that was given back
	b.timer = time.AfterFunc(b.config.Time, func() { b.GiveBack(t) })
}

// Close stops the breaker's timer. It lets everything pass from then on.
func (b *Breaker) Close() { b.Configure(nil) }
