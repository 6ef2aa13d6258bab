package attempt

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"
)

// timedAttempt is an attempt that a test leads through its life, within a bubble,
// by steps with a semicolon between them:
//
//	pick              a picker works for the attempt
//	limit 100ms       and gives it a limit
//	derive            somebody derives a context
//	send              the client sends a message, and so does the attempt
//	close send        the client half-closes
//	repeat            the attempt sends a message that an earlier one has sent
//	header            the response begins
//	trailer           a response that is no more than a status comes
//	end               the attempt ends
//	cancel            the caller cancels the RPC
//	1s                time goes by
type timedAttempt struct {
	t       *testing.T
	attempt *Attempt
	ledger  *Ledger
	start   time.Time
	cancel  context.CancelFunc
	derived context.Context
}

// rpcTime is the deadline of the RPCs that timed attempts belong to.
const rpcTime = time.Minute

// newTimed begins an attempt of an RPC whose client has sent some messages
// before. With stream set it may send any number.
func newTimed(t *testing.T, stream bool, sent int64) *timedAttempt {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), rpcTime)
	rpc, l, _ := open(ctx, nil, method, opener)
	l.messages.Store(sent)
	h := StatsHandler()
	tagged := h.TagRPC(rpc, &stats.RPCTagInfo{FullMethodName: method, FailFast: true})
	h.HandleRPC(tagged, &stats.Begin{Client: true, IsClientStream: stream})
	return &timedAttempt{t: t, attempt: FromContext(tagged), ledger: l, start: time.Now(), cancel: cancel}
}

func (ta *timedAttempt) run(steps string) {
	ta.t.Helper()
	for step := range strings.SplitSeq(steps, ";") {
		ta.step(strings.TrimSpace(step))
		synctest.Wait()
		ta.checkContract(step)
	}
}

func (ta *timedAttempt) step(step string) {
	ta.t.Helper()
	a, h := ta.attempt, StatsHandler()
	verb, arg, _ := strings.Cut(step, " ")
	switch {
	case step == "pick":
		a.Pick()
	case verb == "limit":
		a.SetTimeout(&Limit{After: parseDuration(arg), Cluster: "of " + arg})
	case step == "derive":
		ctx, cancel := context.WithCancel(a)
		ta.t.Cleanup(cancel)
		ta.derived = ctx
	case step == "send":
		h.HandleRPC(a, &stats.OutPayload{Client: true})
		ta.ledger.messages.Add(1)
	case step == "close send":
		ta.ledger.halfClose()
	case step == "repeat":
		h.HandleRPC(a, &stats.OutPayload{Client: true})
	case step == "header":
		h.HandleRPC(a, &stats.InHeader{Client: true})
	case step == "trailer":
		h.HandleRPC(a, &stats.InTrailer{Client: true})
	case step == "end":
		h.HandleRPC(a, &stats.End{Client: true, Error: status.FromContextError(a.Err()).Err()})
	case step == "cancel":
		ta.cancel()
	default:
		time.Sleep(parseDuration(step))
	}
}

func parseDuration(text string) time.Duration {
	d, err := time.ParseDuration(text)
	if err != nil {
		panic(err) // a test's own mistake
	}
	return d
}

// checkContract checks what holds for every context.
func (ta *timedAttempt) checkContract(step string) {
	ta.t.Helper()
	a := ta.attempt
	if err := a.Err(); (err != nil) != isClosed(a.Done()) {
		ta.t.Errorf("after %q: Done is closed: %v, and Err is %v", step, isClosed(a.Done()), err)
	}
	if deadline, ok := a.Deadline(); !ok || !deadline.Equal(ta.start.Add(rpcTime)) {
		ta.t.Errorf("after %q: deadline %v, %v: want that of the RPC", step, deadline, ok)
	}
	if ta.derived != nil && (ta.derived.Err() != nil) != (a.Err() != nil) {
		ta.t.Errorf("after %q: Err of the derived context is %v, and of the attempt %v", step, ta.derived.Err(), a.Err())
	}
}

// fate waits until the attempt's context ends, and says when and how.
func (ta *timedAttempt) fate() string {
	<-ta.attempt.Done()
	err := ta.attempt.Err()
	at := time.Since(ta.start)
	synctest.Wait()
	ta.checkContract("the end")
	if cause := context.Cause(ta.attempt); !errors.Is(cause, err) {
		ta.t.Errorf("the cause is %v, and Err is %v", cause, err)
	}
	text := fmt.Sprintf("%v: %v", at, err)
	if expiry := ta.attempt.expiry(); expiry != nil {
		if err != context.DeadlineExceeded { //nolint:errorlint // gRPC-Go wants no other
			ta.t.Errorf("Err is %#v: want context.DeadlineExceeded", err)
		}
		text += ": " + status.Convert(expiry).Message()
	}
	ta.cancel()
	synctest.Wait()
	if again := ta.attempt.Err(); !errors.Is(again, err) {
		ta.t.Errorf("Err is %v after it was %v", again, err)
	}
	return text
}

