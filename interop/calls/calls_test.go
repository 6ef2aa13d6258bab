// Package calls tests composite channels with the settings of channels and calls
// that programs use: disabled retries, waiting for ready, compressors, and messages
// that are larger than windows and limits.
package calls

import (
	"bytes"
	"context"
	"errors"
	"io"
	"slices"
	"testing"

	"google.golang.org/grpc"
	testpb "google.golang.org/grpc/interop/grpc_testing"

	"github.com/grpc-composite/grpc-composite/balancer/composite"
	"github.com/grpc-composite/grpc-composite/internal/testkit"
	"github.com/grpc-composite/grpc-composite/interop/internal/observe"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// dial opens a channel with options after DialOptions.
func dial(t *testing.T, s testkit.Service, after ...grpc.DialOption) *grpc.ClientConn {
	t.Helper()
	return testkit.Dial(t, "composite:///", slices.Concat(composite.DialOptions(), []grpc.DialOption{grpc.WithDefaultServiceConfig(s.JSON())}, after)...)
}

// backends starts a server for each script, named a, b, and so on.
func backends(t *testing.T, replies ...testkit.Reply) []*testkit.Backend {
	t.Helper()
	var all []*testkit.Backend
	for i, reply := range replies {
		b := testkit.StartOn(t, string(rune('a'+i)), testkit.Loopback())
		b.Script(reply)
		all = append(all, b)
	}
	return all
}

// call makes an RPC with a request of a size.
type call func(ctx context.Context, cc *grpc.ClientConn, size int, opts ...grpc.CallOption) error

// calls are RPCs of all four sorts.
var calls = map[string]call{
	"unary": func(ctx context.Context, cc *grpc.ClientConn, size int, opts ...grpc.CallOption) error {
		_, err := testpb.NewTestServiceClient(cc).UnaryCall(ctx, &testpb.SimpleRequest{Payload: body(size)}, opts...)
		return err
	},
	"server stream": func(ctx context.Context, cc *grpc.ClientConn, size int, opts ...grpc.CallOption) error {
		stream, err := testpb.NewTestServiceClient(cc).StreamingOutputCall(ctx, &testpb.StreamingOutputCallRequest{
			Payload: body(size), ResponseParameters: []*testpb.ResponseParameters{{Size: 1}},
		}, opts...)
		if err != nil {
			return err
		}
		return drain(stream)
	},
	"client stream": func(ctx context.Context, cc *grpc.ClientConn, size int, opts ...grpc.CallOption) error {
		stream, err := testpb.NewTestServiceClient(cc).StreamingInputCall(ctx, opts...)
		if err != nil {
			return err
		}
		if err := stream.Send(&testpb.StreamingInputCallRequest{Payload: body(size)}); err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		_, err = stream.CloseAndRecv()
		return err
	},
	"bidi stream": func(ctx context.Context, cc *grpc.ClientConn, size int, opts ...grpc.CallOption) error {
		stream, err := testpb.NewTestServiceClient(cc).FullDuplexCall(ctx, opts...)
		if err != nil {
			return err
		}
		if err := stream.Send(&testpb.StreamingOutputCallRequest{Payload: body(size)}); err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		if err := stream.CloseSend(); err != nil {
			return err
		}
		return drain(stream)
	},
}

// readFirst are the calls whose message gRPC has read when the server's handler is
// asked, so that the handler cannot answer while it is on its way.
var readFirst = []string{"unary", "server stream"}

// drain receives until the stream is over.
func drain(stream grpc.ClientStream) error {
	for {
		var resp testpb.StreamingOutputCallResponse
		if err := stream.RecvMsg(&resp); err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
	}
}

// body is a payload that compresses well.
func body(size int) *testpb.Payload {
	const line = "the quick brown fox jumps over the lazy dog\n"
	return &testpb.Payload{Body: bytes.Repeat([]byte(line), size/len(line)+1)[:size]}
}

// wantStory checks what became of an RPC.
func wantStory(t *testing.T, trail composite.Trail, want string) {
	t.Helper()
	if got := observe.Trail(trail); got != want {
		t.Errorf("trail %q: want %q", got, want)
	}
}
