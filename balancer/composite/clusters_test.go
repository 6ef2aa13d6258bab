package composite_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"

	"github.com/grpc-composite/grpc-composite/internal/testkit"
)

// fastReconnect has connections retried after 10 ms instead of a second.
func fastReconnect() grpc.DialOption {
	return grpc.WithConnectParams(grpc.ConnectParams{
		Backoff:           backoff.Config{BaseDelay: 10 * time.Millisecond, Multiplier: 1, MaxDelay: 10 * time.Millisecond},
		MinConnectTimeout: testkit.Patience,
	})
}

// delayedPicks counts the attempts whose pick had to wait.
type delayedPicks struct{ n atomic.Int32 }

func (d *delayedPicks) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context { return ctx }
func (d *delayedPicks) HandleRPC(_ context.Context, s stats.RPCStats) {
	if _, ok := s.(*stats.DelayedPickComplete); ok {
		d.n.Add(1)
	}
}
func (d *delayedPicks) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }
func (d *delayedPicks) HandleConn(context.Context, stats.ConnStats)                       {}

// call makes a unary call that has to succeed, and returns the server's name.
func call(t testing.TB, cc *grpc.ClientConn) string {
	t.Helper()
	name, err := testkit.Unary(testkit.Context(t), cc)
	if err != nil {
		t.Fatal(err)
	}
	return name
}

// connCounter is a server's stats handler that counts open connections.
type connCounter struct{ open *atomic.Int32 }

func (connCounter) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context   { return ctx }
func (connCounter) HandleRPC(context.Context, stats.RPCStats)                         {}
func (connCounter) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }
func (c connCounter) HandleConn(_ context.Context, s stats.ConnStats) {
	switch s.(type) {
	case *stats.ConnBegin:
		c.open.Add(1)
	case *stats.ConnEnd:
		c.open.Add(-1)
	}
}

func TestSilentListenerIsWaitedForUntilTheConnectTimeout(t *testing.T) {
	t.Parallel()
	silent, accepted := testkit.BlackHole(t)
	b := testkit.Start(t, "b")
	var delayed delayedPicks
	cc := dial(t, testkit.Service{Clusters: []testkit.Cluster{
		{Name: "a", Target: "passthrough:///" + silent, More: map[string]any{"connectTimeout": "0.2s"}},
		{Name: "b", Target: b.Target()},
	}}, grpc.WithStatsHandler(&delayed))
	if got := call(t, cc); got != "b" {
		t.Errorf("answer from %s: want b", got)
	}
	<-accepted // the first cluster was really tried
	if got := delayed.n.Load(); got != 1 {
		t.Fatalf("%d picks waited: want the first", got)
	}
	for range 100 {
		call(t, cc)
	}
	if got := delayed.n.Load(); got != 1 {
		t.Errorf("%d picks waited: want the first and no other", got)
	}
}

func TestZeroConnectTimeoutNeverWaits(t *testing.T) {
	t.Parallel()
	silent, _ := testkit.BlackHole(t)
	b := testkit.Start(t, "b")
	cc := dial(t, testkit.Service{Clusters: []testkit.Cluster{
		{Name: "a", Target: "passthrough:///" + silent, More: map[string]any{"connectTimeout": "0s"}},
		{Name: "b", Target: b.Target()},
	}})
	if got := call(t, cc); got != "b" {
		t.Errorf("answer from %s: want b", got)
	}
}

func TestConnectingClusterIsWaitedForThoughAnotherFailed(t *testing.T) {
	t.Parallel()
	silent, _ := testkit.BlackHole(t)
	cc := dial(t, testkit.Service{Clusters: []testkit.Cluster{
		{Name: "a", Target: "passthrough:///" + testkit.ClosedPort},
		{Name: "b", Target: "passthrough:///" + silent, More: map[string]any{"connectTimeout": "60s"}},
	}})
	ctx, cancel := context.WithTimeout(testkit.Context(t), 300*time.Millisecond)
	defer cancel()
	_, err := testkit.Unary(ctx, cc)
	if got := status.Code(err); got != codes.DeadlineExceeded {
		t.Errorf("code %v (%v): want the RPC to wait until its deadline", got, err)
	}
}

