package testkit

import (
	"context"
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	testpb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// Call is one attempt as a server saw it.
type Call struct {
	Backend  string
	Metadata metadata.MD
}

// Reply is how a server answers one attempt.
type Reply struct {
	Code    codes.Code
	Message string
	Headers bool // response headers go first, and commit the RPC
	Hang    bool // no answer until the attempt is given up
	Delay   time.Duration
	Details []*testpb.SimpleRequest // of the status
}

// OK is the reply of a healthy server.
var OK = Reply{}

// U is the reply of a server that is unavailable.
var U = Reply{Code: codes.Unavailable, Message: "scripted"}

// Backend is a gRPC server with scripted replies. Its methods are safe for
// concurrent use.
type Backend struct {
	testpb.UnimplementedTestServiceServer
	Name string
	Addr string

	opts     []grpc.ServerOption
	register func(*grpc.Server)

	mu      sync.Mutex
	server  *grpc.Server
	respond func(n int, c Call) Reply
	calls   []Call
}

// Start starts a server that answers OK, on an address of its own. It is stopped
// when the test ends.
func Start(t testing.TB, name string, opts ...grpc.ServerOption) *Backend {
	t.Helper()
	return StartWith(t, name, nil, opts...)
}

// StartWith is Start for a server with more services, which register adds.
func StartWith(t testing.TB, name string, register func(*grpc.Server), opts ...grpc.ServerOption) *Backend {
	t.Helper()
	b := &Backend{Name: name, opts: opts, register: register}
	b.listen(t, net.JoinHostPort(Loopback(), "0"))
	t.Cleanup(b.Stop)
	return b
}

func (b *Backend) listen(t testing.TB, addr string) {
	t.Helper()
	var lis net.Listener
	Eventually(t, "server "+b.Name+" listens on "+addr, func() (ok bool) {
		// The port of a stopped server may be in use for a moment, by a
		// connection that somebody makes.
		var err error
		lis, err = net.Listen("tcp", addr)
		return err == nil
	})
	server := grpc.NewServer(b.opts...)
	testpb.RegisterTestServiceServer(server, b)
	if b.register != nil {
		b.register(server)
	}
	b.mu.Lock()
	b.Addr, b.server = lis.Addr().String(), server
	b.mu.Unlock()
	go func() { _ = server.Serve(lis) }()
}

// Target is a gRPC target for the server.
func (b *Backend) Target() string { return "passthrough:///" + b.Addr }

// Stop stops the server at once, and resets its connections.
func (b *Backend) Stop() {
	b.mu.Lock()
	server := b.server
	b.mu.Unlock()
	server.Stop()
}

// GracefulStop stops the server when its RPCs have ended.
func (b *Backend) GracefulStop() {
	b.mu.Lock()
	server := b.server
	b.mu.Unlock()
	server.GracefulStop()
}

// Restart starts the server again, on the port that it had.
func (b *Backend) Restart(t testing.TB) {
	t.Helper()
	b.listen(t, b.Addr)
}

// Script sets the replies to the next attempts; past its end the last one
// repeats. It forgets the calls that it has seen.
func (b *Backend) Script(replies ...Reply) {
	b.Respond(func(n int, _ Call) Reply { return replies[min(n, len(replies))-1] })
}

// Respond has f decide how the next attempts, which count from 1, are answered.
// f runs on the server's goroutines. It forgets the calls that it has seen.
func (b *Backend) Respond(f func(n int, c Call) Reply) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.respond, b.calls = f, nil
}

// Calls returns the attempts seen since the last Script.
func (b *Backend) Calls() []Call {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]Call(nil), b.calls...)
}

// Count is how many attempts were seen since the last Script.
func (b *Backend) Count() int { return len(b.Calls()) }

// next records an attempt and returns its reply.
func (b *Backend) next(ctx context.Context) Reply {
	md, _ := metadata.FromIncomingContext(ctx)
	call := Call{Backend: b.Name, Metadata: md}
	b.mu.Lock()
	b.calls = append(b.calls, call)
	n, respond := len(b.calls), b.respond
	b.mu.Unlock()
	if respond == nil {
		return OK
	}
	return respond(n, call)
}

