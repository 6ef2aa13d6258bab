package attempt

import (
	"context"
	"errors"
	"io"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"
)

// contextKey is the type of all keys of this package's context values, so that a
// lookup of any other key passes with one comparison. Values are answered by the
// types of this package themselves: stamping costs no allocation.
type contextKey uint8

const (
	attemptKey contextKey = iota // the attempt, or before there is one the RPC's ledger
	openKey                      // what an interceptor that opens a ledger has to know
)

// maxEnded is how many pickers' errors a ledger remembers. There is one for each
// stream that runs at once, and an interceptor that hedges runs no more.
const maxEnded = 64

// maxMethods is how many methods a ledger remembers that an interceptor has put in place
// of the RPC's own.
const maxMethods = 16

// maxSilent is how many streams that are over a ledger keeps in mind because it is not
// known how their last attempts have ended.
const maxSilent = 64

// Ledger numbers the attempts of one RPC, as an interceptor sees an RPC: all
// streams that are opened below that interceptor share it. It is the context of
// the RPC and its methods are safe for concurrent use.
//
// A ledger fills four lines of a processor's cache: what fills more of them slows
// down every RPC.
type Ledger struct {
	// first is the first attempt. Most RPCs have no other, and so need no
	// allocation but the ledger's. It is where a cache line begins.
	first Attempt

	context.Context // the RPC's context, as the interceptor got it

	cc      *grpc.ClientConn
	method  string
	special *special      // nil for most
	by      *Interceptors // that opened it

	messages atomic.Int64 // that the client has sent on its stream
	flags    flags[ledgerFlag]
	lean     bool     // there is no stats handler
	failFast tristate // of a lean RPC: what its options say

	// mu guards everything below, and firstUsed. It is held for a few instructions
	// at a time, when an attempt begins or ends. A pick takes it only if it ends the
	// RPC, or counts without a stats handler.
	firstUsed bool
	mu        sync.Mutex
	next      int      // the number of the next new attempt
	heads     *Attempt // the latest attempt of each stream, linked by sibling
	rare      *rare    // nil as long as nothing of it is needed
}

// ledgerFlag is something that is true of an RPC from some time on.
type ledgerFlag uint32

const (
	halfClosed ledgerFlag = 1 << iota // the client has sent its last message
	observed                          // some attempt has an observer
	counts                            // the policy counts attempts
	timed                             // some attempt has a timeout
	over                              // the RPC is, though streams of it may not be
)

// rare is what only RPCs need that do not succeed at once. It is guarded by
// Ledger.mu.
type rare struct {
	// failure is how the attempt that was settled last failed; nil if none
	// has, or if the last one did not fail.
	failure *Failure
	// ended are the errors that pickers ended streams of the RPC with, the
	// latest maxEnded of them. gRPC may not let their codes through.
	ended []error
	// methods are those of attempts that are not the ledger's, the latest maxMethods of them.
	methods []string
	// expired is the last attempt whose time was over.
	expired *Attempt
	used    used       // by attempts that are over, or followed by another one
	later   []*Attempt // the latest maxRecords of those after the first
	dropped int        // how many there were before
}

// rareLocked returns what is rarely needed, for one that needs it. The caller
// holds l.mu.
func (l *Ledger) rareLocked() *rare {
	if l.rare == nil {
		l.rare = new(rare)
	}
	return l.rare
}

// open returns the context and the ledger for an RPC on cc: a new ledger, or the one
// that ctx already carries if other interceptors of the channel opened it, which found
// tells: dial options were given twice, and the RPC is the same, or one of several that an
// interceptor between makes of it. If the same interceptors did, the RPC is another, which
// an interceptor makes on the way. Of a new ledger most is not read: its memory is still
// on its way to the processor.
func open(ctx context.Context, cc *grpc.ClientConn, method string, by *Interceptors) (_ context.Context, _ *Ledger, found bool) {
	l := &Ledger{Context: ctx, cc: cc, method: method, by: by, next: 1}
	switch outer := ctx.Value(openKey).(type) {
	case *Ledger:
		if outer.by != by && outer.cc == cc {
			return ctx, outer, true
		}
	case *request:
		l.ask(outer)
	}
	return l, l, false
}

// Value hides what belongs to the channels outside this RPC: their attempts, and
// the start and the list that the caller gave for this RPC only. A call made on another
// channel from inside this RPC must not inherit either.
func (l *Ledger) Value(key any) any {
	if _, ok := key.(contextKey); ok {
		return l
	}
	return l.Context.Value(key)
}

