package composite_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/grpc-composite/grpc-composite/balancer/composite"
	"github.com/grpc-composite/grpc-composite/internal/testkit"
)

// TestLogOfServers checks that the log names a channel, and the error of a closed
// port, and that RPCs have no lines.
func TestLogOfServers(t *testing.T) {
	t.Parallel()
	b := startAll(t, "b")[0]
	s := testkit.Service{Clusters: []testkit.Cluster{closedCluster("a"), {Name: "b", Target: b.Target()}}}
	live := dialLive(t, s)
	live.set(t, s)
	lines := func(text string) []string {
		return composite.Infos.With(fmt.Sprintf("INFO: [composite] channel %q: cluster %s", live.resolver.Target(), text))
	}
	testkit.AwaitServer(t, live.cc, "b")
	testkit.Eventually(t, "lines about both", func() bool {
		return len(lines(`"a": connecting -> no host`)) == 1 && len(lines(`"b": connecting -> has a host: READY`)) == 1
	})
	if got := lines(`"a"`)[1]; !strings.Contains(got, "connection refused") {
		t.Errorf("logged %q: want the error", got)
	}
	before := len(lines(""))
	for range 100 {
		if err := unaryRPC(testkit.Context(t), live.cc); err != nil {
			t.Fatal(err)
		}
	}
	if got := lines("")[before:]; len(got) != 0 {
		t.Errorf("100 RPCs have logged %q", got)
	}
}
