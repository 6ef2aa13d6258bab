package composite_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/balancer"
	"google.golang.org/grpc/connectivity"
	testpb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/resolver"

	"github.com/grpc-composite/grpc-composite/internal/testkit"
)

// liveConfig is a channel whose config a test changes while it is in use.
type liveConfig struct {
	cc       *grpc.ClientConn
	resolver *testkit.Resolver
}

// dialLive opens a channel whose resolver delivers the service's config.
func dialLive(t testing.TB, s testkit.Service) *liveConfig {
	t.Helper()
	l := &liveConfig{resolver: testkit.NewResolver(t)}
	l.cc = dialTarget(t, l.resolver.Target(), s)
	_ = l.resolver.UpdateState(resolver.State{})
	l.cc.Connect()
	testkit.Eventually(t, "the resolver is built", func() bool { return l.resolver.Built() > 0 })
	return l
}

// set changes the config. It holds for every RPC that begins after set has
// returned.
func (l *liveConfig) set(t testing.TB, s testkit.Service) {
	t.Helper()
	if !l.trySet(t, s) {
		t.Fatal("the channel has no resolver")
	}
}

// trySet is set for a channel that may be closed.
func (l *liveConfig) trySet(t testing.TB, s testkit.Service) bool {
	t.Helper()
	parsed := l.resolver.Parse(s.JSON())
	if parsed == nil {
		return false
	}
	if parsed.Err != nil {
		t.Fatal(parsed.Err)
	}
	_ = l.resolver.UpdateState(resolver.State{ServiceConfig: parsed})
	return true
}

func TestConfigUpdateHoldsAtOnce(t *testing.T) {
	t.Parallel()
	backends := startAll(t, "a", "b", "c")
	service := testkit.Service{Clusters: testkit.Clusters(backends...)}
	live := dialLive(t, service)
	call(t, live.cc)
	// All three are connected before the order changes, so that no RPC needs
	// to wait.
	for i := range backends {
		service.Clusters[0], service.Clusters[i] = service.Clusters[i], service.Clusters[0]
		live.set(t, service)
		testkit.AwaitServer(t, live.cc, service.Clusters[0].Name)
	}
	for range 200 {
		rand.Shuffle(len(service.Clusters), func(i, j int) {
			service.Clusters[i], service.Clusters[j] = service.Clusters[j], service.Clusters[i]
		})
		live.set(t, service)
		if got, want := call(t, live.cc), service.Clusters[0].Name; got != want {
			t.Fatalf("after the update: answer from %s: want %s", got, want)
		}
	}
}

func TestReordersUnderLoad(t *testing.T) {
	t.Parallel()
	var conns atomic.Int32
	var backends []*testkit.Backend
	for _, name := range []string{"a", "b", "c"} {
		backends = append(backends, testkit.Start(t, name, grpc.StatsHandler(connHandler(func() { conns.Add(1) }))))
	}
	service := testkit.Service{Clusters: testkit.Clusters(backends...)}
	live := dialLive(t, service)
	ctx, stop := context.WithCancel(testkit.Context(t))
	var wg sync.WaitGroup
	var failed, done atomic.Int32
	for range 8 {
		wg.Go(func() {
			for ctx.Err() == nil {
				done.Add(1)
				if _, err := testkit.Unary(testkit.Context(t), live.cc); err != nil {
					failed.Add(1)
					t.Error(err)
				}
			}
		})
	}
	for range 200 {
		rand.Shuffle(len(service.Clusters), func(i, j int) {
			service.Clusters[i], service.Clusters[j] = service.Clusters[j], service.Clusters[i]
		})
		live.set(t, service)
	}
	stop()
	wg.Wait()
	if failed.Load() > 0 {
		t.Errorf("%d of %d RPCs failed", failed.Load(), done.Load())
	}
	if got := conns.Load(); got != 3 {
		t.Errorf("%d connections: want one for each server, kept through all updates", got)
	}
}

