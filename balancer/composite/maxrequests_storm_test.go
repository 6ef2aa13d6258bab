package composite_test

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/balancer"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	testpb "google.golang.org/grpc/interop/grpc_testing"

	"github.com/grpc-composite/grpc-composite/balancer/composite"
	"github.com/grpc-composite/grpc-composite/internal/testkit"
)

const (
	stormCallers = 64
	stormCalls   = 15 // of each caller
	stormLimit   = 5
)

// TestNoPlaceIsLost has many callers at once, whose attempts end in every way
// there is. When all are done no place is taken, and as many calls fit as before.
func TestNoPlaceIsLost(t *testing.T) {
	for _, tc := range []struct {
		name   string
		reply  func() testkit.Reply
		call   rpc
		inside bool // the server hears of a call's end before the client does
	}{
		{name: "success", call: unaryRPC, inside: true},
		{name: "error", reply: failing, call: unaryRPC, inside: true},
		{name: "both", reply: either, call: unaryRPC, inside: true},
		{name: "cancel", reply: hanging, call: cancelled},
		{name: "cancel, or success", call: cancelled},
		{name: "deadline", reply: hanging, call: hurried},
		{name: "bidi", call: conversation},
		{name: "bidi that fails", reply: failing, call: conversation},
		{name: "bidi that is abandoned", call: abandoned},
		{name: "server stream", call: download},
		{name: "client stream", call: uploadToTheEnd},
		{name: "client stream that fails", reply: failing, call: uploadToTheEnd},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			a, b := startGate(t, "a"), testkit.Start(t, "b")
			if tc.reply != nil {
				a.Respond(func(int, testkit.Call) testkit.Reply { return tc.reply() })
			}
			first, policy := limited(t, "a", a.Target(), stormLimit)
			cc := dial(t, testkit.Service{Clusters: append([]testkit.Cluster{first}, testkit.Clusters(b)...), Attempts: 2})
			a.shut()
			callers := make(chan struct{})
			go func() {
				defer close(callers)
				storm(t, cc, tc.call)
			}()
			testkit.Eventually(t, "the cluster is full", func() bool {
				select {
				case <-callers: // no call has lasted long enough
					return true
				default:
					return b.Count() > 0
				}
			})
			a.letGo()
			<-callers
			checkEmpty(t, policy)
			if got := a.most.Load(); tc.inside && got > stormLimit {
				t.Errorf("%d calls at once: want %d at the most", got, stormLimit)
			}
			a.Script(testkit.OK)
			checkFree(t, cc, a, stormLimit, b)
		})
	}
}

// TestNoPlaceIsLostByBrokenServers is the same for servers that do not answer as
// gRPC servers do.
func TestNoPlaceIsLostByBrokenServers(t *testing.T) {
	for _, tc := range []struct {
		name  string
		reply testkit.RawReply
	}{
		{"reset", testkit.RawReset},
		{"refused", testkit.RawRefuse},
		{"left out by a GOAWAY", testkit.RawGoAway},
		{"connection dropped", testkit.RawClose},
		{"not gRPC", testkit.RawBadGateway},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			raw, b := testkit.StartRaw(t, "raw", tc.reply), testkit.Start(t, "b")
			first, policy := limited(t, "raw", raw.Target(), stormLimit)
			cc := dial(t, testkit.Service{Clusters: append([]testkit.Cluster{first}, testkit.Clusters(b)...), Attempts: 2}, fastReconnect())
			storm(t, cc, unaryRPC)
			storm(t, cc, conversation)
			checkEmpty(t, policy)
			if raw.Streams() == 0 {
				t.Error("the cluster was never called: the test shows nothing")
			}
		})
	}
}

