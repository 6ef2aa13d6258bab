// Package nethttp tests composite channels to servers that speak gRPC by Go's
// net/http: connect-go's handlers, and gRPC's own server as an http.Handler.
package nethttp

import (
	"context"
	"errors"
	"io"
	"net/http"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	testpb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/status"

	"github.com/grpc-composite/grpc-composite/balancer/composite"
	"github.com/grpc-composite/grpc-composite/internal/testkit"
	"github.com/grpc-composite/grpc-composite/interop/internal/observe"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// pair starts servers a and b.
func (k kind) pair(t *testing.T) (s *setup, a, b *server) {
	t.Helper()
	s = &setup{kind: k}
	return s, s.start(t, "a"), s.start(t, "b")
}

// dial opens a channel with a cluster for each server. More are fields of the
// first one.
func (s *setup) dial(t *testing.T, more map[string]any, retryable ...string) *grpc.ClientConn {
	t.Helper()
	service := testkit.Service{Attempts: 2, Retryable: retryable}
	for _, srv := range s.servers {
		service.Clusters = append(service.Clusters, testkit.Clusters(srv.Backend)...)
	}
	service.Clusters[0].More = more
	return testkit.Dial(t, "composite:///", append(composite.DialOptions(), s.credentials(), grpc.WithDefaultServiceConfig(service.JSON()))...)
}

var calls = map[string]func(context.Context, *grpc.ClientConn, ...grpc.CallOption) (string, error){
	"unary": func(ctx context.Context, cc *grpc.ClientConn, opts ...grpc.CallOption) (string, error) {
		return testkit.Unary(ctx, cc, opts...)
	},
	"server stream": func(ctx context.Context, cc *grpc.ClientConn, opts ...grpc.CallOption) (string, error) {
		stream, err := testpb.NewTestServiceClient(cc).StreamingOutputCall(ctx, &testpb.StreamingOutputCallRequest{
			ResponseParameters: []*testpb.ResponseParameters{{Size: 1}},
		}, opts...)
		if err != nil {
			return "", err
		}
		resp, err := stream.Recv()
		if err != nil {
			return "", err
		}
		if _, err := stream.Recv(); !errors.Is(err, io.EOF) {
			return "", err
		}
		return string(resp.GetPayload().GetBody()), nil
	},
}

// want makes calls of each sort, and checks who answers, or the code.
func want(t *testing.T, cc *grpc.ClientConn, answer string, code codes.Code, check func(t *testing.T, trail composite.Trail)) {
	t.Helper()
	for name, call := range calls {
		var trail composite.Trail
		got, err := call(testkit.Context(t), cc, composite.RecordTrail(&trail))
		if got != answer || status.Code(err) != code {
			t.Errorf("%s: answer from %q, error %v: want %q and %v", name, got, err, answer, code)
		}
		check(t, trail)
	}
}

// attempts checks the story of an RPC: "1 a UNAVAILABLE committed, 2 b OK".
func attempts(wanted string) func(*testing.T, composite.Trail) {
	return func(t *testing.T, trail composite.Trail) {
		t.Helper()
		if got := observe.Trail(trail); got != wanted {
			t.Errorf("trail %q: want %q", got, wanted)
		}
	}
}

// TestHealthy has servers that are well.
func TestHealthy(t *testing.T) {
	for _, k := range kinds {
		t.Run(k.name, func(t *testing.T) {
			t.Parallel()
			s, _, _ := k.pair(t)
			want(t, s.dial(t, nil), "a", codes.OK, attempts("1 a OK committed"))
		})
	}
}

// TestClosedPort has a first server that is not there, and comes back.
func TestClosedPort(t *testing.T) {
	for _, k := range kinds {
		t.Run(k.name, func(t *testing.T) {
			t.Parallel()
			s, a, _ := k.pair(t)
			cc := s.dial(t, nil)
			want(t, cc, "a", codes.OK, attempts("1 a OK committed"))
			a.close()
			testkit.AwaitServer(t, cc, "b")
			want(t, cc, "b", codes.OK, attempts("1 b OK committed past a"))
		})
	}
}

// TestErrorsComeAfterHeaders has a first server that answers with a retryable
// error. net/http sends response headers before the trailers that have the error,
// which commits the RPC: it is not retried, and the trail says why.
func TestErrorsComeAfterHeaders(t *testing.T) {
	for _, k := range kinds {
		t.Run(k.name, func(t *testing.T) {
			t.Parallel()
			s, a, b := k.pair(t)
			a.Script(testkit.U)
			want(t, s.dial(t, nil), "", codes.Unavailable, attempts("1 a Unavailable committed"))
			if got := testkit.Counts(a.Backend, b.Backend); got != "2/0" {
				t.Errorf("calls %s: want 2/0", got)
			}
		})
	}
}

// TestCooldown stops what TestErrorsComeAfterHeaders shows after some failures.
func TestCooldown(t *testing.T) {
	for _, k := range kinds {
		t.Run(k.name, func(t *testing.T) {
			t.Parallel()
			s, a, _ := k.pair(t)
			a.Script(testkit.U)
			cc := s.dial(t, map[string]any{"cooldown": map[string]any{"consecutiveFailures": 2, "time": "300s"}})
			want(t, cc, "", codes.Unavailable, attempts("1 a Unavailable committed"))
			// What the server says reaches the RPC before the policy.
			testkit.AwaitServer(t, cc, "b")
			want(t, cc, "b", codes.OK, attempts("1 b OK committed past a"))
		})
	}
}

// TestTrailersOnly has a handler in front that makes such an error one that gRPC
// retries.
func TestTrailersOnly(t *testing.T) {
	for _, k := range kinds {
		t.Run(k.name, func(t *testing.T) {
			t.Parallel()
			s := &setup{kind: k, wrap: trailersOnly}
			a := s.start(t, "a")
			s.start(t, "b")
			cc := s.dial(t, nil)
			want(t, cc, "a", codes.OK, attempts("1 a OK committed"))
			a.Script(testkit.Reply{Code: codes.Unavailable, Message: "50 % – busy\n"})
			want(t, cc, "b", codes.OK, func(t *testing.T, trail composite.Trail) {
				t.Helper()
				attempts("1 a Unavailable, 2 b OK committed")(t, trail)
				if got := trail.Attempts[0].Message; got != "50 % – busy\n" {
					t.Errorf("message %q: want the server's", got)
				}
			})
		})
	}
}

// TestAttemptTimeout has a first server that never answers.
func TestAttemptTimeout(t *testing.T) {
	for _, k := range kinds {
		t.Run(k.name, func(t *testing.T) {
			t.Parallel()
			s, a, _ := k.pair(t)
			a.Script(testkit.Reply{Hang: true})
			cc := s.dial(t, map[string]any{"attemptTimeout": "0.1s"}, "DEADLINE_EXCEEDED")
			want(t, cc, "b", codes.OK, attempts("1 a DeadlineExceeded, 2 b OK committed"))
		})
	}
}

// TestReplyWithoutGRPC has handlers in front of the first server that answer
// before gRPC does, which commits nothing.
func TestReplyWithoutGRPC(t *testing.T) {
	for _, tc := range []struct {
		name      string
		front     http.HandlerFunc
		retryable string
		story     string
	}{
		{"503", func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "busy", http.StatusServiceUnavailable) }, "UNAVAILABLE", "1 a Unavailable, 2 b OK committed"},
		{"429", func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "slow down", http.StatusTooManyRequests) }, "UNAVAILABLE", "1 a Unavailable, 2 b OK committed"},
		{"404", http.NotFound, "UNIMPLEMENTED", "1 a Unimplemented, 2 b OK committed"},
		{"500", func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "oh", http.StatusInternalServerError) }, "UNKNOWN", "1 a Unknown, 2 b OK committed"},
		{"abort", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, "INTERNAL", "1 a Internal, 2 b OK committed"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			for _, k := range kinds {
				t.Run(k.name, func(t *testing.T) {
					t.Parallel()
					s, a, _ := k.pair(t)
					a.front.Store(&tc.front)
					want(t, s.dial(t, nil, tc.retryable), "b", codes.OK, attempts(tc.story))
				})
			}
		})
	}
}

// TestShutdown stops the first server gracefully while calls go on: none fails.
func TestShutdown(t *testing.T) {
	for _, k := range kinds {
		t.Run(k.name, func(t *testing.T) {
			t.Parallel()
			s, a, _ := k.pair(t)
			cc := s.dial(t, nil)
			want(t, cc, "a", codes.OK, attempts("1 a OK committed"))
			down := make(chan error, 1)
			go func() { down <- a.http.Shutdown(testkit.Context(t)) }()
			testkit.Eventually(t, "an answer from b", func() bool {
				got, err := testkit.Unary(testkit.Context(t), cc)
				if err != nil {
					t.Fatal(err)
				}
				return got == "b"
			})
			if err := <-down; err != nil {
				t.Error(err)
			}
		})
	}
}
