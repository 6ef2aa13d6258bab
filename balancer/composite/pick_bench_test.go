package composite

import (
	"fmt"
	"testing"

	"google.golang.org/grpc/balancer"

	"github.com/grpc-composite/grpc-composite/internal/plan"
)

// stubSubConn stands for a connection in pickers that nothing is sent over.
type stubSubConn struct{ balancer.SubConn }

// stubPicker is the child's picker that pick times are compared to.
type stubPicker struct{ result balancer.PickResult }

func (p *stubPicker) Pick(balancer.PickInfo) (balancer.PickResult, error) { return p.result, nil }

// entriesOf is a list of n clusters, with one slot each.
func entriesOf(n int) []plan.Entry {
	entries := make([]plan.Entry, n)
	for i := range entries {
		entries[i] = plan.Entry{Cluster: i, Attempts: 1}
	}
	return entries
}

// tableOf makes a picker over n clusters of which the first down have no host.
func tableOf(n, down int, child balancer.Picker) *picker {
	usable := make([]bool, n)
	p := &picker{config: &lbConfig{}, policy: &compositeBalancer{}, clusters: make([]pickCluster, n)}
	for i := range n {
		usable[i] = i >= down
		p.clusters[i] = pickCluster{cluster: &cluster{name: fmt.Sprint(i), parent: p.policy}, config: &clusterConfig{}, picker: child}
		if usable[i] {
			p.clusters[i].condition = plan.HasHost
		}
	}
	p.setTable(plan.NewTable(plan.NewSlots(entriesOf(n), plan.Fail, true), usable))
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
