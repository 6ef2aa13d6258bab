package composite_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/balancer"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/status"

	"github.com/grpc-composite/grpc-composite/balancer/composite"
	"github.com/grpc-composite/grpc-composite/internal/testkit"
	"github.com/grpc-composite/grpc-composite/resolver/clusterattr"
)

// taggedState has an endpoint for each word of the list: the number of a server
// and, after a colon, the name of its cluster. "0:a 1" is server 0 with the tag
// "a" and server 1 without any.
func taggedState(list string, backends []*testkit.Backend) resolver.State {
	state := resolver.State{Endpoints: []resolver.Endpoint{}}
	for _, word := range strings.Fields(list) {
		number, tag, found := strings.Cut(word, ":")
		e := resolver.Endpoint{Addresses: []resolver.Address{{Addr: backends[number[0]-'0'].Addr}}}
		if found {
			e = clusterattr.Set(e, tag)
		}
		state.Endpoints = append(state.Endpoints, e)
	}
	return state
}

// withoutTargets is a service whose clusters get their endpoints from the
// channel's resolver. Attempt n looks at the n-th cluster alone.
func withoutTargets(names ...string) testkit.Service {
	s := testkit.Service{More: map[string]any{"skipClustersWithoutHosts": false}}
	for _, name := range names {
		s.Clusters = append(s.Clusters, patientCluster(name, ""))
	}
	return s
}

// startNumbered starts servers that are called by their numbers.
func startNumbered(t testing.TB, n int) []*testkit.Backend {
	t.Helper()
	var names []string
	for i := range n {
		names = append(names, fmt.Sprint(i))
	}
	return startAll(t, names...)
}

// callSlot calls the cluster of the slot, which counts from 1.
func callSlot(t testing.TB, cc *grpc.ClientConn, slot int) (string, error) {
	t.Helper()
	return testkit.Unary(composite.WithAttempt(testkit.Context(t), slot), cc)
}

// wantServers waits until the cluster of the slot uses those servers, and checks
// that it uses no other.
func wantServers(t testing.TB, cc *grpc.ClientConn, slot int, want string) {
	t.Helper()
	if want == "" {
		_, err := callSlot(t, cc, slot)
		testkit.Contains(t, err, "no endpoints")
		return
	}
	seen := make(map[string]bool)
	testkit.Eventually(t, fmt.Sprintf("calls to %s for attempt %d", want, slot), func() bool {
		name, err := callSlot(t, cc, slot)
		if err != nil {
			t.Fatalf("attempt %d: %v", slot, err)
		}
		if !strings.Contains(want, name) {
			t.Fatalf("attempt %d: answer from %s: want one of %s", slot, name, want)
		}
		seen[name] = true
		return len(seen) == len(strings.Fields(want))
	})
}

func TestTaggedEndpoints(t *testing.T) {
	for _, tc := range []struct {
		name      string
		clusters  string   // those with a "!" have server 9 as their own target
		endpoints string   // as in taggedState
		want      []string // the servers of each cluster
	}{
		{"each cluster has its own", "a b", "0:a 1:b 2:a", []string{"0 2", "1"}},
		{"the only cluster without a target has those without a tag", "a! b", "0 1", []string{"9", "0 1"}},
		{"the only cluster without a target has both kinds", "a! b", "0:b 1", []string{"9", "0 1"}},
		{"those without a tag are nobody's if there are two", "a b", "0:a 1 2:b", []string{"0", "2"}},
		{"none has a tag and there are two clusters", "a b", "0 1", []string{"", ""}},
		{"a tag that names no cluster", "a b!", "0:a 1:c", []string{"0", "9"}},
		{"a tag that names a cluster with a target", "a! b", "0:a 1:b", []string{"9", "1"}},
		{"all clusters have targets", "a! b!", "0:a 1", []string{"9", "9"}},
		{"a cluster without endpoints", "a b", "0:b 1:b", []string{"", "0 1"}},
		{"an empty tag is none", "a! b", "0:", []string{"9", "0"}},
		{"no endpoints at all", "a b!", "", []string{"", "9"}},
		{"the order of the clusters does not matter", "b a", "0:a 1:b", []string{"1", "0"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			backends := startNumbered(t, 10)
			service := withoutTargets()
			for _, word := range strings.Fields(tc.clusters) {
				name, own := strings.CutSuffix(word, "!")
				target := ""
				if own {
					target = backends[9].Target()
				}
				service.Clusters = append(service.Clusters, patientCluster(name, target))
			}
			r := testkit.NewResolver(t)
			_ = r.UpdateState(taggedState(tc.endpoints, backends))
			cc := dialTarget(t, r.Target(), service)
			for i, want := range tc.want {
				wantServers(t, cc, i+1, want)
			}
		})
	}
}