// TestTimeout checks when an attempt's context ends, and how.
func TestTimeout(t *testing.T) {
	over := func(at, limit string) string {
		return fmt.Sprintf("%s: context deadline exceeded: composite: attempt 1: cluster %q took longer than its attemptTimeout of %s", at, "of "+limit, limit)
	}
	const deadline, cancelled = "1m0s: context deadline exceeded", "context canceled"
	for _, tc := range []struct {
		name   string
		stream bool  // the client sends a stream of messages
		sent   int64 // messages, by earlier attempts
		steps  string
		want   string
	}{
		{name: "no limit", steps: "pick", want: deadline},
		{name: "a limit", steps: "pick; limit 100ms", want: over("100ms", "100ms")},
		{name: "a limit that is longer than the RPC's", steps: "pick; limit 2m", want: deadline},
		{name: "the time before the pick counts not", steps: "1s; pick; limit 100ms", want: over("1.1s", "100ms")},
		{name: "the time before the pick counts not, somebody looks", steps: "derive; 1s; pick; limit 100ms", want: over("1.1s", "100ms")},
		{name: "no limit, somebody looks before the pick", steps: "derive; 1s; pick", want: deadline},
		{name: "somebody derives a context after the pick", steps: "pick; limit 100ms; derive", want: over("100ms", "100ms")},

		{name: "a header in time", steps: "pick; limit 100ms; 99ms; header", want: deadline},
		{name: "a status in time", steps: "pick; limit 100ms; 99ms; trailer", want: deadline},
		{name: "a header that is late", steps: "pick; limit 100ms; 101ms; header", want: over("101ms", "100ms")},
		{name: "the attempt ends", steps: "pick; limit 100ms; 50ms; end", want: "50ms: " + cancelled},
		{name: "the attempt ends after its header", steps: "derive; pick; limit 100ms; header; 1s; end", want: "1s: " + cancelled},
		{name: "the attempt ends late", steps: "pick; limit 100ms; 1s; end", want: over("1s", "100ms")},
		{name: "the attempt ends before its pick", steps: "derive; 1s; end", want: "1s: " + cancelled},
		{name: "the RPC is cancelled", steps: "pick; limit 100ms; 50ms; cancel", want: "50ms: " + cancelled},
		{name: "the RPC is cancelled before the pick", steps: "derive; cancel; pick; limit 100ms", want: "0s: " + cancelled},
		{name: "the RPC was cancelled before, and nobody looked", steps: "cancel; pick; limit 100ms", want: "0s: " + cancelled},

		{name: "a longer limit outside", steps: "pick; limit 100ms; limit 200ms", want: over("100ms", "100ms")},
		{name: "a shorter limit outside", steps: "pick; limit 200ms; limit 100ms", want: over("100ms", "100ms")},
		{name: "the same limit outside", steps: "pick; limit 100ms; 50ms; limit 100ms", want: over("100ms", "100ms")},
		{name: "another pick without a limit", steps: "pick; limit 100ms; 50ms; pick", want: deadline},
		{name: "another pick with a longer limit", steps: "pick; limit 100ms; 50ms; pick; limit 200ms", want: over("250ms", "200ms")},
		{name: "another pick with a shorter limit", steps: "pick; limit 1s; 50ms; pick; limit 100ms", want: over("150ms", "100ms")},
		{name: "another pick with the first limit, after one without", steps: "pick; limit 100ms; 50ms; pick; 5s; pick; limit 100ms", want: over("5.15s", "100ms")},

		{name: "stream: counts from the half-close", stream: true, steps: "pick; limit 100ms; send; 1s; send; 1s; close send", want: over("2.1s", "100ms")},
		{name: "stream: no half-close", stream: true, steps: "pick; limit 100ms; send; 1s; send", want: deadline},
		{name: "stream: no message", stream: true, steps: "pick; limit 100ms; 1s; close send", want: over("1.1s", "100ms")},
		{name: "stream: no message, somebody looks before the pick", stream: true, steps: "derive; 1s; pick; limit 100ms; close send", want: over("1.1s", "100ms")},
		{name: "stream: the header comes before the half-close", stream: true, steps: "pick; limit 100ms; send; header; close send", want: deadline},
		{name: "stream: half-closed again", stream: true, steps: "pick; limit 100ms; close send; 50ms; close send", want: over("100ms", "100ms")},
		{name: "stream: half-closed again when it is over", stream: true, steps: "pick; limit 100ms; close send; 1s; close send", want: over("1s", "100ms")},
		{name: "stream: half-closed before the pick, no message", stream: true, steps: "close send; 1s; pick; limit 100ms", want: over("1.1s", "100ms")},
		{name: "stream: counts from the last message that is repeated", stream: true, sent: 2, steps: "close send; pick; limit 100ms; 1s; repeat; 1s; repeat", want: over("2.1s", "100ms")},
		{name: "stream: half-closed while messages are repeated", stream: true, sent: 2, steps: "pick; limit 100ms; repeat; close send; 1s; repeat", want: over("1.1s", "100ms")},
		{name: "stream: half-closed when all is repeated", stream: true, sent: 2, steps: "pick; limit 100ms; repeat; repeat; 1s; close send", want: over("1.1s", "100ms")},
		{name: "stream: not all is repeated", stream: true, sent: 2, steps: "close send; pick; limit 100ms; repeat", want: deadline},
		{name: "stream: no limit", stream: true, steps: "pick; send; close send", want: deadline},
		{name: "no stream: messages are nothing to wait for", sent: 1, steps: "pick; limit 100ms; repeat; 50ms; close send", want: over("100ms", "100ms")},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ta := newTimed(t, tc.stream, tc.sent)
				ta.run(tc.steps)
				if got := ta.fate(); got != tc.want {
					t.Errorf("the context ended at %s: want %s", got, tc.want)
				}
				ta.run("end")
			})
		})
	}
}