func TestRepeatedClusterHasOneConnection(t *testing.T) {
	t.Parallel()
	var conns atomic.Int32
	a := testkit.Start(t, "a", grpc.StatsHandler(connHandler(func() { conns.Add(1) })))
	b := testkit.Start(t, "b")
	a.Script(testkit.U)
	service := testkit.Service{Attempts: 3}
	service.Clusters = append(testkit.Clusters(a), testkit.Cluster{Name: "a"})
	service.Clusters = append(service.Clusters, testkit.Clusters(b)...)
	cc := dial(t, service)
	if got := call(t, cc); got != "b" {
		t.Errorf("answer from %s: want b", got)
	}
	if got := conns.Load(); got != 1 {
		t.Errorf("%d connections to the repeated cluster: want 1", got)
	}
}

// openStream opens a bidirectional stream on which one message has gone each way.
func openStream(t testing.TB, cc *grpc.ClientConn) (testpb.TestService_FullDuplexCallClient, string) {
	t.Helper()
	stream, err := testpb.NewTestServiceClient(cc).FullDuplexCall(testkit.Context(t))
	if err != nil {
		t.Fatal(err)
	}
	return stream, echo(t, stream)
}

// echo sends a message and returns the name of the server that answered.
func echo(t testing.TB, stream testpb.TestService_FullDuplexCallClient) string {
	t.Helper()
	if err := stream.Send(&testpb.StreamingOutputCallRequest{}); err != nil {
		t.Fatal(err)
	}
	m, err := stream.Recv()
	if err != nil {
		t.Fatal(err)
	}
	return string(m.GetPayload().GetBody())
}

// connCount counts a server's open connections.
func connCount(n *atomic.Int32) grpc.ServerOption {
	return grpc.StatsHandler(connCounter{n})
}

func TestRemovedClusterLetsRPCsFinish(t *testing.T) {
	t.Parallel()
	var open atomic.Int32
	a := testkit.Start(t, "a", connCount(&open))
	b := testkit.Start(t, "b")
	live := dialLive(t, testkit.Service{Clusters: testkit.Clusters(a, b)})
	stream, from := openStream(t, live.cc)
	if from != "a" {
		t.Fatalf("stream from %s: want a", from)
	}
	live.set(t, testkit.Service{Clusters: testkit.Clusters(b)})
	for range 20 {
		if got := call(t, live.cc); got != "b" {
			t.Fatalf("after the update: answer from %s: want b", got)
		}
	}
	if got := echo(t, stream); got != "a" || open.Load() != 1 {
		t.Errorf("the stream in flight: %s, %d connections: want it to go on", got, open.Load())
	}
	if err := stream.CloseSend(); err != nil {
		t.Fatal(err)
	}
	_, _ = stream.Recv() // the end of the stream
	testkit.Eventually(t, "the removed cluster's connection closes", func() bool { return open.Load() == 0 })
}

func TestTargetChangeServesOldEndpointsUntilTheNewResolve(t *testing.T) {
	t.Parallel()
	backends := startAll(t, "a", "b")
	before, after := testkit.NewResolver(t), testkit.NewResolver(t)
	_ = before.Update(backends[0])
	live := dialLive(t, testkit.Service{Clusters: []testkit.Cluster{{Name: "x", Target: before.Target()}}})
	testkit.AwaitServer(t, live.cc, "a")
	live.set(t, testkit.Service{Clusters: []testkit.Cluster{{Name: "x", Target: after.Target()}}})
	testkit.Eventually(t, "the resolvers are swapped", func() bool { return before.Open() == 0 && after.Open() == 1 })
	for range 20 {
		if got := call(t, live.cc); got != "a" {
			t.Fatalf("nothing resolved yet: answer from %s: want the old endpoints to serve", got)
		}
	}
	after.Fail(errors.New("no such name"))
	if got := call(t, live.cc); got != "a" {
		t.Errorf("after an error of the new resolver: answer from %s: want a", got)
	}
	_ = after.Update(backends[1])
	testkit.AwaitServer(t, live.cc, "b")
	if err := before.Update(backends[0]); err != nil || call(t, live.cc) != "b" {
		t.Error("the old resolver still has a say")
	}
}

func withPolicy(name, target string, p *testkit.Policy) testkit.Service {
	return testkit.Service{Clusters: []testkit.Cluster{{Name: name, Target: target, More: map[string]any{"childPolicy": p.Config()}}}}
}

