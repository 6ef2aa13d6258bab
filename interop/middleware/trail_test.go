package middleware

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/grpc-ecosystem/go-grpc-middleware/v2/interceptors/logging"
	"github.com/grpc-ecosystem/go-grpc-middleware/v2/interceptors/retry"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	testpb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/grpc-composite/grpc-composite/balancer/composite"
	"github.com/grpc-composite/grpc-composite/internal/testkit"
)

var kinds = []struct {
	name string
	call func(context.Context, *grpc.ClientConn) error
}{{"unary", callUnary}, {"server stream", receiveAll}}

// receiveAll receives until the stream is over.
func receiveAll(ctx context.Context, cc *grpc.ClientConn) error {
	stream, err := testpb.NewTestServiceClient(cc).StreamingOutputCall(ctx, &testpb.StreamingOutputCallRequest{})
	if err != nil {
		return err
	}
	for err == nil {
		_, err = stream.Recv()
	}
	if err == io.EOF { //nolint:errorlint // as middleware of old does
		return nil
	}
	return err
}

// dial opens a composite channel to the servers with interceptors before and after
// DialOptions.
func dial(t *testing.T, before, after []grpc.DialOption, backends ...*testkit.Backend) *grpc.ClientConn {
	t.Helper()
	config := grpc.WithDefaultServiceConfig(testkit.Service{Clusters: testkit.Clusters(backends...)}.JSON())
	return testkit.Dial(t, "composite:///", slices.Concat(before, composite.DialOptions(), after, []grpc.DialOption{config})...)
}

// start starts a server for each reply.
func start(t *testing.T, replies ...testkit.Reply) []*testkit.Backend {
	t.Helper()
	var backends []*testkit.Backend
	for i, reply := range replies {
		b := testkit.Start(t, string(rune('a'+i)))
		b.Script(reply)
		backends = append(backends, b)
	}
	return backends
}

func retrying(opts ...retry.CallOption) []grpc.DialOption {
	opts = append(retryOptions(), opts...)
	return []grpc.DialOption{
		grpc.WithChainUnaryInterceptor(retry.UnaryClientInterceptor(opts...)),
		grpc.WithChainStreamInterceptor(retry.StreamClientInterceptor(opts...)),
	}
}

// TestRetryReadsErrors checks that retries outside decide by an error with a trail
// as by gRPC's own: by its code, its message, its details and what it wraps.
func TestRetryReadsErrors(t *testing.T) {
	detail := &testpb.SimpleRequest{ResponseSize: 42}
	busy := testkit.Reply{Code: codes.ResourceExhausted, Message: "slow down", Details: []*testpb.SimpleRequest{detail}}
	for _, tc := range []struct {
		name   string
		retry  retry.CallOption
		counts string
	}{
		{"by code", retry.WithCodes(codes.ResourceExhausted), "3"},
		{"by another code", retry.WithCodes(codes.Unavailable), "1"},
		{"by message", retry.WithRetriable(func(err error) bool { return status.Convert(err).Message() == "slow down" }), "3"},
		{"by details", retry.WithRetriable(func(err error) bool {
			details := status.Convert(err).Details()
			return len(details) == 1 && proto.Equal(details[0].(proto.Message), detail)
		}), "3"},
		{"by what it is", retry.WithRetriable(func(err error) bool { return errors.Is(err, status.Convert(err).Err()) }), "3"},
		{"by what it wraps", retry.WithRetriable(func(err error) bool {
			var s interface{ GRPCStatus() *status.Status }
			return errors.As(err, &s) && s.GRPCStatus().Code() == codes.ResourceExhausted
		}), "3"},
		{"by its trail", retry.WithRetriable(func(err error) bool {
			trail, ok := composite.TrailFromError(err)
			return ok && len(trail.Attempts) == 1 && trail.Attempts[0].Cluster == "a"
		}), "3"},
	} {
		for _, kind := range kinds {
			t.Run(tc.name+"/"+kind.name, func(t *testing.T) {
				t.Parallel()
				backends := start(t, busy)
				err := kind.call(testkit.Context(t), dial(t, retrying(tc.retry), nil, backends...))
				if status.Code(err) != codes.ResourceExhausted || status.Convert(err).Message() != "slow down" {
					t.Errorf("error %v: want the server's status", err)
				}
				if got := testkit.Counts(backends...); got != tc.counts {
					t.Errorf("calls %s: want %s", got, tc.counts)
				}
			})
		}
	}
}

