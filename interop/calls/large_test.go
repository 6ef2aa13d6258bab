package calls

import (
	"slices"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	testpb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/status"

	"github.com/grpc-composite/grpc-composite/balancer/composite"
	"github.com/grpc-composite/grpc-composite/internal/testkit"
)

const mib = 1 << 20

// TestLargerThanWindows sends messages of many times the flow-control windows, to a
// first cluster that fails, at once or with the whole message in hand.
func TestLargerThanWindows(t *testing.T) {
	for sort, call := range calls {
		t.Run(sort, func(t *testing.T) {
			t.Parallel()
			windows := []grpc.ServerOption{grpc.InitialWindowSize(65535), grpc.InitialConnWindowSize(65535), echo("")}
			a, b := testkit.Start(t, "a", windows...), testkit.Start(t, "b", windows...)
			a.Script(testkit.U)
			cc := dial(t, testkit.Service{Clusters: testkit.Clusters(a, b), Attempts: 2})
			for range 10 {
				var trail composite.Trail
				if err := call(testkit.Context(t), cc, 3*mib, grpc.MaxRetryRPCBufferSize(8*mib), composite.RecordTrail(&trail)); err != nil {
					t.Fatal(err)
				}
				wantStory(t, trail, "1 a Unavailable, 2 b OK committed")
			}
		})
	}
}

// TestOverTheServersLimit has a first server that takes no large messages: the code
// is RESOURCE_EXHAUSTED, and the RPC goes on if that is retryable and the message
// was kept.
func TestOverTheServersLimit(t *testing.T) {
	keep := grpc.MaxRetryRPCBufferSize(8 * mib)
	for _, tc := range []struct {
		name      string
		retryable string
		opts      []grpc.CallOption
		code      codes.Code
		story     string
	}{
		{"retryable and kept", "RESOURCE_EXHAUSTED", []grpc.CallOption{keep}, codes.OK, "1 a ResourceExhausted, 2 b OK committed"},
		{"retryable", "RESOURCE_EXHAUSTED", nil, codes.ResourceExhausted, "1 a ResourceExhausted"},
		{"kept", "UNAVAILABLE", []grpc.CallOption{keep}, codes.ResourceExhausted, "1 a ResourceExhausted"},
	} {
		for _, sort := range readFirst {
			t.Run(tc.name+"/"+sort, func(t *testing.T) {
				t.Parallel()
				a, b := testkit.Start(t, "a", grpc.MaxRecvMsgSize(mib)), testkit.Start(t, "b")
				cc := dial(t, testkit.Service{Clusters: testkit.Clusters(a, b), Attempts: 2, Retryable: []string{tc.retryable}})
				var trail composite.Trail
				err := calls[sort](testkit.Context(t), cc, 2*mib, append(slices.Clip(tc.opts), composite.RecordTrail(&trail))...)
				if status.Code(err) != tc.code {
					t.Errorf("error %v: want %v", err, tc.code)
				}
				wantStory(t, trail, tc.story)
			})
		}
	}
}

// TestOverTheClientsLimits has messages that the client itself refuses, which is
// final whatever is retryable: a request before any server sees it, a response when
// it has come.
func TestOverTheClientsLimits(t *testing.T) {
	for _, tc := range []struct {
		name   string
		opts   []grpc.CallOption
		counts string
		story  string
	}{
		{"request", []grpc.CallOption{grpc.MaxCallSendMsgSize(mib)}, "0/0", "1 a ResourceExhausted"},
		{"response", []grpc.CallOption{grpc.MaxCallRecvMsgSize(mib)}, "1/0", "1 a ResourceExhausted committed"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			a, b := testkit.Start(t, "a", echo("")), testkit.Start(t, "b", echo(""))
			cc := dial(t, testkit.Service{Clusters: testkit.Clusters(a, b), Attempts: 2, Retryable: []string{"RESOURCE_EXHAUSTED"}})
			var trail composite.Trail
			err := calls["unary"](testkit.Context(t), cc, 2*mib, append(slices.Clip(tc.opts), composite.RecordTrail(&trail), grpc.MaxRetryRPCBufferSize(8*mib))...)
			if status.Code(err) != codes.ResourceExhausted {
				t.Errorf("error %v: want RESOURCE_EXHAUSTED", err)
			}
			wantStory(t, trail, tc.story)
			if got := testkit.Counts(a, b); got != tc.counts {
				t.Errorf("calls %s: want %s", got, tc.counts)
			}
		})
	}
}

// TestManyLargeMessages has a stream of many messages that is well in its second
// cluster: what the first one had got is sent again, and nothing is lost or twice.
func TestManyLargeMessages(t *testing.T) {
	t.Parallel()
	const messages, size = 40, 100 << 10
	a, b := testkit.Start(t, "a"), testkit.Start(t, "b")
	a.Script(testkit.U)
	cc := dial(t, testkit.Service{Clusters: testkit.Clusters(a, b), Attempts: 2})
	stream, err := testpb.NewTestServiceClient(cc).StreamingInputCall(testkit.Context(t), grpc.MaxRetryRPCBufferSize(8*mib))
	if err != nil {
		t.Fatal(err)
	}
	for range messages {
		if err := stream.Send(&testpb.StreamingInputCallRequest{Payload: body(size)}); err != nil {
			t.Fatal(err)
		}
	}
	resp, err := stream.CloseAndRecv()
	if err != nil {
		t.Fatal(err)
	}
	if got := resp.GetAggregatedPayloadSize(); got != messages*size {
		t.Errorf("the server got %d bytes: want %d", got, messages*size)
	}
	if got := testkit.Counts(a, b); got != "1/1" {
		t.Errorf("calls %s: want 1/1", got)
	}
}
