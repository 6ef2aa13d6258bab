package composite_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/balancer"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	testpb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/status"

	"github.com/grpc-composite/grpc-composite/balancer/composite"
	"github.com/grpc-composite/grpc-composite/internal/testkit"
)

// trailKinds are all kinds of RPC. Each is carried to its end. Streams from the
// client send nothing: gRPC-Go may end an RPC with io.EOF, whatever its status, if a
// retry fails while it sends again what was sent before.
var trailKinds = []struct {
	name string
	call rpc
}{{"unary", unaryRPC}, {"server streaming", download}, {"client streaming", collect}, {"bidi", chat}}

// collect makes a stream that only has an answer.
func collect(ctx context.Context, cc *grpc.ClientConn, opts ...grpc.CallOption) error {
	stream, err := testpb.NewTestServiceClient(cc).StreamingInputCall(ctx, opts...)
	if err != nil {
		return err
	}
	_, err = stream.CloseAndRecv()
	return err
}

// chat receives until the stream is over.
func chat(ctx context.Context, cc *grpc.ClientConn, opts ...grpc.CallOption) error {
	stream, err := testpb.NewTestServiceClient(cc).FullDuplexCall(ctx, opts...)
	if err != nil {
		return err
	}
	if err := stream.CloseSend(); err != nil {
		return err
	}
	return drain(stream)
}

// drain receives until the stream is over.
func drain(stream testpb.TestService_FullDuplexCallClient) error {
	for {
		if _, err := stream.Recv(); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
	}
}

// story writes a trail without what differs from one run to the next: "1 a
// Unavailable; 2 c OK committed past b:no_endpoints". An attempt without a
// cluster is "-", one without a peer is "unsent".
func story(trail composite.Trail) string {
	var attempts []string
	for _, a := range trail.Attempts {
		text := fmt.Sprint(a.Number)
		if a.Cluster == "" {
			text += " -"
		} else {
			text += " " + a.Cluster
		}
		text += " " + a.Code.String()
		for _, flag := range []struct {
			name string
			set  bool
		}{{"transparent", a.Transparent}, {"committed", a.Committed}, {"unsent", a.Peer == ""}} {
			if flag.set {
				text += " " + flag.name
			}
		}
		for i, s := range a.Skipped {
			text += []string{" past ", ","}[min(i, 1)] + s.Cluster + ":" + s.Reason
		}
		attempts = append(attempts, text)
	}
	return strings.Join(attempts, "; ")
}

// record makes an RPC and returns its trail, and its error. It checks what holds
// for all trails, that the error has the same one, and that the metrics tell the
// same.
func record(ctx context.Context, t *testing.T, cc *grpc.ClientConn, call rpc, opts ...grpc.CallOption) (composite.Trail, error) {
	t.Helper()
	var trail composite.Trail
	begin, before := time.Now(), countsOf(cc)
	err := call(ctx, cc, append(opts, composite.RecordTrail(&trail))...)
	checkTimes(t, trail, begin)
	checkCounts(t, trail, before, countsOf(cc))
	if err == nil {
		return trail, nil
	}
	fromError, ok := composite.TrailFromError(err)
	if !ok {
		t.Errorf("error %v has no trail", err)
	}
	if got, want := story(fromError), story(trail); got != want {
		t.Errorf("the error's trail is %q: want the recorded one, %q", got, want)
	}
	if n := len(trail.Attempts); n > 0 && ctx.Err() == nil { // else gRPC-Go itself may report either end
		if last, s := trail.Attempts[n-1], status.Convert(err); last.Code != s.Code() {
			t.Errorf("the last attempt is %v: want the RPC's own %v", last.Code, s.Code())
		}
	}
	return trail, err
}

// checkTimes checks that the attempts of one stream followed each other.
func checkTimes(t *testing.T, trail composite.Trail, begin time.Time) {
	t.Helper()
	for _, a := range trail.Attempts {
		if a.Start.Before(begin) || a.Duration < 0 {
			t.Errorf("%v: began at %v and took %v: want it after %v", a, a.Start, a.Duration, begin)
		}
		begin = a.Start.Add(a.Duration)
	}
	if begin.After(time.Now()) {
		t.Errorf("%v: ends in the future", trail)
	}
}

// checkStory compares a trail with what is wanted, and peers with servers.
func checkStory(t *testing.T, trail composite.Trail, want string, backends ...*testkit.Backend) {
	t.Helper()
	if got := story(trail); got != want {
		t.Errorf("trail %q: want %q", got, want)
	}
	for _, a := range trail.Attempts {
		for _, b := range backends {
			if a.Cluster == b.Name && a.Peer != "" && a.Peer != b.Addr {
				t.Errorf("attempt %d of %s was sent to %s: want %s", a.Number, a.Cluster, a.Peer, b.Addr)
			}
		}
	}
}

// answering is the reply of a healthy server that begins with a header, also if no
// message follows.
var answering = testkit.Reply{Headers: true}

// startAnswering is startScripted with servers that answer so.
func startAnswering(t testing.TB, words string) []*testkit.Backend {
	t.Helper()
	backends := startScripted(t, words)
	for i, word := range strings.Fields(words) {
		if word == "OK" {
			backends[i].Script(answering)
		}
	}
	return backends
}

// closedCluster is a cluster that nobody listens for.
func closedCluster(name string) testkit.Cluster {
	return testkit.Cluster{Name: name, Target: "passthrough:///" + testkit.ClosedPort}
}

// policyCluster is a cluster whose child policy reports READY with a picker.
func policyCluster(t testing.TB, name string, p balancer.Picker) (testkit.Cluster, *testkit.Policy) {
	t.Helper()
	policy := testkit.NewPolicy(t)
	policy.OnUpdate = func(c *testkit.PolicyChild, _ balancer.ClientConnState) error {
		c.ReportPicker(connectivity.Ready, p)
		return nil
	}
	c := closedCluster(name)
	c.More = map[string]any{"childPolicy": policy.Config()}
	return c, policy
}

// fails is a reply with a status code.
func fails(c codes.Code) testkit.Reply { return testkit.Reply{Code: c, Message: "scripted"} }