// calls tells whether the RPC's attempts call a method: the interceptor's, or what
// another one after it has made of that.
func (l *Ledger) calls(method string) bool {
	if method == l.method {
		return true
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.rare != nil && slices.Contains(l.rare.methods, method)
}

// tag makes the attempt of a method of which ctx is the context. It has no number until
// it begins.
func (l *Ledger) tag(ctx context.Context, method string, failFast bool) *Attempt {
	l.mu.Lock()
	a, tell := l.tagLocked(ctx, method, failFast)
	l.mu.Unlock()
	call(tell)
	return a
}

// tagLocked is tag. The caller holds l.mu, and calls what it gets when it has let go of
// it; so it is with beginLocked and endLocked.
func (l *Ledger) tagLocked(ctx context.Context, method string, failFast bool) (_ *Attempt, tell []func()) {
	if method != l.method {
		l.rareLocked().noteMethod(method)
	}
	a := &l.first
	if l.firstUsed {
		a = new(Attempt)
		rare := l.rareLocked()
		if len(rare.later) == maxRecords {
			rare.later = slices.Delete(rare.later, 0, 1)
			rare.dropped++
		}
		rare.later = append(rare.later, a)
	}
	l.firstUsed = true
	a.Context = ctx
	a.ledger = l
	a.stream = ctx.Done()
	a.failFast = failFast
	a.previous, tell = l.detach(a.stream)
	a.sibling, l.heads = l.heads, a
	return a, tell
}

// detach removes the latest attempt of stream from the list of heads and
// returns it, or nil if the stream has none. Streams that are over are dropped
// on the way, so that an interceptor which retries for hours does not make the
// list grow, and what became of their last attempts is settled. The caller holds
// l.mu, and calls what it gets when it has let go of it.
func (l *Ledger) detach(stream <-chan struct{}) (found *Attempt, tell []func()) {
	silent := 0
	for link := &l.heads; *link != nil; {
		head := *link
		switch {
		case head.stream == stream:
			found = head
			*link = head.sibling
		case !isClosed(head.stream), head.ended == nil && !head.settled && head.observed():
			link = &head.sibling
		case !head.settled && head.observed() && head.outcome == nil && head.silentOutcomeLocked() == nil && silent < maxSilent:
			silent++ // the RPC's own result may tell
			link = &head.sibling
		default:
			if head.ended != nil {
				tell = appendCall(tell, l.settleLocked(head))
			}
			l.useSlotsLocked(head)
			*link = head.sibling
		}
	}
	return found, tell
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// begin gives the attempt its number. Further calls for the same attempt change
// nothing: they come from a second stats handler.
func (l *Ledger) begin(a *Attempt, e *stats.Begin) {
	l.mu.Lock()
	tell := l.beginLocked(a, e)
	l.mu.Unlock()
	if tell != nil {
		tell()
	}
}

func (l *Ledger) beginLocked(a *Attempt, e *stats.Begin) (tell func()) {
	if a.begun != nil {
		return nil
	}
	a.begun = e
	a.clientStream = e.IsClientStream
	prev := a.previous
	a.previous = nil
	switch {
	case prev == nil:
		// The first attempt of its stream.
		a.number = l.advance()
	case e.IsTransparentRetryAttempt, prev.ended == nil && !prev.flags.has(picked):
		// The server never saw prev, or prev is the first of an attempt that
		// gRPC-Go begins twice. The second of such a pair does not say that it
		// is transparent. The first gets no end.
		if t := prev.timeout.Load(); t != nil {
			t.end()
		}
		a.number = prev.number
		a.history = prev.history
		a.transparent = e.IsTransparentRetryAttempt || prev.transparent
		return prev.settle(nil)
	default:
		// The retry policy goes on, so prev failed, whatever its end said.
		a.number = l.advance()
		if prev.outcome == nil {
			prev.outcome = &Failure{Number: prev.number, ledger: l}
		}
		l.rareLocked().failure = prev.outcome
		prev.countLocked()
		tell = prev.settle(prev.verdictLocked())
		l.useSlotsLocked(prev)
	}
	if l.rare != nil { // else it is the first of all
		a.history = l.historyLocked()
	}
	return tell
}

// noteMethod notes that an attempt calls another method than the RPC's own.
func (r *rare) noteMethod(method string) {
	if slices.Contains(r.methods, method) {
		return
	}
	if len(r.methods) == maxMethods {
		r.methods = slices.Delete(r.methods, 0, 1)
	}
	r.methods = append(r.methods, method)
}

// historyLocked is what an attempt that begins now knows of those before it, of which
// there is one. The caller holds l.mu.
func (l *Ledger) historyLocked() *history {
	used, failure := l.usedLocked(), l.rare.failure
	if failure == nil && used.slots == nil && used.hosts == nil {
		return nil
	}
	return &history{failure: failure, used: used}
}

// advance returns the number of a new attempt. The caller holds l.mu.
func (l *Ledger) advance() int {
	n := l.next
	if n < math.MaxInt {
		l.next++
	}
	return n
}

// end records how the attempt came to its end, as far as gRPC-Go says: with err, which
// e has if a stats handler was told.
func (l *Ledger) end(a *Attempt, e *stats.End, err error) {
	l.mu.Lock()
	tell := l.endLocked(a, e, err)
	l.mu.Unlock()
	if tell != nil {
		tell()
	}
	if l.flags.has(timed) {
		if t := a.timeout.Load(); t != nil {
			t.end()
		}
	}
}

func (l *Ledger) endLocked(a *Attempt, e *stats.End, err error) (tell func()) {
	if a.ended != nil {
		return nil
	}
	a.ended = e
	l.useHostLocked(a)
	if err != nil {
		err = l.restoreLocked(err)
		if expiry := a.expiry(); expiry != nil && status.Code(err) == codes.DeadlineExceeded {
			err = expiry
			l.rareLocked().expired = a
		}
		a.outcome = &Failure{Number: a.number, Err: err, ledger: l}
	}
	if a.outcome != nil || l.rare != nil {
		l.rareLocked().failure = a.outcome
	}
	isOver := l.flags.has(over)
	switch closed := isClosed(a.stream); {
	case closed && (a.outcome != nil || isOver):
		return l.settleLocked(a) // no other follows
	case closed:
		a.countLocked() // the RPC's own result tells how it has ended
	case isOver && l.flags.has(counts|observed):
		l.awaitClose(a)
	}
	return nil
}

// Retried tells whether the RPC has had more than one attempt.
func (l *Ledger) Retried() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.rare != nil && len(l.rare.later) > 0
}

// result ends the RPC, and returns what its caller is told instead of err.
func (l *Ledger) result(err error) error {
	l.finish(err)
	if err != nil {
		l.mu.Lock()
		err = l.explainLocked(l.restoreLocked(err))
		l.mu.Unlock()
	}
	l.recorder().rpcOver(err)
	if err == nil || l.by.Failed == nil || errors.Is(err, io.EOF) || !l.Composite() {
		return err
	}
	return l.by.Failed(l, err)
}

// restoreLocked returns the picker's error that gRPC-Go replaced by err, or err
// itself if it is no such replacement. The caller holds l.mu.
func (l *Ledger) restoreLocked(err error) error {
	if l.rare == nil {
		return err
	}
	for _, ended := range slices.Backward(l.rare.ended) {
		if isReplacement(err, ended) {
			return ended
		}
	}
	return err
}

// explainLocked returns the RPC's error with the words of an attempt that took too
// long, if that is what ended the RPC. gRPC-Go knows no more than that a context's
// time was over, and says the same if it was the RPC's own, as happens in a
// back-off. The caller holds l.mu.
func (l *Ledger) explainLocked(err error) error {
	if l.rare == nil {
		return err
	}
	a := l.rare.expired
	if a == nil || l.rare.failure != a.outcome || status.Code(err) != codes.DeadlineExceeded || a.Context.Err() == context.DeadlineExceeded {
		return err
	}
	words := a.outcome.Err.Error()
	text := strings.Replace(err.Error(), status.FromContextError(context.DeadlineExceeded).Err().Error(), words, 1)
	if text == words {
		return a.outcome.Err
	}
	return &explained{text, a.outcome.Err}
}

// explained is an error of gRPC-Go's that quotes an attempt's, which it unwraps to
// as gRPC-Go's does.
type explained struct {
	text string
	err  error
}

func (e *explained) Error() string { return e.text }

func (e *explained) Unwrap() error { return e.err }

// Failure is how an attempt failed.
type Failure struct {
	// Number is the attempt's number.
	Number int
	// Err is its error, or nil if gRPC-Go did not report one: when it notices
	// a failure while sending, it ends the attempt like a success.
	Err error

	ledger *Ledger
}

// Status returns the failure's status. Where gRPC-Go reported none, the code is
// the only one that the retry policy goes on from, or else UNKNOWN.
func (f *Failure) Status() *status.Status {
	if f.Err != nil {
		return status.Convert(f.Err)
	}
	return status.New(f.ledger.onlyRetryableCode(), notReported)
}

// oneOf are the codes of which one is the failure's.
func (f *Failure) oneOf() []codes.Code {
	if f.Err != nil {
		return []codes.Code{status.Code(f.Err)}
	}
	return f.ledger.retryableCodes()
}
