package composite_test

import (
	"math/rand/v2"
	"testing"

	"google.golang.org/grpc/attributes"
	"google.golang.org/grpc/balancer"
	"google.golang.org/grpc/balancer/base"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/resolver"

	"github.com/grpc-composite/grpc-composite/internal/testkit"
	"github.com/grpc-composite/grpc-composite/resolver/clusterattr"
)

// weightKey is of an attribute that resolvers here give each server, with the
// server's name as the value.
type weightKey struct{}

// taggedAddress is what a resolver that knows no endpoints delivers: gRPC makes
// an endpoint of it, with its BalancerAttributes. There is no tag if the cluster
// has no name.
func taggedAddress(b *testkit.Backend, cluster string) resolver.Address {
	e := resolver.Endpoint{Attributes: attributes.New(weightKey{}, b.Name)}
	if cluster != "" {
		e = clusterattr.Set(e, cluster)
	}
	return resolver.Address{Addr: b.Addr, BalancerAttributes: e.Attributes} //nolint:staticcheck // the only attributes that such a resolver has
}

func TestTagsOnAddresses(t *testing.T) {
	t.Parallel()
	backends := startNumbered(t, 3)
	r := testkit.NewResolver(t)
	_ = r.UpdateState(resolver.State{Addresses: []resolver.Address{
		taggedAddress(backends[0], "a"), taggedAddress(backends[1], "b"), taggedAddress(backends[2], "a"),
	}})
	cc := dialTarget(t, r.Target(), withoutTargets("a", "b"))
	wantServers(t, cc, 1, "0 2")
	wantServers(t, cc, 2, "1")
}

// addressPolicy reads addresses and knows no endpoints, as policies did before
// gRPC had any. It sends the weight of the address that it picks.
const addressPolicy = "test_addresses"

func init() {
	balancer.Register(base.NewBalancerBuilder(addressPolicy, addressPickers{}, base.Config{}))
}

type addressPickers struct{}

func (addressPickers) Build(info base.PickerBuildInfo) balancer.Picker {
	var p addressPicker
	for sc, state := range info.ReadySCs {
		weight, _ := state.Address.BalancerAttributes.Value(weightKey{}).(string) //nolint:staticcheck // the only ones that such a policy sees
		p = append(p, balancer.PickResult{SubConn: sc, Metadata: metadata.Pairs("weight", weight)})
	}
	return p
}

// addressPicker picks at random.
type addressPicker []balancer.PickResult

func (p addressPicker) Pick(balancer.PickInfo) (balancer.PickResult, error) {
	if len(p) == 0 {
		return balancer.PickResult{}, balancer.ErrNoSubConnAvailable
	}
	return p[rand.IntN(len(p))], nil
}

func TestPolicyThatReadsAddresses(t *testing.T) {
	for _, tc := range []struct {
		name     string
		clusters []string
		state    func(backends []*testkit.Backend) resolver.State
	}{
		{"tags on endpoints", []string{"a", "b"}, func(backends []*testkit.Backend) resolver.State {
			state := taggedState("0:a 1:b 2:a", backends)
			for i := range state.Endpoints {
				e := &state.Endpoints[i]
				e.Attributes = e.Attributes.WithValue(weightKey{}, backends[i].Name)
			}
			return state
		}},
		{"tags on addresses", []string{"a", "b"}, func(backends []*testkit.Backend) resolver.State {
			return resolver.State{Addresses: []resolver.Address{
				taggedAddress(backends[0], "a"), taggedAddress(backends[1], "b"), taggedAddress(backends[2], "a"),
			}}
		}},
		{"no tags", []string{"a"}, func(backends []*testkit.Backend) resolver.State {
			return resolver.State{Addresses: []resolver.Address{
				taggedAddress(backends[0], ""), taggedAddress(backends[2], ""),
			}}
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			backends := startNumbered(t, 3)
			service := withoutTargets(tc.clusters...)
			for i := range service.Clusters {
				service.Clusters[i].More["childPolicy"] = []any{map[string]any{addressPolicy: map[string]any{}}}
			}
			r := testkit.NewResolver(t)
			_ = r.UpdateState(tc.state(backends))
			cc := dialTarget(t, r.Target(), service)
			wantServers(t, cc, 1, "0 2")
			if len(tc.clusters) > 1 {
				wantServers(t, cc, 2, "1")
			}
			for _, b := range backends {
				for _, c := range b.Calls() {
					if got := c.Metadata["weight"]; len(got) != 1 || got[0] != b.Name {
						t.Errorf("the address of server %s has the weight %q: want %s, as its resolver said", b.Name, got, b.Name)
					}
				}
			}
		})
	}
}
