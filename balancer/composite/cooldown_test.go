package composite_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	testpb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/status"

	"github.com/grpc-composite/grpc-composite/balancer/composite"
	"github.com/grpc-composite/grpc-composite/internal/testkit"
)

// aLongTime is a rest that no test sees the end of.
const aLongTime = "3600s"

// breaking is the cluster "a" with a cooldown, and the policy by which a test looks into
// it.
func breaking(t testing.TB, target string, cooldown map[string]any) (testkit.Cluster, *testkit.Policy) {
	t.Helper()
	c, p := limited(t, "a", target, 1000)
	delete(c.More, "maxRequests")
	c.More["cooldown"] = cooldown
	return c, p
}

func wantResting(t testing.TB, p *testkit.Policy, want bool) {
	t.Helper()
	if got := composite.Resting(p.Child(t, 0)); got != want {
		t.Errorf("the cluster rests: %v, want %v", got, want)
	}
}

// TestDeadPrimaryRests has a primary that is connected and answers UNAVAILABLE. It
// is called no more after as many failures as it takes, and comes back by a probe
// of one attempt, without a failed RPC.
func TestDeadPrimaryRests(t *testing.T) {
	t.Parallel()
	backends := startScripted(t, "U OK")
	a, b := backends[0], backends[1]
	// The recipe of the README, with times that a test can wait for.
	service := testkit.Service{Clusters: testkit.Clusters(a, b), Attempts: 2}
	service.Clusters[0].More = map[string]any{"cooldown": map[string]any{"consecutiveFailures": 5, "time": "0.3s"}}
	cc := dial(t, service)
	var began time.Time
	for range 5 {
		began = time.Now()
		if got := call(t, cc); got != "b" {
			t.Errorf("answer from %s: want b", got)
		}
	}
	if got := testkit.Counts(a, b); got != "5/5" {
		t.Fatalf("calls %s: want 5/5", got)
	}
	a.Script(testkit.OK)
	testkit.Eventually(t, "the primary is called again", func() bool {
		call(t, cc)
		return a.Count() > 0
	})
	if rest := time.Since(began); rest < 300*time.Millisecond {
		t.Errorf("the primary was called after %v: want a rest of 300 ms", rest)
	}
	a.Script(testkit.OK)
	for range 5 {
		if got := call(t, cc); got != "a" {
			t.Errorf("after the probe: answer from %s, want a", got)
		}
	}
}

// TestRestingPrimaryIsNotCalled makes many calls in a rest.
func TestRestingPrimaryIsNotCalled(t *testing.T) {
	for _, kind := range rpcKinds {
		t.Run(kind.name, func(t *testing.T) {
			t.Parallel()
			backends := startScripted(t, "U OK")
			service := testkit.Service{Clusters: testkit.Clusters(backends...), Attempts: 2}
			service.Clusters[0].More = map[string]any{"cooldown": map[string]any{"consecutiveFailures": 5, "time": aLongTime, "maxTime": aLongTime}}
			cc := dial(t, service)
			for range 50 {
				checkError(t, kind.call(testkit.Context(t), cc), codes.OK)
			}
			if got := testkit.Counts(backends...); got != "5/50" {
				t.Errorf("calls %s: want 5/50", got)
			}
			var trail composite.Trail
			checkError(t, kind.call(testkit.Context(t), cc, composite.RecordTrail(&trail)), codes.OK)
			if got := fmt.Sprint(trail.Attempts[0].Cluster, trail.Attempts[0].Skipped); got != "b[a skipped: cooldown]" {
				t.Errorf("the trail's first attempt: %s", got)
			}
		})
	}
}

