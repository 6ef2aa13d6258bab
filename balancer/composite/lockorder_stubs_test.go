package composite

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc/balancer"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/experimental/stats"
	"google.golang.org/grpc/resolver"

	"github.com/grpc-composite/grpc-composite/internal/testkit"
)

// lockOrderCalls are all calls that the policy makes, and that are called back
// from.
var lockOrderCalls = []string{
	"Build", "UpdateClientConnState", "ResolverError", "ExitIdle", "Close", "UpdateSubConnState", "a state listener", "a health listener",
	"Pick", "Done", "a resolver's Build", "a resolver's ResolveNow", "a resolver's Close",
}

// lockOrder is a policy, and what surrounds it.
type lockOrder struct {
	t      *testing.T
	policy balancer.Balancer
	latest atomic.Pointer[balancer.State]
	budget int // callbacks from each call, which might go on forever

	mu        sync.Mutex // guards what follows
	callbacks map[string]int
	children  []balancer.ClientConn
	resolvers []resolver.ClientConn
}

func newLockOrder(t *testing.T, budget int) *lockOrder {
	t.Helper()
	w := &lockOrder{t: t, budget: budget, callbacks: make(map[string]int)}
	w.policy = builder{}.Build(lockOrderChannel{lockOrder: w}, balancer.BuildOptions{})
	return w
}

// enter tells whether a call still calls back.
func (w *lockOrder) enter(call string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.callbacks[call]++
	return w.callbacks[call] <= w.budget
}

// missing are the calls that were not called back from, but for one kind.
func (w *lockOrder) missing(but string) []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(lockOrderCalls), func(call string) bool { return w.callbacks[call] > 0 || call == but })
}

// callBack does, from within a call into a child, all that a child may do.
func (w *lockOrder) callBack(call string, cc balancer.ClientConn) {
	if w.enter(call) {
		w.useChannel(cc, true)
		w.pick(1)
	}
}

// useChannel makes every call that a child may make.
func (w *lockOrder) useChannel(cc balancer.ClientConn, keepsConn bool) {
	addrs := []resolver.Address{{Addr: "127.0.0.1:1"}}
	var first atomic.Value
	conn, err := cc.NewSubConn(addrs, balancer.NewSubConnOptions{StateListener: func(s balancer.SubConnState) {
		w.callBack("a state listener", cc)
		if conn, ok := first.Load().(balancer.SubConn); ok && s.ConnectivityState == ready {
			conn.RegisterHealthListener(func(balancer.SubConnState) { w.callBack("a health listener", cc) })
		}
	}})
	if err == nil { // else the child is closed
		first.Store(conn)
		conn.Connect()
	}
	second, _ := cc.NewSubConn(addrs, balancer.NewSubConnOptions{})
	if second != nil {
		second.Connect()
		second.UpdateAddresses(addrs)     //nolint:staticcheck // deprecated, and called all the same
		cc.UpdateAddresses(second, addrs) //nolint:staticcheck // deprecated, and called all the same
	}
	for _, state := range []connectivity.State{connecting, idle, failure, ready} {
		cc.UpdateState(balancer.State{ConnectivityState: state, Picker: &lockOrderPicker{w, cc, state, conn}})
	}
	cc.ResolveNow(resolver.ResolveNowOptions{})
	_ = cc.Target() //nolint:staticcheck // deprecated, and called all the same
	if second != nil {
		cc.RemoveSubConn(second) //nolint:staticcheck // deprecated, and called all the same
	}
	if conn != nil && !keepsConn {
		conn.Shutdown()
	}
}

// useResolver makes every call that a resolver may make.
func (w *lockOrder) useResolver(cc resolver.ClientConn) {
	_ = cc.UpdateState(testkit.OneEndpoint("127.0.0.1:1"))
	cc.ReportError(errors.New("no such name"))
	cc.NewAddress([]resolver.Address{{Addr: "127.0.0.1:2"}}) //nolint:staticcheck // deprecated, and called all the same
	_ = cc.ParseServiceConfig("{}")
}

// quietly marks an attempt whose picks do not call back.
type quietly struct{}

// lockOrderPicker is a child's picker.
type lockOrderPicker struct {
	w     *lockOrder
	cc    balancer.ClientConn
	state connectivity.State
	conn  balancer.SubConn
}

func (p *lockOrderPicker) Pick(info balancer.PickInfo) (balancer.PickResult, error) {
	if info.Ctx.Value(quietly{}) == nil {
		p.w.callBack("Pick", p.cc)
	}
	switch {
	case p.state == ready && p.conn != nil:
		return balancer.PickResult{SubConn: p.conn, Done: func(balancer.DoneInfo) {
			if info.Ctx.Value(quietly{}) == nil {
				p.w.callBack("Done", p.cc)
			}
		}}, nil
	case p.state == failure:
		return balancer.PickResult{}, errDown
	default:
		return balancer.PickResult{}, balancer.ErrNoSubConnAvailable
	}
}

