package languages

import (
	"context"
	"errors"
	"io"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	testpb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
)

// behaviorKey is the request metadata with which a call asks a server to misbehave
// in a way that the test service has no field for.
const behaviorKey = "x-behavior"

const (
	behaviorHeaders = "headers" // send response headers, and go on
	behaviorRefuse  = "refuse"  // fail in the handler itself, not in the stream that it returns
	behaviorCrash   = "crash"   // throw, panic
	behaviorHang    = "hang"    // say so on standard output, and never answer
)

// call makes an RPC to its end.
type call func(ctx context.Context, cc grpc.ClientConnInterface, opts ...grpc.CallOption) error

// behaving asks the server of a call to misbehave.
func behaving(behavior string, c call) call {
	return func(ctx context.Context, cc grpc.ClientConnInterface, opts ...grpc.CallOption) error {
		return c(metadata.AppendToOutgoingContext(ctx, behaviorKey, behavior), cc, opts...)
	}
}

func failure(code codes.Code) *testpb.EchoStatus {
	if code == codes.OK {
		return nil
	}
	return &testpb.EchoStatus{Code: int32(code), Message: "scripted"} //nolint:gosec // few codes
}

// unary is a unary call whose handler ends with a code.
func unary(code codes.Code) call {
	return func(ctx context.Context, cc grpc.ClientConnInterface, opts ...grpc.CallOption) error {
		_, err := testpb.NewTestServiceClient(cc).UnaryCall(ctx, &testpb.SimpleRequest{ResponseStatus: failure(code)}, opts...)
		return err
	}
}

// tooLarge has a request above the limit that gRPC's servers have by default.
func tooLarge(ctx context.Context, cc grpc.ClientConnInterface, opts ...grpc.CallOption) error {
	request := &testpb.SimpleRequest{Payload: &testpb.Payload{Body: make([]byte, 5<<20)}}
	opts = append(opts, grpc.MaxRetryRPCBufferSize(16<<20))
	_, err := testpb.NewTestServiceClient(cc).UnaryCall(ctx, request, opts...)
	return err
}

func unimplemented(ctx context.Context, cc grpc.ClientConnInterface, opts ...grpc.CallOption) error {
	_, err := testpb.NewUnimplementedServiceClient(cc).UnimplementedCall(ctx, &testpb.Empty{}, opts...)
	return err
}

// serverStream is a call whose server sends messages and then fails.
func serverStream(messages int) call {
	return func(ctx context.Context, cc grpc.ClientConnInterface, opts ...grpc.CallOption) error {
		request := &testpb.StreamingOutputCallRequest{ResponseStatus: failure(codes.Unavailable)}
		for range messages {
			request.ResponseParameters = append(request.ResponseParameters, &testpb.ResponseParameters{Size: 1})
		}
		stream, err := testpb.NewTestServiceClient(cc).StreamingOutputCall(ctx, request, opts...)
		if err != nil {
			return err
		}
		return drain(stream)
	}
}

// bidi is a call whose server fails at the first request.
func bidi(ctx context.Context, cc grpc.ClientConnInterface, opts ...grpc.CallOption) error {
	stream, err := testpb.NewTestServiceClient(cc).FullDuplexCall(ctx, opts...)
	if err != nil {
		return err
	}
	// An error of Send is io.EOF: Recv has the status.
	_ = stream.Send(&testpb.StreamingOutputCallRequest{ResponseStatus: failure(codes.Unavailable)})
	_ = stream.CloseSend()
	return drain(stream)
}

// drain receives to the end of a stream.
func drain(stream interface {
	Recv() (*testpb.StreamingOutputCallResponse, error)
}) error {
	for {
		switch _, err := stream.Recv(); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
	}
}

// conversation is a stream in flight: it has had an answer.
type conversation struct {
	grpc.BidiStreamingClient[testpb.StreamingOutputCallRequest, testpb.StreamingOutputCallResponse]
}

func converse(ctx context.Context, cc grpc.ClientConnInterface) (conversation, error) {
	stream, err := testpb.NewTestServiceClient(cc).FullDuplexCall(ctx)
	if err != nil {
		return conversation{}, err
	}
	c := conversation{stream}
	return c, c.exchange()
}

// exchange sends a message and receives one.
func (c conversation) exchange() error {
	request := &testpb.StreamingOutputCallRequest{ResponseParameters: []*testpb.ResponseParameters{{Size: 1}}}
	if err := c.Send(request); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	_, err := c.Recv()
	return err
}

// end half-closes the stream and waits for its end.
func (c conversation) end() error {
	if err := c.CloseSend(); err != nil {
		return err
	}
	return drain(c)
}
