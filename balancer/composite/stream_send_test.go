package composite_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	testpb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"

	"github.com/grpc-composite/grpc-composite/balancer/composite"
	"github.com/grpc-composite/grpc-composite/internal/testkit"
)

// TestSendAfterTheLastFailure has a client send until its RPC has failed for good.
// It is told io.EOF, as gRPC promises, and what the server said when it receives.
func TestSendAfterTheLastFailure(t *testing.T) {
	t.Parallel()
	cc := dial(t, testkit.Service{Clusters: testkit.Clusters(startScripted(t, "U U")...), Attempts: 2})
	stream, err := sendUntil(t, cc, "an error", func() bool { return false })
	if err != io.EOF { //nolint:errorlint // what this is about
		t.Errorf("Send: %v: want io.EOF itself", err)
	}
	_, err = stream.Recv()
	checkError(t, err, codes.Unavailable, "scripted", "attempt 1 a", "attempt 2 b")
}

// TestRetryThatFailsWhileItSends has a first cluster whose server takes all that
// the client sends before it fails, and a second one whose server fails before it
// takes anything: gRPC-Go notices that while it sends again what was sent before.
func TestRetryThatFailsWhileItSends(t *testing.T) {
	const messages, size = 4, 60_000 // more than a stream's window, less than what gRPC-Go keeps for a retry
	for _, tc := range []struct {
		name string
		code codes.Code // of the second server
	}{
		{"not retryable", codes.DataLoss},
		{"no attempts left", codes.Unavailable},
	} {
		for kind, call := range map[string]func(stream grpc.ClientStream) error{
			"client stream": func(stream grpc.ClientStream) error {
				_, err := (&grpc.GenericClientStream[testpb.StreamingInputCallRequest, testpb.StreamingInputCallResponse]{ClientStream: stream}).CloseAndRecv()
				return err
			},
			"bidi": func(stream grpc.ClientStream) error {
				return stream.RecvMsg(&testpb.StreamingOutputCallResponse{})
			},
			"bidi, whose header is asked for first": func(stream grpc.ClientStream) error {
				_, _ = stream.Header()
				return stream.RecvMsg(&testpb.StreamingOutputCallResponse{})
			},
		} {
			t.Run(tc.name+"/"+kind, func(t *testing.T) {
				t.Parallel()
				sent := make(chan struct{})
				a, b := testkit.Start(t, "a", grpc.InitialWindowSize(1<<20)), testkit.Start(t, "b")
				a.Respond(func(int, testkit.Call) testkit.Reply {
					<-sent
					return testkit.U
				})
				b.Script(fails(tc.code))
				cc := dial(t, testkit.Service{Clusters: testkit.Clusters(a, b), Attempts: 2})
				var trail composite.Trail
				bidi, method := kind != "client stream", testpb.TestService_StreamingInputCall_FullMethodName
				if bidi {
					method = testpb.TestService_FullDuplexCall_FullMethodName
				}
				stream, err := cc.NewStream(testkit.Context(t), &grpc.StreamDesc{ClientStreams: true, ServerStreams: bidi}, method, composite.RecordTrail(&trail))
				if err != nil {
					t.Fatal(err)
				}
				for range messages {
					if err := stream.SendMsg(&testpb.StreamingInputCallRequest{Payload: &testpb.Payload{Body: make([]byte, size)}}); err != nil {
						t.Fatal(err)
					}
				}
				close(sent)
				checkError(t, call(stream), tc.code, "scripted", "attempt 2 b")
				checkStory(t, trail, "1 a Unavailable; 2 b "+tc.code.String(), a, b)
			})
		}
	}
}

// slowSender is a stats handler that holds up each attempt but the first ones between its
// header and its message, so that gRPC-Go is likely to notice a failure as it sends.
type slowSender struct {
	quick int32 // this many attempts are not held up
	sent  *atomic.Int32
}

func (slowSender) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context { return ctx }

func (s slowSender) HandleRPC(_ context.Context, event stats.RPCStats) {
	if _, ok := event.(*stats.OutHeader); ok && s.sent.Add(1) > s.quick {
		time.Sleep(20 * time.Millisecond)
	}
}

func (slowSender) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }

func (slowSender) HandleConn(context.Context, stats.ConnStats) {}

// TestFailureThatSendingNotices has an attempt fail between its header and its message. The
// RPC's error is a status, of which the trail tells the same, and never io.EOF.
func TestFailureThatSendingNotices(t *testing.T) {
	for _, tc := range []struct {
		name      string
		servers   string // X resets its streams
		quick     int32
		retryable []string
	}{
		{"the only attempt", "X", 0, nil},
		{"all attempts", "X X", 0, []string{"UNAVAILABLE", "INTERNAL"}},
		{"the last attempt, whose code is not retried", "U X", 1, []string{"UNAVAILABLE"}},
	} {
		for _, kind := range []struct {
			name string
			call rpc
		}{{"unary", unaryRPC}, {"server streaming", download}} {
			t.Run(tc.name+"/"+kind.name, func(t *testing.T) {
				t.Parallel()
				var clusters []testkit.Cluster
				for i, word := range strings.Fields(tc.servers) {
					name := string(rune('a' + i))
					if word == "X" {
						clusters = append(clusters, testkit.Cluster{Name: name, Target: testkit.StartRaw(t, name, testkit.RawReset).Target()})
						continue
					}
					b := testkit.Start(t, name)
					b.Script(testkit.U)
					clusters = append(clusters, testkit.Cluster{Name: name, Target: b.Target()})
				}
				cc := dial(t, testkit.Service{Clusters: clusters, Attempts: len(clusters), Retryable: tc.retryable}, grpc.WithStatsHandler(slowSender{tc.quick, new(atomic.Int32)}))
				trail, err := record(testkit.Context(t), t, cc, kind.call)
				last := trail.Attempts[len(trail.Attempts)-1]
				if code := status.Code(err); errors.Is(err, io.EOF) || code == codes.OK || last.Code != code {
					t.Errorf("error %v, and the last attempt ended with %v: want the same code, and not io.EOF", err, last.Code)
				}
			})
		}
	}
}

// TestDownloadThatIsGivenUp has sending end a server-streaming RPC for good, and a client
// that cancels it without receiving: the attempt counts, and fails for the cooldown.
func TestDownloadThatIsGivenUp(t *testing.T) {
	t.Parallel()
	a, b := testkit.StartRaw(t, "a", testkit.RawReset), testkit.StartRaw(t, "b", testkit.RawReset)
	last, policy := breaking(t, b.Addr, map[string]any{"consecutiveFailures": 1, "codes": []string{"INTERNAL"}, "time": aLongTime, "maxTime": aLongTime})
	last.Name = "b"
	cc := dial(t, testkit.Service{Clusters: []testkit.Cluster{{Name: "a", Target: a.Addr}, last}, Attempts: 2, Retryable: []string{"INTERNAL"}},
		grpc.WithStatsHandler(slowSender{0, new(atomic.Int32)}))
	ctx, cancel := context.WithCancel(testkit.Context(t))
	if _, err := testpb.NewTestServiceClient(cc).StreamingOutputCall(ctx, &testpb.StreamingOutputCallRequest{}); err != nil {
		t.Fatal(err)
	}
	cancel()
	testkit.Eventually(t, "the last attempt counts", func() bool { return countsOf(cc)["picks b 2"] == 1 })
	testkit.Eventually(t, "the cluster rests", func() bool { return composite.Resting(policy.Child(t, 0)) })
}