// TestRetriesHaveOneTrail checks that retries after DialOptions are attempts of one
// trail, those with a timeout for each call included.
func TestRetriesHaveOneTrail(t *testing.T) {
	for _, tc := range []struct {
		name    string
		options []retry.CallOption
		replies []testkit.Reply
		streams bool // the retries of streams have no timeout of their own
		want    string
	}{
		{"until one succeeds", nil, []testkit.Reply{testkit.U, testkit.U, testkit.OK}, true, "1 a Unavailable, 2 b Unavailable, 3 c OK"},
		{"in vain", nil, []testkit.Reply{testkit.U, testkit.U, testkit.U}, true, "1 a Unavailable, 2 b Unavailable, 3 c Unavailable"},
		{"with timeouts", []retry.CallOption{retry.WithPerRetryTimeout(50 * time.Millisecond)}, []testkit.Reply{{Hang: true}, testkit.U, testkit.OK}, false, "1 a DeadlineExceeded, 2 b Unavailable, 3 c OK"},
	} {
		for _, kind := range kinds {
			if kind.name != "unary" && !tc.streams {
				continue
			}
			t.Run(tc.name+"/"+kind.name, func(t *testing.T) {
				t.Parallel()
				var trail composite.Trail
				record := []grpc.DialOption{grpc.WithDefaultCallOptions(composite.RecordTrail(&trail))}
				cc := dial(t, nil, append(retrying(tc.options...), record...), start(t, tc.replies...)...)
				err := kind.call(testkit.Context(t), cc)
				if got := story(trail); got != tc.want {
					t.Errorf("trail %q: want %q", got, tc.want)
				}
				if fromError, ok := composite.TrailFromError(err); ok != (err != nil) || ok && story(fromError) != tc.want {
					t.Errorf("the error's trail is %q: want %q", story(fromError), tc.want)
				}
			})
		}
	}
}

// story writes a trail: "1 a Unavailable, 2 b OK".
func story(trail composite.Trail) string {
	var parts []string
	for _, a := range trail.Attempts {
		parts = append(parts, fmt.Sprintf("%d %s %v", a.Number, a.Cluster, a.Code))
	}
	return strings.Join(parts, ", ")
}

// logs keeps the fields of what is logged when a call is finished.
type logs struct {
	mu       sync.Mutex
	finished []map[string]string
}

func (l *logs) Log(_ context.Context, _ logging.Level, msg string, fields ...any) {
	if msg != "finished call" {
		return
	}
	line := make(map[string]string)
	for i := 0; i+1 < len(fields); i += 2 {
		line[fmt.Sprint(fields[i])] = fmt.Sprint(fields[i+1])
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.finished = append(l.finished, line)
}

// TestLogging checks what a logging interceptor says of calls: before DialOptions
// the code and the whole story, after them what gRPC says.
func TestLogging(t *testing.T) {
	for _, tc := range []struct {
		name   string
		before bool
		reply  testkit.Reply
		code   string
		trail  bool
	}{
		{"before DialOptions", true, testkit.U, "Unavailable", true},
		{"before DialOptions, a success", true, testkit.OK, "OK", false},
		{"after DialOptions", false, testkit.U, "Unavailable", false},
		{"after DialOptions, a success", false, testkit.OK, "OK", false},
	} {
		for _, kind := range kinds {
			t.Run(tc.name+"/"+kind.name, func(t *testing.T) {
				t.Parallel()
				var l logs
				log := []grpc.DialOption{
					grpc.WithChainUnaryInterceptor(logging.UnaryClientInterceptor(&l)),
					grpc.WithChainStreamInterceptor(logging.StreamClientInterceptor(&l)),
				}
				before, after := log, []grpc.DialOption(nil)
				if !tc.before {
					before, after = nil, log
				}
				_ = kind.call(testkit.Context(t), dial(t, before, after, start(t, tc.reply)...))
				if len(l.finished) != 1 {
					t.Fatalf("logged %v: want one call", l.finished)
				}
				line := l.finished[0]
				if line["grpc.code"] != tc.code || strings.Contains(line["grpc.error"], "attempt 1 a 127.") != tc.trail {
					t.Errorf("logged %v: want code %s and the trail: %v", line, tc.code, tc.trail)
				}
			})
		}
	}
}