func TestChildPolicySwitchIsGraceful(t *testing.T) {
	t.Parallel()
	a := testkit.Start(t, "a")
	slow := testkit.NewPolicy(t)
	slow.OnUpdate = func(c *testkit.PolicyChild, s balancer.ClientConnState) error { return nil }
	live := dialLive(t, testkit.Service{Clusters: testkit.Clusters(a)})
	testkit.AwaitServer(t, live.cc, "a")

	live.set(t, withPolicy("a", a.Target(), slow))
	child := slow.Child(t, 0)
	for range 20 {
		call(t, live.cc) // by the old child
	}
	child.Report(connectivity.Connecting, balancer.ErrNoSubConnAvailable)
	child.Report(connectivity.TransientFailure, errors.New("not able"))
	for range 20 {
		call(t, live.cc) // still: the old one is better than one that fails
	}
	child.Report(connectivity.Ready, errors.New("the new one picks"))
	_, err := testkit.Unary(testkit.Context(t), live.cc)
	testkit.Contains(t, err, "the new one picks")

	// And back, to a child whose predecessor has failed: at once.
	child.Report(connectivity.TransientFailure, errors.New("not able"))
	live.set(t, testkit.Service{Clusters: testkit.Clusters(a)})
	testkit.AwaitServer(t, live.cc, "a")
	testkit.Eventually(t, "the replaced child is closed", child.Closed)
	if child.Overlapped() {
		t.Error("two calls into the child at once")
	}
}

func TestChildThatRefusesItsEndpointsHasNoHost(t *testing.T) {
	t.Parallel()
	backends := startAll(t, "a", "b")
	r := testkit.NewResolver(t)
	_ = r.Update(backends[0])
	p := testkit.NewPolicy(t)
	var refuse atomic.Bool
	p.OnUpdate = func(c *testkit.PolicyChild, s balancer.ClientConnState) error {
		if refuse.Load() {
			return errors.New("cluster deleted") // and stays READY
		}
		return c.Connect(s)
	}
	service := withPolicy("a", r.Target(), p)
	service.Clusters = append(service.Clusters, testkit.Clusters(backends[1])...)
	cc := dial(t, service)
	testkit.AwaitServer(t, cc, "a")
	refuse.Store(true)
	if err := r.Update(backends[0]); err == nil {
		t.Error("no error for the resolver: want the child's")
	}
	if got := call(t, cc); got != "b" {
		t.Errorf("answer from %s: want b", got)
	}
	refuse.Store(false)
	if err := r.Update(backends[0]); err != nil {
		t.Error(err)
	}
	if got := call(t, cc); got != "a" {
		t.Errorf("answer from %s: want a again", got)
	}
}

// TestChildrenThatReportInline has a child that reports from within every call
// it gets, as some do.
func TestChildrenThatReportInline(t *testing.T) {
	t.Parallel()
	backends := startAll(t, "a", "b")
	r := testkit.NewResolver(t)
	_ = r.Update(backends[0])
	p := testkit.NewPolicy(t)
	p.OnUpdate = func(c *testkit.PolicyChild, _ balancer.ClientConnState) error {
		for _, s := range []connectivity.State{connectivity.Connecting, connectivity.Idle, connectivity.Ready, connectivity.TransientFailure} {
			c.Report(s, errors.New("inline"))
			c.CC.ResolveNow(resolver.ResolveNowOptions{})
		}
		return nil
	}
	p.OnEvent = func(c *testkit.PolicyChild, method string) {
		c.Report(connectivity.Idle, errors.New(method))
		c.Report(connectivity.TransientFailure, errors.New(method))
	}
	live := dialLive(t, testkit.Service{Clusters: testkit.Clusters(backends[1])})
	for i := range 20 {
		service := withPolicy("a", r.Target(), p)
		if i%3 == 0 {
			service.Clusters[0].More = nil
		}
		service.Clusters = append(service.Clusters, testkit.Clusters(backends[1])...)
		live.set(t, service)
		live.cc.Connect()
		_ = r.Update(backends[0])
		r.Fail(errors.New("no such name"))
		call(t, live.cc)
	}
	if err := live.cc.Close(); err != nil {
		t.Error(err)
	}
}

