package attempt

import (
	"io"
	"net"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"
)

// maxRecords is how many attempts a ledger remembers, the latest. Only an
// interceptor that retries for hours makes more.
const maxRecords = 256

// notReported is the message of a failure of which gRPC-Go did not tell.
const notReported = "not reported by grpc-go"

// Route is what a pick passed over on its way: slots of a list, which only the
// picker can put into words.
type Route struct {
	Picker     any  // nil if there was no list to go along
	Start, End int  // the slots from Start to before End
	None       bool // the pick gave no connection though it came to End
	Held       Held
}

// Held is what a pick passed over though it has a host, as sets of slots, and the
// errors of child policies.
type Held struct {
	Full, Resting, Early uint64
	Errs                 any
}

// PassOver notes what the pick of the outermost policy passed over, if only
// nothing: each pick has to say so, since it may not be the attempt's first.
func (a *Attempt) PassOver(picker any, start, end int) {
	if a.depth == 0 {
		a.picker, a.from, a.to = picker, int8(start), int8(end) //nolint:gosec // slots are 64 at the most
	}
}

// HoldBack notes what of that was held back.
func (a *Attempt) HoldBack(h Held) {
	if a.depth == 0 {
		a.mark().held = h
	}
}

// Route is what the pick passed over, for the same callers as Cluster.
func (a *Attempt) Route() Route {
	r := Route{Picker: a.picker, Start: int(a.from), End: int(a.to), None: a.none}
	if m := a.more.Load(); m != nil {
		r.Held = m.held
	}
	return r
}

// Record is what is known of an attempt.
type Record struct {
	*Attempt
	Cluster   string   // that the outermost policy chose last; "" while it picks
	Peer      net.Addr // nil if no stream was opened
	Committed bool     // a response header came
	Start     time.Time
	Duration  time.Duration // until now, if the attempt is not over
	Status    *status.Status
	Route     Route
}

// headerSent is called when the attempt's stream is opened: pickers are done with
// the attempt.
func (a *Attempt) headerSent(e *stats.OutHeader) { a.opened.Store(e) }

// Records returns what is known of the RPC's attempts when it is over, or when one
// of its streams is, with err. What gRPC-Go begins and never picks for is not
// among them. Dropped is how many earlier ones are forgotten.
func (l *Ledger) Records(err error) (records []Record, dropped int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := l.attemptsLocked()
	l.attributeLocked(all, err)
	now := time.Now()
	for i, a := range all {
		r := Record{Attempt: a, Committed: a.flags.has(committed), Start: a.startLocked()}
		opened := a.opened.Load()
		if opened != nil {
			r.Peer = opened.RemoteAddr
		}
		if a.ended != nil || opened != nil {
			// Else a picker may be writing, if streams run at once.
			r.Route = a.Route()
			if c := a.Cluster(); c != nil {
				r.Cluster = c.Name
			}
		}
		end := now
		if a.ended != nil {
			end = a.ended.EndTime
		}
		r.Duration = end.Sub(r.Start)
		r.Status = a.statusLocked(all[i+1:])
		records = append(records, r)
	}
	if l.rare != nil {
		dropped = l.rare.dropped
	}
	return records, dropped
}

// startLocked is when the attempt began, or the zero time if it has not. The caller
// holds ledger.mu.
func (a *Attempt) startLocked() time.Time {
	if a.begun == nil {
		return time.Time{}
	}
	return a.begun.BeginTime
}

// attributeLocked gives err, with which the RPC or a stream of it is over, to those
// attempts of which gRPC-Go has reported no error and that nothing followed: it may
// have noticed a failure while sending. The caller holds ledger.mu.
func (l *Ledger) attributeLocked(all []*Attempt, err error) {
	for head := l.heads; head != nil; head = head.sibling {
		if head.ended != nil && head.outcome != nil && head.outcome.Err != nil && status.Code(head.outcome.Err) == status.Code(err) {
			return // err is that of another stream
		}
	}
	_, isStatus := status.FromError(err)
	for i, a := range all {
		unreported := a.outcome == nil || a.outcome.Err == nil
		switch {
		case a.ended == nil || !unreported || a.succeeded || a.followedBy(all[i+1:]):
		case err == nil || err == io.EOF: //nolint:errorlint // see below
			a.succeeded = true
		case isStatus:
			a.outcome = &Failure{Number: a.number, Err: err, ledger: l}
		case isExhausted(err):
			// gRPC-Go has stopped to retry what a Send has noticed, and may tell
			// more when somebody receives.
			a.outcome = &Failure{Number: a.number, ledger: l}
		}
	}
}

