package attempt

import (
	"io"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Observer is told how attempts end, once for each.
type Observer interface {
	// Settle is called from any goroutine, with what Observe was given. It must
	// not call this package.
	Settle(token uint64, code codes.Code)
}

// watcher is an observer, with what it is told.
type watcher struct {
	observer Observer
	token    uint64
}

// Observe has o told how the attempt ends: one observer for each policy inside
// another.
//
// It is told when that is settled: at the attempt's end if gRPC-Go reports an
// error then; otherwise when the next attempt of the stream begins, which shows
// that this one failed, or when the RPC ends, whose status it then has.
func (a *Attempt) Observe(o Observer, token uint64) {
	if a.depth < maxDepth {
		a.marked = true
		a.watchers[a.depth] = watcher{o, token}
		a.ledger.observed.Store(true)
	}
}

// observed tells whether anybody may want to know how the attempt ends. The
// caller holds ledger.mu, and may be about another stream: as long as the attempt
// has not ended, its picker may be at work, and what it writes is its own.
func (a *Attempt) observed() bool {
	if !a.ended {
		return a.picked.Load() && a.ledger.observed.Load()
	}
	return a.watchers != [maxDepth]watcher{}
}

// settle returns what tells the observers, or nil if there are none. The caller
// holds ledger.mu, and calls the result after it has let go of it.
func (a *Attempt) settle(code codes.Code) func() {
	if a.settled || !a.observed() {
		return nil
	}
	a.settled = true
	watchers := a.watchers
	return func() {
		for _, w := range watchers {
			if w.observer != nil {
				w.observer.Settle(w.token, code)
			}
		}
	}
}

// finish settles the attempts that ended without an error, by the RPC's own
// result: only now is it known that no other follows them.
func (l *Ledger) finish(err error) {
	if !l.observed.Load() {
		return
	}
	code := codes.OK
	if err != nil && err != io.EOF { //nolint:errorlint // gRPC-Go wraps io.EOF where it does not know how an attempt failed
		code = status.Code(err)
	}
	var tell []func()
	l.mu.Lock()
	for a := l.heads; a != nil; a = a.sibling {
		if a.ended {
			tell = appendCall(tell, a.settle(code))
		}
	}
	l.mu.Unlock()
	call(tell)
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
