package composite

import (
	"encoding/json"
	"fmt"
	"testing"

	"google.golang.org/grpc/balancer"
	"google.golang.org/grpc/balancer/roundrobin"
	"google.golang.org/grpc/resolver"

	"github.com/grpc-composite/grpc-composite/internal/testkit"
)

const benchEndpoints = 1000 // of each cluster

// mute is a connection that never comes about.
type mute struct{ balancer.SubConn }

func (mute) Connect()  {}
func (mute) Shutdown() {}

// muteChannel is a channel whose connections never come about.
type muteChannel struct{ fakeChannel }

func (*muteChannel) NewSubConn([]resolver.Address, balancer.NewSubConnOptions) (balancer.SubConn, error) {
	return mute{}, nil
}

func (*muteChannel) UpdateState(balancer.State) {}

func benchState(cluster int) resolver.State {
	var s resolver.State
	for i := range benchEndpoints {
		addr := resolver.Address{Addr: fmt.Sprintf("10.%d.%d.%d:443", cluster, i/250, i%250)}
		s.Endpoints = append(s.Endpoints, resolver.Endpoint{Addresses: []resolver.Address{addr}})
	}
	return s
}

// BenchmarkEndpointUpdate delivers the endpoints of one cluster again. What that
// costs must not depend on how many clusters there are; "child" is the same for
// the child policy alone.
func BenchmarkEndpointUpdate(b *testing.B) {
	b.Run("child", func(b *testing.B) {
		child := balancer.Get(roundrobin.Name).Build(&muteChannel{}, balancer.BuildOptions{})
		defer child.Close()
		state := balancer.ClientConnState{ResolverState: benchState(0)}
		for b.Loop() {
			if err := child.UpdateClientConnState(state); err != nil {
				b.Fatal(err)
			}
		}
	})
	for _, n := range []int{1, 8, 64} {
		b.Run(fmt.Sprintf("clusters=%d", n), func(b *testing.B) { benchUpdate(b, n) })
	}
}

func benchUpdate(b *testing.B, n int) {
	b.Helper()
	var service testkit.Service
	resolvers := make([]*testkit.Resolver, n)
	for i := range resolvers {
		resolvers[i] = testkit.NewResolver(b)
		service.Clusters = append(service.Clusters, testkit.Cluster{Name: fmt.Sprint(i), Target: resolvers[i].Target()})
	}
	text, err := json.Marshal(service.Policy())
	if err != nil {
		b.Fatal(err)
	}
	cfg, err := builder{}.ParseConfig(text)
	if err != nil {
		b.Fatal(err)
	}
	policy := builder{}.Build(&muteChannel{}, balancer.BuildOptions{})
	defer policy.Close()
	if err := policy.UpdateClientConnState(balancer.ClientConnState{BalancerConfig: cfg}); err != nil {
		b.Fatal(err)
	}
	for i, r := range resolvers {
		testkit.Eventually(b, "the resolver is built", func() bool { return r.Built() == 1 })
		if err := r.UpdateState(benchState(i)); err != nil {
			b.Fatal(err)
		}
	}
	state := benchState(0)
	for b.Loop() {
		if err := resolvers[0].UpdateState(state); err != nil {
			b.Fatal(err)
		}
	}
}