// TestEmptyClusterIsPassedOver is what a tagged list is for, beside clusters
// that have no servers at the moment.
func TestEmptyClusterIsPassedOver(t *testing.T) {
	t.Parallel()
	backends := startNumbered(t, 2)
	r := testkit.NewResolver(t)
	_ = r.UpdateState(taggedState("1:b", backends))
	service := withoutTargets("a", "b")
	service.More = nil
	cc := dialTarget(t, r.Target(), service)
	if got := call(t, cc); got != "1" {
		t.Errorf("no server in a: answer from %s: want 1", got)
	}
	if err := r.UpdateState(taggedState("0:a 1:b", backends)); err != nil {
		t.Errorf("both clusters have a server: error %v", err)
	}
	testkit.AwaitServer(t, cc, "0")
	err := r.UpdateState(taggedState("1:b", backends))
	if !errors.Is(err, balancer.ErrBadResolverState) {
		t.Errorf("the resolver gets the error %v: want that its state is bad", err)
	}
	for range 20 {
		if got := call(t, cc); got != "1" {
			t.Fatalf("no server in a again: answer from %s: want 1", got)
		}
	}
}

// TestEndpointsThatMove has servers change their clusters. An update holds for
// every pick that begins after it; only a cluster that had no servers has no host
// until it is connected.
func TestEndpointsThatMove(t *testing.T) {
	for _, policy := range []string{"round_robin", "pick_first"} {
		t.Run(policy, func(t *testing.T) {
			t.Parallel()
			const servers, moves = 4, 100
			names := []string{"a", "b", "c"}
			backends := startNumbered(t, servers)
			service := withoutTargets(names...)
			for i := range service.Clusters {
				service.Clusters[i].More["childPolicy"] = []any{map[string]any{policy: map[string]any{}}}
			}
			r := testkit.NewResolver(t)
			_ = r.UpdateState(taggedState("0:a 1:b 2:c 3:c", backends))
			cc := dialTarget(t, r.Target(), service)
			callAll(t, cc, len(names))
			empty := make(map[string]bool) // since the last answer
			for range moves {
				var list []string
				byName := make(map[string][]string)
				for i := range servers {
					name := names[rand.IntN(len(names))]
					byName[name] = append(byName[name], backends[i].Name)
					list = append(list, fmt.Sprintf("%d:%s", i, name))
				}
				_ = r.UpdateState(taggedState(strings.Join(list, " "), backends)) // an error if a cluster has none
				for i, name := range names {
					got, err := callSlot(t, cc, i+1)
					want := byName[name]
					empty[name] = len(want) == 0 || (empty[name] && err != nil)
					switch {
					case empty[name] && status.Code(err) != codes.Unavailable:
						t.Fatalf("%v: cluster %s: answer from %q, error %v: want UNAVAILABLE", list, name, got, err)
					case !empty[name] && (err != nil || !slices.Contains(want, got)):
						t.Fatalf("%v: cluster %s: answer from %q, error %v: want one of %v", list, name, got, err, want)
					}
				}
			}
		})
	}
}

// callAll calls each cluster until it answers.
func callAll(t testing.TB, cc *grpc.ClientConn, slots int) {
	t.Helper()
	for i := range slots {
		if _, err := callSlot(t, cc, i+1); err != nil {
			t.Fatal(err)
		}
	}
}

