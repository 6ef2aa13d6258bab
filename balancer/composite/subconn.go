package composite

import (
	"sync/atomic"
	"time"

	"google.golang.org/grpc/balancer"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/resolver"
)

// subConn is a connection as a cluster's child policy sees it. It makes the
// connection's callbacks take turns with the other calls into the child, and
// gives each address the name of the cluster's servers.
type subConn struct {
	balancer.SubConn
	child *child
	host  string // its address
	// epoch changes when the connection's state does, and when another health
	// listener is registered: what an older listener was told no longer counts.
	epoch atomic.Uint64
	ready bool // guarded by cluster.childMu

	// What is known of the connection, guarded by cluster.parent.mu.
	state  balancer.SubConnState
	health *balancer.SubConnState // what a health listener was told in that state
	since  time.Time              // the later of the two
}

// note keeps what became of the connection.
func (s *subConn) note(state balancer.SubConnState) {
	mu := &s.child.cluster.parent.mu
	mu.Lock()
	defer mu.Unlock()
	s.state, s.health, s.since = state, nil, time.Now()
}

// noteHealth keeps what a health check says of the connection.
func (s *subConn) noteHealth(health balancer.SubConnState) {
	mu := &s.child.cluster.parent.mu
	mu.Lock()
	defer mu.Unlock()
	if s.health == nil || s.health.ConnectivityState != health.ConnectivityState {
		s.since = time.Now()
	}
	s.health = &health
}

// unwrap returns the connection that the channel knows. A picker may return
// nothing else.
func unwrap(sc balancer.SubConn) balancer.SubConn {
	if s, ok := sc.(*subConn); ok {
		return s.SubConn
	}
	return sc
}

func (s *subConn) UpdateAddresses(addrs []resolver.Address) {
	s.SubConn.UpdateAddresses(s.child.stampUsed(addrs))
}

func (s *subConn) Shutdown() {
	s.child.forget(s)
	s.SubConn.Shutdown()
}

// RegisterHealthListener passes health updates on as stateListener does.
func (s *subConn) RegisterHealthListener(listener func(balancer.SubConnState)) {
	epoch := s.epoch.Add(1)
	if listener == nil {
		s.SubConn.RegisterHealthListener(nil)
		return
	}
	s.SubConn.RegisterHealthListener(func(state balancer.SubConnState) {
		s.deliver(func() {
			if s.epoch.Load() == epoch {
				s.noteHealth(state)
				s.child.noteConnectionError(state.ConnectionError)
				listener(state)
			}
		})
	})
}

// stateListener is what the channel calls when the connection's state changes.
func (s *subConn) stateListener(listener func(balancer.SubConnState)) func(balancer.SubConnState) {
	return func(state balancer.SubConnState) {
		s.deliver(func() {
			s.epoch.Add(1)
			s.note(state)
			s.child.noteConnectionError(state.ConnectionError)
			s.resolveAgain(state.ConnectivityState)
			if listener == nil {
				s.child.balancer.UpdateSubConnState(s, state)
				return
			}
			listener(state)
		})
	}
}

// deliver has f called on a goroutine of the cluster, in order. The channel's own
// goroutine, which all clusters share, must not wait for a child that is busy;
// and gRPC-Go holds a lock of the connection while it calls a health listener,
// which a child takes in calls for which it already has its own.
func (s *subConn) deliver(f func()) {
	s.child.cluster.events.Schedule(func() { s.child.call(f) })
}

// resolveAgain asks the cluster's own resolver for news when a connection is lost
// or cannot be made: its host may have moved. gRPC-Go asks the channel's
// resolver then, past all policies, and knows of no other.
func (s *subConn) resolveAgain(state connectivity.State) {
	lost := s.ready && state == connectivity.Idle
	s.ready = state == connectivity.Ready
	if lost || state == connectivity.TransientFailure {
		s.child.resolveOwn(resolver.ResolveNowOptions{})
	}
}
