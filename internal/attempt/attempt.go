package attempt

import (
	"context"
	"slices"
	"sync/atomic"
)

type attemptKey struct{}

// maxDepth is how many policies inside each other an attempt remembers the
// clusters of.
const maxDepth = 4

// Cluster is a cluster as an attempt remembers it.
type Cluster struct {
	Name  string
	Known []string // the names of all clusters in the config
}

// Attempt is one attempt of an RPC, and the context of that attempt.
//
// Its methods but those of a context are for pickers, which gRPC calls one at a
// time for one attempt.
type Attempt struct {
	context.Context // the attempt's context, as gRPC-Go made it

	ledger       *Ledger
	stream       <-chan struct{} // tells client streams apart
	failFast     bool
	clientStream bool // the client sends any number of messages

	// What pickers say, read by the same goroutine, and under ledger.mu when
	// the attempt is over.
	depth    int  // how many pickers of nested policies are at work
	marked   bool // some of what follows path was set
	path     [maxDepth]*Cluster
	pathLen  int
	host     string
	watchers [maxDepth]watcher
	route    Route

	// picked is set by the picker, which takes no lock, and read when the
	// stream's next attempt begins.
	picked  atomic.Bool
	timeout atomic.Pointer[timeout] // nil if none was set

	// The rest is guarded by ledger.mu until the attempt has begun. From then
	// on number, transparent, failure, from and hosts do not change any more.
	number      int
	transparent bool
	failure     *Failure // of the attempt before this one
	from        []usedSlot
	hosts       []string
	begun       bool
	ended       bool
	settled     bool
	outcome     *Failure // how it failed, if it did
	record      record
	previous    *Attempt // of the same stream, until begun
	sibling     *Attempt // the latest attempt of another stream
}

// FromContext returns the attempt that ctx belongs to, or nil if the RPC is not
// tracked.
func FromContext(ctx context.Context) *Attempt {
	if a, ok := ctx.(*Attempt); ok {
		return a
	}
	return fromValue(ctx) // on its own, so that the above is inlined
}

func fromValue(ctx context.Context) *Attempt {
	a, _ := ctx.Value(attemptKey{}).(*Attempt)
	return a
}

// Value returns the attempt itself for this package's key.
func (a *Attempt) Value(key any) any {
	if key == (attemptKey{}) {
		return a
	}
	return a.Context.Value(key)
}

// Number is the attempt's number, 1 for the original request unless WithStart
// said otherwise.
func (a *Attempt) Number() int { return a.number }

// Transparent tells whether the attempt repeats one that no server saw, under
// the same number.
func (a *Attempt) Transparent() bool { return a.transparent }

// FailFast tells whether the RPC fails rather than waits when it finds no host:
// it is false for an RPC that waits for ready.
func (a *Attempt) FailFast() bool { return a.failFast }

// LastFailure is how the attempt before this one failed, or nil if there was
// none.
func (a *Attempt) LastFailure() *Failure { return a.failure }

// Pick says that a picker works for this attempt: the attempt is real. What an
// earlier pick for it set no longer holds.
func (a *Attempt) Pick() {
	if a.marked || !a.picked.Load() {
		a.pick()
	}
}

func (a *Attempt) pick() {
	switch {
	case !a.picked.Load():
		a.picked.Store(true)
		a.ledger.composite.Store(true)
	case a.depth == 0:
		a.marked = false
		a.forget(0)
		a.host = ""
		a.route = Route{}
	}
}

// Discard says that the picker that asks is not going to use what its child has
// picked: what the pickers inside have set no longer holds.
func (a *Attempt) Discard() {
	if a.marked {
		a.forget(a.depth + 1)
	}
}

// forget undoes what pickers have set, from a depth on.
func (a *Attempt) forget(depth int) {
	for i := depth; i < maxDepth; i++ {
		a.watchers[i] = watcher{}
	}
	if t := a.timeout.Load(); t != nil {
		t.cancel()
	}
}

// EnterNested and LeaveNested enclose a call of a child's picker.
func (a *Attempt) EnterNested() { a.depth++ }

// LeaveNested undoes EnterNested.
func (a *Attempt) LeaveNested() { a.depth-- }

// Nested tells whether the picker that asks was called by another one that
// tracks attempts.
func (a *Attempt) Nested() bool { return a.depth > 0 }

// Choose says that the attempt goes to a cluster, until it is called again. The
// picker of a policy inside another one calls it between EnterNested and
// LeaveNested, after the outer one has.
func (a *Attempt) Choose(c *Cluster) {
	if a.depth < maxDepth {
		a.path[a.depth] = c
		a.pathLen = a.depth + 1
	}
}

// Path returns the clusters that the attempt went to: one, and those of policies
// inside its policy, the innermost last. It is empty if no cluster was chosen. It
// may be called when the attempt has been picked for, from within what gRPC calls
// for the attempt.
func (a *Attempt) Path() []*Cluster { return a.path[:a.pathLen] }

// EndRPC makes err what the caller is told if gRPC-Go refuses its code and
// reports INTERNAL in its place (gRFC A54).
func (a *Attempt) EndRPC(err error) {
	l := a.ledger
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.ended) == maxEnded {
		l.ended = slices.Delete(l.ended, 0, 1)
	}
	l.ended = append(l.ended, err)
}
