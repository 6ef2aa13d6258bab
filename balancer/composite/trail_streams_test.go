package composite_test

import (
	"context"
	"errors"
	"io"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	testpb "google.golang.org/grpc/interop/grpc_testing"

	"github.com/grpc-composite/grpc-composite/balancer/composite"
	"github.com/grpc-composite/grpc-composite/internal/testkit"
)

// TestTrailOfSends checks the trail of streams whose failures Send notices, of
// which gRPC-Go does not tell the code.
func TestTrailOfSends(t *testing.T) {
	const unreported = "not reported by grpc-go"
	denied := fails(codes.PermissionDenied)
	for _, tc := range []struct {
		name      string
		replies   []testkit.Reply
		attempts  int
		retryable []string
		want      string
		messages  []string // one for each attempt
	}{
		{"the only retryable code", []testkit.Reply{testkit.U, testkit.U, testkit.OK}, 3, []string{"UNAVAILABLE"}, "1 a Unavailable; 2 b Unavailable; 3 c OK committed", []string{unreported, unreported, ""}},
		{"one of two", []testkit.Reply{testkit.U, testkit.OK}, 3, []string{"UNAVAILABLE", "ABORTED"}, "1 a Unknown; 2 b OK committed", []string{unreported, ""}},
		{"not retryable: the RPC's own", []testkit.Reply{denied}, 3, []string{"UNAVAILABLE"}, "1 a PermissionDenied", []string{"scripted"}},
		{"not retryable, later", []testkit.Reply{testkit.U, denied}, 3, []string{"UNAVAILABLE"}, "1 a Unavailable; 2 b PermissionDenied", []string{unreported, "scripted"}},
		{"no retries left", []testkit.Reply{testkit.U, testkit.U, testkit.OK}, 2, []string{"UNAVAILABLE"}, "1 a Unavailable; 2 b Unavailable", []string{unreported, "scripted"}},
		{"past the end of the list", []testkit.Reply{testkit.U, testkit.U}, 3, []string{"UNAVAILABLE"}, "1 a Unavailable; 2 b Unavailable; 3 - Unavailable unsent", []string{unreported, unreported, unreported}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			var backends []*testkit.Backend
			for i, reply := range tc.replies {
				b := testkit.Start(t, string(rune('a'+i)))
				b.Script(reply)
				backends = append(backends, b)
			}
			last := backends[len(backends)-1]
			cc := dial(t, testkit.Service{Clusters: testkit.Clusters(backends...), Attempts: tc.attempts, Retryable: tc.retryable})
			trail, _ := record(testkit.Context(t), t, cc, func(ctx context.Context, cc *grpc.ClientConn, opts ...grpc.CallOption) error {
				return sendAlone(ctx, t, cc, func() bool { return last.Count() > 0 && len(tc.messages[len(tc.messages)-1]) == 0 }, opts...)
			})
			checkStory(t, trail, tc.want, backends...)
			for i, want := range tc.messages {
				if i < len(trail.Attempts) && trail.Attempts[i].Message != want {
					t.Errorf("attempt %d has the message %q: want %q", i+1, trail.Attempts[i].Message, want)
				}
			}
		})
	}
}

// sendAlone sends until enough holds or a Send fails, and receives only then.
func sendAlone(ctx context.Context, t *testing.T, cc *grpc.ClientConn, enough func() bool, opts ...grpc.CallOption) error {
	t.Helper()
	stream, err := testpb.NewTestServiceClient(cc).FullDuplexCall(ctx, opts...)
	if err != nil {
		return err
	}
	testkit.Eventually(t, "enough was sent", func() bool {
		err = stream.Send(&testpb.StreamingOutputCallRequest{})
		return err != nil || enough()
	})
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if err := stream.CloseSend(); err != nil {
		return err
	}
	return drain(stream)
}

// TestAbandonedStream checks that the trail of a stream is complete, for those who
// are told of its end, when nobody receives that.
func TestAbandonedStream(t *testing.T) {
	for _, tc := range []struct {
		name    string
		abandon func(cancel func(), cc *grpc.ClientConn)
		want    string
	}{
		{"cancelled", func(cancel func(), _ *grpc.ClientConn) { cancel() }, "1 b Canceled committed past a:transient_failure"},
		{"channel closed", func(_ func(), cc *grpc.ClientConn) { _ = cc.Close() }, "1 b Canceled committed past a:transient_failure"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			backends := startAll(t, "b")
			cc := dial(t, testkit.Service{Clusters: append([]testkit.Cluster{closedCluster("a")}, testkit.Clusters(backends...)...)})
			ctx, cancel := context.WithCancel(testkit.Context(t))
			defer cancel()
			var trail composite.Trail
			over := make(chan string, 1)
			stream, err := testpb.NewTestServiceClient(cc).FullDuplexCall(ctx,
				grpc.OnFinish(func(error) { over <- story(trail) }), composite.RecordTrail(&trail))
			if err != nil {
				t.Fatal(err)
			}
			if err := stream.Send(&testpb.StreamingOutputCallRequest{}); err != nil {
				t.Fatal(err)
			}
			if _, err := stream.Recv(); err != nil {
				t.Fatal(err)
			}
			tc.abandon(cancel, cc)
			select {
			case got := <-over:
				if got != tc.want {
					t.Errorf("trail %q: want %q", got, tc.want)
				}
			case <-testkit.Context(t).Done():
				t.Error("the RPC never ended")
			}
		})
	}
}

// TestTrailInOnFinish checks that the trail is there for all who are told of the
// RPC's end, whether they come before the option or after it.
func TestTrailInOnFinish(t *testing.T) {
	for _, tc := range []struct {
		servers string
		want    string
	}{
		{"U OK", "1 a Unavailable; 2 b OK committed"},
		{"U U", "1 a Unavailable; 2 b Unavailable"},
	} {
		for _, kind := range trailKinds {
			t.Run(tc.servers+"/"+kind.name, func(t *testing.T) {
				t.Parallel()
				cc := dial(t, testkit.Service{Clusters: testkit.Clusters(startAnswering(t, tc.servers)...), Attempts: 2})
				var trail composite.Trail
				var told []string
				tell := grpc.OnFinish(func(error) { told = append(told, story(trail)) })
				_ = kind.call(testkit.Context(t), cc, tell, composite.RecordTrail(&trail), tell)
				if len(told) != 2 || told[0] != tc.want || told[1] != tc.want {
					t.Errorf("told %q: want %q twice", told, tc.want)
				}
			})
		}
	}
}

// TestTrailWhenCallReturns has streams end while their context does, when gRPC-Go
// ends them on a goroutine of its own, and checks that the trail is complete when
// the caller is told, and not written any more.
func TestTrailWhenCallReturns(t *testing.T) {
	const rpcs = 200
	for _, tc := range []struct {
		name  string
		reply testkit.Reply
	}{
		{"while receiving", testkit.Reply{Hang: true}},
		{"while it succeeds", testkit.OK},
		{"while it fails", testkit.U},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			backends := startAll(t, "a")
			cc := dial(t, testkit.Service{Clusters: testkit.Clusters(backends...)})
			testkit.AwaitServer(t, cc, "a")
			for range rpcs {
				ctx, cancel := context.WithCancel(testkit.Context(t))
				backends[0].Respond(func(int, testkit.Call) testkit.Reply {
					go cancel()
					return tc.reply
				})
				trail, err := record(ctx, t, cc, chat)
				if len(trail.Attempts) != 1 || trail.Attempts[0].Cluster != "a" {
					t.Errorf("trail %q after %v: want an attempt of a", story(trail), err)
				}
				cancel()
			}
		})
	}
}
