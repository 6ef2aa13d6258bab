package languages

import (
	"context"
	"fmt"
	"net"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	testpb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"

	"github.com/grpc-composite/grpc-composite/balancer/composite"
	"github.com/grpc-composite/grpc-composite/internal/testkit"
)

// wire sees what a server sends. It is a stats handler of a bare channel.
type wire struct{ header, trailer atomic.Bool }

func (w *wire) HandleRPC(_ context.Context, s stats.RPCStats) {
	switch s.(type) {
	case *stats.InHeader:
		w.header.Store(true)
	case *stats.InTrailer:
		w.trailer.Store(true)
	}
}

func (*wire) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context   { return ctx }
func (*wire) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }
func (*wire) HandleConn(context.Context, stats.ConnStats)                       {}

// answer is how the server answers a call without composite and retries: its code,
// and whether gRPC may retry what came.
func answer(t testing.TB, s *server, c call) string {
	t.Helper()
	w := &wire{}
	cc := testkit.Dial(t, s.target(), grpc.WithDisableRetry(), grpc.WithStatsHandler(w))
	err := c(testkit.Context(t), cc)
	if err == nil {
		t.Fatal("the call did not fail")
	}
	switch code := codeName(status.Code(err)); {
	case w.header.Load():
		return code + ", headers first"
	case w.trailer.Load():
		return code + ", trailers-only"
	default:
		return code + ", no answer"
	}
}

// retryable are all codes that a retry policy can sensibly go on from, so that
// what decides is whether gRPC retries at all.
var retryable = []string{
	"UNAVAILABLE", "DEADLINE_EXCEEDED", "RESOURCE_EXHAUSTED", "UNKNOWN", "INTERNAL", "ABORTED", "UNIMPLEMENTED",
	"OUT_OF_RANGE", "CANCELLED",
}

func codeName(code codes.Code) string {
	for _, name := range retryable {
		var c codes.Code
		if err := c.UnmarshalJSON([]byte(`"` + name + `"`)); err == nil && c == code {
			return name
		}
	}
	return code.String()
}

// channel opens a channel whose first cluster is the server, with more fields, and
// whose second one always answers.
func channel(t testing.TB, target string, more map[string]any, opts ...grpc.DialOption) *grpc.ClientConn {
	t.Helper()
	return dial(t, testkit.Service{Attempts: 2, Retryable: retryable, Clusters: []testkit.Cluster{
		{Name: "first", Target: target, More: more}, {Name: "second", Target: startAgreeable(t)},
	}}, opts...)
}

// startAgreeable starts a server that answers any call of any method with an empty
// message, and returns its target.
func startAgreeable(t testing.TB) string {
	t.Helper()
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer(grpc.MaxRecvMsgSize(16<<20), grpc.UnknownServiceHandler(func(_ any, stream grpc.ServerStream) error {
		if err := stream.RecvMsg(&testpb.Empty{}); err != nil {
			return err
		}
		return stream.SendMsg(&testpb.Empty{})
	}))
	t.Cleanup(server.Stop)
	go func() { _ = server.Serve(lis) }()
	return "passthrough:///" + lis.Addr().String()
}

// warm makes calls until the first cluster answers: the first call to a cold JVM may
// take longer than an attempt's timeout.
func warm(t testing.TB, cc *grpc.ClientConn) {
	t.Helper()
	testkit.Eventually(t, "an answer from the first cluster", func() bool {
		var trail composite.Trail
		if err := healthy(testkit.Context(t), cc, composite.RecordTrail(&trail)); err != nil {
			t.Fatal(err)
		}
		return last(trail).Cluster == "first"
	})
}

func last(trail composite.Trail) composite.Attempt { return trail.Attempts[len(trail.Attempts)-1] }

// outcome is what the client does about a call, in the words of the table.
func outcome(ctx context.Context, cc *grpc.ClientConn, c call) string {
	var trail composite.Trail
	err := c(ctx, cc, composite.RecordTrail(&trail))
	if err != nil {
		return fails(err)
	}
	return describe(trail)
}

func fails(err error) string { return "→ fails: " + codeName(status.Code(err)) }

// describe tells of a call that has been answered.
func describe(trail composite.Trail) string {
	a := last(trail)
	return fmt.Sprintf("→ **%s cluster**, attempt %d", a.Cluster, a.Number)
}
