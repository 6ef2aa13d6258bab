package composite_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	testpb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/status"

	"github.com/grpc-composite/grpc-composite/balancer/composite"
	"github.com/grpc-composite/grpc-composite/internal/testkit"
)

// TestStatusIsUntouched checks that a server's status reaches the caller to the
// letter, and that the trail is in the text alone.
func TestStatusIsUntouched(t *testing.T) {
	reply := testkit.Reply{Code: codes.ResourceExhausted, Message: "slow down", Details: []*testpb.SimpleRequest{{ResponseSize: 42}}}
	early := reply
	early.Headers = true
	for _, tc := range []struct {
		name  string
		reply testkit.Reply
	}{{"from trailers", reply}, {"after a header", early}} {
		for _, kind := range trailKinds {
			t.Run(tc.name+"/"+kind.name, func(t *testing.T) {
				t.Parallel()
				b := testkit.Start(t, "a")
				b.Script(tc.reply)
				err := kind.call(testkit.Context(t), dial(t, testkit.Service{Clusters: testkit.Clusters(b), Attempts: 3}))
				checkStatus(t, err, reply)
				if s, ok := status.FromError(err); !ok || s.Code() != status.Code(err) {
					t.Errorf("status %v (%v) of %v: want %v", s, ok, err, status.Code(err))
				}
				own := status.Convert(err).Err().Error()
				if text := err.Error(); !strings.HasPrefix(text, own+"; attempt 1 a "+b.Addr+`: RESOURCE_EXHAUSTED "slow down"`) {
					t.Errorf("error %q: want %q and the trail", text, own)
				}
				if errors.Unwrap(err).Error() != own {
					t.Errorf("error %q wraps %v: want %q", err, errors.Unwrap(err), own)
				}
			})
		}
	}
}

// ownError is an interceptor's error, with a status or without.
type ownError struct{ s *status.Status }

func (e *ownError) Error() string { return "an interceptor's own error" }

// statusError is an ownError that has one.
type statusError struct{ ownError }

func (e *statusError) GRPCStatus() *status.Status { return e.s }

// after returns interceptors that make f's error of an RPC's.
func after(f func(error) error) []grpc.DialOption {
	return []grpc.DialOption{
		grpc.WithChainUnaryInterceptor(func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoker grpc.UnaryInvoker, opts ...grpc.CallOption) error {
			return f(invoker(ctx, method, req, reply, cc, opts...))
		}),
		grpc.WithChainStreamInterceptor(func(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, streamer grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
			s, err := streamer(ctx, desc, cc, method, opts...)
			return &changedStream{s, f}, err
		}),
	}
}

type changedStream struct {
	grpc.ClientStream
	change func(error) error
}

func (s *changedStream) RecvMsg(m any) error { return s.change(s.ClientStream.RecvMsg(m)) }

// TestErrorsOfInterceptors checks what becomes of errors that interceptors after
// DialOptions make.
func TestErrorsOfInterceptors(t *testing.T) {
	plain := &ownError{}
	withStatus := &statusError{ownError{status.New(codes.Aborted, "own")}}
	for _, tc := range []struct {
		name   string
		change func(error) error
		is     error // what the error is
		code   codes.Code
		text   string // its own text
		trail  bool
	}{
		{"one that has a status", func(error) error { return withStatus }, withStatus, codes.Aborted, "an interceptor's own error", true},
		{"one that wraps gRPC's", func(err error) error { return fmt.Errorf("wrapped: %w", err) }, nil, codes.Unavailable, "wrapped: rpc error: code = Unavailable desc = scripted", true},
		{"several, joined", func(err error) error { return errors.Join(withStatus, err) }, withStatus, codes.Aborted, "an interceptor's own error\nrpc error", true},
		{"one without a status", func(error) error { return plain }, plain, codes.Unknown, "an interceptor's own error", false},
		{"a context's", func(error) error { return context.DeadlineExceeded }, context.DeadlineExceeded, codes.Unknown, "context deadline exceeded", false},
	} {
		for kind, call := range map[string]rpc{"unary": unaryRPC, "stream": receiveRPC} {
			t.Run(tc.name+"/"+kind, func(t *testing.T) {
				t.Parallel()
				backends := startScripted(t, "U")
				cc := dial(t, testkit.Service{Clusters: testkit.Clusters(backends...)}, after(tc.change)...)
				err := call(testkit.Context(t), cc)
				checkError(t, err, tc.code, tc.text)
				if tc.is != nil && !errors.Is(err, tc.is) {
					t.Errorf("error %v is not %v", err, tc.is)
				}
				var own interface{ GRPCStatus() *status.Status }
				if got := errors.As(err, &own); got != tc.trail {
					t.Errorf("error %v has a status: %v, want %v", err, got, tc.trail)
				}
				_, ok := composite.TrailFromError(err)
				if ok != tc.trail || strings.Contains(err.Error(), "attempt 1") != tc.trail {
					t.Errorf("error %q has a trail: %v, want %v", err, ok, tc.trail)
				}
				if _, isStatus := status.FromError(err); isStatus != tc.trail {
					t.Errorf("error %q is a status: %v, want %v", err, isStatus, tc.trail)
				}
			})
		}
	}
}

