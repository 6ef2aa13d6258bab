package languages

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"

	"github.com/grpc-composite/grpc-composite/balancer/composite"
	"github.com/grpc-composite/grpc-composite/internal/testkit"
)

// contextOf is for calls that may have to wait longer than most tests do.
func contextOf(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), casePatience)
	t.Cleanup(cancel)
	return ctx
}

var healthy = unary(codes.OK)

// hanging is a call that the server never answers; the second cluster does.
var hanging = behaving(behaviorHang, healthy)

func attemptTimeout(d string) map[string]any { return map[string]any{"attemptTimeout": d} }

// limited has a server that takes one call at a time, and has it. Either it
// refuses a second one, at once, or gRPC-Go keeps that until the attempt is over.
func limited(t *testing.T, l *language, _ *server) string {
	t.Helper()
	ctx := contextOf(t)
	cc := channel(t, l.start(t, 1).target(), attemptTimeout("5s"))
	stream, err := converse(ctx, cc)
	if err != nil {
		t.Fatal(err)
	}
	var trail composite.Trail
	if err := healthy(ctx, cc, composite.RecordTrail(&trail)); err != nil {
		t.Fatal(err)
	}
	if err := stream.end(); err != nil {
		t.Fatal(err)
	}
	code := trail.Attempts[0].Code
	if code == codes.DeadlineExceeded {
		return "waits in the client; `attemptTimeout` " + describe(trail)
	}
	return codeName(code) + " " + describe(trail)
}

func hangs(t *testing.T, _ *language, s *server) string {
	t.Helper()
	cc := channel(t, s.target(), attemptTimeout("1s"))
	warm(t, cc)
	return outcome(contextOf(t), cc, hanging)
}

func hangsUntilDeadline(t *testing.T, _ *language, s *server) string {
	t.Helper()
	cc := channel(t, s.target(), nil)
	warm(t, cc)
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	return outcome(ctx, cc, hanging)
}

// drained has a server that is told to stop while calls come without a pause and a
// stream is in flight.
func drained(t *testing.T, l *language, _ *server) string {
	t.Helper()
	ctx := contextOf(t)
	s := l.start(t, 0)
	cc := channel(t, s.target(), nil)
	stream, err := converse(ctx, cc)
	if err != nil {
		t.Fatal(err)
	}
	load := startLoad(ctx, t, cc)
	testkit.Eventually(t, "calls of the first cluster", func() bool { return load.first.Load() > 100 })
	s.tell(t, "drain")
	testkit.Eventually(t, "calls of the second cluster", func() bool { return load.second.Load() > 0 })
	if err := stream.exchange(); err != nil {
		return "the stream in flight " + fails(err)
	}
	if err := stream.end(); err != nil {
		return "the stream in flight " + fails(err)
	}
	enough := load.second.Load() + 100
	testkit.Eventually(t, "more calls of the second cluster", func() bool { return load.second.Load() > enough })
	if err := load.stop(); err != nil {
		t.Log(err)
		return "the stream in flight ends well; calls fail: " + codeName(status.Code(err))
	}
	return "the stream in flight ends well, no call fails → **second cluster**, attempt 1"
}

// load is calls that are made all the time.
type load struct {
	first, second atomic.Int64 // calls that the clusters have answered
	failure       atomic.Pointer[error]
	cancel        context.CancelFunc
	ended         chan struct{}
}

func startLoad(ctx context.Context, t testing.TB, cc *grpc.ClientConn) *load {
	t.Helper()
	const workers = 4
	stop, cancel := context.WithCancel(ctx)
	l := &load{cancel: cancel, ended: make(chan struct{}, workers)}
	t.Cleanup(cancel)
	for range workers {
		go func() {
			defer func() { l.ended <- struct{}{} }()
			for stop.Err() == nil {
				var trail composite.Trail
				if err := healthy(ctx, cc, composite.RecordTrail(&trail)); err != nil {
					l.failure.CompareAndSwap(nil, &err)
					return
				}
				if last(trail).Cluster == "first" {
					l.first.Add(1)
				} else {
					l.second.Add(1)
				}
			}
		}()
	}
	return l
}

// stop ends the load, and returns the first failure if there was one.
func (l *load) stop() error {
	l.cancel()
	for range cap(l.ended) {
		<-l.ended
	}
	if err := l.failure.Load(); err != nil {
		return *err
	}
	return nil
}

// cut has a call in flight at the server, without an answer so far, when the
// server comes to its end: what became of the first attempt, and of the call.
func cut(t *testing.T, l *language, end func(*server)) string {
	t.Helper()
	s := l.start(t, 0)
	cc := channel(t, s.target(), nil)
	warm(t, cc)
	var trail composite.Trail
	ended := make(chan error, 1)
	go func() { ended <- hanging(contextOf(t), cc, composite.RecordTrail(&trail)) }()
	s.await(t, "hanging")
	end(s)
	err := <-ended
	what := codeName(trail.Attempts[0].Code) + " "
	if err != nil {
		return what + fails(err)
	}
	return what + describe(trail)
}

func stopped(t *testing.T, l *language, _ *server) string {
	t.Helper()
	return cut(t, l, func(s *server) {
		s.tell(t, "stop")
		s.await(t, "stopped")
	})
}

func killed(t *testing.T, l *language, _ *server) string {
	t.Helper()
	return cut(t, l, (*server).kill)
}

func closed(t *testing.T, l *language, _ *server) string {
	t.Helper()
	s := l.start(t, 0)
	s.kill()
	return "no call " + outcome(contextOf(t), channel(t, s.target(), nil), healthy)
}

func halted(t *testing.T, l *language, more map[string]any, opts ...grpc.DialOption) *grpc.ClientConn {
	t.Helper()
	s := l.start(t, 0)
	cc := channel(t, s.target(), more, opts...)
	warm(t, cc)
	s.pause(t)
	return cc
}

func haltedConnected(t *testing.T, l *language, _ *server) string {
	t.Helper()
	return outcome(contextOf(t), halted(t, l, attemptTimeout("1s")), healthy)
}

// haltedKeepalive has the shortest times that gRPC-Go takes.
func haltedKeepalive(t *testing.T, l *language, _ *server) string {
	t.Helper()
	cc := halted(t, l, nil, grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 10 * time.Second, Timeout: time.Second}))
	return outcome(contextOf(t), cc, healthy)
}

func haltedUntilDeadline(t *testing.T, l *language, _ *server) string {
	t.Helper()
	cc := halted(t, l, nil)
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	return "the RPC's deadline " + outcome(ctx, cc, healthy)
}

func connectTimeout() map[string]any { return map[string]any{"connectTimeout": "1s"} }

func haltedBefore(t *testing.T, l *language, _ *server) string {
	t.Helper()
	s := l.start(t, 0)
	s.pause(t)
	return "`connectTimeout` " + outcome(contextOf(t), channel(t, s.target(), connectTimeout()), healthy)
}

func silent(t *testing.T, _ *language, _ *server) string {
	t.Helper()
	addr, _ := testkit.BlackHole(t)
	return "`connectTimeout` " + outcome(contextOf(t), channel(t, "passthrough:///"+addr, connectTimeout()), healthy)
}
