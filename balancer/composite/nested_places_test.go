package composite_test

import (
	"testing"

	"google.golang.org/grpc"

	"github.com/grpc-composite/grpc-composite/balancer/composite"
	"github.com/grpc-composite/grpc-composite/internal/testkit"
)

// TestRPCsThatWaitForANestedPlace has an RPC wait for a cluster that never
// connects, beside a policy whose only cluster is full: it goes there when a place
// is free.
func TestRPCsThatWaitForANestedPlace(t *testing.T) {
	for name, opts := range map[string][]grpc.CallOption{"fail-fast": nil, "waits for ready": {grpc.WaitForReady(true)}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			silent, _ := testkit.BlackHole(t)
			c := startGate(t, "c")
			inner, policy := limited(t, "c", c.Target(), 1)
			cc := dial(t, testkit.Service{Clusters: []testkit.Cluster{
				nested("N", testkit.Service{Clusters: []testkit.Cluster{inner}}),
				{Name: "b", Target: "passthrough:///" + silent, More: map[string]any{"connectTimeout": "60s"}},
			}})
			call(t, cc)
			c.shut()
			held := inBackground(t, cc, 1)
			c.await(t, 1)
			waiting := inBackground(t, cc, 1, opts...)
			testkit.Eventually(t, "the RPC waits", func() bool { return composite.Waited(policy.Child(t, 0)) })
			c.letGo()
			held.Wait()
			waiting.Wait()
		})
	}
}