// lockOrderChannel is the channel.
type lockOrderChannel struct {
	balancer.ClientConn
	*lockOrder
}

func (c lockOrderChannel) MetricsRecorder() stats.MetricsRecorder { return nil }

func (c lockOrderChannel) Target() string { return "lockorder:///channel" }

func (c lockOrderChannel) ResolveNow(resolver.ResolveNowOptions) {}

// UpdateState picks at once. That the child's picker calls back is for others: the
// channel never waits for one.
func (c lockOrderChannel) UpdateState(s balancer.State) {
	c.latest.Store(&s)
	for n := range 3 {
		c.pickWith(context.WithValue(context.Background(), quietly{}, true), n+1)
	}
}

func (c lockOrderChannel) NewSubConn(_ []resolver.Address, opts balancer.NewSubConnOptions) (balancer.SubConn, error) {
	conn := &lockOrderConn{listener: opts.StateListener}
	conn.listener(balancer.SubConnState{ConnectivityState: idle})
	return conn, nil
}

// lockOrderConn is a connection. It reports at once what becomes of it, and, as
// gRPC-Go's, holds a lock while it calls a health listener.
type lockOrderConn struct {
	balancer.SubConn
	listener func(balancer.SubConnState)
	mu       sync.Mutex
}

func (c *lockOrderConn) Connect() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, state := range []connectivity.State{failure, connecting, ready} {
		c.listener(balancer.SubConnState{ConnectivityState: state, ConnectionError: errDown})
	}
}

func (c *lockOrderConn) RegisterHealthListener(listener func(balancer.SubConnState)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	listener(balancer.SubConnState{ConnectivityState: ready})
}

func (c *lockOrderConn) UpdateAddresses([]resolver.Address) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.listener(balancer.SubConnState{ConnectivityState: connecting})
}

func (c *lockOrderConn) Shutdown() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.listener(balancer.SubConnState{ConnectivityState: connectivity.Shutdown})
}

func init() {
	balancer.Register(lockOrderBuilder{"lock_order_x"})
	balancer.Register(lockOrderBuilder{"lock_order_y"})
	resolver.Register(lockOrderResolverBuilder{})
}

// surroundings are those of a policy, which may be inside another one.
func surroundings(b *compositeBalancer) *lockOrder {
	if outer, ok := b.cc.(*child); ok {
		return surroundings(outer.cluster.parent)
	}
	return b.cc.(lockOrderChannel).lockOrder
}

// lockOrderBuilder builds the children.
type lockOrderBuilder struct{ name string }

func (b lockOrderBuilder) Name() string { return b.name }

func (lockOrderBuilder) Build(cc balancer.ClientConn, _ balancer.BuildOptions) balancer.Balancer {
	w := surroundings(cc.(*child).cluster.parent)
	w.mu.Lock()
	w.children = append(w.children, cc)
	w.mu.Unlock()
	w.callBack("Build", cc)
	return lockOrderChild{w, cc}
}

// lockOrderChild is a child.
type lockOrderChild struct {
	w  *lockOrder
	cc balancer.ClientConn
}

func (c lockOrderChild) UpdateClientConnState(balancer.ClientConnState) error {
	c.w.callBack("UpdateClientConnState", c.cc)
	return nil
}

func (c lockOrderChild) ResolverError(error) { c.w.callBack("ResolverError", c.cc) }

func (c lockOrderChild) UpdateSubConnState(balancer.SubConn, balancer.SubConnState) {
	c.w.callBack("UpdateSubConnState", c.cc)
}

func (c lockOrderChild) ExitIdle() { c.w.callBack("ExitIdle", c.cc) }

func (c lockOrderChild) Close() { c.w.callBack("Close", c.cc) }

type lockOrderResolverBuilder struct{}

func (lockOrderResolverBuilder) Scheme() string { return "lockorder" }

func (lockOrderResolverBuilder) Build(_ resolver.Target, cc resolver.ClientConn, _ resolver.BuildOptions) (resolver.Resolver, error) {
	w := surroundings(cc.(*clusterResolver).cluster.parent)
	w.mu.Lock()
	w.resolvers = append(w.resolvers, cc)
	w.mu.Unlock()
	r := lockOrderResolver{w, cc}
	r.callBack("a resolver's Build")
	return r, nil
}

// lockOrderResolver is the resolver of a cluster.
type lockOrderResolver struct {
	w  *lockOrder
	cc resolver.ClientConn
}

func (r lockOrderResolver) callBack(call string) {
	if r.w.enter(call) {
		r.w.useResolver(r.cc)
		r.w.pick(1)
	}
}

func (r lockOrderResolver) ResolveNow(resolver.ResolveNowOptions) {
	r.callBack("a resolver's ResolveNow")
}

func (r lockOrderResolver) Close() { r.callBack("a resolver's Close") }
