// Package breaker is a circuit breaker for a cluster: after a number of failures
// in a row the cluster rests, and when the rest is over one attempt at a time
// probes whether it is well again.
package breaker

import (
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
	Failures int           // in a row, at least 1
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
	probing              // nothing: the probe is under way

	phaseBits = 2
	phaseMask = 1<<phaseBits - 1
)

// Token is the breaker's state at a pick. What became of the attempt counts only
// if the state is still the same.
type Token uint64

func (t Token) phase() phase { return phase(t & phaseMask) }

// next is the state after t in a phase. No two states of a breaker are equal.
func (t Token) next(p phase) Token { return (t>>phaseBits+1)<<phaseBits | Token(p) }

// Breaker is ready for use as its zero value, in which it lets everything pass
// until it is configured. It is safe for concurrent use.
type Breaker struct {
	state    atomic.Uint64 // a Token
	failures atomic.Int64  // in a row; written under mu

	mu       sync.Mutex // guards changes of state, and what follows
	config   *Config    // nil: off
	timer    *time.Timer
	relapses int
	rested   bool      // there was a rest before
	ended    time.Time // when the last rest ended
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
		b.relapses, b.rested = 0, false
		if t := b.token(); t.phase() != closed {
			b.enter(t.next(closed))
		}
	}
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
		if !b.state.CompareAndSwap(uint64(t), uint64(probe)) {
			return 0, false
		}
		// Taking the lock here would have the pick wait for others.
		go b.watchProbe(probe)
		return probe, true
	default:
		return 0, false
	}
}

// Resting tells whether the breaker lets nothing pass for now.
func (b *Breaker) Resting() bool { return b.token().phase() != closed }

// GiveBack undoes Allow for an attempt that was not made, or of which nobody can
// tell what became.
func (b *Breaker) GiveBack(t Token) {
	if t.phase() != probing {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.token() == t {
		b.stopTimer()
		b.enter(t.next(waiting))
	}
}

// Settle says how an attempt ended.
func (b *Breaker) Settle(t Token, code codes.Code) {
	if code == codes.Canceled {
		b.GiveBack(t)
		return
	}
	if t.phase() == closed && b.failures.Load() == 0 && code == codes.OK {
		return // the case of every healthy RPC
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.token() != t || b.config == nil {
		return // picked before the rest began
	}
	failed := b.config.Codes.Has(code)
	switch t.phase() {
	case probing:
		b.stopTimer()
		if failed {
			b.rest()
			return
		}
		b.failures.Store(0)
		b.ended = time.Now()
		b.enter(t.next(closed))
	case closed:
		if !failed {
			b.failures.Store(0)
			return
		}
		if b.failures.Add(1) >= int64(b.config.Failures) {
			b.rest()
		}
	default: // tokens of the other phases are never given out
	}
}

func (b *Breaker) token() Token { return Token(b.state.Load()) }

// enter changes the state. The caller holds mu.
func (b *Breaker) enter(t Token) { b.state.Store(uint64(t)) }

func (b *Breaker) stopTimer() {
	if b.timer != nil {
		b.timer.Stop()
		b.timer = nil
	}
}

// rest begins a rest. The caller holds mu.
func (b *Breaker) rest() {
	if b.rested && time.Since(b.ended) <= b.config.MaxTime {
		b.relapses++
	} else {
		b.relapses = 0
	}
	b.rested = true
	b.failures.Store(0)
	t := b.token().next(resting)
	b.enter(t)
	b.timer = time.AfterFunc(b.duration(), func() { b.endRest(t) })
}

// duration is how long the rest that begins is. The caller holds mu.
func (b *Breaker) duration() time.Duration {
	d := b.config.Time
	for range b.relapses {
		if d >= b.config.MaxTime/2 {
			return b.config.MaxTime
		}
		d *= 2
	}
	return min(d, b.config.MaxTime)
}

// endRest lets a probe pass when the time of a rest is over.
func (b *Breaker) endRest(t Token) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.token() == t {
		b.timer = nil
		b.ended = time.Now()
		b.enter(t.next(waiting))
	}
}

// watchProbe gives a probe's turn to another attempt if it does not end in time.
func (b *Breaker) watchProbe(t Token) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.token() != t || b.config == nil {
		return
	}
	b.timer = time.AfterFunc(b.config.Time, func() { b.GiveBack(t) })
}

// Close stops the breaker's timer. It lets everything pass from then on.
func (b *Breaker) Close() { b.Configure(nil) }
