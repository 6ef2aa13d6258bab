package composite_test

import (
	"sync/atomic"
	"testing"

	"google.golang.org/grpc/connectivity"

	"github.com/grpc-composite/grpc-composite/internal/testkit"
)

// TestLazyFallbackHasNoConnectionsUntilItIsNeeded has 50 channels.
func TestLazyFallbackHasNoConnectionsUntilItIsNeeded(t *testing.T) {
	t.Parallel()
	var open atomic.Int32
	primary := testkit.Start(t, "primary")
	fallback := testkit.Start(t, "fallback", connCount(&open))
	service := testkit.Service{Clusters: testkit.Clusters(primary, fallback), Attempts: 2}
	service.Clusters[1].More = map[string]any{"lazy": true}
	for range 50 {
		cc := dial(t, service)
		cc.Connect()
		testkit.AwaitState(t, cc, connectivity.Ready)
		if got := call(t, cc); got != "primary" {
			t.Fatalf("answer from %s: want primary", got)
		}
	}
	if got := open.Load(); got != 0 {
		t.Fatalf("%d connections to the fallback: want none", got)
	}
	cc := dial(t, service)
	primary.Script(testkit.U)
	if got := call(t, cc); got != "fallback" {
		t.Errorf("answer from %s: want fallback", got)
	}
	if got := open.Load(); got != 1 {
		t.Errorf("%d connections to the fallback: want one", got)
	}
}

// TestLazyClustersInARow has attempts come to one after another, all closed but
// the last.
func TestLazyClustersInARow(t *testing.T) {
	t.Parallel()
	last := testkit.Start(t, "last")
	lazy := map[string]any{"lazy": true}
	cc := dial(t, testkit.Service{Clusters: []testkit.Cluster{
		{Name: "one", Target: "passthrough:///" + testkit.ClosedPort, More: lazy},
		{Name: "two", Target: testkit.EmptyTarget, More: lazy},
		{Name: "last", Target: last.Target(), More: lazy},
	}})
	if got := call(t, cc); got != "last" {
		t.Errorf("answer from %s: want last", got)
	}
}
