package composite

import (
	"encoding/json"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/balancer"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/experimental/stats"
	"google.golang.org/grpc/resolver"

	"github.com/grpc-composite/grpc-composite/internal/plan"
	"github.com/grpc-composite/grpc-composite/internal/testkit"
)

// fakeChannel is what a channel is to the policy, without connections.
type fakeChannel struct {
	balancer.ClientConn

	mu     sync.Mutex
	states []balancer.State
}

func (f *fakeChannel) UpdateState(s balancer.State) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.states = append(f.states, s)
}

// count is how many pickers there were.
func (f *fakeChannel) count() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.states)
}

func (f *fakeChannel) latest() balancer.State {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.states[len(f.states)-1]
}

func (f *fakeChannel) MetricsRecorder() stats.MetricsRecorder { return nil }

func (f *fakeChannel) ResolveNow(resolver.ResolveNowOptions) {}

// last returns the conditions in the last picker, by cluster, and the channel's
// state.
func (f *fakeChannel) last() ([]plan.Condition, connectivity.State) {
	s := f.latest()
	var conditions []plan.Condition
	for _, c := range s.Picker.(*picker).clusters {
		conditions = append(conditions, c.condition)
	}
	return conditions, s.ConnectivityState
}

// bench is a policy with one target-less cluster, whose child a test drives.
type bench struct {
	t       *testing.T
	channel *fakeChannel
	policy  *testkit.Policy
	b       balancer.Balancer
}

func newBench(t *testing.T) *bench {
	t.Helper()
	b := &bench{t: t, channel: &fakeChannel{}, policy: testkit.NewPolicy(t)}
	b.b = builder{}.Build(b.channel, balancer.BuildOptions{})
	t.Cleanup(b.b.Close)
	return b
}

// update delivers a config in which the cluster has more settings.
func (b *bench) update(more map[string]any) error {
	b.t.Helper()
	settings := map[string]any{"childPolicy": b.policy.Config()}
	for k, v := range more {
		settings[k] = v
	}
	service := testkit.Service{Clusters: []testkit.Cluster{{Name: "a", More: settings}}}
	text, err := json.Marshal(service.Policy())
	if err != nil {
		b.t.Fatal(err)
	}
	cfg, err := builder{}.ParseConfig(text)
	if err != nil {
		b.t.Fatal(err)
	}
	return b.b.UpdateClientConnState(balancer.ClientConnState{BalancerConfig: cfg, ResolverState: testkit.OneEndpoint("127.0.0.1:1")})
}

func (b *bench) want(condition plan.Condition, state connectivity.State) {
	b.t.Helper()
	synctest.Wait()
	conditions, got := b.channel.last()
	if conditions[0] != condition || got != state {
		b.t.Fatalf("condition %v, channel %v: want %v, %v", conditions[0], got, condition, state)
	}
}

const (
	connecting = connectivity.Connecting
	ready      = connectivity.Ready
	failure    = connectivity.TransientFailure
	idle       = connectivity.Idle
)

var errDown = errors.New("down")

func TestConnectTimeoutRunsFromCreation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		_ = b.update(nil)
		b.want(plan.Connecting, connecting)
		child := b.policy.Child(t, 0)
		for range 9 {
			time.Sleep(100 * time.Millisecond)
			child.Report(connecting, balancer.ErrNoSubConnAvailable) // does not start it again
			b.want(plan.Connecting, connecting)
		}
		time.Sleep(100 * time.Millisecond)
		b.want(plan.NoHost, failure)
		child.Report(connecting, balancer.ErrNoSubConnAvailable)
		b.want(plan.NoHost, failure)
		child.Report(ready, nil)
		b.want(plan.HasHost, ready)
	})
}

func TestConnectTimeoutRunsFromTheLossOfReady(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		_ = b.update(nil)
		child := b.policy.Child(t, 0)
		child.Report(ready, nil)
		time.Sleep(time.Hour)
		b.want(plan.HasHost, ready)
		child.Report(connecting, balancer.ErrNoSubConnAvailable)
		time.Sleep(time.Second - 1)
		b.want(plan.Connecting, connecting)
		time.Sleep(1)
		b.want(plan.NoHost, failure)
	})
}

func TestTransientFailureLastsUntilReady(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		_ = b.update(nil)
		child := b.policy.Child(t, 0)
		child.Report(failure, errDown)
		b.want(plan.NoHost, failure)
		for _, s := range []connectivity.State{connecting, idle, connecting, failure, connecting} {
			child.Report(s, errDown)
			channel := failure
			if s == idle {
				channel = idle // an attempt may bring it back
			}
			b.want(plan.NoHost, channel)
		}
		child.Report(ready, nil)
		b.want(plan.HasHost, ready)
		child.Report(connecting, errDown)
		b.want(plan.Connecting, connecting)
	})
}