// TestSecondAddressOfAnEndpoint has an endpoint whose first address swallows
// connections, as broken IPv6 does in front of a working IPv4 address.
func TestSecondAddressOfAnEndpoint(t *testing.T) {
	for _, tc := range []struct {
		name, connectTimeout, counts string
	}{
		{"the default leaves it enough time", "1s", "1/0"},
		{"a short connect timeout does not", "0.1s", "0/1"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			silent, _ := testkit.BlackHole(t)
			backends := startAll(t, "a", "b")
			r := testkit.NewResolver(t)
			_ = r.UpdateState(testkit.OneEndpoint(silent, backends[0].Addr))
			first := testkit.Cluster{Name: "a", Target: r.Target(), More: map[string]any{"connectTimeout": tc.connectTimeout}}
			cc := dial(t, testkit.Service{Clusters: []testkit.Cluster{first, {Name: "b", Target: backends[1].Target()}}})
			call(t, cc)
			if got := testkit.Counts(backends...); got != tc.counts {
				t.Errorf("calls %s: want %s", got, tc.counts)
			}
			testkit.AwaitServer(t, cc, "a")
		})
	}
}

func TestFlappingClusterIsNeverWaitedFor(t *testing.T) {
	t.Parallel()
	b := testkit.Start(t, "b")
	var delayed delayedPicks
	cc := dial(t, testkit.Service{Clusters: []testkit.Cluster{
		{Name: "a", Target: "passthrough:///" + testkit.ClosedPort},
		{Name: "b", Target: b.Target()},
	}}, fastReconnect(), grpc.WithStatsHandler(&delayed))
	call(t, cc)
	before := delayed.n.Load()
	for end := time.Now().Add(300 * time.Millisecond); time.Now().Before(end); {
		call(t, cc)
	}
	if got := delayed.n.Load(); got != before {
		t.Errorf("%d picks waited for a cluster that reconnects in vain: want none", got-before)
	}
}

func TestRestartedClusterIsUsedAgainWithoutTraffic(t *testing.T) {
	for _, policy := range []string{"round_robin", "pick_first"} {
		t.Run(policy, func(t *testing.T) {
			t.Parallel()
			connected := make(chan struct{}, 16)
			a := testkit.Start(t, "a", grpc.StatsHandler(connHandler(func() { connected <- struct{}{} })))
			b := testkit.Start(t, "b")
			cc := dial(t, testkit.Service{Clusters: []testkit.Cluster{
				{Name: "a", Target: a.Target(), More: map[string]any{"childPolicy": []any{map[string]any{policy: map[string]any{}}}}},
				{Name: "b", Target: b.Target()},
			}}, fastReconnect())
			testkit.AwaitServer(t, cc, "a")
			<-connected
			a.Stop()
			testkit.AwaitServer(t, cc, "b")
			a.Restart(t)
			<-connected // no RPC has asked for it
			testkit.AwaitServer(t, cc, "a")
		})
	}
}

// connHandler is a server's stats handler that is told of new connections.
type connHandler func()

func (connHandler) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context   { return ctx }
func (connHandler) HandleRPC(context.Context, stats.RPCStats)                         {}
func (connHandler) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }
func (f connHandler) HandleConn(_ context.Context, s stats.ConnStats) {
	if _, ok := s.(*stats.ConnBegin); ok {
		f()
	}
}

// TestRetiredConnectionsCostNothing has a server that ends each connection after
// 40 ms.
func TestRetiredConnectionsCostNothing(t *testing.T) {
	for _, policy := range []string{"round_robin", "pick_first"} {
		t.Run(policy, func(t *testing.T) {
			t.Parallel()
			var conns atomic.Int32
			a := testkit.Start(t, "a",
				grpc.KeepaliveParams(keepalive.ServerParameters{MaxConnectionAge: 40 * time.Millisecond, MaxConnectionAgeGrace: testkit.Patience}),
				grpc.StatsHandler(connHandler(func() { conns.Add(1) })))
			b := testkit.Start(t, "b")
			cc := dial(t, testkit.Service{Clusters: []testkit.Cluster{
				{Name: "a", Target: a.Target(), More: map[string]any{"childPolicy": []any{map[string]any{policy: map[string]any{}}}}},
				{Name: "b", Target: b.Target()},
			}})
			for conns.Load() < 8 {
				if got := call(t, cc); got != "a" {
					t.Fatalf("answer from %s: want a", got)
				}
			}
			if got := b.Count(); got != 0 {
				t.Errorf("%d calls on the second cluster: want none", got)
			}
		})
	}
}

