package attempt

import (
	"context"
	"errors"
	"reflect"
	"slices"

	"google.golang.org/grpc"
	"google.golang.org/grpc/balancer"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"
)

// Lean counting has no stats handler. An attempt begins with its first pick, which
// is known by its context, since gRPC-Go makes one for each attempt, and ends when
// the pick's Done is called. Nothing tells a transparent retry from an attempt.
//
// The events that a stats handler would have got have no times.
var (
	leanBegin  = &stats.Begin{Client: true}
	leanOpened = &stats.OutHeader{Client: true}
	leanEnd    = &stats.End{Client: true}
)

// ForPicker returns the attempt that a picker of a channel is asked for, by the
// context in its PickInfo, or nil if the RPC is not tracked. Nor is one that is made
// while an attempt of another is under way, with its context. With lean counting, this
// is what makes a new attempt, for an RPC on a channel of the same target as that which
// it entered first.
func ForPicker(info balancer.PickInfo, channel Channel) *Attempt {
	if a, ok := info.Ctx.(*Attempt); ok {
		return a
	}
	return forPicker(info, channel) // on its own, so that the above is inlined
}

// Channel is what tells channels apart.
type Channel interface{ Target() string }

func forPicker(info balancer.PickInfo, channel Channel) *Attempt {
	switch v := info.Ctx.Value(attemptKey).(type) {
	case *Attempt:
		if !v.isAround(info.Ctx, info.FullMethodName) {
			return v
		}
	case *Ledger: // no stats handler has made an attempt of it
		if v.lean && v.cc.Target() == channel.Target() {
			return v.leanAttempt(info)
		}
	}
	return nil
}

// leanAttempt returns the attempt of a pick, and makes and begins it if there is none.
func (l *Ledger) leanAttempt(info balancer.PickInfo) *Attempt {
	l.mu.Lock()
	a, tell := l.leanAttemptLocked(info)
	l.mu.Unlock()
	call(tell)
	return a
}

func (l *Ledger) leanAttemptLocked(info balancer.PickInfo) (_ *Attempt, tell []func()) {
	if a := l.leanHeadLocked(info.Ctx); a != nil {
		return a, nil
	}
	a, tell := l.tagLocked(info.Ctx, info.FullMethodName, false)
	a.flags.set(leanly)
	return a, appendCall(tell, l.beginLocked(a, leanBegin))
}

// leanHeadLocked returns the attempt of a context if it is the latest of its stream. It
// is picked for again: if the connection that it was given was gone by then, its Done
// was called, or its picker returned an error that an RPC which waits for ready does
// not end with.
func (l *Ledger) leanHeadLocked(ctx context.Context) *Attempt {
	for a := l.heads; a != nil; a = a.sibling {
		if a.hasContext(ctx) {
			return a
		}
	}
	return nil
}

// hasContext tells whether a context is the attempt's own. What a stats handler made of
// that need not be comparable: then the stream's latest attempt has it until it ends.
// The caller holds ledger.mu.
func (a *Attempt) hasContext(ctx context.Context) bool {
	if !reflect.ValueOf(ctx).Comparable() {
		return a.stream == ctx.Done() && a.ended == nil
	}
	return a.Context == ctx
}

// Lean tells whether the attempt is counted without a stats handler.
func (a *Attempt) Lean() bool { return a.flags.has(leanly) }

// Picked is for the outermost picker, with what it is about to return. It returns
// that with a Done by which the end of a lean attempt is known.
func (a *Attempt) Picked(result balancer.PickResult, err error) (balancer.PickResult, error) {
	if err != nil {
		if _, ends := status.FromError(err); ends {
			a.leanEnd(err)
		} else if a.FailFast() && !errors.Is(err, balancer.ErrNoSubConnAvailable) {
			a.leanEnd(status.Error(codes.Unavailable, err.Error()))
		}
		return result, err
	}
	done := result.Done
	result.Done = func(info balancer.DoneInfo) {
		if info.Err != nil || info.BytesSent || info.BytesReceived {
			if info.BytesSent {
				a.opened.Store(leanOpened)
			}
			if info.BytesReceived && a.ledger.flags.has(over) {
				a.flags.set(committed)
			}
			a.leanEnd(info.Err)
		} // else the connection was gone, and gRPC-Go picks again
		if done != nil {
			done(info)
		}
	}
	return result, nil
}

func (a *Attempt) leanEnd(err error) { a.ledger.end(a, leanEnd, err) }

// tristate is an answer, if there is one.
type tristate uint8

const (
	unknown tristate = iota
	yes
	no
)

// failFastOption is what the last of an RPC's options says that says something.
func failFastOption(opts []grpc.CallOption) tristate {
	for _, opt := range slices.Backward(opts) {
		if o, ok := opt.(grpc.FailFastCallOption); ok {
			if o.FailFast {
				return yes
			}
			return no
		}
	}
	return unknown
}

// leanFailFast tells whether an RPC fails rather than waits, which the stats handler
// is told: by the RPC's options, and else by the method's config.
func (l *Ledger) leanFailFast() bool {
	switch l.failFast {
	case yes:
		return true
	case no:
		return false
	case unknown:
	}
	wait := l.cc.GetMethodConfig(l.method).WaitForReady
	return wait == nil || !*wait
}
