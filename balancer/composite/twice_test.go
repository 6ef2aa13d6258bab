package composite_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/grpc-composite/grpc-composite/balancer/composite"
	"github.com/grpc-composite/grpc-composite/internal/testkit"
)

// twiceAround are dial options of two calls, as a program and a library of its may give
// a channel, with others between.
func twiceAround(between ...grpc.DialOption) []grpc.DialOption {
	return append(append(composite.DialOptions(), between...), composite.DialOptions()...)
}

// dialBare opens a channel with no more than these options.
func dialBare(t testing.TB, s testkit.Service, opts ...grpc.DialOption) *grpc.ClientConn {
	t.Helper()
	return testkit.Dial(t, "composite:///", append(opts, grpc.WithDefaultServiceConfig(s.JSON()))...)
}

// TestDialOptionsTwice checks that an error gets its trail once, and that all who
// want the trail get it, if dial options were given twice.
func TestDialOptionsTwice(t *testing.T) {
	for _, kind := range trailKinds {
		t.Run(kind.name, func(t *testing.T) {
			t.Parallel()
			backends := startScripted(t, "U U")
			cc := dial(t, testkit.Service{Clusters: testkit.Clusters(backends...), Attempts: 2}, composite.DialOptions()...)
			var other composite.Trail
			trail, err := record(testkit.Context(t), t, cc, kind.call, composite.RecordTrail(&other))
			checkStory(t, trail, "1 a Unavailable; 2 b Unavailable", backends...)
			checkStory(t, other, "1 a Unavailable; 2 b Unavailable", backends...)
			if n := strings.Count(err.Error(), "attempt 1 a"); n != 1 {
				t.Errorf("error %q has the trail %d times", err, n)
			}
		})
	}
}

// TestDialOptionsTwiceAroundRetries has an interceptor between them try again: each time
// on the next cluster.
func TestDialOptionsTwiceAroundRetries(t *testing.T) {
	t.Parallel()
	backends := startScripted(t, "U U OK")
	cc := dialBare(t, testkit.Service{Clusters: testkit.Clusters(backends...)},
		twiceAround(grpc.WithChainUnaryInterceptor(retrying(3)))...)
	trail, err := record(testkit.Context(t), t, cc, unaryRPC)
	if got := testkit.Counts(backends...); err != nil || got != "1/1/1" {
		t.Errorf("calls %s, error %v: want one to each cluster", got, err)
	}
	checkStory(t, trail, "1 a Unavailable; 2 b Unavailable; 3 c OK committed", backends...)
}

// TestDialOptionsTwiceAroundHedges has an interceptor between them run several attempts at
// once, each on a cluster of its own. The trail has them all.
func TestDialOptionsTwiceAroundHedges(t *testing.T) {
	t.Parallel()
	backends := startAll(t, "a", "b", "c")
	cc := dialBare(t, testkit.Service{Clusters: testkit.Clusters(backends...)}, twiceAround(grpc.WithChainUnaryInterceptor(hedging(3)))...)
	for range 20 {
		startOver(backends, "OK OK OK")
		var trail composite.Trail
		err := unaryRPC(testkit.Context(t), cc, composite.RecordTrail(&trail))
		if got := testkit.Counts(backends...); err != nil || got != "1/1/1" {
			t.Fatalf("calls %s, error %v: want one to each cluster", got, err)
		}
		for _, a := range trail.Attempts {
			if a.Code != codes.OK || len(trail.Attempts) != 3 {
				t.Fatalf("trail %v: want three attempts that ended well", trail)
			}
		}
	}
}