func TestConnectWithoutRPC(t *testing.T) {
	t.Parallel()
	a := testkit.Start(t, "a")
	cc := dial(t, testkit.Service{Clusters: testkit.Clusters(a)})
	if got := cc.GetState(); got != connectivity.Idle {
		t.Fatalf("state %v: want IDLE before anybody asks", got)
	}
	cc.Connect()
	testkit.AwaitState(t, cc, connectivity.Ready)
}

func TestIdleChannelWakesUp(t *testing.T) {
	t.Parallel()
	r := testkit.NewResolver(t)
	backends := startAll(t, "a", "b")
	_ = r.Update(backends[0])
	cc := dial(t, testkit.Service{Clusters: []testkit.Cluster{{Name: "a", Target: r.Target()}}}, grpc.WithIdleTimeout(50*time.Millisecond))
	for _, want := range backends {
		if got := call(t, cc); got != want.Name {
			t.Errorf("answer from %s: want %s", got, want.Name)
		}
		testkit.AwaitState(t, cc, connectivity.Idle)
		testkit.Eventually(t, "the idle cluster's resolver is closed", func() bool { return r.Open() == 0 })
		_ = r.Update(backends[1]) // while idle
	}
}

func TestResolverErrorsAndEmptyLists(t *testing.T) {
	t.Parallel()
	backends := startAll(t, "a", "b")
	r := testkit.NewResolver(t)
	cc := dial(t, testkit.Service{Clusters: []testkit.Cluster{
		{Name: "first", Target: r.Target()},
		{Name: "second", Target: backends[1].Target()},
	}, More: map[string]any{"noHost": "FAIL_REQUEST"}})

	r.Fail(errors.New("no such name"))
	if got := call(t, cc); got != "b" {
		t.Errorf("nothing resolved yet: answer from %s: want b", got)
	}
	if err := r.Update(backends[0]); err != nil {
		t.Errorf("endpoints: %v", err)
	}
	testkit.AwaitServer(t, cc, "a")
	r.Fail(errors.New("server misbehaving"))
	for range 20 {
		if got := call(t, cc); got != "a" {
			t.Fatalf("after an error: answer from %s: want the last good endpoints to serve", got)
		}
	}
	if err := r.Update(); err == nil {
		t.Error("an empty list: no error: want one for the resolver to resolve again")
	}
	if got := call(t, cc); got != "b" {
		t.Errorf("after an empty list: answer from %s: want b", got)
	}
	if err := r.Update(backends[0]); err != nil {
		t.Errorf("endpoints: %v", err)
	}
	testkit.AwaitServer(t, cc, "a")
}

func TestErrorsOfClustersAreTold(t *testing.T) {
	t.Parallel()
	failing, empty, unbuildable := testkit.NewResolver(t), testkit.NewResolver(t), testkit.NewResolver(t)
	failing.Fail(errors.New("no such name"))
	_ = empty.Update()
	unbuildable.FailBuilds(errors.New("zookeeper is asleep"))
	silent, _ := testkit.BlackHole(t)
	cc := dial(t, testkit.Service{Clusters: []testkit.Cluster{
		{Name: "refused", Target: "passthrough:///" + testkit.ClosedPort},
		{Name: "failing", Target: failing.Target()},
		{Name: "empty", Target: empty.Target()},
		{Name: "unbuildable", Target: unbuildable.Target()},
		{Name: "silent", Target: "passthrough:///" + silent, More: map[string]any{"connectTimeout": "0.1s"}},
	}})
	_, err := testkit.Unary(testkit.Context(t), cc)
	if got := status.Code(err); got != codes.Unavailable {
		t.Errorf("code %v: want UNAVAILABLE", got)
	}
	testkit.Contains(t, err, "attempt 1", "no_healthy_upstream", "no host available",
		"refused skipped: transient failure", "connection refused",
		"failing skipped: transient failure", "no such name",
		"empty skipped: no endpoints",
		"unbuildable skipped: transient failure", "zookeeper is asleep",
		"silent skipped: connect timeout after 100ms")
}

