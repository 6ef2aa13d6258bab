package composite

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc/balancer"
	"google.golang.org/grpc/experimental/stats"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/serviceconfig"
)

// eventKinds are the names of the stub policies.
var eventKinds = [2]string{"events_x", "events_y"}

const eventScheme = "events"

func init() {
	for _, name := range eventKinds {
		balancer.Register(eventBuilder{name})
	}
	resolver.Register(eventResolverBuilder{})
}

// eventWorld is what surrounds the policy. Its fields are used by one goroutine at
// a time: by the test while all others are at rest, or for one cluster by whoever
// holds that cluster's childMu or is the only one to call its resolver.
type eventWorld struct {
	t         *testing.T
	policy    *compositeBalancer
	closed    atomic.Bool
	clusters  map[string]*eventCluster
	reporting atomic.Bool // a picker is being handed over
	pickers   atomic.Int32
	latest    atomic.Pointer[balancer.State]
	asked     atomic.Int32 // how often the channel's resolver was
}

// eventCluster is what surrounds one cluster.
type eventCluster struct {
	habits    eventHabits
	build     eventBuild
	children  []*eventChild
	resolvers []*eventResolver
	asked     atomic.Int32 // how often its resolvers were
}

// eventChannel is the channel.
type eventChannel struct {
	balancer.ClientConn
	*eventWorld
}

func (c eventChannel) MetricsRecorder() stats.MetricsRecorder { return nil }

func (c eventChannel) Target() string { return "events:///channel" }

func (c eventChannel) ResolveNow(resolver.ResolveNowOptions) { c.asked.Add(1) }

func (c eventChannel) UpdateState(s balancer.State) {
	if c.reporting.Swap(true) {
		c.t.Error("two pickers at once")
	}
	c.unlocked()
	if c.closed.Load() {
		c.t.Error("a picker after Close")
	}
	c.pickers.Add(1)
	c.latest.Store(&s)
	c.reporting.Store(false)
}

func (c eventChannel) NewSubConn(_ []resolver.Address, opts balancer.NewSubConnOptions) (balancer.SubConn, error) {
	c.unlocked()
	return &eventConn{world: c.eventWorld, listener: opts.StateListener}, nil
}

// unlocked hangs if the caller holds the lock that every callback takes.
func (w *eventWorld) unlocked() {
	w.policy.mu.Lock()
	defer w.policy.mu.Unlock()
}

// eventConn is a connection.
type eventConn struct {
	balancer.SubConn
	world    *eventWorld
	owner    *eventChild
	listener func(balancer.SubConnState)
	shut     atomic.Int32
}

func (c *eventConn) Shutdown() {
	c.world.unlocked()
	c.shut.Add(1)
}

// eventBuilder builds the children.
type eventBuilder struct{ name string }

func (b eventBuilder) Name() string { return b.name }

type eventChildConfig struct {
	serviceconfig.LoadBalancingConfig `json:"-"`

	V int
}

func (eventBuilder) ParseConfig(data json.RawMessage) (serviceconfig.LoadBalancingConfig, error) {
	var cfg eventChildConfig
	return cfg, json.Unmarshal(data, &cfg)
}

func (b eventBuilder) Build(cc balancer.ClientConn, _ balancer.BuildOptions) balancer.Balancer {
	of := cc.(*child).cluster
	world := of.parent.cc.(eventChannel).eventWorld
	cluster := world.clusters[of.name]
	ch := &eventChild{world: world, cluster: cluster, cc: cc, kind: b.name, label: fmt.Sprint(of.name, len(cluster.children))}
	cluster.children = append(cluster.children, ch)
	return ch
}

// eventChild is a child policy.
type eventChild struct {
	world       *eventWorld
	cluster     *eventCluster
	cc          balancer.ClientConn
	kind, label string

	busy                                    atomic.Bool
	closes                                  int
	reports, updates, exits, errors, events int
	state                                   eventState
	endpoints                               string
	conn                                    balancer.SubConn // as the policy gave it
	stub                                    *eventConn
}

// enter checks that a call may be made.
func (c *eventChild) enter(method string) (leave func()) {
	if c.busy.Swap(true) {
		c.world.t.Errorf("%s: %s is called while another call is made", c.label, method)
	}
	if c.closes > 0 {
		c.world.t.Errorf("%s: %s is called after Close", c.label, method)
	}
	c.world.unlocked()
	return func() { c.busy.Store(false) }
}