// TestSlowClusterHoldsUpNoOther has a cluster whose child takes its time over new
// endpoints, and one whose resolver takes its time to build.
func TestSlowClusterHoldsUpNoOther(t *testing.T) {
	t.Parallel()
	backends := startAll(t, "a", "b", "c")
	slow, quick := testkit.NewResolver(t), testkit.NewResolver(t)
	_ = quick.Update(backends[1])
	p := testkit.NewPolicy(t)
	entered, leave := make(chan struct{}), make(chan struct{})
	p.OnUpdate = func(*testkit.PolicyChild, balancer.ClientConnState) error {
		close(entered)
		<-leave
		return nil
	}
	service := withPolicy("slow", slow.Target(), p)
	service.Clusters[0].More["connectTimeout"] = "0s"
	service.Clusters = append(service.Clusters, testkit.Cluster{Name: "quick", Target: quick.Target()})
	cc := dial(t, service)
	testkit.AwaitServer(t, cc, "b")
	go func() { _ = slow.Update(backends[0]) }()
	<-entered
	if got := call(t, cc); got != "b" {
		t.Errorf("answer from %s: want b", got)
	}
	if err := quick.Update(backends[2]); err != nil {
		t.Error(err)
	}
	testkit.Eventually(t, "the quick cluster's new endpoint is connected", func() bool {
		name, err := testkit.Unary(testkit.Context(t), cc)
		return err == nil && name == "c"
	})
	close(leave)
}

// TestNothingLeaks opens, uses, changes and closes 200 channels.
func TestNothingLeaks(t *testing.T) {
	t.Parallel()
	var open atomic.Int32
	var backends []*testkit.Backend
	for _, name := range []string{"a", "b", "c"} {
		backends = append(backends, testkit.Start(t, name, connCount(&open)))
	}
	resolvers := []*testkit.Resolver{testkit.NewResolver(t), testkit.NewResolver(t)}
	for i, r := range resolvers {
		_ = r.Update(backends[i])
	}
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 50 {
				live := dialLive(t, testkit.Service{Clusters: testkit.Clusters(backends...)})
				call(t, live.cc)
				live.set(t, testkit.Service{Clusters: []testkit.Cluster{
					{Name: "b", Target: resolvers[0].Target()}, {Name: "d", Target: resolvers[1].Target()},
				}})
				call(t, live.cc)
				if err := live.cc.Close(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	testkit.Eventually(t, "all connections are closed", func() bool { return open.Load() == 0 })
	for i, r := range resolvers {
		if got := r.Open(); got != 0 {
			t.Errorf("resolver %d: %d open: want 0", i, got)
		}
	}
}

// TestCloseDuringEverything closes channels while RPCs, updates, resolver errors
// and restarts of servers go on.
func TestCloseDuringEverything(t *testing.T) {
	t.Parallel()
	backends := startAll(t, "a", "b", "c")
	r := testkit.NewResolver(t)
	_ = r.Update(backends[0])
	ctx, stop := context.WithCancel(context.Background())
	var background sync.WaitGroup
	background.Go(func() {
		for i := 0; ctx.Err() == nil; i++ {
			switch i % 4 {
			case 0:
				_ = r.Update()
			case 1:
				r.Fail(errors.New("no such name"))
			default:
				_ = r.Update(backends[i%3])
			}
		}
	})
	for range 30 {
		live := dialLive(t, testkit.Service{Clusters: testkit.Clusters(backends...)})
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				for {
					rpc, cancel := context.WithTimeout(ctx, testkit.Patience)
					_, err := testkit.Unary(rpc, live.cc)
					cancel()
					if errors.Is(err, grpc.ErrClientConnClosing) { //nolint:staticcheck // what a closed channel returns
						return
					}
				}
			})
		}
		wg.Go(func() {
			for i := range 10 {
				name := fmt.Sprint("new-", i)
				live.trySet(t, testkit.Service{Clusters: append(testkit.Clusters(backends[i%3]), testkit.Cluster{Name: name, Target: r.Target()})})
			}
		})
		time.Sleep(time.Duration(rand.IntN(3000)) * time.Microsecond) // when, is what varies
		if err := live.cc.Close(); err != nil {
			t.Error(err)
		}
		wg.Wait()
	}
	stop()
	background.Wait()
}