func TestResolverErrorAfterAnEmptyListIsTold(t *testing.T) {
	t.Parallel()
	r := testkit.NewResolver(t)
	_ = r.Update()
	cc := dial(t, testkit.Service{Clusters: []testkit.Cluster{{Name: "a", Target: r.Target()}}})
	_, err := testkit.Unary(testkit.Context(t), cc)
	testkit.Contains(t, err, "a skipped: no endpoints")
	r.Fail(errors.New("no such name"))
	_, err = testkit.Unary(testkit.Context(t), cc)
	testkit.Contains(t, err, "a skipped: no endpoints", "no such name")
}

func TestResolverThatCannotBeBuiltIsBuiltLater(t *testing.T) {
	t.Parallel()
	a := testkit.Start(t, "a")
	r := testkit.NewResolver(t)
	_ = r.Update(a)
	r.FailBuilds(errors.New("not yet"))
	cc := dial(t, testkit.Service{Clusters: []testkit.Cluster{{Name: "a", Target: r.Target()}}})
	_, err := testkit.Unary(testkit.Context(t), cc)
	testkit.Contains(t, err, "not yet")
	r.FailBuilds(nil)
	testkit.AwaitServer(t, cc, "a")
}

func TestServiceConfigOfAClusterIsIgnored(t *testing.T) {
	t.Parallel()
	a := testkit.Start(t, "a")
	r := testkit.NewResolver(t)
	_ = r.Update(a)
	cc := dial(t, testkit.Service{Clusters: []testkit.Cluster{{Name: "a", Target: r.Target()}}})
	call(t, cc)
	state := testkit.OneEndpoint(a.Addr)
	state.ServiceConfig = r.Parse(`{"loadBalancingConfig": [{"no_such_policy": {}}]}`)
	if err := r.UpdateState(state); err != nil {
		t.Errorf("endpoints with a service config: %v", err)
	}
	if got := call(t, cc); got != "a" {
		t.Errorf("answer from %s: want a", got)
	}
}

func TestResolveNowReachesTheClustersOwnResolver(t *testing.T) {
	t.Parallel()
	backends := startAll(t, "a", "b")
	resolvers := []*testkit.Resolver{testkit.NewResolver(t), testkit.NewResolver(t)}
	var clusters []testkit.Cluster
	for i, b := range backends {
		_ = resolvers[i].Update(b)
		clusters = append(clusters, testkit.Cluster{Name: b.Name, Target: resolvers[i].Target()})
	}
	cc := dial(t, testkit.Service{Clusters: clusters}, fastReconnect())
	testkit.AwaitServer(t, cc, "a")
	backends[0].Stop()
	testkit.Eventually(t, "the first cluster's resolver is asked", func() bool { return resolvers[0].Asked() > 0 })
	call(t, cc)
	if got := resolvers[1].Asked(); got != 0 {
		t.Errorf("the other cluster's resolver was asked %d times: want never", got)
	}
}

