package calls

import (
	"bytes"
	"context"
	"slices"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/encoding/gzip"
	testpb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/stats"

	"github.com/grpc-composite/grpc-composite/balancer/composite"
	"github.com/grpc-composite/grpc-composite/internal/testkit"
)

// compressions is a stats handler that notes how what comes in is compressed. It is
// safe for concurrent use.
type compressions struct {
	mu   sync.Mutex
	seen []string
}

func (*compressions) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context   { return ctx }
func (*compressions) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }
func (*compressions) HandleConn(context.Context, stats.ConnStats)                       {}

func (c *compressions) HandleRPC(_ context.Context, s stats.RPCStats) {
	if header, ok := s.(*stats.InHeader); ok {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.seen = append(c.seen, header.Compression)
	}
}

func (c *compressions) want(t *testing.T, who string, want ...string) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	if !slices.Equal(c.seen, want) {
		t.Errorf("%s saw compressions %q: want %q", who, c.seen, want)
	}
}

// echo has a server send the request's payload back, compressed as told.
func echo(compression string) grpc.ServerOption {
	return grpc.UnaryInterceptor(func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
		if compression != "" {
			if err := grpc.SetSendCompressor(ctx, compression); err != nil {
				return nil, err
			}
		}
		resp, err := handler(ctx, req)
		if err != nil {
			return nil, err
		}
		out := resp.(*testpb.SimpleResponse)
		out.Payload = req.(*testpb.SimpleRequest).GetPayload()
		return out, nil
	})
}

// TestGzip compresses requests, responses, or both, with a failover in between:
// each attempt's request is compressed, and the message comes through whole.
func TestGzip(t *testing.T) {
	const identity = "identity"
	for _, tc := range []struct {
		name              string
		request, response string
		sees, answered    string // the header grpc-encoding
	}{
		{"neither", "", "", "", ""},
		{"both", gzip.Name, "", gzip.Name, gzip.Name}, // the server answers as it was asked
		{"requests", gzip.Name, identity, gzip.Name, identity},
		{"responses", "", gzip.Name, "", gzip.Name},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			var saw [2]compressions
			var got compressions
			a := testkit.Start(t, "a", grpc.StatsHandler(&saw[0]), echo(tc.response))
			b := testkit.Start(t, "b", grpc.StatsHandler(&saw[1]), echo(tc.response))
			a.Script(testkit.U)
			cc := dial(t, testkit.Service{Clusters: testkit.Clusters(a, b), Attempts: 2}, grpc.WithStatsHandler(&got))
			var trail composite.Trail
			opts := []grpc.CallOption{composite.RecordTrail(&trail)}
			if tc.request != "" {
				opts = append(opts, grpc.UseCompressor(tc.request))
			}
			sent := body(100 << 10)
			resp, err := testpb.NewTestServiceClient(cc).UnaryCall(testkit.Context(t), &testpb.SimpleRequest{Payload: sent}, opts...)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(resp.GetPayload().GetBody(), sent.GetBody()) {
				t.Error("the response does not have the request's payload")
			}
			wantStory(t, trail, "1 a Unavailable, 2 b OK committed")
			saw[0].want(t, "a", tc.sees)
			saw[1].want(t, "b", tc.sees)
			got.want(t, "the client", tc.answered)
		})
	}
}

// TestGzipFitsTheRetryBuffer has a message that is above gRPC's 256 KiB for
// retries, and below it when it is compressed, which is what counts.
func TestGzipFitsTheRetryBuffer(t *testing.T) {
	for name, tc := range map[string]struct {
		opts   []grpc.CallOption
		counts string
	}{
		"as it is":   {nil, "1/0"},
		"compressed": {[]grpc.CallOption{grpc.UseCompressor(gzip.Name)}, "1/1"},
	} {
		for _, sort := range readFirst {
			t.Run(name+"/"+sort, func(t *testing.T) {
				t.Parallel()
				servers := backends(t, testkit.U, testkit.OK)
				cc := dial(t, testkit.Service{Clusters: testkit.Clusters(servers...), Attempts: 2})
				if err := calls[sort](testkit.Context(t), cc, mib, tc.opts...); (err == nil) != (tc.counts == "1/1") {
					t.Errorf("error %v with calls %s", err, testkit.Counts(servers...))
				}
				if got := testkit.Counts(servers...); got != tc.counts {
					t.Errorf("calls %s: want %s", got, tc.counts)
				}
			})
		}
	}
}
