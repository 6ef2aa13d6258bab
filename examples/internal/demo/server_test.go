package demo

import (
	"context"
	"errors"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/grpc-composite/grpc-composite/internal/testkit"
)

func start(t *testing.T, name string) *Server {
	t.Helper()
	s := &Server{Name: name}
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	return s
}

// TestServer breaks and repairs a server.
func TestServer(t *testing.T) {
	t.Parallel()
	s := start(t, "one")
	cc := testkit.Dial(t, "passthrough:///"+s.Addr)
	ctx := testkit.Context(t)
	if a, err := Check(ctx, cc); err != nil || a.Server != "one" || a.Attempt != 1 || a.Took <= 0 {
		t.Errorf("%v, error %v: want attempt 1 of one", a, err)
	}
	// What a client that retries sends.
	retry := metadata.AppendToOutgoingContext(ctx, previousAttempts, "2")
	if a, err := AwaitAnswer(retry, cc, "one", 3); err != nil {
		t.Errorf("%v, error %v: want attempt 3", a, err)
	}
	s.Unavailable.Store(true)
	_, err := Check(ctx, cc)
	testkit.Contains(t, err, "one is unavailable, as this step wants it")
	if got := status.Code(err); got != codes.Unavailable {
		t.Errorf("code %v: want %v", got, codes.Unavailable)
	}
	if _, err := AwaitAnswer(ctx, cc, "one", 1); status.Code(err) != codes.Unavailable {
		t.Errorf("AwaitAnswer: %v: want the error of the RPC at once", err)
	}
	addr := s.Addr
	s.Stop()
	s.Stop()
	if err := s.Restart(); err != nil || s.Addr != addr {
		t.Fatalf("restarted on %s, error %v: want %s", s.Addr, err, addr)
	}
	// An RPC may still be sent on the connection that was closed.
	if _, err := Await(ctx, func() (missing, failed error) {
		_, missing = Check(ctx, cc, grpc.WaitForReady(true))
		return missing, nil
	}); err != nil {
		t.Errorf("after a restart: %v", err)
	}
}

// TestStartAll has one server's port taken.
func TestStartAll(t *testing.T) {
	t.Parallel()
	taken := start(t, "taken")
	first, second := &Server{Name: "first"}, &Server{Name: "second", Addr: taken.Addr}
	testkit.Contains(t, StartAll(first, second), "server second cannot start", "address already in use")
	if err := first.Start(); err != nil {
		t.Errorf("first: %v: want its port free again", err)
	}
	StopAll(first, second)
}

func TestWhoAnswered(t *testing.T) {
	t.Parallel()
	for _, md := range []metadata.MD{nil, metadata.Pairs(serverHeader, "one"), metadata.Pairs(serverHeader, "one", AttemptHeader, "x")} {
		if _, _, err := WhoAnswered(md); err == nil {
			t.Errorf("%v: no error", md)
		}
	}
}

func TestAwait(t *testing.T) {
	t.Parallel()
	errMissing, errCut, errFailed := errors.New("not yet"), errors.New("cut short"), errors.New("never")
	for _, tc := range []struct {
		name string
		f    func(n int, cancel func()) (missing, failed error)
		want error
	}{
		{"nothing is missing", func(int, func()) (error, error) { return nil, nil }, nil},
		{"not at first", func(n int, _ func()) (error, error) {
			if n < 3 {
				return errMissing, nil
			}
			return nil, nil
		}, nil},
		{"failed", func(n int, _ func()) (error, error) {
			if n < 3 {
				return errMissing, nil
			}
			return nil, errFailed
		}, errFailed},
		{"given up", func(_ int, cancel func()) (error, error) { cancel(); return errMissing, nil }, errMissing},
		{"cut short", func(n int, cancel func()) (error, error) {
			if n < 3 {
				return errMissing, nil
			}
			cancel()
			return errCut, nil
		}, errMissing},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithCancel(testkit.Context(t))
			defer cancel()
			n := 0
			_, err := Await(ctx, func() (missing, failed error) {
				n++
				return tc.f(n, cancel)
			})
			if !errors.Is(err, tc.want) {
				t.Errorf("error %v: want %v", err, tc.want)
			}
		})
	}
}
