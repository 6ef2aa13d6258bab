package attempt

import (
	"context"
	"fmt"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"
)

// FuzzNumbers has a few client streams of one RPC take turns as gRPC-Go's do,
// and compares what the ledger makes of their events with what is true: the
// simulation knows why each attempt begins, the ledger has to find out.
//
// The first byte is the start and the number of stats handlers. Each further
// byte is an event: the low bits say of which stream, the high bits which of
// those that are possible.
func FuzzNumbers(f *testing.F) {
	const (
		first  = 0 // a stream's only possible event at the beginning: open
		second = 4 // the second possible event, of the first stream
		third  = 8
	)
	f.Add([]byte{1})
	f.Add([]byte{1, first, first, first, first, first, first})                                // retries by the policy
	f.Add([]byte{1, first, second, second, second, second})                                   // failed picks, begun twice
	f.Add([]byte{1, first, first, first, third, first, first, third, first, first})           // transparent retries
	f.Add([]byte{1, first, first, first, 12, first, first, first, 12, first})                 // and begun twice
	f.Add([]byte{1, first, first, 8, 0, first, first, 12, first, first})                      // noticed by Send
	f.Add([]byte{0x85, 0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13}) // hedging
	f.Add([]byte{1, 0, 0, 16, 0, 0, 16, 0, 0, 16, 1, 1, 17})                                  // one stream after another
	f.Add([]byte("interleaved at random, with two stats handlers"))
	cc := channel(f, "UNAVAILABLE")
	f.Fuzz(func(t *testing.T, script []byte) {
		if len(script) == 0 || len(script) > 100 {
			return
		}
		s := newSimulation(t, cc, int(script[0]&0x3f), 1+int(script[0]>>7))
		defer s.close()
		for _, b := range script[1:] {
			s.event(&s.streams[b&3], int(b>>2))
		}
		s.checkRow()
	})
}

// simulation is an RPC as gRPC-Go runs it, and what is true of it.
type simulation struct {
	t        *testing.T
	ledger   *Ledger
	handlers int
	streams  [4]simStream

	start, next int
	row         []int       // the numbers of the attempts that are real and new
	settled     *simFailure // how the attempt that was settled last failed
}

// simStream is a client stream.
type simStream struct {
	phase   simPhase
	ctx     context.Context
	cancel  context.CancelFunc
	attempt context.Context

	number      int
	transparent bool
	before      *simFailure // how the attempt before this one failed
	outcome     *simFailure // how this one did, nil if that was not reported
}

type simPhase int

const (
	simClosed simPhase = iota
	simBegun           // and not picked for
	simPicked
	simEnded // and about to be retried
	simTwice // begun, and about to be begun again instead of being picked for
)

// simFailure is an attempt's error; code is OK if it was not reported.
type simFailure struct {
	number int
	code   codes.Code
}

func newSimulation(t *testing.T, cc *grpc.ClientConn, start, handlers int) *simulation {
	t.Helper()
	_, l, _ := open(WithStart(context.Background(), start), cc, method, opener)
	return &simulation{t: t, ledger: l, handlers: handlers, start: start, next: start}
}

func (s *simulation) close() {
	for i := range s.streams {
		if s.streams[i].cancel != nil {
			s.streams[i].cancel()
		}
	}
}

// event has the n-th event happen of those that are possible now.
func (s *simulation) event(st *simStream, n int) {
	possible := map[simPhase][]func(*simStream){
		simClosed: {s.open},
		simBegun:  {s.pick, s.failPick, s.giveUp},
		simPicked: {s.fail, s.pick, s.failInSend, s.finish, s.giveUp},
		simEnded:  {s.retry, s.retryTwice, s.retryTransparently, s.retryTransparentlyTwice, s.exhaust},
		simTwice:  {s.beginAgain},
	}[st.phase]
	possible[n%len(possible)](st)
}

func (s *simulation) open(st *simStream) {
	*st = simStream{before: s.settled}
	st.ctx, st.cancel = context.WithCancel(s.ledger)
	s.number(st)
	s.begin(st, false)
}

func (s *simulation) pick(st *simStream) {
	FromContext(st.attempt).Pick()
	st.phase = simPicked
}

func (s *simulation) failPick(st *simStream) {
	s.pick(st)
	s.fail(st)
}