func TestUnusedEndpointsAreReportedOnce(t *testing.T) {
	t.Parallel()
	backends := startNumbered(t, 3)
	r := testkit.NewResolver(t)
	// Names that no other test has, since the log is shared.
	unknown, own, mine := r.Authority()+"-unknown", r.Authority()+"-own", r.Authority()+"-mine"
	service := withoutTargets(mine)
	service.Clusters = append(service.Clusters, patientCluster(own, backends[1].Target()))
	state := taggedState(fmt.Sprintf("0:%s 1:%s 2:%s 2:%s", mine, own, unknown, unknown), backends)
	_ = r.UpdateState(state)
	cc := dialTarget(t, r.Target(), service)
	callAll(t, cc, 2)
	for range 3 {
		_ = r.UpdateState(state)
	}
	for _, tag := range []string{unknown, own} {
		want := fmt.Sprintf("endpoints that are tagged with the cluster %q are not used: no cluster of that name is without a target", tag)
		if got := warnings.with(tag); len(got) != 1 || !strings.Contains(got[0], want) {
			t.Errorf("the log says %q: want once %q", got, want)
		}
	}
	if got := warnings.with(fmt.Sprintf("%q", mine)); len(got) != 0 {
		t.Errorf("the log says %q about a tag that is in order", got)
	}
}

// TestUnusedEndpointsAreReportedInMeasure has a resolver that makes up ever new tags.
func TestUnusedEndpointsAreReportedInMeasure(t *testing.T) {
	t.Parallel()
	backends := startNumbered(t, 1)
	r := testkit.NewResolver(t)
	mine := r.Authority() + "-mine"
	_ = r.UpdateState(taggedState("0:"+mine, backends))
	cc := dialTarget(t, r.Target(), withoutTargets(mine))
	callAll(t, cc, 1)
	for i := range 200 {
		_ = r.UpdateState(taggedState(fmt.Sprintf("0:%s 0:%s-new-%d", mine, r.Authority(), i), backends))
	}
	if got := len(warnings.with(r.Authority() + "-new-")); got != 64 {
		t.Errorf("the log has %d lines about tags that no cluster has: want 64, and one that there are more", got)
	}
	if got := warnings.with("more than 64 names that no cluster has"); len(got) != 1 {
		t.Errorf("the log says %q: want one line", got)
	}
}

func TestEndpointsWithoutATagAreReportedOnce(t *testing.T) {
	t.Parallel()
	const clusters = 37 // by which the line is known
	var names []string
	for i := range clusters {
		names = append(names, fmt.Sprint("cluster-", i))
	}
	before := len(warnings.with(" 37 clusters have no target"))
	backends := startNumbered(t, 2)
	r := testkit.NewResolver(t)
	state := taggedState("0:cluster-0 1 1", backends)
	_ = r.UpdateState(state)
	cc := dialTarget(t, r.Target(), withoutTargets(names...))
	callAll(t, cc, 1)
	for range 3 {
		_ = r.UpdateState(state)
	}
	got := warnings.with(" 37 clusters have no target")
	if len(got) != before+1 || !strings.Contains(got[before], "endpoints without a tag of package clusterattr are not used") {
		t.Errorf("the log says %q: want one line more than before", got[before:])
	}
}

// TestTagsBelongToOnePolicy has a composite policy inside a tagged cluster: the
// tag is the outer one's, and leaves the inner one's clusters alone.
func TestTagsBelongToOnePolicy(t *testing.T) {
	t.Parallel()
	backends := startNumbered(t, 3)
	service := withoutTargets("b", "a")
	service.Clusters[0].More["childPolicy"] = []any{map[string]any{"composite": withoutTargets("inner").Policy()}}
	r := testkit.NewResolver(t)
	_ = r.UpdateState(taggedState("0:a 1:b 2:b", backends))
	cc := dialTarget(t, r.Target(), service)
	wantServers(t, cc, 1, "1 2")
	wantServers(t, cc, 2, "0")
}