// TestTimeoutDoneStays checks that Done returns the same channel from when
// somebody first looks.
func TestTimeoutDoneStays(t *testing.T) {
	for _, steps := range []string{
		"derive; pick; limit 100ms; header; end",
		"derive; pick; limit 100ms; pick; 1s; end",
		"derive; pick; 1s; pick; limit 100ms; 1s; end",
	} {
		t.Run(steps, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ta := newTimed(t, false, 0)
				first := ta.attempt.Done()
				ta.run(steps)
				if ta.attempt.Done() != first {
					t.Error("another channel")
				}
				ta.cancel()
			})
		})
	}
}

// TestTimeoutsOfChannels checks that a timer is used again, and only by attempts
// with the same limit: a timer of one bubble must not be used in another.
func TestTimeoutsOfChannels(t *testing.T) {
	for range 3 {
		synctest.Test(t, func(t *testing.T) {
			limit := &Limit{After: time.Second}
			for range 3 {
				ta := newTimed(t, false, 0)
				ta.attempt.Pick()
				ta.attempt.SetTimeout(limit)
				if got := ta.fate(); !strings.HasPrefix(got, "1s: context deadline exceeded: ") {
					t.Errorf("the context ended at %s: want 1s", got)
				}
			}
		})
	}
}

// TestTimeoutStaleTick checks that a tick which comes at the same moment as
// something else does not end the attempt.
func TestTimeoutStaleTick(t *testing.T) {
	for _, tc := range []struct{ name, steps, want string }{
		{"the time runs", "pick; limit 100ms", "<nil>"},
		{"a header", "pick; limit 100ms; header", "<nil>"},
		{"a header long ago", "pick; limit 100ms; header; 1s", "<nil>"},
		{"another pick", "pick; limit 100ms; pick", "<nil>"},
		{"another pick with another limit", "pick; limit 100ms; 50ms; pick; limit 100ms; 50ms", "<nil>"},
		{"the time does not run yet", "pick; limit 100ms; 50ms; pick", "<nil>"},
		{"the attempt's end", "pick; limit 100ms; end; 1s", "context canceled"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ta := newTimed(t, false, 0)
				ta.run(tc.steps)
				ta.attempt.timeout.Load().expire()
				if got := fmt.Sprint(ta.attempt.Err()); got != tc.want || ta.attempt.expiry() != nil {
					t.Errorf("Err is %s, and the attempt's error %v: want %s and none", got, ta.attempt.expiry(), tc.want)
				}
				ta.cancel()
			})
		})
	}
}

// TestTimeoutAtTheRPCsEnd checks that the RPC's own end wins over a tick that comes
// at the same moment.
func TestTimeoutAtTheRPCsEnd(t *testing.T) {
	rpc, cancel := context.WithCancel(context.Background())
	cancel()
	to := &timeout{rpc: rpc, done: make(chan struct{}), limit: &Limit{After: time.Second}, deadline: time.Now()}
	to.expire()
	to.end()
	if !errors.Is(to.err, context.Canceled) || to.expired != nil {
		t.Errorf("Err is %v, and the limit %v: want the RPC's error, and none", to.err, to.expired)
	}
}

