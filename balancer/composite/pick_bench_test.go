package composite

import (
	"context"
	"fmt"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/balancer"
	"google.golang.org/grpc/stats"

	"github.com/grpc-composite/grpc-composite/internal/attempt"
	"github.com/grpc-composite/grpc-composite/internal/plan"
)

// stubSubConn stands for a connection in pickers that nothing is sent over.
type stubSubConn struct{ balancer.SubConn }

// stubPicker is the child's picker that pick times are compared to.
type stubPicker struct{ result balancer.PickResult }

func (p *stubPicker) Pick(balancer.PickInfo) (balancer.PickResult, error) { return p.result, nil }

// firstAttempt returns the context of a first attempt, as a picker gets it.
func firstAttempt(t testing.TB) (ctx context.Context) {
	t.Helper()
	h := attempt.StatsHandler()
	err := attempt.Interceptors{}.Unary(context.Background(), "", nil, nil, nil, func(rpc context.Context, _ string, _, _ any, _ *grpc.ClientConn, _ ...grpc.CallOption) error {
		ctx = h.TagRPC(rpc, &stats.RPCTagInfo{FailFast: true})
		h.HandleRPC(ctx, &stats.Begin{Client: true})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return ctx
}

// tableOf makes a picker over n clusters of which the first down have no host.
func tableOf(n, down int, child balancer.Picker) *picker {
	entries := make([]plan.Entry, n)
	usable := make([]bool, n)
	p := &picker{config: &lbConfig{}, policy: &compositeBalancer{}, clusters: make([]pickCluster, n)}
	for i := range n {
		entries[i] = plan.Entry{Cluster: i, Attempts: 1}
		usable[i] = i >= down
		p.clusters[i] = pickCluster{cluster: &cluster{name: fmt.Sprint(i), parent: p.policy}, config: &clusterConfig{}, picker: child}
		if usable[i] {
			p.clusters[i].condition = plan.HasHost
		}
	}
	p.setTable(plan.NewTable(plan.NewSlots(entries, plan.Fail, true), usable))
	return p
}

// BenchmarkPick compares a pick with the child's own pick, in one run.
func BenchmarkPick(b *testing.B) {
	sc := &subConn{SubConn: stubSubConn{}}
	var child balancer.Picker = &stubPicker{result: balancer.PickResult{SubConn: sc}}
	info := balancer.PickInfo{FullMethodName: "/service/Method", Ctx: firstAttempt(b)}
	run := func(name string, p balancer.Picker) {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := p.Pick(info); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	run("child", child)
	run("clusters=3", tableOf(3, 0, child))
	run("clusters=64", tableOf(64, 0, child))
	run("clusters=64,down=63", tableOf(64, 63, child))
	run("clusters=3,metrics", withMetrics(tableOf(3, 0, child), &sumRecorder{}))
}
