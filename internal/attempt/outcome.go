package attempt

import (
	"context"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Observer is told how attempts end, once for each.
type Observer interface {
	// Settle is called from any goroutine, with what Observe was given. OneOf
	// are the codes of which one is the attempt's: one if that is known; all
	// that the retry policy goes on from if gRPC-Go has not reported which it
	// was; none if no server has seen the attempt, which gRPC-Go then repeats, or
	// for which the RPC had no time left.
	// Settle must not call this package.
	Settle(token uint64, oneOf []codes.Code)
}

// watcher is an observer, with what it is told.
type watcher struct {
	observer Observer
	token    uint64
}

// Observe has o told how the attempt ends: one observer for each policy inside
// another.
//
// It is told when that is settled: when the next attempt of the stream begins,
// which shows that this one failed, or that no server has seen it; or when the RPC
// ends. At the attempt's own end it is not known which it will be, unless its
// stream is over.
func (a *Attempt) Observe(o Observer, token uint64) {
	if a.depth < maxDepth {
		a.mark().watchers[a.depth] = watcher{o, token}
		a.ledger.flags.set(observed)
		if a.Lean() { // of which it is not known when it began
			if end, ok := a.Deadline(); ok && time.Until(end) < leastTime {
				a.flags.set(late)
			}
		}
	}
}

// observed tells whether anybody may want to know how the attempt ends. The
// caller holds ledger.mu, and may be about another stream: as long as the attempt
// has not ended, its picker may be at work, and what it writes is its own.
func (a *Attempt) observed() bool {
	if a.ended == nil {
		return a.flags.has(picked) && a.ledger.flags.has(observed)
	}
	m := a.more.Load()
	return m != nil && m.watchers != [maxDepth]watcher{}
}

// settle returns what tells the observers, or nil if there are none. The caller
// holds ledger.mu, and calls the result after it has let go of it.
func (a *Attempt) settle(oneOf []codes.Code) func() {
	m := a.more.Load()
	if a.settled || !a.observed() || m == nil {
		return nil
	}
	a.settled = true
	watchers := m.watchers
	return func() {
		for _, w := range watchers {
			if w.observer != nil {
				w.observer.Settle(w.token, oneOf)
			}
		}
	}
}

// finish settles the attempts that no other follows, as is known only now. If the latest
// has ended without an error, it has the RPC's own result.
func (l *Ledger) finish(err error) {
	if !l.flags.has(observed) {
		l.conclude(nil)
		return
	}
	var result []codes.Code
	switch s, ok := status.FromError(err); {
	case ok:
		result = []codes.Code{s.Code()}
	case isExhausted(err) && !l.answered():
		result = l.retryableCodes()
	default: // an error of an interceptor's own is no attempt's
		result = []codes.Code{codes.OK}
	}
	l.conclude(result)
}

// conclude ends the RPC. Result is what the latest of the attempts whose streams are over
// comes to, if it has ended without an error. Others may follow where a stream is open.
func (l *Ledger) conclude(result []codes.Code) {
	l.flags.set(over)
	if !l.flags.has(counts | observed) {
		return
	}
	var tell []func()
	l.mu.Lock()
	latest := true
	for a := l.heads; a != nil; a = a.sibling {
		switch {
		case a.ended == nil:
			continue
		case !isClosed(a.stream):
			l.awaitClose(a)
			continue
		case latest && a.outcome == nil:
			tell = appendCall(tell, a.settle(result))
			a.countLocked()
		default:
			tell = appendCall(tell, l.settleLocked(a))
		}
		latest = false
	}
	l.mu.Unlock()
	call(tell)
}

// awaitClose settles an attempt that has ended when its RPC was over, or as good as over,
// and counts it, as soon as its stream is closed, unless another one has followed by then.
func (l *Ledger) awaitClose(a *Attempt) {
	context.AfterFunc(a.Context, func() {
		l.mu.Lock()
		tell := l.closedLocked(a)
		l.mu.Unlock()
		if tell != nil {
			tell()
		}
	})
}

// closedLocked is the end of an attempt's stream. The caller holds l.mu, and calls what it
// gets when it has let go of it.
func (l *Ledger) closedLocked(a *Attempt) (tell func()) {
	latest := l.heads
	for latest != nil && latest != a {
		latest = latest.sibling
	}
	if latest == nil {
		return nil
	}
	return l.settleLocked(a)
}

// settleLocked counts an attempt that has ended, which no other follows, and settles it by
// what is known of it. The caller holds l.mu, and calls what it gets when it has let go of
// it.
func (l *Ledger) settleLocked(a *Attempt) (tell func()) {
	a.countLocked()
	if a.outcome != nil {
		return a.settle(a.verdictLocked())
	}
	return a.settle(a.silentOutcomeLocked())
}

// leastTime is how much of an RPC's time an attempt needs to be sent.
const leastTime = 10 * time.Millisecond

// verdictLocked are the codes of which one is that of an attempt that failed: none if
// it began when its RPC's time was as good as over, and was not sent, which says nothing
// of where it would have gone. The caller holds ledger.mu.
func (a *Attempt) verdictLocked() []codes.Code {
	if a.opened.Load() == nil && status.Code(a.outcome.Err) == codes.DeadlineExceeded && a.exceeded() == nil {
		begin := a.startLocked()
		if end, ok := a.Deadline(); a.flags.has(late) || ok && !begin.IsZero() && end.Sub(begin) < leastTime {
			return nil
		}
	}
	return a.outcome.oneOf()
}

// silentOutcomeLocked is how an attempt came to its end without an error when the RPC was
// over, whose own result it does not have: a success if the server has answered the one
// message that there was to send. Else gRPC-Go may have noticed a failure while it
// sent, and it is as if no server had seen the attempt. The caller holds ledger.mu.
func (a *Attempt) silentOutcomeLocked() []codes.Code {
	if a.flags.has(committed) && !a.clientStream {
		return []codes.Code{codes.OK}
	}
	return nil
}

func appendCall(list []func(), f func()) []func() {
	if f == nil {
		return list
	}
	return append(list, f)
}

func call(list []func()) {
	for _, f := range list {
		f()
	}
}
