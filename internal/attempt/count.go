package attempt

import (
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Counter is the Picker of a Route that counts attempts.
type Counter interface {
	// Count is called once for each attempt, as soon as it is known that gRPC-Go
	// is not going to repeat it under the same number: when the response begins,
	// when the next attempt of the stream does, or when the RPC is over. One that
	// outlives the RPC is counted when it ends. TimedOut tells whether the attempt
	// took longer than its limit. Count is called from any goroutine, with a lock of
	// the RPC held, and may ask the attempt no more than its Number, List, Cluster
	// and Route.
	Count(a *Attempt, timedOut bool)
}

// WillCount says that the picker that asks is a Counter, or inside one, so that
// the RPC's attempts are counted.
func (a *Attempt) WillCount() {
	if !a.flags.has(counting) {
		a.flags.set(counting)
		a.ledger.flags.set(counts)
	}
}

// PickNone says that the pick of the outermost policy has come to a cluster and
// to no connection: the attempt waits, or the RPC ends.
func (a *Attempt) PickNone() {
	if a.depth == 0 {
		a.marked, a.none = true, true
	}
}

// countLocked counts the attempt, unless that was done. Its pickers are done with
// it: it has ended, or its stream is open. The caller holds ledger.mu.
func (a *Attempt) countLocked() {
	if a.counted || !a.ledger.flags.has(counts) {
		return
	}
	a.counted = true
	if c, ok := a.picker.(Counter); ok {
		c.Count(a, a.timedOutLocked())
	}
}

// timedOutLocked tells whether the attempt failed because its time was over. The
// caller holds ledger.mu.
func (a *Attempt) timedOutLocked() bool {
	f := a.outcome
	return f != nil && (f.Err == nil || status.Code(f.Err) == codes.DeadlineExceeded) && a.exceeded() != nil
}
