package composite_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	testpb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"

	"github.com/grpc-composite/grpc-composite/internal/testkit"
)

const (
	// cutAfter is the limit in tests in which servers hang.
	cutAfter = 100 * time.Millisecond
	// inTime is the limit in tests in which servers have to keep to it, on a
	// machine that may be busy.
	inTime = 2 * time.Second
)

var hang = testkit.Reply{Hang: true}

// timed gives clusters an attemptTimeout.
func timed(limit time.Duration, clusters ...testkit.Cluster) []testkit.Cluster {
	list := make([]testkit.Cluster, len(clusters))
	for i, c := range clusters {
		more := map[string]any{"attemptTimeout": fmt.Sprintf("%gs", limit.Seconds())}
		maps.Copy(more, c.More)
		list[i] = testkit.Cluster{Name: c.Name, Target: c.Target, More: more}
	}
	return list
}

// goingOn is a service with an attempt for each cluster, and a retry policy that
// goes on from an attempt that has taken too long.
func goingOn(clusters ...testkit.Cluster) testkit.Service {
	return testkit.Service{Clusters: clusters, Attempts: len(clusters), Retryable: []string{"UNAVAILABLE", "DEADLINE_EXCEEDED"}}
}

// fourKinds are all kinds of RPC, made by clients that do not dally.
var fourKinds = []struct {
	name string
	call rpc
}{
	{"unary", unaryRPC},
	{"server streaming", download},
	{"client streaming", upload},
	{"bidi", bidiRPC},
}

// checkMessage checks an RPC's status: its code, and that its message has words and
// has others not, or "". The error's text has the trail besides.
func checkMessage(t testing.TB, err error, code codes.Code, has, hasNot string) {
	t.Helper()
	s := status.Convert(err)
	if s.Code() != code {
		t.Errorf("code %v (%v): want %v", s.Code(), err, code)
	}
	if !strings.Contains(s.Message(), has) {
		t.Errorf("message %q: want %q in it", s.Message(), has)
	}
	if hasNot != "" && strings.Contains(s.Message(), hasNot) {
		t.Errorf("message %q: want no %q in it", s.Message(), hasNot)
	}
}

// bubbleNet connects servers and channels inside a synctest bubble. They are real
// ones, and only the connections between them are in memory. Since time goes by
// only while all of them wait, what happens when is exact.
type bubbleNet struct {
	listeners map[string]*bufconn.Listener
	dialing   time.Duration // how long it takes to connect
}

func newBubbleNet() *bubbleNet { return &bubbleNet{listeners: make(map[string]*bufconn.Listener)} }

// start starts a server, whose name is its address as well. It is stopped when the
// test ends.
func (n *bubbleNet) start(t testing.TB, name string, opts ...grpc.ServerOption) *testkit.Backend {
	t.Helper()
	lis := bufconn.Listen(1 << 20)
	n.listeners[name] = lis
	b, server := &testkit.Backend{Name: name, Addr: name}, grpc.NewServer(opts...)
	testpb.RegisterTestServiceServer(server, b)
	go func() { _ = server.Serve(lis) }()
	t.Cleanup(server.Stop)
	return b
}

// dial opens a channel.
func (n *bubbleNet) dial(t testing.TB, s testkit.Service, opts ...grpc.DialOption) *grpc.ClientConn {
	t.Helper()
	return dial(t, s, append(opts, n.dialer())...)
}

func (n *bubbleNet) dialer() grpc.DialOption {
	return grpc.WithContextDialer(func(ctx context.Context, name string) (net.Conn, error) {
		if err := pause(ctx, n.dialing); err != nil {
			return nil, err
		}
		return n.listeners[name].DialContext(ctx)
	})
}

// rpcTime is the deadline of RPCs within a bubble.
const rpcTime = time.Minute

// outcome makes an RPC within a bubble, and says what it came to: when, the calls
// that each server has seen, and its code.
func outcome(t testing.TB, call rpc, cc *grpc.ClientConn, backends ...*testkit.Backend) (text string, err error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), rpcTime)
	defer cancel()
	start := time.Now()
	err = call(ctx, cc)
	took := time.Since(start).Round(10 * time.Millisecond) // a back-off of about 1 ms is not worth telling
	return fmt.Sprintf("%v %s %v", took, testkit.Counts(backends...), status.Code(err)), err
}

// pause lets time go by, as a server that works or a client that has nothing to
// send.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// headersThenSilence has a server wait, send its headers, wait again, and then do
// what it always does.
func headersThenSilence(before, after time.Duration) []grpc.ServerOption {
	wait := func(ctx context.Context, sendHeader func() error) error {
		if err := pause(ctx, before); err != nil {
			return err
		}
		if err := sendHeader(); err != nil {
			return err
		}
		return pause(ctx, after)
	}
	return []grpc.ServerOption{
		grpc.UnaryInterceptor(func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
			if err := wait(ctx, func() error { return grpc.SendHeader(ctx, nil) }); err != nil {
				return nil, err
			}
			return handler(ctx, req)
		}),
		grpc.StreamInterceptor(func(srv any, ss grpc.ServerStream, _ *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
			if err := wait(ss.Context(), func() error { return ss.SendHeader(nil) }); err != nil {
				return err
			}
			return handler(srv, ss)
		}),
	}
}

// readFirst has a server read all that a client streams before it answers.
func readFirst() []grpc.ServerOption {
	return []grpc.ServerOption{grpc.StreamInterceptor(func(srv any, ss grpc.ServerStream, _ *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
		for {
			switch err := ss.RecvMsg(&testpb.StreamingInputCallRequest{}); {
			case errors.Is(err, io.EOF):
				return handler(srv, ss)
			case err != nil:
				return err
			}
		}
	})}
}

// slowUpload sends messages of a size, with a pause before each, and half-closes
// after another one.
func slowUpload(messages, size int, gap time.Duration) rpc {
	return func(ctx context.Context, cc *grpc.ClientConn, opts ...grpc.CallOption) error {
		stream, err := testpb.NewTestServiceClient(cc).StreamingInputCall(ctx, opts...)
		if err != nil {
			return err
		}
		req := &testpb.StreamingInputCallRequest{Payload: &testpb.Payload{Body: make([]byte, size)}}
		for range messages {
			time.Sleep(gap)
			if err := stream.Send(req); err != nil {
				break // CloseAndRecv has the RPC's own
			}
		}
		time.Sleep(gap)
		_, err = stream.CloseAndRecv()
		return err
	}
}

// slowBidi sends a message, half-closes after a pause, and receives until the end
// after another one.
func slowBidi(closing, receiving time.Duration) rpc {
	return func(ctx context.Context, cc *grpc.ClientConn, opts ...grpc.CallOption) error {
		stream, err := testpb.NewTestServiceClient(cc).FullDuplexCall(ctx, opts...)
		if err != nil {
			return err
		}
		if err := stream.Send(&testpb.StreamingOutputCallRequest{}); err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		time.Sleep(closing)
		if err := stream.CloseSend(); err != nil {
			return err
		}
		time.Sleep(receiving)
		for {
			switch _, err := stream.Recv(); {
			case errors.Is(err, io.EOF):
				return nil
			case err != nil:
				return err
			}
		}
	}
}
