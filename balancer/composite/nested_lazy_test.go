package composite_test

import (
	"testing"

	"github.com/grpc-composite/grpc-composite/internal/testkit"
)

// TestLazyFallbackOfANestedPolicy has the first cluster of a nested policy down, and the
// second one asleep: attempts wake it, be there a policy in between that has no use for an
// IDLE child's picker.
func TestLazyFallbackOfANestedPolicy(t *testing.T) {
	for _, nesting := range nestings {
		for _, tc := range []struct {
			name     string
			first    map[string]any // more about the first cluster inside
			fallback bool           // the outer list has another cluster
		}{
			{"alone", nil, false},
			{"alone, the first lazy, too", map[string]any{"lazy": true}, false},
			{"with a fallback outside", nil, true},
			{"with a fallback outside, the first lazy, too", map[string]any{"lazy": true}, true},
		} {
			t.Run(nesting.name+"/"+tc.name, func(t *testing.T) {
				t.Parallel()
				backends := startAll(t, "c", "d", "b")
				backends[0].Stop()
				n := nesting.cluster("N", testkit.Service{Clusters: []testkit.Cluster{
					{Name: "c", Target: backends[0].Target(), More: tc.first},
					{Name: "d", Target: backends[1].Target(), More: map[string]any{"lazy": true}},
				}})
				n.More["connectTimeout"] = "0.2s"
				clusters := []testkit.Cluster{n}
				if tc.fallback {
					clusters = append(clusters, testkit.Clusters(backends[2])...)
				}
				cc := dial(t, testkit.Service{Clusters: clusters})
				if got := call(t, cc); got == "b" && !tc.fallback {
					t.Errorf("answer from %s", got)
				}
				testkit.AwaitServer(t, cc, "d")
			})
		}
	}
}

// TestFailoverToALazyClusterInside has the first cluster of a nested policy go down while
// it serves.
func TestFailoverToALazyClusterInside(t *testing.T) {
	for _, nesting := range nestings {
		t.Run(nesting.name, func(t *testing.T) {
			t.Parallel()
			backends := startAll(t, "c", "d")
			cc := dial(t, testkit.Service{Clusters: []testkit.Cluster{nesting.cluster("N", testkit.Service{Clusters: []testkit.Cluster{
				{Name: "c", Target: backends[0].Target()},
				{Name: "d", Target: backends[1].Target(), More: map[string]any{"lazy": true}},
			}})}})
			testkit.AwaitServer(t, cc, "c")
			backends[0].Stop()
			testkit.AwaitServer(t, cc, "d")
		})
	}
}

// TestPolicyInsideThatConnectsWhenPickedFrom has a nested policy with ring_hash. Attempts go
// on to the next cluster outside if they cannot reach it.
func TestPolicyInsideThatConnectsWhenPickedFrom(t *testing.T) {
	for _, nesting := range nestings {
		t.Run(nesting.name, func(t *testing.T) {
			t.Parallel()
			backends := startAll(t, "c", "b")
			n := nesting.cluster("N", testkit.Service{Clusters: []testkit.Cluster{
				{Name: "c", Target: backends[0].Target(), More: ringHash(map[string]any{"connectTimeout": "0.1s"})},
			}})
			n.More["connectTimeout"] = "0.3s"
			cc := dial(t, testkit.Service{Clusters: append([]testkit.Cluster{n}, testkit.Clusters(backends[1])...)})
			want := "c"
			if nesting.name != "directly" {
				want = "b" // weighted_target has nobody pick from an IDLE child
			}
			testkit.AwaitServer(t, cc, want)
		})
	}
}
