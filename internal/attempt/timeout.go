package attempt

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"
)

// Limit is how long an attempt may go without a response header.
//
// It belongs to one channel, and so do the timers that it keeps: a program's
// tests may run each of its channels in a synctest bubble, which a timer must
// not leave.
type Limit struct {
	After   time.Duration
	Cluster string // for the error

	timers sync.Pool // stopped ones, for use by the next attempt
}

// limited tells whether any attempt of the program has ever had a limit.
var limited atomic.Bool

// timer returns a stopped timer.
func (l *Limit) timer() *time.Timer {
	if timer, ok := l.timers.Get().(*time.Timer); ok {
		return timer
	}
	return stoppedTimer()
}

func stoppedTimer() *time.Timer {
	timer := time.NewTimer(time.Hour)
	timer.Stop()
	return timer
}

// timeout ends an attempt that gets no response header in time, by closing the
// Done channel of the attempt's context. The channel is the attempt's own and
// closes with the RPC's as well, and when the attempt is over, so that whatever
// was derived from its context is let go. A goroutine sees to that: to have
// context.AfterFunc do it would cost more allocations.
type timeout struct {
	rpc  context.Context
	done chan struct{}

	// mu guards everything below. It is the attempt's own: a pick never waits
	// for it.
	mu       sync.Mutex
	timer    *time.Timer // nil when done is closed
	limit    *Limit      // nil: none, or a header was received
	deadline time.Time   // zero while the time does not run
	sent     int64       // messages
	last     *stats.OutPayload
	err      error  // nil until done is closed
	expired  *Limit // what the attempt took longer than, if it did
}

// startTimeout returns the attempt's timeout, which follows the RPC, and has no
// limit yet if it is new. It takes the timer, and leaves it to idle, which may be
// nil, when it is done.
func (a *Attempt) startTimeout(timer *time.Timer, idle *sync.Pool) *timeout {
	t := &timeout{rpc: a.Context, done: make(chan struct{}), timer: timer}
	a.ledger.flags.set(timed)
	if !a.timeout.CompareAndSwap(nil, t) {
		return a.timeout.Load()
	}
	go t.watch(timer, idle)
	return t
}

// watch closes the channel when the time is over, or the RPC, and returns when
// it is closed.
func (t *timeout) watch(timer *time.Timer, idle *sync.Pool) {
	for open := true; open; {
		select {
		case <-timer.C:
			t.expire()
		case <-t.rpc.Done():
			t.end()
			open = false
		case <-t.done:
			open = false
		}
	}
	timer.Stop() // nobody else does anything with it any more
	if idle != nil {
		idle.Put(timer)
	}
}

// expire closes the channel because the time is over, unless a header came at
// the same moment, another pick, or the RPC's own end.
func (t *timeout) expire() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.followLocked() || t.deadline.IsZero() || time.Now().Before(t.deadline) {
		return
	}
	t.expired = t.limit
	t.closeLocked(context.DeadlineExceeded)
}

// end closes the channel because the attempt is over, or the RPC.
func (t *timeout) end() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.followLocked() {
		t.closeLocked(context.Canceled)
	}
}

// followLocked closes the channel if the RPC is over, and tells whether it is
// closed. Whoever looks calls it: before there was a timeout, Err may have told
// of the RPC's end already, and what it told must not be taken back until the
// goroutine gets to it.
func (t *timeout) followLocked() bool {
	if t.err == nil {
		if err := t.rpc.Err(); err != nil {
			t.closeLocked(err)
		}
	}
	return t.err != nil
}

// look returns the channel, and the error that it was closed for.
func (t *timeout) look() (<-chan struct{}, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.followLocked()
	return t.done, t.err
}

func (t *timeout) closeLocked(err error) {
	t.err = err
	t.timer = nil
	close(t.done)
}

// shorten sets the limit, unless there is a shorter one.
func (t *timeout) shorten(limit *Limit) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.limit == nil || limit.After < t.limit.After {
		t.limit = limit
		t.deadline = time.Time{}
	}
}

// cancel takes the limit back.
func (t *timeout) cancel() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.limit = nil
	t.deadline = time.Time{}
	if t.timer != nil {
		t.timer.Stop()
	}
}

