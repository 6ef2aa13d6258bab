package attempt

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"
)

// TestExplain checks when an RPC's error gets the words of an attempt that took too
// long. The steps are those of a timed attempt.
func TestExplain(t *testing.T) {
	const words = `composite: attempt 1: cluster "of 100ms" took longer than its attemptTimeout of 100ms`
	deadline := status.FromContextError(context.DeadlineExceeded).Err()
	server := status.Error(codes.DeadlineExceeded, "a server's own words")
	for _, tc := range []struct {
		name  string
		steps string
		next  error // what the next attempt fails with; nil: there is none
		err   error // as gRPC-Go tells it
		want  string
		same  bool // err itself is told
	}{
		{name: "the attempt ends the RPC", steps: "pick; limit 100ms; 1s; end", err: deadline, want: "rpc error: code = DeadlineExceeded desc = " + words},
		{name: "and gRPC-Go says more", steps: "pick; limit 100ms; 1s; end", err: fmt.Errorf("max retries exhausted: %w", deadline), want: "max retries exhausted: rpc error: code = DeadlineExceeded desc = " + words},
		{name: "a later attempt ends it", steps: "pick; limit 100ms; 1s; end", next: server, err: server, same: true},
		{name: "another code does", steps: "pick; limit 100ms; 1s; end", err: failure("ABORTED"), same: true},
		{name: "an error that is no status", steps: "pick; limit 100ms; 1s; end", err: errOwn, same: true},
		{name: "its own deadline does, in a back-off", steps: "pick; limit 100ms; 1s; end; 2m", err: deadline, same: true},
		{name: "its own deadline does, within an attempt", steps: "pick; limit 100ms; header; 2m; end", err: deadline, same: true},
		{name: "it is over though the attempt had time", steps: "pick; limit 100ms; 50ms; end", err: deadline, same: true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ta := newTimed(t, false, 0)
				defer ta.cancel()
				ta.run(tc.steps)
				if tc.next != nil {
					h := StatsHandler()
					next := h.TagRPC(ta.ledger, &stats.RPCTagInfo{FullMethodName: method})
					h.HandleRPC(next, &stats.Begin{})
					FromContext(next).Pick()
					h.HandleRPC(next, &stats.End{Error: tc.next})
				}
				got := ta.ledger.result(tc.err)
				switch {
				case tc.same:
					if got != tc.err { //nolint:errorlint // itself
						t.Errorf("error %v: want %v itself", got, tc.err)
					}
				case got.Error() != tc.want:
					t.Errorf("error %v\nwant  %s", got, tc.want)
				case status.Code(got) != codes.DeadlineExceeded || !errors.Is(got, ta.attempt.outcome.Err):
					t.Errorf("error %v has the code %v: want DEADLINE_EXCEEDED, and the attempt's error inside", got, status.Code(got))
				}
			})
		})
	}
}

// TestFailureOfLateAttempt checks what an attempt whose time was over failed with:
// what a server has said meanwhile holds.
func TestFailureOfLateAttempt(t *testing.T) {
	for _, code := range []codes.Code{codes.DeadlineExceeded, codes.Aborted} {
		synctest.Test(t, func(t *testing.T) {
			ta := newTimed(t, false, 0)
			defer ta.cancel()
			ta.run("pick; limit 100ms; 1s")
			StatsHandler().HandleRPC(ta.attempt, &stats.End{Error: status.Error(code, "reported")})
			want := "reported"
			if code == codes.DeadlineExceeded {
				want = `composite: attempt 1: cluster "of 100ms" took longer than its attemptTimeout of 100ms`
			}
			if got := ta.attempt.outcome.Status(); got.Code() != code || got.Message() != want {
				t.Errorf("the attempt failed with %v: want %v, %s", got, code, want)
			}
		})
	}
}