// TestEndOfStreamIsBare checks that the end of a stream can be compared by ==, as
// old code does.
func TestEndOfStreamIsBare(t *testing.T) {
	t.Parallel()
	backends := startScripted(t, "U OK")
	cc := dial(t, testkit.Service{Clusters: testkit.Clusters(backends...), Attempts: 2})
	stream, err := testpb.NewTestServiceClient(cc).StreamingOutputCall(testkit.Context(t), &testpb.StreamingOutputCallRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err = stream.Recv(); err != io.EOF { //nolint:errorlint // what this is about
		t.Errorf("error %#v: want io.EOF itself", err)
	}
}

// TestNoTrailWanted has nil for a trail: the RPC goes on without one.
func TestNoTrailWanted(t *testing.T) {
	t.Parallel()
	cc := dial(t, testkit.Service{Clusters: testkit.Clusters(startAll(t, "a")...)})
	for _, kind := range rpcKinds {
		checkError(t, kind.call(testkit.Context(t), cc, composite.RecordTrail(nil)), codes.OK)
	}
}

// TestHTMLPageInTrail checks that what a proxy sends instead of an answer stays on
// one line.
func TestHTMLPageInTrail(t *testing.T) {
	t.Parallel()
	page := "<html>\r\n<body>\n" + strings.Repeat("<p>\u2028Bad Gateway</p>\n", 100) + "</body>\x00</html>\n"
	backends := startAll(t, "a", "b")
	for _, b := range backends {
		b.Script(testkit.Reply{Code: codes.Unavailable, Message: page})
	}
	cc := dial(t, testkit.Service{Clusters: testkit.Clusters(backends...), Attempts: 2})
	err := unaryRPC(testkit.Context(t), cc)
	_, trail, _ := strings.Cut(err.Error(), page)
	checkLine(t, trail)
	testkit.Contains(t, err, `; attempt 1 a `+backends[0].Addr+`: UNAVAILABLE "<html>\r\n<body>\n<p>\u2028Bad Gateway</p>`)
}

// checkLine checks that a trail's text is one line that is not too long.
func checkLine(t *testing.T, text string) {
	t.Helper()
	if strings.ContainsAny(text, "\r\n\u2028\u2029\x00") || len(text) > 1024+len("; ") {
		t.Errorf("text of %d bytes, %q: want one line of at most 1 KiB", len(text), text)
	}
}

// relay is a server's handler that asks another service, and fails as that does.
func relay(t *testing.T, cc *grpc.ClientConn, fail func(error) error) error {
	t.Helper()
	server := testkit.Start(t, "relay", grpc.UnaryInterceptor(func(ctx context.Context, _ any, _ *grpc.UnaryServerInfo, _ grpc.UnaryHandler) (any, error) {
		return nil, fail(unaryRPC(ctx, cc))
	}))
	return unaryRPC(testkit.Context(t), testkit.Dial(t, server.Target()))
}

// TestTrailOnTheWire checks what the callers of a server learn that itself calls a
// composite channel: of clusters and addresses only if the server wraps the error.
func TestTrailOnTheWire(t *testing.T) {
	for _, tc := range []struct {
		name string
		fail func(error) error
		want string
		leak bool
	}{
		{"the error as it is", func(err error) error { return err }, "scripted", false},
		{"wrapped", func(err error) error { return fmt.Errorf("asking: %w", err) }, `attempt 1 a 127.`, true},
		{"its status, wrapped", func(err error) error { return fmt.Errorf("asking: %w", status.Convert(err).Err()) }, "asking: rpc error: code = Unavailable desc = scripted", false},
		{"its status, printed", func(err error) error {
			return status.Errorf(codes.Internal, "asking: %v", status.Convert(err))
		}, "asking: rpc error: code = Unavailable desc = scripted", false},
		{"its message", func(err error) error {
			return status.Errorf(codes.Internal, "asking: %v", status.Convert(err).Message())
		}, "asking: scripted", false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			backends := startScripted(t, "U")
			err := relay(t, dial(t, testkit.Service{Clusters: testkit.Clusters(backends...)}), tc.fail)
			message := status.Convert(err).Message()
			if !strings.Contains(message, tc.want) || strings.Contains(message, "attempt 1") != tc.leak {
				t.Errorf("the caller is told %q: want %q, and the trail: %v", message, tc.want, tc.leak)
			}
		})
	}
}