// TestNoPlaceIsLostByPicks has a child whose picks fail, wait, or are of a
// connection that is not ready, so that gRPC picks again.
func TestNoPlaceIsLostByPicks(t *testing.T) {
	for _, tc := range []struct {
		name string
		mood func(cold balancer.SubConn) (balancer.PickResult, error)
	}{
		{"an error", func(balancer.SubConn) (balancer.PickResult, error) {
			return balancer.PickResult{}, errors.New("not this time")
		}},
		{"no connection", func(balancer.SubConn) (balancer.PickResult, error) {
			return balancer.PickResult{}, balancer.ErrNoSubConnAvailable
		}},
		{"a connection that is not ready", func(cold balancer.SubConn) (balancer.PickResult, error) {
			return balancer.PickResult{SubConn: cold}, nil
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			a, b := startGate(t, "a"), testkit.Start(t, "b")
			first, policy := limited(t, "a", a.Target(), stormLimit)
			m := &moodyPicker{mood: tc.mood}
			policy.OnUpdate = m.connect
			cc := dial(t, testkit.Service{Clusters: append([]testkit.Cluster{first}, testkit.Clusters(b)...)})
			testkit.AwaitServer(t, cc, "a")

			m.moody.Store(true)
			ctx, stop := context.WithCancel(testkit.Context(t))
			var reports sync.WaitGroup
			reports.Go(func() { // so that those who wait pick again
				for ctx.Err() == nil {
					policy.Child(t, 0).ReportPicker(connectivity.Ready, m)
					time.Sleep(time.Millisecond)
				}
			})
			storm(t, cc, unaryRPC)
			stop()
			reports.Wait()
			checkEmpty(t, policy)
			m.moody.Store(false)
			checkFree(t, cc, a, stormLimit, b)
		})
	}
}

// moodyPicker picks its connection, and while it is moody follows its mood on
// every other pick.
type moodyPicker struct {
	warm, cold balancer.SubConn // cold never connects
	moody      atomic.Bool
	picks      atomic.Int64
	mood       func(cold balancer.SubConn) (balancer.PickResult, error)
}

func (m *moodyPicker) Pick(balancer.PickInfo) (balancer.PickResult, error) {
	if m.moody.Load() && m.picks.Add(1)%2 == 0 {
		return m.mood(m.cold)
	}
	return balancer.PickResult{SubConn: m.warm}, nil
}

// connect is a policy's OnUpdate.
func (m *moodyPicker) connect(c *testkit.PolicyChild, s balancer.ClientConnState) error {
	addrs := s.ResolverState.Endpoints[0].Addresses
	var err error
	if m.cold, err = c.CC.NewSubConn(addrs, balancer.NewSubConnOptions{StateListener: func(balancer.SubConnState) {}}); err != nil {
		return err
	}
	m.warm, err = c.CC.NewSubConn(addrs, balancer.NewSubConnOptions{StateListener: func(s balancer.SubConnState) {
		if s.ConnectivityState == connectivity.Ready {
			c.ReportPicker(connectivity.Ready, m)
		}
	}})
	if err != nil {
		return err
	}
	m.warm.Connect()
	return nil
}

// TestWaitForReadyStorm has many more callers than places and nothing but places
// to wait for: all get one in the end.
func TestWaitForReadyStorm(t *testing.T) {
	t.Parallel()
	a := startGate(t, "a")
	a.Respond(func(int, testkit.Call) testkit.Reply { return either() })
	first, policy := limited(t, "a", a.Target(), stormLimit)
	cc := dial(t, testkit.Service{Clusters: []testkit.Cluster{first}})
	storm(t, cc, func(ctx context.Context, cc *grpc.ClientConn, opts ...grpc.CallOption) error {
		err := unaryRPC(ctx, cc, append(opts, grpc.WaitForReady(true))...)
		if err != nil {
			checkError(t, err, codes.Unavailable, "scripted")
		}
		return err
	})
	checkEmpty(t, policy)
	if got := a.Count(); got != stormCallers*stormCalls {
		t.Errorf("%d calls: want all %d", got, stormCallers*stormCalls)
	}
	if got := a.most.Load(); got > stormLimit {
		t.Errorf("%d calls at once: want %d at the most", got, stormLimit)
	}
	a.Script(testkit.OK)
	checkFree(t, cc, a, stormLimit, nil)
}

