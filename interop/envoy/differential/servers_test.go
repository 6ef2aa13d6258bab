package differential

import (
	"context"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	testpb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/grpc-composite/grpc-composite/internal/testkit"
)

// maxHosts is how many hosts a cluster may have.
const maxHosts = 2

// letters are the names that clusters have.
var letters = []string{"a", "b", "c", "d", "e", "f", "g", "h"}

// servers serve all scenarios and both sides at once: a call says which script it
// follows.
type servers struct {
	addrs   map[string][]string // of a cluster's hosts, by name
	scripts sync.Map            // id to *script
	last    atomic.Int64        // id
}

func startServers(t testing.TB) *servers {
	t.Helper()
	s := &servers{addrs: make(map[string][]string)}
	for _, name := range letters {
		for i := range maxHosts {
			b := testkit.Start(t, fmt.Sprintf("%s%d", name, i))
			b.Respond(func(_ int, c testkit.Call) testkit.Reply { return s.respond(name, c.Metadata) })
			s.addrs[name] = append(s.addrs[name], b.Addr)
		}
	}
	return s
}

// scriptKey is the metadata that says which script a call follows.
const scriptKey = "script"

func (s *servers) respond(cluster string, md metadata.MD) testkit.Reply {
	id := md.Get(scriptKey)
	if len(id) != 1 {
		return testkit.Reply{Code: codes.Internal, Message: "a call without a script"}
	}
	found, ok := s.scripts.Load(id[0])
	if !ok {
		return testkit.Reply{Code: codes.Internal, Message: "a call after its end"}
	}
	return found.(*script).respond(cluster)
}

// script is one call's replies and hits.
type script struct {
	mu      sync.Mutex
	replies map[string][]reply
	seen    map[string]int
	hits    []string
}

func (s *script) respond(cluster string) testkit.Reply {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hits = append(s.hits, cluster)
	n := s.seen[cluster]
	s.seen[cluster]++
	list := s.replies[cluster]
	return list[min(n, len(list)-1)].kit()
}

// outcome is what came of a call.
type outcome struct {
	hits    []string // clusters, one for each attempt that reached a server
	code    codes.Code
	message string
}

func (o outcome) String() string {
	text := fmt.Sprintf("[%s] %s", strings.Join(o.hits, " "), codeName(o.code))
	if o.code != codes.OK {
		text += fmt.Sprintf(" %q", o.message)
	}
	return text
}

// call makes a call, which follows its own script.
func (s *servers) call(ctx context.Context, cc grpc.ClientConnInterface, c call) outcome {
	script := &script{replies: c.replies, seen: make(map[string]int)}
	id := fmt.Sprint(s.last.Add(1))
	s.scripts.Store(id, script)
	defer s.scripts.Delete(id)
	err := c.run(metadata.AppendToOutgoingContext(ctx, scriptKey, id), testpb.NewTestServiceClient(cc))
	script.mu.Lock()
	defer script.mu.Unlock()
	return outcome{hits: script.hits, code: status.Code(err), message: status.Convert(err).Message()}
}

// run makes the RPC to its end.
func (c call) run(ctx context.Context, client testpb.TestServiceClient) error {
	switch c.kind {
	case serverStream:
		stream, err := client.StreamingOutputCall(ctx, &testpb.StreamingOutputCallRequest{
			ResponseParameters: []*testpb.ResponseParameters{{}},
		})
		if err != nil {
			return err
		}
		return drain(stream.Recv)
	case clientStream:
		stream, err := client.StreamingInputCall(ctx)
		if err != nil {
			return err
		}
		if err := send(c, stream.Send, &testpb.StreamingInputCallRequest{Payload: c.payload()}); err != nil {
			return err
		}
		_, err = stream.CloseAndRecv()
		return err
	case bidi:
		return c.runBidi(ctx, client)
	default:
		_, err := client.UnaryCall(ctx, &testpb.SimpleRequest{})
		return err
	}
}

// runBidi half-closes only when it has a response.
func (c call) runBidi(ctx context.Context, client testpb.TestServiceClient) error {
	stream, err := client.FullDuplexCall(ctx)
	if err != nil {
		return err
	}
	if err := send(c, stream.Send, &testpb.StreamingOutputCallRequest{Payload: c.payload()}); err != nil {
		return err
	}
	if _, err := stream.Recv(); err != nil {
		return err
	}
	if err := stream.CloseSend(); err != nil {
		return err
	}
	return drain(stream.Recv)
}

// messages is how many a client sends on a stream. If they are large they are more
// than a stream's window, and less than what gRPC-Go keeps for a retry.
const messages, largeMessage = 3, 60_000

func (c call) payload() *testpb.Payload {
	if !c.large {
		return nil
	}
	return &testpb.Payload{Body: make([]byte, largeMessage)}
}

// send sends a stream's messages. io.EOF is the word for an error that receiving
// tells.
func send[M any](c call, send func(M) error, m M) error {
	for range messages {
		if c.slow {
			time.Sleep(2 * time.Millisecond) // not to wait for something, but to be late
		}
		if err := send(m); err == io.EOF { //nolint:errorlint // what gRPC promises is io.EOF itself
			return nil
		} else if err != nil {
			return err
		}
	}
	return nil
}

// drain receives to the end.
func drain(recv func() (*testpb.StreamingOutputCallResponse, error)) error {
	for {
		if _, err := recv(); err == io.EOF { //nolint:errorlint // gRPC's word for success is io.EOF itself
			return nil
		} else if err != nil {
			return err
		}
	}
}
