package composite_test

import (
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/grpc-composite/grpc-composite/internal/testkit"
)

// TestFailbackDelayWithServers stops the first server and starts it again, twice.
// Its calls come back no sooner than the delay after its connection.
func TestFailbackDelayWithServers(t *testing.T) {
	t.Parallel()
	const delay = 200 * time.Millisecond
	var connected atomic.Int64 // when a connection to a began last, in Unix nanoseconds
	a := testkit.Start(t, "a", grpc.StatsHandler(connHandler(func() { connected.Store(time.Now().UnixNano()) })))
	b := testkit.Start(t, "b")
	service := testkit.Service{Clusters: testkit.Clusters(a, b)}
	service.Clusters[0].More = map[string]any{"failbackDelay": "0.2s"}
	cc := dial(t, service, fastReconnect())
	if got := call(t, cc); got != "a" {
		t.Fatalf("the first connect: answer from %s, want a", got)
	}
	for range 2 {
		a.Stop()
		testkit.AwaitServer(t, cc, "b")
		a.Restart(t)
		testkit.Eventually(t, "an answer from a", func() bool { return call(t, cc) == "a" })
		if got := time.Since(time.Unix(0, connected.Load())); got < delay {
			t.Errorf("a is used %v after its connection: want at least %v", got, delay)
		}
	}
}

// TestFailbackDelayAndNothingElse has no other server when the first one comes
// back: it is used at once.
func TestFailbackDelayAndNothingElse(t *testing.T) {
	t.Parallel()
	a, b := testkit.Start(t, "a"), testkit.Start(t, "b")
	service := testkit.Service{Clusters: testkit.Clusters(a, b)}
	service.Clusters[0].More = map[string]any{"failbackDelay": "3600s"}
	cc := dial(t, service, fastReconnect())
	call(t, cc)
	a.Stop()
	testkit.AwaitServer(t, cc, "b")
	b.Stop()
	a.Restart(t)
	testkit.AwaitServer(t, cc, "a")
	b.Restart(t)
	testkit.AwaitServer(t, cc, "b")
	for range 20 {
		if got := call(t, cc); got != "b" {
			t.Fatalf("answer from %s: want b", got)
		}
	}
}