// TestLimitIsChangedInAStorm raises and lowers the limit all the time.
func TestLimitIsChangedInAStorm(t *testing.T) {
	t.Parallel()
	a, b := startGate(t, "a"), testkit.Start(t, "b")
	first, policy := limited(t, "a", a.Target(), stormLimit)
	service := testkit.Service{Clusters: append([]testkit.Cluster{first}, testkit.Clusters(b)...)}
	live := dialLive(t, service)
	call(t, live.cc)
	stop := make(chan struct{})
	var changes sync.WaitGroup
	changes.Go(func() {
		for i := 1; ; i = i%(2*stormLimit) + 1 {
			select {
			case <-stop:
				return
			default:
				first.More["maxRequests"] = i
				live.set(t, service)
			}
		}
	})
	storm(t, live.cc, func(ctx context.Context, cc *grpc.ClientConn, opts ...grpc.CallOption) error {
		err := unaryRPC(ctx, cc, opts...)
		checkError(t, err, codes.OK)
		return err
	})
	close(stop)
	changes.Wait()
	checkEmpty(t, policy)
	if got := a.most.Load(); got > 2*stormLimit {
		t.Errorf("%d calls at once: want %d at the most", got, 2*stormLimit)
	}
	first.More["maxRequests"] = stormLimit
	live.set(t, service)
	checkFree(t, live.cc, a, stormLimit, b)
}

// storm makes many calls at once, and waits for their ends.
func storm(t testing.TB, cc *grpc.ClientConn, call rpc) {
	t.Helper()
	var wg sync.WaitGroup
	for range stormCallers {
		wg.Go(func() {
			for range stormCalls {
				_ = call(testkit.Context(t), cc) // what it comes to is not the point
			}
		})
	}
	wg.Wait()
}

// checkEmpty checks that no place is taken. A stream that is abandoned gives its
// own back on a goroutine of gRPC's.
func checkEmpty(t testing.TB, policy *testkit.Policy) {
	t.Helper()
	child := policy.Child(t, 0)
	testkit.Eventually(t, "all places are free", func() bool { return composite.InFlight(child) == 0 })
}

func failing() testkit.Reply { return testkit.U }

func hanging() testkit.Reply { return testkit.Reply{Hang: true} }

func either() testkit.Reply {
	if rand.IntN(2) == 0 {
		return testkit.U
	}
	return testkit.OK
}

// cancelled gives a unary call up after a moment.
func cancelled(ctx context.Context, cc *grpc.ClientConn, opts ...grpc.CallOption) error {
	ctx, cancel := context.WithCancel(ctx)
	defer time.AfterFunc(time.Duration(rand.IntN(3000))*time.Microsecond, cancel).Stop()
	defer cancel()
	return unaryRPC(ctx, cc, opts...)
}

// hurried gives a unary call a deadline after a moment.
func hurried(ctx context.Context, cc *grpc.ClientConn, opts ...grpc.CallOption) error {
	ctx, cancel := context.WithTimeout(ctx, time.Duration(rand.IntN(3000))*time.Microsecond)
	defer cancel()
	return unaryRPC(ctx, cc, opts...)
}

// conversation sends and receives a message, and hears the stream's end.
func conversation(ctx context.Context, cc *grpc.ClientConn, opts ...grpc.CallOption) error {
	stream, err := sendOne(ctx, cc, opts...)
	for err == nil {
		_, err = stream.Recv()
	}
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// abandoned opens a stream and never reads from it.
func abandoned(ctx context.Context, cc *grpc.ClientConn, opts ...grpc.CallOption) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := testpb.NewTestServiceClient(cc).FullDuplexCall(ctx, opts...)
	if err != nil {
		return err
	}
	return stream.Send(&testpb.StreamingOutputCallRequest{})
}