func TestWhatCountsAsAFailure(t *testing.T) {
	reply := func(code codes.Code) testkit.Reply { return testkit.Reply{Code: code, Message: "scripted"} }
	for _, tc := range []struct {
		name     string
		reply    testkit.Reply
		settings map[string]any // of the cluster
		codes    []string
		call     rpc
		want     bool // two of these are two failures
	}{
		{name: "UNAVAILABLE", reply: testkit.U, call: unaryRPC, want: true},
		{name: "DEADLINE_EXCEEDED", reply: reply(codes.DeadlineExceeded), call: unaryRPC, want: true},
		{name: "RESOURCE_EXHAUSTED", reply: reply(codes.ResourceExhausted), call: unaryRPC, want: true},
		{name: "INTERNAL", reply: reply(codes.Internal), call: unaryRPC},
		{name: "OK", call: unaryRPC},
		{name: "the codes of the config", reply: reply(codes.Aborted), codes: []string{"INTERNAL", "ABORTED"}, call: unaryRPC, want: true},
		{name: "and no others", reply: testkit.U, codes: []string{"INTERNAL", "ABORTED"}, call: unaryRPC},
		{name: "the attempt timeout", reply: testkit.Reply{Hang: true}, settings: map[string]any{"attemptTimeout": "1s"}, call: unaryRPC, want: true},
		{name: "the RPC's deadline", reply: testkit.Reply{Hang: true}, call: givingUp(context.WithTimeout), want: true},
		{name: "CANCELLED by the client", reply: testkit.Reply{Hang: true}, call: givingUp(withCancelAfter)},
		{name: "CANCELLED by the server", reply: reply(codes.Canceled), call: unaryRPC},
		{name: "a stream, before its first response", reply: testkit.U, call: receiveRPC, want: true},
		{name: "a stream that is committed", reply: testkit.Reply{Code: codes.Unavailable, Headers: true}, call: receiveRPC, want: true},
		{name: "a stream that fails later", call: failLater, want: true},
		{name: "a stream that ends well", call: conversation},
		{name: "a client's stream", reply: testkit.U, call: uploadToTheEnd, want: true},
		{name: "a client's stream that ends well", call: uploadToTheEnd},
		{name: "a server's stream", reply: testkit.U, call: download, want: true},
		{name: "a server's stream that ends well", call: download},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			a := testkit.Start(t, "a")
			cooldown := map[string]any{"consecutiveFailures": 2, "time": aLongTime, "maxTime": aLongTime}
			if tc.codes != nil {
				cooldown["codes"] = tc.codes
			}
			first, policy := breaking(t, a.Target(), cooldown)
			for k, v := range tc.settings {
				first.More[k] = v
			}
			cc := dial(t, testkit.Service{Clusters: []testkit.Cluster{first}})
			call(t, cc)
			a.Script(tc.reply)
			_ = tc.call(testkit.Context(t), cc)
			wantResting(t, policy, false)
			_ = tc.call(testkit.Context(t), cc)
			wantResting(t, policy, tc.want)
		})
	}
}

// givingUp makes a unary call in a context that ends after a second, in which even a
// busy machine gets it to its server.
func givingUp(with func(context.Context, time.Duration) (context.Context, context.CancelFunc)) rpc {
	return func(ctx context.Context, cc *grpc.ClientConn, opts ...grpc.CallOption) error {
		ctx, cancel := with(ctx, time.Second)
		defer cancel()
		return unaryRPC(ctx, cc, opts...)
	}
}

// uploadToTheEnd sends as long as it can, and hears the stream's end.
func uploadToTheEnd(ctx context.Context, cc *grpc.ClientConn, opts ...grpc.CallOption) error {
	stream, err := testpb.NewTestServiceClient(cc).StreamingInputCall(ctx, opts...)
	if err != nil {
		return err
	}
	for range 10 {
		if err := stream.Send(&testpb.StreamingInputCallRequest{}); err != nil {
			break // CloseAndRecv tells what it was
		}
	}
	_, err = stream.CloseAndRecv()
	return err
}

func withCancelAfter(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	timer := time.AfterFunc(d, cancel)
	return ctx, func() { timer.Stop(); cancel() }
}

// TestFailureNoticedBySendCounts has attempts that fail while the client sends,
// which gRPC-Go ends like successes.
func TestFailureNoticedBySendCounts(t *testing.T) {
	t.Parallel()
	backends := startScripted(t, "U OK")
	first, policy := breaking(t, backends[0].Target(), map[string]any{"consecutiveFailures": 2, "time": aLongTime, "maxTime": aLongTime})
	cc := dial(t, testkit.Service{Clusters: append([]testkit.Cluster{first}, testkit.Clusters(backends[1])...), Attempts: 2})
	cc.Connect()
	for i := range 2 {
		wantResting(t, policy, false)
		if _, err := sendUntil(t, cc, "a call of b", func() bool { return backends[1].Count() > i }); err != nil {
			t.Fatal(err)
		}
	}
	wantResting(t, policy, true)
}

// TestStreamCountsWhenItEnds has a stream that ends well in the middle of
// failures, and one that begins before the rest and ends in it.
func TestStreamCountsWhenItEnds(t *testing.T) {
	t.Parallel()
	a, b := testkit.Start(t, "a"), testkit.Start(t, "b")
	first, policy := breaking(t, a.Target(), map[string]any{"consecutiveFailures": 3, "time": aLongTime, "maxTime": aLongTime})
	cc := dial(t, testkit.Service{Clusters: append([]testkit.Cluster{first}, testkit.Clusters(b)...)})
	if _, err := testkit.Unary(composite.WithClusters(testkit.Context(t), "b"), cc); err != nil {
		t.Fatal(err) // a cluster that rests is used rather than that an RPC waits for b
	}
	well, _ := openStream(t, cc)
	early, _ := openStream(t, cc)
	fail := func() {
		t.Helper()
		a.Script(testkit.U)
		if _, err := testkit.Unary(testkit.Context(t), cc); status.Code(err) != codes.Unavailable {
			t.Fatalf("a call of a: %v", err)
		}
	}
	fail()
	fail()
	_ = well.CloseSend()
	_, _ = well.Recv() // the end
	fail()
	fail()
	wantResting(t, policy, false)
	fail()
	wantResting(t, policy, true)
	_ = early.CloseSend()
	_, _ = early.Recv()
	wantResting(t, policy, true)
	if got := call(t, cc); got != "b" {
		t.Errorf("answer from %s: want b", got)
	}
}

