package testkit

import (
	"fmt"

	"google.golang.org/grpc/balancer"
	"google.golang.org/grpc/experimental/stats"
	"google.golang.org/grpc/resolver"
)

// MuteChannel is what a channel is to a policy, with connections that never come
// about, so that nothing but the policy's own work is measured.
type MuteChannel struct{ balancer.ClientConn }

// NewSubConn returns a connection that does nothing.
func (MuteChannel) NewSubConn([]resolver.Address, balancer.NewSubConnOptions) (balancer.SubConn, error) {
	return mute{}, nil
}

// UpdateState takes a picker that nobody uses.
func (MuteChannel) UpdateState(balancer.State) {}

// ResolveNow does nothing.
func (MuteChannel) ResolveNow(resolver.ResolveNowOptions) {}

// Target returns none.
func (MuteChannel) Target() string { return "" }

// MetricsRecorder returns none.
func (MuteChannel) MetricsRecorder() stats.MetricsRecorder { return nil }

type mute struct{ balancer.SubConn }

func (mute) Connect()  {}
func (mute) Shutdown() {}

// ManyEndpoints returns n endpoints of a cluster, each with an address that no other
// has, also of other clusters.
func ManyEndpoints(cluster, n int) resolver.State {
	var s resolver.State
	for i := range n {
		addr := resolver.Address{Addr: fmt.Sprintf("10.%d.%d.%d:443", cluster, i/250, i%250)}
		s.Endpoints = append(s.Endpoints, resolver.Endpoint{Addresses: []resolver.Address{addr}})
	}
	return s
}
