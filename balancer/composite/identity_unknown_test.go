package composite_test

import (
	"fmt"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/grpc-composite/grpc-composite/balancer/composite"
	"github.com/grpc-composite/grpc-composite/internal/testkit"
)

var ghosts atomic.Int32

// ghost is a name that no cluster of any test has.
func ghost() string { return fmt.Sprintf("ghost-%d.", ghosts.Add(1)) }

// credentialKinds make credentials with an entry for each name.
var credentialKinds = []struct {
	name   string
	create string // the function, as warnings name it
	option func(names ...string) grpc.DialOption
}{
	{"transport", "NewTransportCredentials", func(names ...string) grpc.DialOption {
		entries := make(byCluster)
		for _, name := range names {
			entries[name] = insecure.NewCredentials()
		}
		return withCreds(composite.NewTransportCredentials(entries, insecure.NewCredentials()))
	}},
	{"call", "NewPerRPCCredentials", func(names ...string) grpc.DialOption {
		entries := make(callByCluster)
		for _, name := range names {
			entries[name] = &token{value: name}
		}
		return grpc.WithPerRPCCredentials(composite.NewPerRPCCredentials(entries))
	}},
}

// TestEntriesWithoutAClusterAreReportedOnce uses credentials on two channels, and
// through changes of their configs.
func TestEntriesWithoutAClusterAreReportedOnce(t *testing.T) {
	for _, kind := range credentialKinds {
		t.Run(kind.name, func(t *testing.T) {
			t.Parallel()
			backends := startAll(t, "a", "b")
			one, both := testkit.Service{Clusters: testkit.Clusters(backends[0])}, testkit.Service{Clusters: testkit.Clusters(backends...)}
			name := ghost()
			option := kind.option("a", name)
			for range 2 {
				live := dialLiveWith(t, one, option)
				for _, service := range []testkit.Service{one, both, one} {
					live.set(t, service)
					if got := call(t, live.cc); got != "a" {
						t.Errorf("answer from %s: want a", got)
					}
				}
			}
			want := kind.create + ` has an entry for the cluster "` + name + `", and the config has no cluster of that name: it has a`
			if got := warnings.with(name); len(got) != 1 || len(warnings.with(want)) != 1 {
				t.Errorf("warnings %q: want one with %q", got, want)
			}
			call(t, dial(t, one, kind.option(name)))
			if got := warnings.with(name); len(got) != 2 {
				t.Errorf("warnings %q: want another for other credentials", got)
			}
		})
	}
}

// TestClustersThatComeAndGo removes a cluster that has an entry and adds it
// again, twice.
func TestClustersThatComeAndGo(t *testing.T) {
	for _, kind := range credentialKinds {
		t.Run(kind.name, func(t *testing.T) {
			t.Parallel()
			name := ghost()
			a, guest := testkit.Start(t, "a"), testkit.Start(t, "guest")
			clusters := []testkit.Cluster{patientCluster(name, guest.Target()), patientCluster("a", a.Target())}
			with, without := testkit.Service{Clusters: clusters}, testkit.Service{Clusters: clusters[1:]}
			live := dialLiveWith(t, with, kind.option(name))
			for range 2 {
				live.set(t, with)
				if got := call(t, live.cc); got != "guest" {
					t.Errorf("answer from %s: want guest", got)
				}
				live.set(t, without)
				if got := call(t, live.cc); got != "a" {
					t.Errorf("answer from %s: want a", got)
				}
			}
			if got := warnings.with(name); len(got) != 1 {
				t.Errorf("warnings %q: want one", got)
			}
		})
	}
}

// TestNamesOfNestedClustersAreKnown has the names of clusters inside clusters
// count for both.
func TestNamesOfNestedClustersAreKnown(t *testing.T) {
	for _, kind := range credentialKinds {
		t.Run(kind.name, func(t *testing.T) {
			t.Parallel()
			outer, inner, name := ghost(), ghost(), ghost()
			c := testkit.Start(t, "c")
			cc := dial(t, testkit.Service{Clusters: []testkit.Cluster{
				nestedPatiently(outer, testkit.Service{Clusters: []testkit.Cluster{patientCluster(inner, c.Target())}}),
			}}, kind.option(outer, inner, name))
			call(t, cc)
			if got := warnings.with(`cluster "` + name); len(got) != 1 {
				t.Errorf("warnings %q: want one", got)
			}
			for _, known := range []string{outer, inner} {
				if got := warnings.with(`cluster "` + known); len(got) != 0 {
					t.Errorf("warnings %q: want none", got)
				}
			}
		})
	}
}