// TestTimeoutFollowsTheRPC checks that what was told of the RPC's end before there
// was a limit is not taken back by the limit, whose goroutine has not run yet.
func TestTimeoutFollowsTheRPC(t *testing.T) {
	rpc, cancel := context.WithCancel(t.Context())
	for name, look := range map[string]func(*Attempt) bool{
		"Err":  func(a *Attempt) bool { return errors.Is(a.Err(), context.Canceled) && isClosed(a.Done()) },
		"Done": func(a *Attempt) bool { return isClosed(a.Done()) && errors.Is(a.Err(), context.Canceled) },
	} {
		a := &Attempt{Context: rpc}
		a.timeout.Store(&timeout{rpc: rpc, done: make(chan struct{}), limit: &Limit{After: time.Hour}})
		if look(a) {
			t.Fatalf("%s: over before the RPC is", name)
		}
		defer func() {
			if !look(a) {
				t.Errorf("%s first: the RPC is over, and the attempt's context is not", name)
			}
		}()
	}
	cancel()
}

// TestTimeoutExpiry checks what an attempt's error says, and that its code stays.
func TestTimeoutExpiry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ta := newTimed(t, false, 0)
		ta.run("pick; limit 100ms; 1s")
		err := ta.attempt.expiry()
		const want = `composite: attempt 1: cluster "of 100ms" took longer than its attemptTimeout of 100ms`
		if s := status.Convert(err); s.Code() != codes.DeadlineExceeded || s.Message() != want {
			t.Errorf("error %v: want DEADLINE_EXCEEDED, %s", err, want)
		}
		ta.run("end; cancel")
	})
}

// TestTimeoutRaces has everything happen at once that may, at random times around
// the limit, and checks that the context ends once and for all.
func TestTimeoutRaces(t *testing.T) {
	for range 300 {
		ta := newTimed(t, true, 0)
		a := ta.attempt
		if rand.N(2) == 0 {
			_ = a.Done() // somebody looks
		}
		var wg sync.WaitGroup
		at := func(f func()) {
			wg.Go(func() {
				time.Sleep(rand.N(2 * time.Millisecond))
				f()
			})
		}
		a.Pick()
		if rand.N(2) == 0 {
			a.SetTimeout(&Limit{After: rand.N(time.Millisecond) + 1}) // of a policy inside
		}
		at(func() {
			a.SetTimeout(&Limit{After: rand.N(time.Millisecond) + 1})
			a.messageSent(new(stats.OutPayload))
			time.Sleep(rand.N(time.Millisecond))
			ta.step("end")
		})
		at(ta.ledger.halfClose)
		at(a.headerReceived)
		if rand.N(2) == 0 {
			at(ta.cancel)
		}
		for !isClosed(a.Done()) {
			if err := a.Err(); err != nil && !isClosed(a.Done()) {
				t.Fatalf("Err is %v, and Done is open", err)
			}
			runtime.Gosched() // there may be one processor
		}
		wg.Wait()
		<-a.Done()
		first := a.Err()
		ta.cancel()
		for range 10 {
			if err := a.Err(); err == nil || !errors.Is(err, first) {
				t.Fatalf("Err is %v after it was %v", err, first)
			}
			runtime.Gosched()
		}
	}
}

// TestTimeoutAllocations checks what an attempt costs: nothing without a limit,
// and at most three allocations with one.
func TestTimeoutAllocations(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector has pools forget things")
	}
	h, ctx, info, begin, end := StatsHandler(), context.Background(), &stats.RPCTagInfo{FullMethodName: method}, &stats.Begin{Client: true}, &stats.End{Client: true}
	perAttempt := func(limit *Limit) float64 {
		return testing.AllocsPerRun(1000, func() {
			rpc, _, _ := open(ctx, nil, method, opener)
			tagged := h.TagRPC(rpc, info)
			h.HandleRPC(tagged, begin)
			a := FromContext(tagged)
			a.Pick()
			if limit != nil {
				a.SetTimeout(limit)
			}
			_ = tagged.Done()
			h.HandleRPC(tagged, end)
			runtime.Gosched() // the attempt's goroutine ends
		})
	}
	without, with := perAttempt(nil), perAttempt(&Limit{After: time.Hour})
	if without != 1 {
		t.Errorf("%v allocations without a limit: want 1, the ledger", without)
	}
	if more := with - without; more > 3 {
		t.Errorf("%v allocations more with a limit: want at most 3", more)
	}
}

// TestHalfCloseOfStreamsAtOnce has the client half-close when the latest of the RPC's
// streams has no limit: the time of the other runs.
func TestHalfCloseOfStreamsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ta := newTimed(t, true, 0)
		ta.run("pick; limit 100ms")
		h := StatsHandler()
		ctx, cancel := context.WithCancel(ta.ledger)
		defer cancel()
		h.HandleRPC(h.TagRPC(ctx, &stats.RPCTagInfo{FullMethodName: method}), &stats.Begin{Client: true, IsClientStream: true})
		ta.run("close send")
		if got := ta.fate(); !strings.HasPrefix(got, "100ms: context deadline exceeded: ") {
			t.Errorf("the context ended at %s: want 100ms", got)
		}
	})
}