// followedBy tells whether one of these attempts began when this one was over. Then
// this one has failed: nobody tries again after a success, be it gRPC-Go or an
// interceptor.
func (a *Attempt) followedBy(later []*Attempt) bool {
	return slices.ContainsFunc(later, func(b *Attempt) bool { return !b.startLocked().Before(a.ended.EndTime) })
}

// statusLocked is what the attempt came to, if the RPC is over. Later are the
// attempts that began after it. The caller holds ledger.mu.
func (a *Attempt) statusLocked(later []*Attempt) *status.Status {
	switch {
	case a.ended == nil:
		return status.New(codes.Canceled, "not over when the RPC ended")
	case a.outcome != nil:
		return a.outcome.Status()
	case !a.succeeded && a.followedBy(later):
		return status.New(codes.Unknown, notReported)
	default:
		return nil
	}
}

// recorder has records written when they are complete.
type recorder struct {
	ledger *Ledger

	// mu is held while they are written, since streams that run at once also end
	// at once. It guards what follows.
	mu      sync.Mutex
	write   func(err error, complete bool)
	written int // the ledger's events by then; 0 if they may be incomplete
	over    bool
}

// WriteRecords has write called when the RPC ends, with its error, and before that
// whenever a stream of it does, with the stream's, one call at a time. In the last
// call complete tells that there is nothing new but the error: then what was written
// has to be left alone, since somebody may be reading it. Nothing is called when the
// RPC's caller knows that it has ended. It is for Hooks.Started, once, and what it returns
// has to be among the options of the RPC.
func (l *Ledger) WriteRecords(write func(err error, complete bool)) grpc.CallOption {
	r := &recorder{ledger: l, write: write}
	l.specialize().recorder = r
	return grpc.OnFinish(r.streamOver)
}

// streamOver is called by gRPC-Go: within the call that ends the stream, or from a
// goroutine of its own when the context is over, even later than that call returns.
func (r *recorder) streamOver(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.over {
		return
	}
	r.write(err, false)
	if _, ok := status.FromError(err); ok {
		r.written = r.ledger.events()
	}
}

// rpcOver is called before the RPC's caller is told of its end.
func (r *recorder) rpcOver(err error) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.over {
		r.write(err, r.written != 0 && r.written == r.ledger.events())
	}
	r.over = true
}

// events counts the beginnings and ends of attempts.
func (l *Ledger) events() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := 0
	for _, a := range l.attemptsLocked() {
		n++
		if a.ended != nil {
			n++
		}
	}
	return n
}

// attemptsLocked are the attempts that pickers were asked for, in the order in
// which they began. The caller holds ledger.mu.
func (l *Ledger) attemptsLocked() []*Attempt {
	if !l.firstUsed {
		return nil
	}
	all := []*Attempt{&l.first}
	if l.rare != nil {
		all = append(all, l.rare.later...)
	}
	return slices.DeleteFunc(all, func(a *Attempt) bool { return !a.flags.has(picked) })
}

// Method is the full name of the RPC's method.
func (l *Ledger) Method() string { return l.method }

// Composite tells whether the policy "composite" has picked for the RPC, that is for
// an attempt which is remembered.
func (l *Ledger) Composite() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.attemptsLocked()) > 0
}

// Hooks are what the interceptors call, besides counting attempts.
type Hooks struct {
	// Failed returns the error that the caller of a failed RPC is told.
	Failed func(l *Ledger, err error) error
	// Started is called with the call options of an RPC before its first
	// attempt, and returns those that it goes on with, or an error that ends
	// it.
	Started func(l *Ledger, opts []grpc.CallOption) ([]grpc.CallOption, error)
	// Lean counts by the contexts of attempts, without a stats handler.
	Lean bool
}

// takeBack takes back that an attempt was a success, which gRPC-Go has told the
// recorder, so that rpcOver writes what it was.
func (l *Ledger) takeBack(a *Attempt) {
	r := l.recorder()
	if r == nil || a == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.written = 0
	l.mu.Lock()
	defer l.mu.Unlock()
	a.succeeded = false
}
