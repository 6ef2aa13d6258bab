package composite

import (
	"encoding/json"
	"fmt"
	"testing"

	"google.golang.org/grpc/balancer"
	"google.golang.org/grpc/balancer/roundrobin"

	"github.com/grpc-composite/grpc-composite/internal/testkit"
)

const benchEndpoints = 1000 // of each cluster

// BenchmarkEndpointUpdate delivers the endpoints of one cluster again. What that
// costs must not depend on how many clusters there are; "child" is the same for
// the child policy alone.
func BenchmarkEndpointUpdate(b *testing.B) {
	b.Run("child", func(b *testing.B) {
		child := balancer.Get(roundrobin.Name).Build(testkit.MuteChannel{}, balancer.BuildOptions{})
		defer child.Close()
		state := balancer.ClientConnState{ResolverState: testkit.ManyEndpoints(0, benchEndpoints)}
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
	policy := builder{}.Build(testkit.MuteChannel{}, balancer.BuildOptions{})
	defer policy.Close()
	if err := policy.UpdateClientConnState(balancer.ClientConnState{BalancerConfig: cfg}); err != nil {
		b.Fatal(err)
	}
	for i, r := range resolvers {
		testkit.Eventually(b, "the resolver is built", func() bool { return r.Built() == 1 })
		if err := r.UpdateState(testkit.ManyEndpoints(i, benchEndpoints)); err != nil {
			b.Fatal(err)
		}
	}
	state := testkit.ManyEndpoints(0, benchEndpoints)
	for b.Loop() {
		if err := resolvers[0].UpdateState(state); err != nil {
			b.Fatal(err)
		}
	}
}