func TestTargetlessCluster(t *testing.T) {
	t.Parallel()
	backends := startAll(t, "a", "b")
	channel := testkit.NewResolver(t)
	_ = channel.Update(backends[0])
	cc := dialTarget(t, channel.Target(), testkit.Service{
		Clusters: []testkit.Cluster{{Name: "primary"}, {Name: "fallback", Target: backends[1].Target()}},
		Attempts: 2,
	}, fastReconnect())
	if got := call(t, cc); got != "a" {
		t.Errorf("answer from %s: want a, which the channel's resolver has", got)
	}
	backends[0].Script(testkit.U)
	if got := call(t, cc); got != "b" {
		t.Errorf("second attempt: answer from %s: want b", got)
	}
	if err := channel.Update(); err == nil {
		t.Error("an empty list: no error: want one for the channel's resolver")
	}
	if got := call(t, cc); got != "b" {
		t.Errorf("no endpoints: answer from %s: want b", got)
	}
	backends[0].Script(testkit.OK)
	if err := channel.Update(backends[0]); err != nil {
		t.Errorf("endpoints: %v", err)
	}
	testkit.AwaitServer(t, cc, "a")
	backends[0].Stop()
	testkit.Eventually(t, "the channel's resolver is asked", func() bool { return channel.Asked() > 0 })
}

func TestSeveralTargetlessClustersGetNothing(t *testing.T) {
	t.Parallel()
	a := testkit.Start(t, "a")
	channel := testkit.NewResolver(t)
	_ = channel.Update(a)
	cc := dialTarget(t, channel.Target(), testkit.Service{Clusters: []testkit.Cluster{{Name: "one"}, {Name: "two"}}})
	_, err := testkit.Unary(testkit.Context(t), cc)
	testkit.Contains(t, err, "one skipped: no endpoints", "two skipped: no endpoints")
}

func TestEachClusterHasItsOwnAuthority(t *testing.T) {
	t.Parallel()
	backends := startAll(t, "a", "b", "c")
	backends[0].Script(testkit.U)
	backends[1].Script(testkit.U)
	channel := testkit.NewResolver(t)
	_ = channel.Update(backends[2])
	cc := dialTarget(t, channel.Target(), testkit.Service{
		Clusters: []testkit.Cluster{
			{Name: "a", Target: "dns:///" + backends[0].Addr},
			{Name: "b", Target: backends[1].Target()},
			{Name: "c"},
		},
		Attempts: 3,
	})
	testkit.AwaitServer(t, cc, "c")
	for i, want := range []string{backends[0].Addr, backends[1].Addr, ""} {
		got := fmt.Sprint(backends[i].Calls()[0].Metadata[":authority"])
		if want == "" {
			want = channel.Authority()
		}
		if got != "["+want+"]" {
			t.Errorf("cluster %s: authority %s: want [%s]", backends[i].Name, got, want)
		}
	}
}

func TestWaitForReady(t *testing.T) {
	t.Parallel()
	for _, noHost := range []string{"FAIL_ATTEMPT", "FAIL_REQUEST"} {
		t.Run(noHost, func(t *testing.T) {
			t.Parallel()
			a := testkit.Start(t, "a")
			a.Stop()
			cc := dial(t, testkit.Service{Clusters: testkit.Clusters(a), More: map[string]any{"noHost": noHost}}, fastReconnect())
			_, err := testkit.Unary(testkit.Context(t), cc)
			testkit.Contains(t, err, "no host available")
			done := make(chan error)
			go func() {
				_, err := testkit.Unary(testkit.Context(t), cc, grpc.WaitForReady(true))
				done <- err
			}()
			select {
			case err := <-done:
				t.Fatalf("the RPC did not wait: %v", err)
			case <-time.After(50 * time.Millisecond): // it has had time to fail
			}
			a.Restart(t)
			if err := <-done; err != nil {
				t.Error(err)
			}
		})
	}
}

func TestDeadlineHoldsWhileWaiting(t *testing.T) {
	t.Parallel()
	cc := dial(t, testkit.Service{Clusters: []testkit.Cluster{{Name: "a", Target: "passthrough:///" + testkit.ClosedPort}}})
	cc.Connect()
	testkit.AwaitState(t, cc, connectivity.TransientFailure) // the error tells of it
	ctx, cancel := context.WithTimeout(testkit.Context(t), 100*time.Millisecond)
	defer cancel()
	_, err := testkit.Unary(ctx, cc, grpc.WaitForReady(true))
	if got := status.Code(err); got != codes.DeadlineExceeded {
		t.Errorf("code %v: want DEADLINE_EXCEEDED", got)
	}
	testkit.Contains(t, err, "a skipped: transient failure", "connection refused")
}
