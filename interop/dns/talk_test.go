package dns

import (
	"errors"
	"io"
	"testing"

	"google.golang.org/grpc"
	testpb "google.golang.org/grpc/interop/grpc_testing"

	"github.com/grpc-composite/grpc-composite/internal/testkit"
)

// talk is a stream that is answered message by message.
type talk struct {
	stream grpc.BidiStreamingClient[testpb.StreamingOutputCallRequest, testpb.StreamingOutputCallResponse]
}

func openTalk(t *testing.T, cc *grpc.ClientConn) *talk {
	t.Helper()
	stream, err := testpb.NewTestServiceClient(cc).FullDuplexCall(testkit.Context(t))
	if err != nil {
		t.Fatal(err)
	}
	return &talk{stream}
}

// say sends a message, and returns the name of the server that answered.
func (s *talk) say(t *testing.T) string {
	t.Helper()
	if err := s.stream.Send(&testpb.StreamingOutputCallRequest{}); err != nil {
		t.Fatal(err)
	}
	resp, err := s.stream.Recv()
	if err != nil {
		t.Fatal(err)
	}
	return string(resp.GetPayload().GetBody())
}

// end half-closes the stream and waits for its end.
func (s *talk) end(t *testing.T) {
	t.Helper()
	if err := s.stream.CloseSend(); err != nil {
		t.Fatal(err)
	}
	if _, err := s.stream.Recv(); !errors.Is(err, io.EOF) {
		t.Errorf("the stream ended with %v: want EOF", err)
	}
}
