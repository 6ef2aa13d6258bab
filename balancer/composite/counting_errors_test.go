package composite_test

import (
	"testing"

	"google.golang.org/grpc/codes"
	testpb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/grpc-composite/grpc-composite/internal/testkit"
)

// TestLastStatusIsKept checks that an RPC which runs past the end of the list
// has the last attempt's status as the server sent it, though gRPC-Go turns some
// codes into INTERNAL when they come from a picker (gRFC A54).
func TestLastStatusIsKept(t *testing.T) {
	kinds := []struct {
		name string
		call rpc
	}{{"unary", unaryRPC}, {"bidi", receiveRPC}, {"server streaming", download}}
	for _, tc := range []struct {
		name   string
		config string // the code's name in a config
		code   codes.Code
	}{
		{"allowed from a picker", "RESOURCE_EXHAUSTED", codes.ResourceExhausted},
		{"allowed from a picker, too", "UNAVAILABLE", codes.Unavailable},
		{"not allowed", "ABORTED", codes.Aborted},
		{"not allowed, either", "FAILED_PRECONDITION", codes.FailedPrecondition},
		{"what the others are turned into", "INTERNAL", codes.Internal},
	} {
		for _, kind := range kinds {
			t.Run(tc.name+"/"+kind.name, func(t *testing.T) {
				t.Parallel()
				backends := startAll(t, "one", "two")
				reply := func(name string) testkit.Reply {
					details := []*testpb.SimpleRequest{{ResponseSize: 42, FillUsername: true}, {ResponseSize: 43}}
					return testkit.Reply{Code: tc.code, Message: "scripted by " + name, Details: details}
				}
				for _, b := range backends {
					b.Script(reply(b.Name))
				}
				cc := dial(t, testkit.Service{Clusters: testkit.Clusters(backends...), Attempts: 5, Retryable: []string{tc.config}})
				err := kind.call(testkit.Context(t), cc)
				checkError(t, err, tc.code, "past the end of the list of 2 (one; two)", "attempt 3")
				checkStatus(t, err, reply("two"))
				if got := testkit.Counts(backends...); got != "1/1" {
					t.Errorf("calls %s: want 1/1", got)
				}
			})
		}
	}
}

// checkStatus checks that an error has the status of a server's reply, to the
// letter.
func checkStatus(t *testing.T, err error, reply testkit.Reply) {
	t.Helper()
	got := status.Convert(err)
	if got.Code() != reply.Code || got.Message() != reply.Message {
		t.Errorf("status %v %q: want %v %q", got.Code(), got.Message(), reply.Code, reply.Message)
	}
	details := got.Details()
	if len(details) != len(reply.Details) {
		t.Fatalf("details %v: want %v", details, reply.Details)
	}
	for i, want := range reply.Details {
		if m, ok := details[i].(proto.Message); !ok || !proto.Equal(m, want) {
			t.Errorf("detail %d: %v, want %v", i, details[i], want)
		}
	}
}

// TestLastDetailsAreKept checks that the details of the last attempt's status
// are there when the retry policy gives up before the list is over.
func TestLastDetailsAreKept(t *testing.T) {
	t.Parallel()
	backends := startAll(t, "one", "two", "three")
	want := &testpb.SimpleRequest{ResponseSize: 42}
	for _, b := range backends {
		b.Script(testkit.Reply{Code: codes.ResourceExhausted, Message: "slow down", Details: []*testpb.SimpleRequest{want}})
	}
	cc := dial(t, testkit.Service{Clusters: testkit.Clusters(backends...), Attempts: 2, Retryable: []string{"RESOURCE_EXHAUSTED"}})
	err := unaryRPC(testkit.Context(t), cc)
	checkError(t, err, codes.ResourceExhausted, "slow down")
	details := status.Convert(err).Details()
	if len(details) != 1 || !proto.Equal(details[0].(proto.Message), want) {
		t.Errorf("details %v: want %v", details, want)
	}
	if got := testkit.Counts(backends...); got != "1/1/0" {
		t.Errorf("calls %s: want 1/1/0", got)
	}
}
