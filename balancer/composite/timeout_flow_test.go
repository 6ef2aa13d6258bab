package composite_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	testpb "google.golang.org/grpc/interop/grpc_testing"

	"github.com/grpc-composite/grpc-composite/internal/testkit"
)

// largeRequest is far more than a server takes that does not read.
func largeRequest() *testpb.Payload { return &testpb.Payload{Body: make([]byte, 1<<20)} }

func largeUnary(ctx context.Context, cc *grpc.ClientConn, opts ...grpc.CallOption) error {
	_, err := testpb.NewTestServiceClient(cc).UnaryCall(ctx, &testpb.SimpleRequest{Payload: largeRequest()}, opts...)
	return err
}

func largeDownload(ctx context.Context, cc *grpc.ClientConn, opts ...grpc.CallOption) error {
	stream, err := testpb.NewTestServiceClient(cc).StreamingOutputCall(ctx, &testpb.StreamingOutputCallRequest{
		Payload: largeRequest(), ResponseParameters: []*testpb.ResponseParameters{{}},
	}, opts...)
	if err != nil {
		return err
	}
	_, err = stream.Recv()
	return err
}

// TestTimeoutOfLargeRequests checks that a request which its server does not read
// is cut as well, and goes to the next cluster if gRPC-Go keeps requests as large
// as that. A stream that its client has not half-closed is not cut, which
// TestTimeoutTimes has.
func TestTimeoutOfLargeRequests(t *testing.T) {
	for _, kind := range []struct {
		name string
		call rpc
	}{{"unary", largeUnary}, {"server streaming", largeDownload}} {
		for _, tc := range []struct {
			name  string
			opts  []grpc.CallOption
			calls int // of the healthy server
			code  codes.Code
			words []string
		}{
			{"too large to repeat", nil, 0, codes.DeadlineExceeded, []string{`attempt 1: cluster "deaf" took longer than its attemptTimeout of 100ms`}},
			{"kept", []grpc.CallOption{grpc.MaxRetryRPCBufferSize(4 << 20)}, 1, codes.OK, nil},
		} {
			t.Run(kind.name+", "+tc.name, func(t *testing.T) {
				t.Parallel()
				deaf, healthy := testkit.StartRaw(t, "deaf", testkit.RawSilence), testkit.Start(t, "healthy")
				clusters := timed(cutAfter, testkit.Cluster{Name: "deaf", Target: deaf.Target()})
				cc := dial(t, goingOn(slices.Concat(clusters, timed(inTime, testkit.Clusters(healthy)...))...))
				start := time.Now()
				checkError(t, kind.call(testkit.Context(t), cc, tc.opts...), tc.code, tc.words...)
				if took := time.Since(start); took < cutAfter || took > testkit.Patience/2 {
					t.Errorf("it took %v: want little more than %v", took, cutAfter)
				}
				if got := healthy.Count(); deaf.Streams() != 1 || got != tc.calls {
					t.Errorf("%d streams of the deaf server, %d calls of the healthy one: want 1, %d", deaf.Streams(), got, tc.calls)
				}
			})
		}
	}
}

// TestTimeoutOfBlockedRepeat shows a limit of gRPC-Go. While it repeats the
// messages of a stream it holds the lock that all of the RPC waits for, so that if
// the next server does not read them, nothing ends the RPC: no timeout, and
// neither the caller's cancel nor deadline. Only the server does, which usually is
// told the deadline and keeps it, or the loss of the connection. If this test
// fails, the limit is gone, and what allSent says about it has to go, too.
func TestTimeoutOfBlockedRepeat(t *testing.T) {
	t.Parallel()
	first, deaf := testkit.Start(t, "first", readFirst()...), testkit.Start(t, "deaf")
	first.Script(testkit.U)
	deaf.Script(hang)
	cc := dial(t, goingOn(timed(cutAfter, testkit.Clusters(first, deaf)...)...))
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		// More than a window and what gRPC-Go takes in advance, and less than what
		// it keeps to repeat.
		ended <- slowUpload(24, 10<<10, 0)(ctx, cc)
	}()
	testkit.Eventually(t, "the second attempt", func() bool { return deaf.Count() == 1 })
	cancel()
	select {
	case err := <-ended:
		t.Errorf("the RPC has ended: %v", err)
	case <-time.After(3 * cutAfter):
		deaf.Stop()
		if err := <-ended; err == nil {
			t.Error("no error")
		}
	}
}