// answer carries a reply out, except for its message.
func (b *Backend) answer(ctx context.Context, sendHeader func(metadata.MD) error) error {
	reply := b.next(ctx)
	if reply.Hang {
		<-ctx.Done()
		return ctx.Err()
	}
	if reply.Delay > 0 {
		select {
		case <-time.After(reply.Delay):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if reply.Headers {
		if err := sendHeader(metadata.Pairs("from", b.Name)); err != nil {
			return err
		}
	}
	if reply.Code == codes.OK {
		return nil
	}
	st := status.New(reply.Code, reply.Message)
	for _, d := range reply.Details {
		var err error
		if st, err = st.WithDetails(d); err != nil {
			return err
		}
	}
	return st.Err()
}

// UnaryCall answers with the server's name.
func (b *Backend) UnaryCall(ctx context.Context, _ *testpb.SimpleRequest) (*testpb.SimpleResponse, error) {
	if err := b.answer(ctx, func(md metadata.MD) error { return grpc.SendHeader(ctx, md) }); err != nil {
		return nil, err
	}
	return &testpb.SimpleResponse{Hostname: b.Name}, nil
}

// EmptyCall answers OK and records nothing: it is for benchmarks.
func (b *Backend) EmptyCall(context.Context, *testpb.Empty) (*testpb.Empty, error) {
	return &testpb.Empty{}, nil
}

// FullDuplexCall answers each message with a message, and then as scripted.
func (b *Backend) FullDuplexCall(stream grpc.BidiStreamingServer[testpb.StreamingOutputCallRequest, testpb.StreamingOutputCallResponse]) error {
	if err := b.answer(stream.Context(), stream.SendHeader); err != nil {
		return err
	}
	for {
		req, err := stream.Recv()
		if err != nil {
			return nil //nolint:nilerr // the client half-closed or has gone
		}
		if err := stream.Send(&testpb.StreamingOutputCallResponse{Payload: &testpb.Payload{Body: []byte(b.Name)}}); err != nil {
			return err
		}
		if code := req.GetResponseStatus(); code.GetCode() != 0 {
			return status.Error(codes.Code(code.GetCode()), code.GetMessage()) //nolint:gosec // a code from the test
		}
	}
}

// StreamingOutputCall sends one message for each of the request's parameters.
func (b *Backend) StreamingOutputCall(req *testpb.StreamingOutputCallRequest, stream grpc.ServerStreamingServer[testpb.StreamingOutputCallResponse]) error {
	if err := b.answer(stream.Context(), stream.SendHeader); err != nil {
		return err
	}
	for range req.GetResponseParameters() {
		if err := stream.Send(&testpb.StreamingOutputCallResponse{Payload: &testpb.Payload{Body: []byte(b.Name)}}); err != nil {
			return err
		}
	}
	return nil
}

// StreamingInputCall answers when the client has half-closed.
func (b *Backend) StreamingInputCall(stream grpc.ClientStreamingServer[testpb.StreamingInputCallRequest, testpb.StreamingInputCallResponse]) error {
	if err := b.answer(stream.Context(), stream.SendHeader); err != nil {
		return err
	}
	var size int32
	for {
		req, err := stream.Recv()
		if err != nil {
			return stream.SendAndClose(&testpb.StreamingInputCallResponse{AggregatedPayloadSize: size})
		}
		size += int32(len(req.GetPayload().GetBody())) //nolint:gosec // a test's message
	}
}

// ClosedPort is an address on which nothing listens: no server and no connection
// is ever given a port that low.
const ClosedPort = "127.0.0.1:1"

// BlackHole returns the address of a listener that accepts connections and never
// says a word on them. It reports each connection on the channel.
func BlackHole(t testing.TB) (addr string, accepted <-chan struct{}) {
	t.Helper()
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	seen := make(chan struct{}, 1024)
	var wg sync.WaitGroup
	var mu sync.Mutex
	var conns []net.Conn
	wg.Go(func() {
		for {
			conn, err := lis.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			conns = append(conns, conn)
			mu.Unlock()
			select {
			case seen <- struct{}{}:
			default: // nobody counts that many
			}
		}
	})
	t.Cleanup(func() {
		_ = lis.Close()
		wg.Wait()
		for _, conn := range conns {
			_ = conn.Close()
		}
	})
	return lis.Addr().String(), seen
}

// Counts is how often each server was called, as text such as "1/0/2".
func Counts(backends ...*Backend) string {
	text := ""
	for i, b := range backends {
		if i > 0 {
			text += "/"
		}
		text += fmt.Sprint(b.Count())
	}
	return text
}