// TestDialOptionsTwiceAndTimeouts checks that the error of an attempt that takes too long
// has the same words as with dial options given once.
func TestDialOptionsTwiceAndTimeouts(t *testing.T) {
	for _, kind := range fourKinds {
		t.Run(kind.name, func(t *testing.T) {
			t.Parallel()
			backends := startAll(t, "a", "b")
			startReplying(backends, hang)
			s := goingOn(timed(cutAfter, testkit.Clusters(backends...)...)...)
			lean := composite.DialOptions(composite.LeanCounting())
			for _, opts := range [][]grpc.DialOption{composite.DialOptions(), twiceAround(), twiceAround(lean...), append(composite.DialOptions(), lean...)} {
				begin := time.Now()
				err := kind.call(testkit.Context(t), dialBare(t, s, opts...))
				checkError(t, err, codes.DeadlineExceeded, `attempt 2: cluster "b" took longer than its attemptTimeout`, "attempt 1 a "+backends[0].Addr)
				if n := strings.Count(err.Error(), "attempt 1 a"); n != 1 || strings.Contains(status.Convert(err).Message(), backends[0].Addr) {
					t.Errorf("error %v has the trail %d times, status %q", err, n, status.Convert(err).Message())
				}
				if took := time.Since(begin); took < 2*cutAfter {
					t.Errorf("it took %v: want twice %v at least", took, cutAfter)
				}
			}
		})
	}
}

// replaying is a stream of an interceptor's that starts again as it was sent, so many times.
type replaying struct {
	grpc.ClientStream
	open func() (grpc.ClientStream, error)
	sent []any
	left int
}

func (r *replaying) SendMsg(m any) error {
	r.sent = append(r.sent, m)
	return r.ClientStream.SendMsg(m)
}

func (r *replaying) RecvMsg(m any) error {
	err := r.ClientStream.RecvMsg(m)
	for ; err != nil && r.left > 0; r.left-- {
		if r.ClientStream, err = r.open(); err != nil {
			return err
		}
		for _, m := range r.sent {
			_ = r.ClientStream.SendMsg(m)
		}
		_ = r.CloseSend()
		err = r.ClientStream.RecvMsg(m)
	}
	return err
}

// TestDialOptionsTwiceAroundUploads has an interceptor send an upload again, of which one
// attempt takes too long: its time runs when all that the client has sent was sent again.
func TestDialOptionsTwiceAroundUploads(t *testing.T) {
	t.Parallel()
	backends := startAll(t, "a", "b", "c")
	backends[0].Script(testkit.U)
	backends[1].Script(hang)
	cc := dialBare(t, testkit.Service{Clusters: timed(cutAfter, testkit.Clusters(backends...)...)}, twiceAround(grpc.WithChainStreamInterceptor(
		func(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, streamer grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
			open := func() (grpc.ClientStream, error) { return streamer(ctx, desc, cc, method, opts...) }
			s, err := open()
			return &replaying{ClientStream: s, open: open, left: 2}, err
		}))...)
	checkError(t, upload(testkit.Context(t), cc), codes.OK)
	if got := testkit.Counts(backends...); got != "1/1/1" {
		t.Errorf("calls %s: want one to each cluster", got)
	}
}

// TestDialOptionsLeanFirst has dial options that count leanly come before others, which
// count: what needs a stats handler works.
func TestDialOptionsLeanFirst(t *testing.T) {
	t.Parallel()
	backends := startAll(t, "a", "b")
	backends[0].Script(hang)
	cc := dialBare(t, goingOn(timed(cutAfter, testkit.Clusters(backends...)...)...), append(composite.DialOptions(composite.LeanCounting()), composite.DialOptions()...)...)
	checkError(t, unaryRPC(testkit.Context(t), cc), codes.OK)
	if got := testkit.Counts(backends...); got != "1/1" {
		t.Errorf("calls %s: want one to each cluster", got)
	}
}

// startOver has servers answer as words say, and forget what they have seen.
func startOver(backends []*testkit.Backend, words string) {
	for i, b := range backends {
		if b.Script(testkit.OK); wordAt(words, i) == "U" {
			b.Script(testkit.U)
		}
	}
}

func startReplying(backends []*testkit.Backend, reply testkit.Reply) {
	for _, b := range backends {
		b.Script(reply)
	}
}