// TestRestSurvivesUpdates changes the config, and the child policy, of a cluster
// that rests.
func TestRestSurvivesUpdates(t *testing.T) {
	t.Parallel()
	backends := startScripted(t, "U OK")
	service := testkit.Service{Clusters: testkit.Clusters(backends...), Attempts: 2}
	cooldown := map[string]any{"cooldown": map[string]any{"consecutiveFailures": 1, "time": aLongTime, "maxTime": aLongTime}}
	service.Clusters[0].More = cooldown
	live := dialLive(t, service)
	call(t, live.cc)
	backends[0].Script(testkit.OK)
	wantB := func(what string) {
		t.Helper()
		if got := call(t, live.cc); got != "b" {
			t.Errorf("%s: answer from %s, want b", what, got)
		}
	}
	wantB("at once")

	service.Attempts = 3
	live.set(t, service)
	wantB("another retry policy")
	service.Clusters[0].More = map[string]any{"cooldown": cooldown["cooldown"], "childPolicy": []any{map[string]any{"pick_first": map[string]any{}}}}
	live.set(t, service)
	wantB("another child policy")
	service.Clusters[0].More["cooldown"] = map[string]any{"consecutiveFailures": 2, "time": "10s"}
	live.set(t, service)
	wantB("another cooldown")
	service.Clusters[0].More["maxRequests"] = 5
	service.Clusters[0], service.Clusters[1] = service.Clusters[1], service.Clusters[0]
	live.set(t, service)
	wantB("another order")
	service.Clusters[0], service.Clusters[1] = service.Clusters[1], service.Clusters[0]
	live.set(t, service)
	wantB("the order of before")

	delete(service.Clusters[0].More, "cooldown")
	live.set(t, service)
	if got := call(t, live.cc); got != "a" {
		t.Errorf("no cooldown any more: answer from %s, want a", got)
	}
}

// TestEverythingRests has nothing but clusters that rest: they are still called,
// the first of them from each attempt's slot.
func TestEverythingRests(t *testing.T) {
	for _, tc := range []struct {
		name     string
		more     map[string]any
		attempts int
		servers  string // after the rests have begun
		counts   string
		code     codes.Code
	}{
		{name: "the first, without retries", attempts: 1, servers: "OK OK OK", counts: "1/0/0"},
		{name: "each in its turn", attempts: 3, servers: "U U OK", counts: "1/1/1"},
		{name: "none well", attempts: 3, servers: "U U U", counts: "1/1/1", code: codes.Unavailable},
		{name: "without skipping", attempts: 2, more: map[string]any{"skipClustersWithoutHosts": false}, servers: "U OK OK", counts: "1/1/0"},
		{name: "one after another", attempts: 3, more: map[string]any{"progression": "NEXT_CLUSTER"}, servers: "U U OK", counts: "1/1/1"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			backends := startScripted(t, "U U U")
			service := testkit.Service{Clusters: testkit.Clusters(backends...), Attempts: 3}
			for i := range service.Clusters {
				service.Clusters[i].More = map[string]any{"cooldown": map[string]any{"consecutiveFailures": 1, "time": aLongTime, "maxTime": aLongTime}}
			}
			live := dialLive(t, service)
			_, err := testkit.Unary(testkit.Context(t), live.cc)
			checkError(t, err, codes.Unavailable)
			service.Attempts, service.More = tc.attempts, tc.more
			live.set(t, service)
			for _, opts := range [][]grpc.CallOption{nil, {grpc.WaitForReady(true)}} {
				for i, word := range strings.Fields(tc.servers) {
					if backends[i].Script(testkit.U); word == "OK" {
						backends[i].Script(testkit.OK)
					}
				}
				_, err = testkit.Unary(testkit.Context(t), live.cc, opts...)
				checkError(t, err, tc.code)
				if got := testkit.Counts(backends...); got != tc.counts {
					t.Errorf("calls %s: want %s", got, tc.counts)
				}
			}
		})
	}
}
