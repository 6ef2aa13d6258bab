package chaos

import (
	"context"
	"errors"
	"io"
	"time"

	"google.golang.org/grpc"
	testpb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
)

// call is a kind of RPC.
type call struct {
	name    string
	weight  int
	endless bool // the client does not half-close before it has the answers
	make    func(ctx context.Context, client testpb.TestServiceClient, opts ...grpc.CallOption) (result, error)
}

// result is what an RPC brought.
type result struct {
	server string // who says to have answered
	short  bool   // fewer messages than there are
}

const messages = 3 // of a stream, in each direction

var calls = []call{
	{name: "unary", weight: 12, make: unary},
	{name: "server stream", weight: 3, make: download},
	{name: "client stream", weight: 2, make: upload},
	{name: "bidi stream", weight: 2, make: exchange},
	{name: "conversation", weight: 1, endless: true, make: converse},
}

func serverOf(md metadata.MD) string {
	if values := md.Get(serverKey); len(values) == 1 {
		return values[0]
	}
	return ""
}

func unary(ctx context.Context, client testpb.TestServiceClient, opts ...grpc.CallOption) (result, error) {
	var header metadata.MD
	_, err := client.UnaryCall(ctx, &testpb.SimpleRequest{Payload: payload(64)}, append(opts, grpc.Header(&header))...)
	return result{server: serverOf(header)}, err
}

func download(ctx context.Context, client testpb.TestServiceClient, opts ...grpc.CallOption) (result, error) {
	req := &testpb.StreamingOutputCallRequest{}
	for range messages {
		req.ResponseParameters = append(req.ResponseParameters, &testpb.ResponseParameters{Size: 16 << 10})
	}
	stream, err := client.StreamingOutputCall(ctx, req, opts...)
	if err != nil {
		return result{}, err
	}
	return receive(stream, stream.Recv)
}

func upload(ctx context.Context, client testpb.TestServiceClient, opts ...grpc.CallOption) (result, error) {
	stream, err := client.StreamingInputCall(ctx, opts...)
	if err != nil {
		return result{}, err
	}
	for range messages {
		// What is wrong with the stream, receiving tells.
		_ = stream.Send(&testpb.StreamingInputCallRequest{Payload: payload(4 << 10)})
	}
	resp, err := stream.CloseAndRecv()
	if err != nil {
		return result{}, err
	}
	header, err := stream.Header()
	return result{server: serverOf(header), short: resp.GetAggregatedPayloadSize() != messages*4<<10}, err
}

func exchange(ctx context.Context, client testpb.TestServiceClient, opts ...grpc.CallOption) (result, error) {
	stream, err := client.FullDuplexCall(ctx, opts...)
	if err != nil {
		return result{}, err
	}
	for range messages {
		_ = stream.Send(&testpb.StreamingOutputCallRequest{Payload: payload(64)})
	}
	_ = stream.CloseSend()
	return receive(stream, stream.Recv)
}

// converse waits for the answer to each message, and for some time besides.
func converse(ctx context.Context, client testpb.TestServiceClient, opts ...grpc.CallOption) (result, error) {
	stream, err := client.FullDuplexCall(ctx, opts...)
	if err != nil {
		return result{}, err
	}
	for range messages {
		_ = stream.Send(&testpb.StreamingOutputCallRequest{Payload: payload(64)})
		if _, err := stream.Recv(); err != nil {
			if errors.Is(err, io.EOF) {
				return result{short: true}, nil
			}
			return result{}, err
		}
		<-time.After(20 * time.Millisecond)
	}
	_ = stream.CloseSend()
	r, err := receive(stream, stream.Recv)
	r.short = false // they have come before
	return r, err
}

// receive receives a stream's messages to its end.
func receive(stream grpc.ClientStream, recv func() (*testpb.StreamingOutputCallResponse, error)) (result, error) {
	got := 0
	for {
		_, err := recv()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return result{}, err
		}
		got++
	}
	header, err := stream.Header()
	return result{server: serverOf(header), short: got != messages}, err
}
