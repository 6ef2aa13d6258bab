package composite_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"

	"github.com/grpc-composite/grpc-composite/balancer/composite"
	"github.com/grpc-composite/grpc-composite/internal/testkit"
)

// TestTimeoutIsNotTheNextAttempts checks that the words of an attempt that took
// too long are its own: not those of a later attempt, nor of the RPC's deadline.
func TestTimeoutIsNotTheNextAttempts(t *testing.T) {
	const expired = `composite: attempt 1: cluster "a" took longer than its attemptTimeout of 100ms`
	slow := testkit.Reply{Code: codes.DeadlineExceeded, Message: context.DeadlineExceeded.Error(), Delay: 10 * time.Millisecond}
	policy := map[string]any{"methodConfig": []any{map[string]any{
		"name": []any{map[string]any{}},
		"retryPolicy": map[string]any{
			"maxAttempts": 3, "initialBackoff": "3600s", "maxBackoff": "3600s",
			"backoffMultiplier": 1, "retryableStatusCodes": []string{"DEADLINE_EXCEEDED"},
		},
	}}}
	for _, tc := range []struct {
		name    string
		backOff map[string]any // a retry policy with a long one
		first   testkit.Reply
		late    bool   // the client reads late
		counts  string // of a, b
		trail   []string
		message string
	}{
		{name: "a server says the same", first: hang, counts: "1/1", trail: []string{expired, slow.Message}, message: slow.Message},
		{name: "the RPC's deadline comes in the back-off", backOff: policy, first: hang, counts: "1/0", trail: []string{expired}, message: slow.Message},
		{name: "a server says the same in time, and the client reads late", first: slow, late: true, counts: "1/1", trail: []string{slow.Message, slow.Message}, message: slow.Message},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				net := newBubbleNet()
				a, b := net.start(t, "a"), net.start(t, "b")
				a.Script(tc.first)
				b.Script(slow)
				s := goingOn(timed(100*time.Millisecond, testkit.Clusters(a, b)...)...)
				if s.Other = tc.backOff; s.Other != nil {
					s.Attempts = 0
				}
				call := unaryRPC
				if tc.late {
					call = slowBidi(0, time.Second)
				}
				var trail composite.Trail
				_, err := outcome(t, call, net.dial(t, s, grpc.WithDefaultCallOptions(composite.RecordTrail(&trail))), a, b)
				checkMessage(t, err, codes.DeadlineExceeded, tc.message, "attemptTimeout")
				if got := testkit.Counts(a, b); got != tc.counts {
					t.Errorf("calls %s: want %s", got, tc.counts)
				}
				for i, attempt := range trail.Attempts {
					if i >= len(tc.trail) || attempt.Message != tc.trail[i] {
						t.Errorf("attempt %d: %q: want %q", i+1, attempt.Message, tc.trail[min(i, len(tc.trail)-1)])
					}
				}
			})
		})
	}
}

// TestTimeoutErrorIsWrapped checks that an error of gRPC-Go's that wraps an
// attempt's still does when the attempt took too long.
func TestTimeoutErrorIsWrapped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net := newBubbleNet()
		a, b := net.start(t, "a"), net.start(t, "b")
		a.Script(hang)
		b.Script(hang)
		_, err := outcome(t, unaryRPC, net.dial(t, goingOn(timed(100*time.Millisecond, testkit.Clusters(a, b)...)...)), a, b)
		want := status.Error(codes.DeadlineExceeded, `composite: attempt 2: cluster "b" took longer than its attemptTimeout of 100ms`)
		checkMessage(t, err, codes.DeadlineExceeded, "max retries exhausted: failed after 2 attempts: "+want.Error(), "")
		if !errors.Is(err, want) {
			t.Errorf("error %v: want one that wraps %v", err, want)
		}
	})
}

// derivingOpen counts the contexts that have not ended.
type derivingOpen struct {
	deriving
	open atomic.Int64
}

func (d *derivingOpen) TagRPC(ctx context.Context, info *stats.RPCTagInfo) context.Context {
	ctx = d.deriving.TagRPC(ctx, info)
	d.open.Add(1)
	context.AfterFunc(ctx, func() { d.open.Add(-1) })
	return ctx
}

// TestTimeoutContextsOfUnpickedAttempts checks that what was derived from an
// attempt that gRPC-Go begins and never picks for, as it does after one that
// could not open a stream, ends before the RPC does.
func TestTimeoutContextsOfUnpickedAttempts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net, derived := newBubbleNet(), &derivingOpen{}
		backends := []*testkit.Backend{net.start(t, "a", grpc.MaxConcurrentStreams(1)), net.start(t, "b")}
		backends[1].Script(testkit.Reply{Delay: time.Second})
		cc := net.dial(t, goingOn(timed(100*time.Millisecond, testkit.Clusters(backends[0])[0])[0], testkit.Clusters(backends[1])[0]), grpc.WithStatsHandler(derived))
		takeOnlyStream(t, cc, backends[0])
		const taken, picked = 1, 1 // contexts of the stream that is taken, and of the attempt at b
		time.AfterFunc(500*time.Millisecond, func() {
			if n := derived.open.Load(); n != taken+picked {
				t.Errorf("%d contexts: want %d", n, taken+picked)
			}
		})
		if got, err := outcome(t, unaryRPC, cc, backends...); got != "1.1s 0/1 OK" {
			t.Errorf("%s (%v): want 1.1s 0/1 OK", got, err)
		}
	})
}