// arm lets the time run. If it runs already, it runs on.
func (t *timeout) arm() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.timer != nil && t.limit != nil && t.deadline.IsZero() {
		t.deadline = time.Now().Add(t.limit.After)
		t.timer.Reset(t.limit.After)
	}
}

// SetTimeout gives the attempt this long, from now on, to get a response header.
// If the client sends a stream of messages, the time runs from when all of them
// were sent. Of the limits of policies inside each other the shorter one holds.
func (a *Attempt) SetTimeout(limit *Limit) {
	if !limited.Load() {
		limited.Store(true)
	}
	a.marked = true
	t := a.timeout.Load()
	if t == nil {
		t = a.startTimeout(limit.timer(), &limit.timers)
	}
	t.shorten(limit)
	if !a.clientStream || a.ledger.allSent(0) {
		t.arm()
	}
}

// messageSent is called when the attempt has sent a message of a client's stream.
func (a *Attempt) messageSent(e *stats.OutPayload) {
	t := a.timeout.Load()
	if t == nil || !a.clientStream {
		return
	}
	t.mu.Lock()
	if t.last != e { // else a second stats handler tells of the same
		t.last = e
		t.sent++
	}
	sent := t.sent
	t.mu.Unlock()
	if a.ledger.allSent(sent) {
		t.arm()
	}
}

// headerReceived is called when the response has begun. If the attempt's time is over
// already, it ends all the same, and is counted then.
func (a *Attempt) headerReceived() {
	a.flags.set(committed)
	a.answered()
	if a.flags.has(counting) && a.exceeded() == nil {
		a.ledger.mu.Lock()
		a.countLocked()
		a.ledger.mu.Unlock()
	}
}

// answered takes the limit back, since the server has said something.
func (a *Attempt) answered() {
	if t := a.timeout.Load(); t != nil {
		t.cancel()
	}
}

// allSent tells whether the client has half-closed after this many messages. An
// attempt that repeats them has to send them first, too.
//
// So a message that flow control holds up is not cut: neither one that the client
// is sending, which ends with the RPC, nor one that is repeated. gRPC-Go repeats
// messages under a lock that the RPC's own end waits for, too, and so nothing ends
// that but the server or the loss of the connection.
func (l *Ledger) allSent(messages int64) bool {
	return l.flags.has(halfClosed) && messages >= l.messages.Load()
}

// halfClose is called when the client has sent its last message.
func (l *Ledger) halfClose() {
	l.flags.set(halfClosed)
	l.mu.Lock()
	defer l.mu.Unlock()
	for a := l.heads; a != nil; a = a.sibling {
		t := a.timeout.Load()
		if t == nil || !a.clientStream {
			continue
		}
		t.mu.Lock()
		sent := t.sent
		t.mu.Unlock()
		if l.allSent(sent) {
			t.arm()
		}
	}
}

// Done closes when the RPC's context does, or when the attempt's time is over.
func (a *Attempt) Done() <-chan struct{} {
	if t := a.timeout.Load(); t != nil {
		done, _ := t.look()
		return done
	}
	if a.flags.has(picked) {
		return a.stream
	}
	// Somebody looks before it is known whether there will be a limit: a stats
	// handler that derives a context, or gRPC-Go waiting for a picker. What it
	// gets now has to hold whatever comes.
	done, _ := a.startTimeout(stoppedTimer(), nil).look()
	return done
}

// Err is nil until Done closes, and context.DeadlineExceeded, as gRPC-Go wants
// it, if that is because the attempt's time is over.
func (a *Attempt) Err() error {
	t := a.timeout.Load()
	if t == nil {
		return a.Context.Err()
	}
	_, err := t.look()
	return err
}

// exceeded returns the limit that the attempt took longer than, or nil.
func (a *Attempt) exceeded() *Limit {
	t := a.timeout.Load()
	if t == nil {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.expired
}

// expiry is the error of an attempt whose time is over, or nil.
func (a *Attempt) expiry() error {
	limit := a.exceeded()
	if limit == nil {
		return nil
	}
	return status.Errorf(codes.DeadlineExceeded, "composite: attempt %d: cluster %q took longer than its attemptTimeout of %v", a.number, limit.Cluster, limit.After)
}
