package attempt

import (
	"net"
	"slices"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/stats"
)

// maxRecords is how many attempts a ledger remembers, the latest. Only an
// interceptor that retries for hours makes more.
const maxRecords = 256

// Route is what a pick passed over on its way: slots of a list, which only the
// picker can put into words.
type Route struct {
	Picker     any
	Start, End int // the slots from Start to before End
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
	if a.depth == 0 && (start != end || a.route.Picker != nil) {
		a.route.Picker, a.route.Start, a.route.End = picker, start, end
	}
}

// HoldBack notes what of that was held back.
func (a *Attempt) HoldBack(h Held) {
	if a.depth == 0 {
		a.marked = true
		a.route.Held = h
	}
}

// Record is what is known of an attempt.
type Record struct {
	*Attempt
	Peer      net.Addr // nil if no stream was opened
	Committed bool     // a response header came
	Start     time.Time
	Duration  time.Duration // until now, if the attempt is not over
	Code      codes.Code
	Message   string
	Route     Route
}

// record is the part of an attempt that only its record needs. It is guarded by
// ledger.mu.
type record struct {
	start     time.Time
	end       time.Time // zero until then
	peer      net.Addr
	committed bool
}

// headerSent is called when the attempt's stream is opened.
func (a *Attempt) headerSent(e *stats.OutHeader) {
	a.ledger.mu.Lock()
	defer a.ledger.mu.Unlock()
	a.record.peer = e.RemoteAddr
}

// Records returns what is known of the attempts of an RPC that is over with this
// code and message, which are the last attempt's. What gRPC-Go begins and never
// picks for is not among them. Dropped is how many earlier ones are forgotten.
func (l *Ledger) Records(code codes.Code, message string) (records []Record, dropped int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.firstUsed {
		return nil, 0
	}
	all := append([]*Attempt{&l.first}, l.later...)
	all = slices.DeleteFunc(all, func(a *Attempt) bool { return !a.picked.Load() })
	for i, a := range all {
		r := Record{Attempt: a, Peer: a.record.peer, Committed: a.record.committed, Start: a.record.start, Route: a.route}
		end := a.record.end
		if end.IsZero() {
			end = time.Now()
		}
		r.Duration = end.Sub(a.record.start)
		switch {
		case a.outcome != nil:
			s := a.outcome.Status()
			r.Code, r.Message = s.Code(), s.Message()
		case i == len(all)-1:
			r.Code, r.Message = code, message
		}
		records = append(records, r)
	}
	return records, l.dropped
}

// Composite tells whether the policy "composite" has picked for the RPC.
func (l *Ledger) Composite() bool { return l.composite.Load() }

// Hooks are what the interceptors call, besides counting attempts.
type Hooks struct {
	// Failed returns the error that the caller of a failed RPC is told.
	Failed func(l *Ledger, err error) error
	// Started is called with the call options of an RPC before its first
	// attempt.
	Started func(l *Ledger, opts []grpc.CallOption) []grpc.CallOption
}
