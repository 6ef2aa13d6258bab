package composite_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

	"github.com/grpc-composite/grpc-composite/internal/testkit"
)

// TestTimeoutMovesOn checks that a hung cluster costs an RPC its limit, and not
// the RPC's time.
func TestTimeoutMovesOn(t *testing.T) {
	moveOn := func(t *testing.T, call rpc, hung testkit.Cluster) {
		t.Helper()
		healthy := testkit.Start(t, "healthy")
		clusters := slices.Concat(timed(cutAfter, hung), timed(inTime, testkit.Clusters(healthy)...))
		cc := dial(t, goingOn(clusters...))
		start := time.Now()
		checkError(t, call(testkit.Context(t), cc), codes.OK)
		if took := time.Since(start); took < cutAfter || took > testkit.Patience/2 {
			t.Errorf("it took %v: want little more than %v", took, cutAfter)
		}
		if got := healthy.Count(); got != 1 {
			t.Errorf("%d calls of the healthy server: want 1", got)
		}
	}
	for _, kind := range fourKinds {
		t.Run(kind.name, func(t *testing.T) {
			t.Parallel()
			hung := testkit.Start(t, "hung")
			hung.Script(hang)
			moveOn(t, kind.call, testkit.Clusters(hung)[0])
			if got := hung.Count(); got != 1 {
				t.Errorf("%d calls of the hung server: want 1", got)
			}
		})
		t.Run(kind.name+", a server that says nothing about streams", func(t *testing.T) {
			t.Parallel()
			hung := testkit.StartRaw(t, "hung", testkit.RawSilence)
			moveOn(t, kind.call, testkit.Cluster{Name: "hung", Target: hung.Target()})
			if got := hung.Streams(); got != 1 {
				t.Errorf("%d streams of the hung server: want 1", got)
			}
		})
	}
}

// TestTimeoutErrors checks what the caller is told about attempts that took too
// long, however gRPC-Go and the policy wrap it.
func TestTimeoutErrors(t *testing.T) {
	const first = `composite: attempt 1: cluster "a" took longer than its attemptTimeout of 100ms`
	const second = `composite: attempt 2: cluster "b" took longer than its attemptTimeout of 100ms`
	// gRPC-Go loses the code of an attempt that fails while messages are repeated.
	const later = 50 * time.Millisecond
	slow := testkit.Reply{Code: codes.DeadlineExceeded, Message: "the database is slow", Delay: later}
	down := testkit.Reply{Code: codes.Unavailable, Message: "scripted", Delay: later}
	both := []string{"UNAVAILABLE", "DEADLINE_EXCEEDED"}
	for _, tc := range []struct {
		name      string
		replies   []testkit.Reply // of a, b
		attempts  int             // of the retry policy
		retryable []string
		more      map[string]any
		counts    string
		code      codes.Code
		has       string // the status
		hasNot    string
	}{
		{name: "no retry policy", replies: []testkit.Reply{hang, testkit.OK}, counts: "1/0", code: codes.DeadlineExceeded, has: first},
		{name: "not a retryable code", replies: []testkit.Reply{hang, testkit.OK}, attempts: 2, counts: "1/0", code: codes.DeadlineExceeded, has: first},
		{name: "not a retryable code, second attempt", replies: []testkit.Reply{down, hang}, attempts: 2, counts: "1/1", code: codes.DeadlineExceeded, has: second},
		{name: "no attempt left", replies: []testkit.Reply{hang, hang}, attempts: 2, retryable: both, counts: "1/1", code: codes.DeadlineExceeded, has: "max retries exhausted: failed after 2 attempts: rpc error: code = DeadlineExceeded desc = " + second, hasNot: first},
		{name: "no cluster left", replies: []testkit.Reply{hang, hang}, attempts: 3, retryable: both, counts: "1/1", code: codes.DeadlineExceeded, has: second, hasNot: first},
		{name: "no cluster left, Envoy's way", replies: []testkit.Reply{hang, hang}, attempts: 3, retryable: both, more: map[string]any{"noHost": "FAIL_REQUEST"}, counts: "1/1", code: codes.Unavailable, has: `attempt 2: DEADLINE_EXCEEDED "composite: attempt 2: cluster \"b\" took longer than its attemptTimeout of 100ms"`},
		{name: "another attempt fails after it", replies: []testkit.Reply{hang, down}, attempts: 2, retryable: both, counts: "1/1", code: codes.Unavailable, has: "scripted", hasNot: first},
		{name: "a server's own words before it", replies: []testkit.Reply{slow, hang}, attempts: 2, retryable: both, counts: "1/1", code: codes.DeadlineExceeded, has: second, hasNot: slow.Message},
		{name: "a server's own words after it", replies: []testkit.Reply{hang, slow}, attempts: 2, retryable: both, counts: "1/1", code: codes.DeadlineExceeded, has: slow.Message, hasNot: "attemptTimeout"},
	} {
		for _, kind := range fourKinds {
			t.Run(tc.name+", "+kind.name, func(t *testing.T) {
				t.Parallel()
				backends := startAll(t, "a", "b")
				for i, reply := range tc.replies {
					backends[i].Script(reply)
				}
				clusters := testkit.Clusters(backends...)
				for i, reply := range tc.replies {
					if reply.Hang {
						clusters[i] = timed(cutAfter, clusters[i])[0]
					}
				}
				cc := dial(t, testkit.Service{Clusters: clusters, Attempts: tc.attempts, Retryable: tc.retryable, More: tc.more})
				err := kind.call(testkit.Context(t), cc)
				checkMessage(t, err, tc.code, tc.has, tc.hasNot)
				if got := testkit.Counts(backends...); got != tc.counts {
					t.Errorf("calls %s: want %s", got, tc.counts)
				}
			})
		}
	}
}

