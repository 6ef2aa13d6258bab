package attempt

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Limit is how long an attempt may go without a response header.
type Limit struct {
	After   time.Duration
	Cluster string // for the error
}

// timeout ends an attempt that gets no response header in time, by closing the
// Done channel of the attempt's context. The channel is the attempt's own and
// closes with the RPC's as well. A goroutine sees to both, and ends with the
// attempt: context.AfterFunc would cost more allocations.
type timeout struct {
	done    chan struct{}
	expired atomic.Pointer[Limit] // the limit that the attempt took longer than

	// mu is the attempt's own: a pick never waits for it.
	mu    sync.Mutex
	timer *time.Timer // nil when the attempt is over
	limit *Limit      // nil: none, or a header was received
	sent  int64       // messages
	over  bool
}

// timers are stopped ones, for use by the next attempt.
var timers = sync.Pool{New: func() any {
	t := time.NewTimer(time.Hour)
	t.Stop()
	return t
}}

// startTimeout returns the attempt's timeout, which follows the RPC, and has no
// limit yet if it is new.
func (a *Attempt) startTimeout() *timeout {
	t := &timeout{done: make(chan struct{})}
	if !a.timeout.CompareAndSwap(nil, t) {
		return a.timeout.Load()
	}
	timer := timers.Get().(*time.Timer)
	t.mu.Lock()
	t.timer = timer
	t.mu.Unlock()
	go t.watch(a.Context, timer)
	return t
}

// watch waits for what comes first: the time is over, the RPC, or the attempt.
func (t *timeout) watch(rpc context.Context, timer *time.Timer) {
	for waiting := true; waiting; {
		select {
		case <-timer.C:
			waiting = !t.expire(rpc)
		case <-rpc.Done():
			waiting = false
		case <-t.done:
			waiting = false
		}
	}
	t.end()
	timer.Stop()
	timers.Put(timer)
}

// expire notes that the time is over, unless a header or the RPC's own end came
// at the same moment.
func (t *timeout) expire(rpc context.Context) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.limit == nil || rpc.Err() != nil {
		return false
	}
	t.expired.Store(t.limit)
	return true
}

// end closes the channel. Nobody touches the timer from then on.
func (t *timeout) end() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.timer = nil
	if !t.over {
		t.over = true
		close(t.done)
	}
}

// shorten sets the limit, unless there is a shorter one.
func (t *timeout) shorten(limit *Limit) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.limit == nil || limit.After < t.limit.After {
		t.limit = limit
	}
}

// cancel takes the limit back.
func (t *timeout) cancel() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.limit = nil
	if t.timer != nil {
		t.timer.Stop()
	}
}

// arm lets the time run.
func (t *timeout) arm() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.timer != nil && t.limit != nil {
		t.timer.Reset(t.limit.After)
	}
}

// SetTimeout gives the attempt this long, from now on, to get a response header.
// If the client sends a stream of messages, the time runs from when all of them
// were sent. Of the limits of policies inside each other the shorter one holds.
func (a *Attempt) SetTimeout(limit *Limit) {
	a.marked = true
	t := a.timeout.Load()
	if t == nil {
		t = a.startTimeout()
	}
	t.shorten(limit)
	if !a.clientStream || a.ledger.allSent(0) {
		t.arm()
	}
}

// messageSent is called when the attempt has sent a message of a client's stream.
func (a *Attempt) messageSent() {
	t := a.timeout.Load()
	if t == nil || !a.clientStream {
		return
	}
	t.mu.Lock()
	t.sent++
	sent := t.sent
	t.mu.Unlock()
	if a.ledger.allSent(sent) {
		t.arm()
	}
}

// headerReceived is called when the response has begun.
func (a *Attempt) headerReceived() {
	a.ledger.mu.Lock()
	a.record.committed = true
	a.ledger.mu.Unlock()
	if t := a.timeout.Load(); t != nil {
		t.cancel()
	}
}

// allSent tells whether the client has half-closed after this many messages. An
// attempt that repeats them has to send them first, too.
func (l *Ledger) allSent(messages int64) bool {
	return l.halfClosed.Load() && messages >= l.messages.Load()
}

// halfClose is called when the client has sent its last message.
func (l *Ledger) halfClose() {
	l.halfClosed.Store(true)
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
		return t.done
	}
	if a.picked.Load() {
		return a.Context.Done()
	}
	// Somebody looks before it is known whether there will be a limit: a stats
	// handler that derives a context, or gRPC-Go waiting for a picker. What it
	// gets now has to hold whatever comes.
	return a.startTimeout().done
}

// Err is context.DeadlineExceeded, as gRPC-Go wants it, when the attempt's time
// is over.
func (a *Attempt) Err() error {
	t := a.timeout.Load()
	if t == nil {
		return a.Context.Err()
	}
	select {
	case <-t.done:
	default:
		return nil
	}
	if t.expired.Load() != nil {
		return context.DeadlineExceeded
	}
	if err := a.Context.Err(); err != nil {
		return err
	}
	return context.Canceled // the attempt is over, and the RPC is not
}

// expiry is the error of an attempt whose time is over, or nil.
func (a *Attempt) expiry() error {
	t := a.timeout.Load()
	if t == nil {
		return nil
	}
	limit := t.expired.Load()
	if limit == nil {
		return nil
	}
	return status.Errorf(codes.DeadlineExceeded, "composite: attempt %d: cluster %q took longer than its attemptTimeout of %v", a.number, limit.Cluster, limit.After)
}