// TestClustersWithoutHostsPublishNothing has a child that fails again and again:
// no pick would do anything else, so no waiting RPC is woken.
func TestClustersWithoutHostsPublishNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		_ = b.update(nil)
		child := b.policy.Child(t, 0)
		child.Report(failure, errDown)
		before := b.channel.count()
		for range 100 {
			child.Report(connecting, balancer.ErrNoSubConnAvailable)
			child.Report(failure, errDown)
		}
		synctest.Wait()
		if got := b.channel.count() - before; got != 0 {
			t.Errorf("%d pickers: want none", got)
		}
		child.Report(ready, nil)
		if got := b.channel.count() - before; got != 1 {
			t.Errorf("%d pickers: want one", got)
		}
		child.Report(ready, nil)
		if got := b.channel.count() - before; got != 2 {
			t.Errorf("%d pickers: want one for each picker of a child with a host", got)
		}
	})
}

func TestBurstOfReportsMakesOnePicker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.policy.OnUpdate = func(c *testkit.PolicyChild, _ balancer.ClientConnState) error {
			for range 10 {
				c.Report(connecting, balancer.ErrNoSubConnAvailable)
				c.Report(ready, nil)
			}
			return nil
		}
		for i := range 3 {
			_ = b.update(nil)
			if got := b.channel.count(); got != i+1 {
				t.Errorf("update %d: %d pickers: want one for each update", i, got)
			}
		}
		b.want(plan.HasHost, ready)
	})
}

// TestUnchangedConfigPublishesNothing has a resolver that delivers the same again.
func TestUnchangedConfigPublishesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		_ = b.update(nil)
		b.policy.Child(t, 0).Report(ready, nil)
		before := b.channel.count()
		for range 10 {
			_ = b.update(nil)
		}
		if got := b.channel.count() - before; got != 0 {
			t.Errorf("%d pickers: want none", got)
		}
		_ = b.update(map[string]any{"connectTimeout": "2s"})
		if got := b.channel.count() - before; got != 1 {
			t.Errorf("%d pickers: want one for another config", got)
		}
	})
}

func TestConnectTimeoutChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		_ = b.update(map[string]any{"connectTimeout": "10s"})
		time.Sleep(5 * time.Second)
		b.want(plan.Connecting, connecting)
		_ = b.update(map[string]any{"connectTimeout": "7s"})
		time.Sleep(2*time.Second - 1)
		b.want(plan.Connecting, connecting)
		time.Sleep(1)
		b.want(plan.NoHost, failure)
		_ = b.update(map[string]any{"connectTimeout": "20s"})
		b.want(plan.Connecting, connecting)
		_ = b.update(map[string]any{"connectTimeout": "0s"})
		b.want(plan.NoHost, failure)
	})
}

func TestRefusedEndpoints(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		var refusal error
		b.policy.OnUpdate = func(c *testkit.PolicyChild, _ balancer.ClientConnState) error {
			c.Report(ready, nil)
			return refusal
		}
		_ = b.update(nil)
		b.want(plan.HasHost, ready)
		refusal = balancer.ErrBadResolverState
		if err := b.update(nil); err != balancer.ErrBadResolverState {
			t.Errorf("error %v: want the child's, bare", err)
		}
		b.want(plan.NoHost, failure)
		// The list was not empty, so the child's own word is all there is.
		_, err := b.channel.latest().Picker.Pick(balancer.PickInfo{Ctx: attemptOf(t, 1, false)})
		testkit.Contains(t, err, `a skipped: transient failure ("`+refusal.Error()+`")`)
		refusal = nil
		if err := b.update(nil); err != nil {
			t.Error(err)
		}
		b.want(plan.HasHost, ready)
	})
}

// TestIdleChildIsAskedToConnect has children that become IDLE: by losing a
// connection, and while their endpoints change.
func TestIdleChildIsAskedToConnect(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		_ = b.update(nil)
		child := b.policy.Child(t, 0)
		child.Report(ready, nil)
		child.Report(idle, balancer.ErrNoSubConnAvailable)
		b.want(plan.Connecting, connecting)
		if got := child.ExitIdles(); got != 1 {
			t.Errorf("asked %d times: want once", got)
		}
		child.Report(idle, balancer.ErrNoSubConnAvailable)
		synctest.Wait()
		if got := child.ExitIdles(); got != 1 {
			t.Errorf("asked %d times: want no more for the same state", got)
		}
		_ = b.update(nil)
		if got := child.ExitIdles(); got != 2 {
			t.Errorf("asked %d times: want once more after new endpoints", got)
		}
		b.b.ExitIdle()
		if got := child.ExitIdles(); got != 3 {
			t.Errorf("asked %d times: want once more for the channel's Connect", got)
		}
		// It does not react, so that it needs a pick.
		time.Sleep(time.Hour)
		b.want(plan.Idle, idle)
		p := b.channel.latest().Picker
		if _, err := p.Pick(balancer.PickInfo{Ctx: firstAttempt(t)}); err != balancer.ErrNoSubConnAvailable {
			t.Errorf("pick: %v: want it to wait", err)
		}
		b.want(plan.Connecting, connecting)
		time.Sleep(time.Second)
		// An attempt passes it over, and asks it all the same.
		b.want(plan.NoHost, idle)
	})
}

func TestConfigOfAnotherType(t *testing.T) {
	b := builder{}.Build(&fakeChannel{}, balancer.BuildOptions{})
	defer b.Close()
	if err := b.UpdateClientConnState(balancer.ClientConnState{}); err == nil {
		t.Error("no error for a missing config")
	}
}