func (c *eventChild) UpdateClientConnState(s balancer.ClientConnState) error {
	defer c.enter("UpdateClientConnState")()
	c.updates++
	c.endpoints = ""
	for _, e := range s.ResolverState.Endpoints {
		c.endpoints += e.Addresses[0].Addr + " "
	}
	h := &c.cluster.habits
	switch {
	case c.endpoints != "" && h.connects && c.conn == nil:
		c.connect(s.ResolverState.Endpoints[0].Addresses)
	case c.endpoints == "" && !h.keepsConn && c.conn != nil:
		c.conn.Shutdown()
		c.conn, c.stub = nil, nil
	}
	for _, state := range h.reports(c.endpoints != "") {
		c.report(eventReport{state: state})
	}
	switch text := h.refusal(c.label, c.updates, c.endpoints != ""); text {
	case "":
		return nil
	case balancer.ErrBadResolverState.Error():
		return balancer.ErrBadResolverState
	default:
		return errors.New(text)
	}
}

func (c *eventChild) connect(addrs []resolver.Address) {
	conn, err := c.cc.NewSubConn(addrs, balancer.NewSubConnOptions{StateListener: func(balancer.SubConnState) {
		defer c.enter("the listener of a connection")()
		c.events++
	}})
	if err != nil {
		c.world.t.Errorf("%s: a connection: %v", c.label, err)
		return
	}
	c.conn, c.stub = conn, unwrap(conn).(*eventConn)
	c.stub.owner = c
}

func (c *eventChild) ResolverError(error) {
	defer c.enter("ResolverError")()
	c.errors++
	if s := c.cluster.habits.onError; s != stateNone {
		c.report(eventReport{state: s})
	}
}

func (c *eventChild) UpdateSubConnState(balancer.SubConn, balancer.SubConnState) {
	c.world.t.Errorf("%s: UpdateSubConnState is called", c.label)
}

func (c *eventChild) ExitIdle() {
	defer c.enter("ExitIdle")()
	c.exits++
	if s := c.cluster.habits.onExitIdle; s != stateNone && c.state == stateIdle {
		c.report(eventReport{state: s})
	}
}

func (c *eventChild) Close() {
	defer c.enter("Close")()
	c.closes++
}

// report is a report of the child, from within a call or not.
func (c *eventChild) report(r eventReport) {
	c.reports++
	c.state = r.state
	r.text = fmt.Sprint(c.label, " report ", c.reports)
	p := &eventPicker{report: r}
	if p.conn = c.conn; c.conn == nil {
		p.conn = &eventConn{world: c.world, owner: c}
	}
	c.cc.UpdateState(balancer.State{ConnectivityState: r.state.grpc(), Picker: p})
}

// eventPicker is a child's picker.
type eventPicker struct {
	report eventReport
	conn   balancer.SubConn
}

func (p *eventPicker) Pick(balancer.PickInfo) (balancer.PickResult, error) {
	switch p.report.answers() {
	case answerConn:
		return balancer.PickResult{SubConn: p.conn}, nil
	case answerWait:
		return balancer.PickResult{}, balancer.ErrNoSubConnAvailable
	default:
		return balancer.PickResult{}, p.report.err()
	}
}

// eventTarget is a target of a cluster.
func eventTarget(name string, target int) string {
	return eventScheme + ":///" + name + "-" + strconv.Itoa(target)
}

type eventResolverBuilder struct{}

func (eventResolverBuilder) Scheme() string { return eventScheme }

func (eventResolverBuilder) Build(target resolver.Target, cc resolver.ClientConn, _ resolver.BuildOptions) (resolver.Resolver, error) {
	of := cc.(*clusterResolver).cluster
	world := of.parent.cc.(eventChannel).eventWorld
	world.unlocked()
	r := &eventResolver{world: world, cluster: world.clusters[of.name], name: of.name, cc: cc}
	if _, err := fmt.Sscanf(strings.TrimPrefix(target.Endpoint(), of.name+"-"), "%d", &r.target); err != nil {
		return nil, err
	}
	r.cluster.resolvers = append(r.cluster.resolvers, r)
	time.Sleep(buildTime(len(r.cluster.resolvers)))
	if b := r.cluster.build; b.zone != zoneSilent {
		_ = r.say(b.zone, b.err)
	}
	return r, nil
}

// eventResolver is a resolver of a cluster.
type eventResolver struct {
	world   *eventWorld
	cluster *eventCluster
	name    string
	target  int
	cc      resolver.ClientConn
	closes  int
}

func (r *eventResolver) say(zone eventZone, err string) error {
	if zone == zoneFails {
		r.cc.ReportError(errors.New(err))
		return nil
	}
	return r.cc.UpdateState(resolver.State{Endpoints: endpointsAt(zone.endpoints(r.name, r.target))})
}

func (r *eventResolver) ResolveNow(resolver.ResolveNowOptions) { r.cluster.asked.Add(1) }

func (r *eventResolver) Close() {
	r.world.unlocked()
	r.closes++
}