func (s *simulation) fail(st *simStream) {
	code := codes.Unavailable
	if st.number%2 == 0 {
		code = codes.Aborted
	}
	s.end(st, &simFailure{st.number, code})
}

func (s *simulation) failInSend(st *simStream) { s.end(st, nil) }

// finish is a success.
func (s *simulation) finish(st *simStream) {
	s.end(st, nil)
	s.exhaust(st)
}

func (s *simulation) giveUp(st *simStream) {
	st.cancel()
	s.end(st, &simFailure{st.number, codes.Canceled})
	s.exhaust(st)
}

// exhaust closes the stream after an attempt that is not retried.
func (s *simulation) exhaust(st *simStream) {
	st.cancel()
	st.phase = simClosed
}

func (s *simulation) retry(st *simStream) {
	st.before, st.transparent = st.outcome, false
	if st.before == nil {
		st.before = &simFailure{number: st.number}
	}
	s.settled = st.before
	s.number(st)
	s.begin(st, false)
}

func (s *simulation) retryTwice(st *simStream) {
	s.retry(st)
	st.phase = simTwice
}

func (s *simulation) retryTransparently(st *simStream) {
	st.transparent = true
	s.begin(st, true)
}

func (s *simulation) retryTransparentlyTwice(st *simStream) {
	s.retryTransparently(st)
	st.phase = simTwice
}

func (s *simulation) beginAgain(st *simStream) { s.begin(st, false) }

// number gives a new attempt its number.
func (s *simulation) number(st *simStream) {
	st.number = s.next
	s.next++
}

// begin makes the events of an attempt that begins, and compares the ledger with
// the truth.
func (s *simulation) begin(st *simStream, transparent bool) {
	h := StatsHandler()
	st.attempt = st.ctx
	for range s.handlers {
		st.attempt = h.TagRPC(st.attempt, &stats.RPCTagInfo{FullMethodName: method})
	}
	for range s.handlers {
		h.HandleRPC(st.attempt, &stats.Begin{IsTransparentRetryAttempt: transparent})
	}
	st.phase, st.outcome = simBegun, nil

	a := FromContext(st.attempt)
	if a.Number() != st.number || a.Transparent() != st.transparent || describe(a.LastFailure()) != st.before.describe() {
		s.t.Fatalf("attempt %d, transparent %v, after %s: want %d, %v, %s",
			a.Number(), a.Transparent(), describe(a.LastFailure()), st.number, st.transparent, st.before.describe())
	}
	if len(s.row) == 0 || a.Number() > s.row[len(s.row)-1] {
		s.row = append(s.row, a.Number())
	}
	s.checkHeads()
}

func (s *simulation) end(st *simStream, failure *simFailure) {
	var err error
	if failure != nil {
		err = status.Error(failure.code, "scripted")
	}
	for range s.handlers {
		StatsHandler().HandleRPC(st.attempt, &stats.End{Error: err})
	}
	st.phase, st.outcome, s.settled = simEnded, failure, failure
}

// checkRow checks that the numbers begin at the start and leave none out.
func (s *simulation) checkRow() {
	for i, n := range s.row {
		if n != s.start+i {
			s.t.Fatalf("numbers %v: want them from %d on without a gap", s.row, s.start)
		}
	}
}

// checkHeads checks that the ledger keeps nothing of streams that are over.
func (s *simulation) checkHeads() {
	open := 0
	for i := range s.streams {
		if st := &s.streams[i]; st.ctx != nil && st.ctx.Err() == nil {
			open++
		}
	}
	heads := 0
	for a := s.ledger.heads; a != nil; a = a.sibling {
		heads++
	}
	if heads != open {
		s.t.Fatalf("the ledger keeps %d streams, and %d are open", heads, open)
	}
}

func (f *simFailure) describe() string {
	switch {
	case f == nil:
		return "none"
	case f.code == codes.OK:
		return fmt.Sprintf("%d: not reported", f.number)
	default:
		return fmt.Sprintf("%d: %v", f.number, f.code)
	}
}

func describe(f *Failure) string {
	switch {
	case f == nil:
		return "none"
	case f.Err == nil:
		return fmt.Sprintf("%d: not reported", f.Number)
	default:
		return fmt.Sprintf("%d: %v", f.Number, status.Code(f.Err))
	}
}
