package differential

import (
	"maps"
	"slices"
	"strconv"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/status"

	"github.com/grpc-composite/grpc-composite/balancer/composite"
	"github.com/grpc-composite/grpc-composite/internal/testkit"
	"github.com/grpc-composite/grpc-composite/interop/envoy"
	"github.com/grpc-composite/grpc-composite/resolver/clusterattr"
)

// ourSide is a channel for one scenario.
type ourSide struct {
	scenario
	servers   *servers
	cc        *grpc.ClientConn
	own       *testkit.Resolver            // the channel's
	resolvers map[string]*testkit.Resolver // of clusters with targets
	now       map[string]int               // hosts
}

// dialOurs opens the channel.
func dialOurs(t testing.TB, servers *servers, s scenario, attemptTimeout time.Duration) *ourSide {
	t.Helper()
	o := &ourSide{
		scenario: s, servers: servers,
		own: testkit.NewResolver(t), resolvers: make(map[string]*testkit.Resolver), now: maps.Clone(s.hosts),
	}
	for _, name := range s.names() {
		o.resolvers[name] = testkit.NewResolver(t)
		o.update(name)
	}
	list := s.list
	if s.form.ownList {
		list = slices.Compact(slices.Sorted(slices.Values(list)))
	}
	service := testkit.Service{
		Clusters: o.clusters(list, s.form.tagged, attemptTimeout),
		More:     map[string]any{"noHost": "FAIL_REQUEST", "skipClustersWithoutHosts": s.skip},
	}
	if s.retries() {
		service.Attempts = s.attempts
		for _, c := range s.retryable {
			service.Retryable = append(service.Retryable, codeName(c))
		}
	}
	o.cc = testkit.Dial(t, o.own.Target(), append(composite.DialOptions(), grpc.WithDefaultServiceConfig(service.JSON()))...)
	return o
}

// clusters are a list's entries. A nested list has targets always.
func (o *ourSide) clusters(list []string, tagged bool, attemptTimeout time.Duration) []testkit.Cluster {
	var entries []testkit.Cluster
	known := make(map[string]bool)
	for len(list) > 0 {
		name, repeats := list[0], 1
		for o.form.grouped && repeats < len(list) && list[repeats] == name {
			repeats++
		}
		list = list[repeats:]
		entry := testkit.Cluster{Name: name, More: make(map[string]any)}
		if repeats > 1 {
			entry.More["attempts"] = repeats
		}
		if !known[name] {
			known[name] = true
			o.describe(&entry, tagged, attemptTimeout)
		}
		entries = append(entries, entry)
	}
	return entries
}

// describe fills in what the first entry of a cluster has.
func (o *ourSide) describe(entry *testkit.Cluster, tagged bool, attemptTimeout time.Duration) {
	entry.More["connectTimeout"] = "20s"
	if o.form.lazy {
		entry.More["lazy"] = true
	}
	if o.hangs() {
		entry.More["attemptTimeout"] = strconv.FormatFloat(attemptTimeout.Seconds(), 'f', -1, 64) + "s"
	}
	if list, ok := o.nested[entry.Name]; ok {
		entry.Target = "passthrough:///nested" // its clusters have targets of their own
		inner := testkit.Service{
			Clusters: o.clusters(list, false, attemptTimeout),
			More:     map[string]any{"noHost": "FAIL_REQUEST", "skipClustersWithoutHosts": o.skip},
		}
		entry.More["childPolicy"] = []any{map[string]any{"composite": inner.Policy()}}
		return
	}
	if !tagged {
		entry.Target = o.resolvers[entry.Name].Target()
	}
	if o.form.pickFirst {
		entry.More["childPolicy"] = []any{map[string]any{"pick_first": map[string]any{}}}
	}
}

// update tells a cluster's hosts, by both ways that a cluster may learn of them.
func (o *ourSide) update(name string) {
	_ = o.resolvers[name].UpdateAddrs(o.servers.addrs[name][:o.now[name]]...)
	state := resolver.State{Endpoints: []resolver.Endpoint{}}
	if o.form.tagged {
		for _, name := range o.names() {
			for _, addr := range o.servers.addrs[name][:o.now[name]] {
				e := resolver.Endpoint{Addresses: []resolver.Address{{Addr: addr}}}
				state.Endpoints = append(state.Endpoints, clusterattr.Set(e, name))
			}
		}
	}
	_ = o.own.UpdateState(state)
}

// run makes the scenario's calls.
func (o *ourSide) run(t testing.TB) []outcome {
	t.Helper()
	var outcomes []outcome
	for _, c := range o.calls {
		for name, n := range c.hosts {
			o.setHosts(t, name, n)
		}
		ctx := testkit.Context(t)
		if o.form.ownList {
			ctx = composite.WithClusters(ctx, o.list...)
		}
		outcomes = append(outcomes, o.servers.call(ctx, o.cc, c))
	}
	return outcomes
}

// setHosts changes a cluster's hosts. One that gets hosts back has no host until
// it has connected to one.
func (o *ourSide) setHosts(t testing.TB, name string, n int) {
	t.Helper()
	o.now[name] = n
	o.update(name)
	if n == 0 {
		return
	}
	testkit.Eventually(t, "cluster "+name+" has a host", func() bool {
		err := envoy.Probe(composite.WithClusters(testkit.Context(t), name), o.cc)
		return status.Code(err) == codes.Unimplemented
	})
}