// deadlines notes the deadlines that a server is told.
type deadlines struct {
	mu   sync.Mutex
	seen []time.Duration // from when an RPC arrives
}

func (d *deadlines) note(ctx context.Context) {
	d.mu.Lock()
	defer d.mu.Unlock()
	deadline, ok := ctx.Deadline()
	if !ok {
		deadline = time.Now().Add(-1)
	}
	d.seen = append(d.seen, time.Until(deadline))
}

func (d *deadlines) options() []grpc.ServerOption {
	return []grpc.ServerOption{
		grpc.UnaryInterceptor(func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
			d.note(ctx)
			return handler(ctx, req)
		}),
		grpc.StreamInterceptor(func(srv any, ss grpc.ServerStream, _ *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
			d.note(ss.Context())
			return handler(srv, ss)
		}),
	}
}

// TestTimeoutIsNotTheServersDeadline checks that servers are told the RPC's own
// deadline, or none, and not the attempt's.
func TestTimeoutIsNotTheServersDeadline(t *testing.T) {
	for _, kind := range fourKinds {
		t.Run(kind.name, func(t *testing.T) {
			t.Parallel()
			var told deadlines
			hung, healthy := testkit.Start(t, "hung", told.options()...), testkit.Start(t, "healthy", told.options()...)
			hung.Script(hang)
			cc := dial(t, goingOn(slices.Concat(timed(cutAfter, testkit.Clusters(hung)...), timed(inTime, testkit.Clusters(healthy)...))...))
			checkError(t, kind.call(testkit.Context(t), cc), codes.OK)
			checkError(t, kind.call(context.Background(), cc), codes.OK)
			if n := len(told.seen); n != 4 {
				t.Fatalf("%d attempts were seen: want 4", n)
			}
			for i, d := range told.seen {
				if withDeadline := i < 2; withDeadline != (d > inTime) {
					t.Errorf("attempt %d has %v left: want the RPC's own %v, or none", i+1, d, testkit.Patience)
				}
			}
		})
	}
}
