package composite

import (
	"encoding/json"
	"errors"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc/balancer"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/serviceconfig"
)

// treeServer is what a server does with connections.
type treeServer string

const (
	treeUp    treeServer = "up"
	treeDown  treeServer = "down"
	treeHangs treeServer = "hangs" // lets nobody connect, and does not say so
)

// treeWorld is the servers of a tree, and the leaves that connect to them.
type treeWorld struct {
	mu      sync.Mutex
	servers map[string]treeServer // written by the test alone
	leaves  []*treeLeaf           // that are not closed
}

// set has a server's state change, and the leaves notice.
func (w *treeWorld) set(name string, state treeServer) {
	w.mu.Lock()
	w.servers[name] = state
	leaves := slices.Clone(w.leaves)
	w.mu.Unlock()
	for _, l := range leaves {
		l.notice(name)
	}
}

func (w *treeWorld) server(name string) treeServer {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.servers[name]
}

// The stub policies, each of which connects when the policy of that name does.
const (
	treePickFirst  = "tree_pick_first"  // at once; having lost its connection, when it is asked or picked from
	treeRoundRobin = "tree_round_robin" // whenever it has no connection
	treeRingHash   = "tree_ring_hash"   // when it is picked from
)

var treeLeaves = []string{treePickFirst, treeRoundRobin, treeRingHash}

func init() {
	for _, name := range treeLeaves {
		balancer.Register(treeLeafBuilder{name})
	}
}

// treeLeafBuilder builds the leaves.
type treeLeafBuilder struct{ name string }

func (b treeLeafBuilder) Name() string { return b.name }

type treeLeafConfig struct {
	serviceconfig.LoadBalancingConfig `json:"-"`

	Server string
}

func (treeLeafBuilder) ParseConfig(data json.RawMessage) (serviceconfig.LoadBalancingConfig, error) {
	var cfg treeLeafConfig
	return cfg, json.Unmarshal(data, &cfg)
}

func (b treeLeafBuilder) Build(cc balancer.ClientConn, _ balancer.BuildOptions) balancer.Balancer {
	world := outerOf(cc).cluster.parent.channel.(*treeChannel).world
	l := &treeLeaf{cc: cc, kind: b.name, world: world, state: connectivity.Idle}
	world.mu.Lock()
	defer world.mu.Unlock()
	world.leaves = append(world.leaves, l)
	return l
}

// treeLeaf is the policy of a cluster that has a server.
type treeLeaf struct {
	cc    balancer.ClientConn
	kind  string
	world *treeWorld

	// mu is held during reports, so that they come in order.
	mu      sync.Mutex
	name    string             // the server's; "" before the first config
	state   connectivity.State // of the connection
	failed  bool               // to connect, and was not READY since
	dial    int                // number of the latest attempt to connect
	backoff time.Duration      // after its failure
	closed  bool
}

// The times that connecting takes, and that go by until it is tried again: the latter
// double, as in a channel, unless the server's state changes.
const (
	treeDialTime   = 10 * time.Millisecond
	treeMinBackoff = time.Second
	treeMaxBackoff = time.Minute
)

func (l *treeLeaf) UpdateClientConnState(s balancer.ClientConnState) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	name := s.BalancerConfig.(treeLeafConfig).Server
	if name == l.name {
		return nil
	}
	first, lost := l.name == "", l.state != connectivity.Idle
	l.name, l.state = name, connectivity.Idle
	l.dial++ // the connection, and what was done to get it, are given up
	switch {
	case l.kind == treeRoundRobin, l.kind == treePickFirst && (first || lost), l.failed:
		l.connectLocked()
	default:
		l.reportLocked()
	}
	return nil
}

func (l *treeLeaf) reportLocked() {
	l.cc.UpdateState(balancer.State{ConnectivityState: l.state, Picker: &treePicker{l, l.state, l.name}})
}

// connectLocked connects if there is a server, and no connection. The caller holds mu.
func (l *treeLeaf) connectLocked() {
	if l.closed || l.name == "" || l.state == connectivity.Connecting || l.state == connectivity.Ready {
		return
	}
	l.state = connectivity.Connecting
	l.dial++
	l.laterLocked(treeDialTime, l.dialedLocked)
	if !l.failed {
		l.reportLocked()
	}
}

// laterLocked calls f, with mu held, unless the attempt to connect is given up by then.
// The caller holds mu.
func (l *treeLeaf) laterLocked(after time.Duration, f func()) {
	dial := l.dial
	time.AfterFunc(after, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if !l.closed && l.dial == dial {
			f()
		}
	})
}

// dialedLocked is what comes of an attempt to connect, unless something did already. The
// caller holds mu.
func (l *treeLeaf) dialedLocked() {
	if l.state != connectivity.Connecting {
		return
	}
	switch l.world.server(l.name) {
	case treeUp:
		l.state, l.failed, l.backoff = connectivity.Ready, false, 0
		l.reportLocked()
	case treeDown:
		l.state, l.failed = connectivity.TransientFailure, true
		l.backoff = min(max(2*l.backoff, treeMinBackoff), treeMaxBackoff)
		l.laterLocked(l.backoff, l.connectLocked)
		l.reportLocked()
	case treeHangs:
	}
}

// notice is called when a server's state may be another one.
func (l *treeLeaf) notice(server string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed || l.name != server {
		return
	}
	switch l.state {
	case connectivity.Connecting:
		l.laterLocked(treeDialTime/2, l.dialedLocked)
	case connectivity.TransientFailure:
		l.backoff = 0
		l.laterLocked(treeMinBackoff, l.connectLocked)
	case connectivity.Ready:
		if l.world.server(l.name) == treeUp {
			return
		}
		l.state = connectivity.Idle
		if l.kind == treeRoundRobin {
			l.connectLocked()
			return
		}
		l.reportLocked()
	default: // an IDLE one has no connection that would tell it
	}
}

// connect connects if the leaf is IDLE.
func (l *treeLeaf) connect() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.state == connectivity.Idle {
		l.connectLocked()
	}
}

func (l *treeLeaf) ExitIdle() {
	if l.kind == treePickFirst {
		l.connect()
	}
}

func (l *treeLeaf) ResolverError(error) {}

func (l *treeLeaf) UpdateSubConnState(balancer.SubConn, balancer.SubConnState) {}

func (l *treeLeaf) Close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	l.world.mu.Lock()
	defer l.world.mu.Unlock()
	l.world.leaves = slices.DeleteFunc(l.world.leaves, func(other *treeLeaf) bool { return other == l })
}

// treePicker is a leaf's picker.
type treePicker struct {
	leaf   *treeLeaf
	state  connectivity.State
	server string
}

func (p *treePicker) Pick(balancer.PickInfo) (balancer.PickResult, error) {
	switch p.state {
	case connectivity.Ready:
		return balancer.PickResult{SubConn: &treeConn{leaf: p.leaf}}, nil
	case connectivity.TransientFailure:
		return balancer.PickResult{}, errors.New(p.server + " is down")
	case connectivity.Idle:
		go p.leaf.connect()
		return balancer.PickResult{}, balancer.ErrNoSubConnAvailable
	default:
		return balancer.PickResult{}, balancer.ErrNoSubConnAvailable
	}
}

// treeConn is a leaf's connection.
type treeConn struct {
	balancer.SubConn
	leaf *treeLeaf
}

// server is the server at the other end, if the connection is READY.
func (c *treeConn) server() (name string, ok bool) {
	l := c.leaf
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.name, l.state == connectivity.Ready && !l.closed
}
