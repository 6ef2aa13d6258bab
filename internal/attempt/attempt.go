package attempt

import (
	"context"
	"iter"
	"slices"
	"sync/atomic"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/stats"
)

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

	// The goroutine that reads from the connection, on another processor, writes to
	// the attempt's first cache line, which ends with picker, and to no other unless
	// attempts are counted. So what the end of most attempts needs is not there.

	timeout      atomic.Pointer[timeout] // nil if none was set
	flags        flags[attemptFlag]
	failFast     bool
	clientStream bool // the client sends any number of messages

	// What pickers say is written by one after the other, and read by the goroutine
	// they run on, and under ledger.mu when the attempt is over.
	depth   int8     // how many pickers of nested policies are at work
	pathLen int8     // how many clusters were chosen
	cluster *Cluster // that the outermost policy chose

	// Guarded by ledger.mu until the attempt has begun. From then on number,
	// transparent and history do not change any more.
	number int

	// What pickers say of the way to the cluster: see Route.
	picker   any
	from, to int8
	none     bool
	marked   bool // by pickers that have set more than the cluster and the way there

	// What is left is guarded by ledger.mu, as is said above, but for ledger and stream.
	transparent bool
	settled     bool
	counted     bool
	succeeded   bool // known only when the RPC, or its stream, is over

	ledger *Ledger
	stream <-chan struct{} // the context's Done, which tells client streams apart

	// more is set by pickers. It is nil if they have nothing to say that few have.
	more atomic.Pointer[more]
	// opened is set by the goroutine that opens the stream.
	opened atomic.Pointer[stats.OutHeader]

	begun    *stats.Begin // nil until then
	ended    *stats.End   // nil until then
	history  *history     // nil if the attempt is the first
	outcome  *Failure     // how it failed, if it did
	previous *Attempt     // of the same stream, until begun
	sibling  *Attempt     // the latest attempt of another stream
}

// attemptFlag is something that is true of an attempt from some time on.
type attemptFlag uint32

const (
	picked    attemptFlag = 1 << iota // a picker was asked
	counting                          // the policy counts the attempt
	committed                         // a response header came
	late                              // its RPC had no time left when a picker was asked
	leanly                            // it is counted without a stats handler
)

// more is what pickers say of few attempts. It is apart so that the others are
// small: a ledger is all that most RPCs allocate.
type more struct {
	said
	// uses is read when any other attempt begins.
	uses atomic.Pointer[use]
}

// said is what is read when the attempt is over.
type said struct {
	inner    [maxDepth - 1]*Cluster // that policies inside others chose
	watchers [maxDepth]watcher
	held     Held
}

// history is what an attempt knows of those before it.
type history struct {
	failure *Failure // of the one before it
	used    used
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
	a, _ := ctx.Value(attemptKey).(*Attempt)
	return a
}

// ForCredentials returns the attempt that call credentials are asked for, or nil if
// the RPC is not tracked. Lean tells whether it is, without a stats handler, so that
// only pickers find its attempts.
func ForCredentials(ctx context.Context) (a *Attempt, lean bool) {
	info, ok := credentials.RequestInfoFromContext(ctx)
	switch v := ctx.Value(attemptKey).(type) {
	case *Attempt:
		if !ok || !v.isAround(ctx, info.Method) {
			return v, false
		}
	case *Ledger:
		return nil, v.lean && (!ok || v.calls(info.Method))
	}
	return nil, false
}

// isAround tells whether ctx belongs to another RPC, of a method, that is made while
// the attempt, which has been picked for, is under way: by its credentials, for
// instance.
func (a *Attempt) isAround(ctx context.Context, method string) bool {
	return a.flags.has(picked) && !a.ledger.calls(method) && ctx.Done() != a.Done()
}

// Value returns the attempt itself for this package's key.
func (a *Attempt) Value(key any) any {
	if k, ok := key.(contextKey); ok && k == attemptKey { // faster than a comparison of interfaces
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
func (a *Attempt) FailFast() bool {
	if a.Lean() {
		return a.ledger.leanFailFast()
	}
	return a.failFast
}

// LastFailure is how the attempt before this one failed, or nil if there was
// none.
func (a *Attempt) LastFailure() *Failure {
	if a.history == nil {
		return nil
	}
	return a.history.failure
}

// Pick says that a picker works for this attempt: the attempt is real. What an
// earlier pick for it set no longer holds.
func (a *Attempt) Pick() {
	if a.marked || a.flags.word.Load()&uint32(picked) == 0 { // as has, and small enough to be inlined
		a.pick()
	}
}

func (a *Attempt) pick() {
	switch {
	case !a.flags.has(picked):
		a.flags.set(picked)
	case a.depth == 0:
		a.marked, a.none = false, false
		a.forget(0, nil)
		a.pathLen, a.picker, a.from, a.to = 0, nil, 0, 0
		if m := a.more.Load(); m != nil {
			m.said = said{}
		}
	}
}

// Discard says that the picker that asks is not going to use what its child has
// picked: what the pickers inside have set no longer holds, but where they found no host.
func (a *Attempt) Discard() {
	if a.marked {
		a.forget(int(a.depth)+1, a.uses().inVain())
	}
}

// forget undoes what pickers have set, from a depth on, and leaves these uses.
func (a *Attempt) forget(depth int, uses *use) {
	if m := a.more.Load(); m != nil {
		if depth < maxDepth {
			clear(m.watchers[depth:])
		}
		m.uses.Store(uses) // an outer picker notes its own last
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
	switch {
	case a.depth == 0:
		a.cluster = c
	case a.depth < maxDepth:
		a.mark().inner[a.depth-1] = c
	default:
		return
	}
	a.pathLen = a.depth + 1
}

// mark returns what the pickers of few attempts say, for one that has something
// to say.
func (a *Attempt) mark() *more {
	a.marked = true
	m := a.more.Load()
	if m == nil {
		m = new(more)
		a.more.Store(m)
	}
	return m
}

// Cluster returns the cluster that the outermost policy chose, or nil if it chose
// none. It may be called when the attempt has been picked for, from within what
// gRPC calls for the attempt.
func (a *Attempt) Cluster() *Cluster {
	if a.pathLen == 0 {
		return nil
	}
	return a.cluster
}

// Clusters returns that cluster and those of policies inside its policy, the
// innermost first, to the same callers.
func (a *Attempt) Clusters() iter.Seq[*Cluster] {
	return func(yield func(*Cluster) bool) {
		for i := a.pathLen - 1; i > 0; i-- {
			if !yield(a.more.Load().inner[i-1]) {
				return
			}
		}
		if a.pathLen > 0 {
			yield(a.cluster)
		}
	}
}

// EndRPC makes err what the caller is told if gRPC-Go refuses its code and
// reports INTERNAL in its place (gRFC A54).
func (a *Attempt) EndRPC(err error) {
	l := a.ledger
	l.mu.Lock()
	defer l.mu.Unlock()
	rare := l.rareLocked()
	if len(rare.ended) == maxEnded {
		rare.ended = slices.Delete(rare.ended, 0, 1)
	}
	rare.ended = append(rare.ended, err)
}
