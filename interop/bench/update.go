package main

import (
	"context"
	"encoding/json"
	"fmt"

	"google.golang.org/grpc/balancer"
	"google.golang.org/grpc/balancer/roundrobin"

	"github.com/grpc-composite/grpc-composite/balancer/composite"
	"github.com/grpc-composite/grpc-composite/internal/testkit"
)

// child is the child policy alone, which the policy is compared with.
const child = "child policy alone"

var updateExtra = extra{
	name:       "update",
	title:      "endpoints of one of 64 clusters are delivered again, 1,000 each",
	columns:    []string{"p50-us", "x-child", "allocs"},
	contenders: []string{child, ours},
	run:        measureUpdate,
}

func measureUpdate(ctx context.Context, t *host, o options, s *site, names []string) [][]float64 {
	clusters, each := 64, 1000
	if o.small {
		clusters, each = 4, 20
	}
	var players []*player
	for _, name := range names {
		p := &player{contender: contender{name: name}}
		if name == child {
			p.call = updateChild(t, each)
		} else {
			p.call = updateComposite(t, clusters, each)
		}
		players = append(players, p)
	}
	r := &results{Cells: takeTurns(ctx, t, o, players, "update", 1, s)}
	var rows [][]float64
	for _, c := range r.Cells {
		if c.Failed > 0 {
			t.Fatalf("%s: %d of %d updates failed", c.Contender, c.Failed, c.RPCs)
		}
		rows = append(rows, []float64{c.P50, r.ratio(c.Workload, c.Contender, child, turnP50), c.Allocs})
	}
	return rows
}

func updateChild(t *host, each int) rpc {
	policy := balancer.Get(roundrobin.Name).Build(testkit.MuteChannel{}, balancer.BuildOptions{})
	t.Cleanup(policy.Close)
	state := balancer.ClientConnState{ResolverState: testkit.ManyEndpoints(0, each)}
	return func(context.Context) error { return policy.UpdateClientConnState(state) }
}

func updateComposite(t *host, clusters, each int) rpc {
	resolvers, list := resolverClusters(t, clusters)
	builder := balancer.Get(composite.Name)
	config, err := builder.(balancer.ConfigParser).ParseConfig(json.RawMessage(mustJSON(map[string]any{"clusters": list})))
	if err != nil {
		t.Fatal(err)
	}
	policy := builder.Build(testkit.MuteChannel{}, balancer.BuildOptions{})
	t.Cleanup(policy.Close)
	if err := policy.UpdateClientConnState(balancer.ClientConnState{BalancerConfig: config}); err != nil {
		t.Fatal(err)
	}
	for i, r := range resolvers {
		testkit.Eventually(t, "the resolver is built", func() bool { return r.Built() == 1 })
		if err := r.UpdateState(testkit.ManyEndpoints(i, each)); err != nil {
			t.Fatal(err)
		}
	}
	state := testkit.ManyEndpoints(0, each)
	return func(context.Context) error { return resolvers[0].UpdateState(state) }
}

// resolverClusters are n clusters, each with a resolver that is driven from here.
func resolverClusters(t *host, n int) (resolvers []*testkit.Resolver, clusters []any) {
	for i := range n {
		r := testkit.NewResolver(t)
		resolvers = append(resolvers, r)
		clusters = append(clusters, map[string]any{"name": fmt.Sprint(i), "target": r.Target()})
	}
	return resolvers, clusters
}
