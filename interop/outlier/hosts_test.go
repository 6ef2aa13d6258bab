package outlier

import (
	"context"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/orca"

	"github.com/grpc-composite/grpc-composite/balancer/composite"
	"github.com/grpc-composite/grpc-composite/internal/testkit"
)

// twoHosts has a cluster x of one host, and a cluster c of that and another, which
// picks again rather than use the first one for an RPC that has failed in x. So
// the first host has nothing but discarded picks in c.
func twoHosts(t *testing.T, policy []any) (cc *grpc.ClientConn, h1, h2 *testkit.Backend) {
	t.Helper()
	// Reports of load, without which weighted_round_robin has no weights.
	metrics := grpc.ChainUnaryInterceptor(func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
		recorder := orca.CallMetricsRecorderFromContext(ctx)
		recorder.SetApplicationUtilization(0.5)
		recorder.SetQPS(100)
		return handler(ctx, req)
	})
	h1 = testkit.Start(t, "h1", orca.CallMetricsServerOption(nil), metrics)
	h2 = testkit.Start(t, "h2", orca.CallMetricsServerOption(nil), metrics)
	cc = dial(t, testkit.Service{Attempts: 2, Clusters: []testkit.Cluster{
		hosts(t, "x", nil, h1),
		hosts(t, "c", map[string]any{"childPolicy": policy, "avoidPreviousHosts": 64}, h1, h2),
	}})
	call(t, cc)
	testkit.Eventually(t, "all hosts are connected", func() bool {
		callC(t, cc)
		return h1.Count() > 1 && h2.Count() > 0
	})
	h1.Script(testkit.U)
	h2.Script(testkit.OK)
	return cc, h1, h2
}

// callC makes a call in the cluster c alone.
func callC(t testing.TB, cc *grpc.ClientConn) {
	t.Helper()
	if _, err := testkit.Unary(composite.WithClusters(testkit.Context(t), "c"), cc); err != nil {
		t.Fatal(err)
	}
}

// failOver makes calls that fail in x and are answered in c by the other host, for
// as long as it takes the policies to notice whatever they count.
func failOver(t testing.TB, cc *grpc.ClientConn) {
	t.Helper()
	for end := time.Now().Add(3 * interval); time.Now().Before(end); {
		if got := call(t, cc); got != "h2" {
			t.Fatalf("answer from %s: want h2", got)
		}
	}
}

// wantEven checks that calls of c go to both hosts alike.
func wantEven(t testing.TB, cc *grpc.ClientConn, h1, h2 *testkit.Backend) {
	t.Helper()
	h1.Script(testkit.OK)
	h2.Script(testkit.OK)
	const calls = 100
	for range calls {
		callC(t, cc)
	}
	for _, h := range []*testkit.Backend{h1, h2} {
		if got := h.Count(); got < calls*2/5 {
			t.Errorf("%d of %d calls went to %s: want half", got, calls, h.Name)
		}
	}
}

// TestDiscardedPicksAreNoFailures has outlier detection eject whatever fails.
func TestDiscardedPicksAreNoFailures(t *testing.T) {
	t.Parallel()
	ejection := failurePercentage()
	ejection["failurePercentageEjection"].(map[string]any)["threshold"] = 1
	cc, h1, h2 := twoHosts(t, detection(ejection))
	failOver(t, cc)
	wantEven(t, cc, h1, h2)
}

// TestDiscardedPicksAreNoLoad has weights that come from the servers' reports.
func TestDiscardedPicksAreNoLoad(t *testing.T) {
	t.Parallel()
	cc, h1, h2 := twoHosts(t, []any{map[string]any{"weighted_round_robin": map[string]any{
		"blackoutPeriod": "0s", "weightUpdatePeriod": "0.1s",
	}}})
	failOver(t, cc)
	wantEven(t, cc, h1, h2)
}
