package composite_test

import (
	"context"
	"errors"
	"io"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	testpb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/status"

	"github.com/grpc-composite/grpc-composite/internal/testkit"
)

// TestStreamsMoveOn checks that a stream goes to the next cluster as long as no
// response has begun, with all that it has sent, and not after that.
func TestStreamsMoveOn(t *testing.T) {
	early := testkit.Reply{Code: codes.Unavailable, Message: "after headers", Headers: true}
	for _, tc := range []struct {
		name   string
		first  testkit.Reply // of the first cluster; the second is healthy
		call   rpc
		counts string
		code   codes.Code
	}{
		{"bidi, before the first response", testkit.U, bidiRPC, "1/1", codes.OK},
		{"bidi, after the response's headers", early, receiveRPC, "1/0", codes.Unavailable},
		{"bidi, after the first response", testkit.OK, failLater, "1/0", codes.Unavailable},
		{"server streaming, before the first response", testkit.U, download, "1/1", codes.OK},
		{"server streaming, after the response's headers", early, download, "1/0", codes.Unavailable},
		{"client streaming", testkit.U, upload, "1/1", codes.OK},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			backends := startAll(t, "one", "two")
			backends[0].Script(tc.first)
			cc := dial(t, testkit.Service{Clusters: testkit.Clusters(backends...), Attempts: 3})
			checkError(t, tc.call(testkit.Context(t), cc), tc.code)
			if got := testkit.Counts(backends...); got != tc.counts {
				t.Errorf("calls %s: want %s", got, tc.counts)
			}
		})
	}
}

// failLater has the server answer one message and fail after the next.
func failLater(ctx context.Context, cc *grpc.ClientConn, opts ...grpc.CallOption) error {
	stream, err := testpb.NewTestServiceClient(cc).FullDuplexCall(ctx, opts...)
	if err != nil {
		return err
	}
	for _, code := range []codes.Code{codes.OK, codes.Unavailable} {
		req := &testpb.StreamingOutputCallRequest{ResponseStatus: &testpb.EchoStatus{Code: int32(code)}} //nolint:gosec // a code
		if err := stream.Send(req); err != nil {
			return err
		}
		if _, err := stream.Recv(); err != nil {
			return err
		}
	}
	_, err = stream.Recv()
	return err
}

// download receives three messages.
func download(ctx context.Context, cc *grpc.ClientConn, opts ...grpc.CallOption) error {
	req := &testpb.StreamingOutputCallRequest{ResponseParameters: make([]*testpb.ResponseParameters, 3)}
	for i := range req.ResponseParameters {
		req.ResponseParameters[i] = &testpb.ResponseParameters{}
	}
	stream, err := testpb.NewTestServiceClient(cc).StreamingOutputCall(ctx, req, opts...)
	if err != nil {
		return err
	}
	for range req.ResponseParameters {
		if _, err := stream.Recv(); err != nil {
			return err
		}
	}
	if _, err := stream.Recv(); !errors.Is(err, io.EOF) {
		return status.Errorf(codes.DataLoss, "after the last message: %v", err)
	}
	return nil
}

// upload sends ten messages and checks that they have all arrived.
func upload(ctx context.Context, cc *grpc.ClientConn, opts ...grpc.CallOption) error {
	const messages, size = 10, 100
	stream, err := testpb.NewTestServiceClient(cc).StreamingInputCall(ctx, opts...)
	if err != nil {
		return err
	}
	for range messages {
		req := &testpb.StreamingInputCallRequest{Payload: &testpb.Payload{Body: make([]byte, size)}}
		if err := stream.Send(req); err != nil {
			break // CloseAndRecv tells what it was
		}
	}
	resp, err := stream.CloseAndRecv()
	if err == nil && resp.GetAggregatedPayloadSize() != messages*size {
		return status.Errorf(codes.DataLoss, "%d bytes have arrived: want %d", resp.GetAggregatedPayloadSize(), messages*size)
	}
	return err
}

// sendUntil sends until the condition holds or sending fails. Nothing is
// received, so that nothing but Send can notice a failure.
func sendUntil(t *testing.T, cc *grpc.ClientConn, what string, holds func() bool) (testpb.TestService_FullDuplexCallClient, error) {
	t.Helper()
	stream, err := testpb.NewTestServiceClient(cc).FullDuplexCall(testkit.Context(t))
	if err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, what, func() bool {
		err = stream.Send(&testpb.StreamingOutputCallRequest{})
		return err != nil || holds()
	})
	return stream, err
}

// TestSendNoticesTheFailure checks that an attempt which fails while the client
// sends is followed by the next one, though gRPC-Go ends it like a success.
func TestSendNoticesTheFailure(t *testing.T) {
	t.Parallel()
	backends := startScripted(t, "U U OK")
	cc := dial(t, testkit.Service{Clusters: testkit.Clusters(backends...), Attempts: 3})
	stream, err := sendUntil(t, cc, "a call of the third cluster", func() bool { return backends[2].Count() > 0 })
	if err != nil {
		t.Fatal(err)
	}
	resp, err := stream.Recv()
	if got := string(resp.GetPayload().GetBody()); got != "c" {
		t.Errorf("answer from %q (%v): want c", got, err)
	}
	if got := testkit.Counts(backends...); got != "1/1/1" {
		t.Errorf("calls %s: want 1/1/1", got)
	}
}

// TestSendNoticesTheLastFailure checks the status of a list that is over when
// gRPC-Go has not told how its last attempt failed.
func TestSendNoticesTheLastFailure(t *testing.T) {
	for _, tc := range []struct {
		name      string
		retryable []string
		reply     codes.Code
		want      codes.Code
	}{
		{"the only retryable code", []string{"UNAVAILABLE"}, codes.Unavailable, codes.Unavailable},
		{"the only retryable code, which a picker may not use", []string{"ABORTED"}, codes.Aborted, codes.Aborted},
		{"one of two", []string{"UNAVAILABLE", "ABORTED"}, codes.Aborted, codes.Unknown},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			backends := startAll(t, "one", "two")
			for _, b := range backends {
				b.Script(testkit.Reply{Code: tc.reply, Message: "scripted"})
			}
			cc := dial(t, testkit.Service{Clusters: testkit.Clusters(backends...), Attempts: 5, Retryable: tc.retryable})
			_, err := sendUntil(t, cc, "an error", func() bool { return false })
			checkError(t, err, tc.want, "not reported by grpc-go", "past the end of the list of 2")
			if got := testkit.Counts(backends...); got != "1/1" {
				t.Errorf("calls %s: want 1/1", got)
			}
		})
	}
}

// TestSendNoticesARefusedStream checks that a refused stream is no attempt of
// its own when Send notices it, either.
func TestSendNoticesARefusedStream(t *testing.T) {
	t.Parallel()
	raw := testkit.StartRaw(t, "raw", testkit.RawRefuse)
	backends := startScripted(t, "OK OK")
	cc := dial(t, testkit.Service{Clusters: rawClusters(raw, 0, backends), Attempts: 3})
	_, err := sendUntil(t, cc, "a call of another cluster", func() bool { return testkit.Counts(backends...) != "0/0" })
	if err != nil {
		t.Fatal(err)
	}
	if got := testkit.Counts(backends...); raw.Streams() != 2 || got != "1/0" {
		t.Errorf("%d streams, calls %s: want 2 and 1/0", raw.Streams(), got)
	}
}
