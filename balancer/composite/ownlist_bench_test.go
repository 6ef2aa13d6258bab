package composite

import (
	"context"
	"fmt"
	"testing"

	"google.golang.org/grpc/balancer"
)

// ownPick is a picker over 64 clusters of which half have no host, and the
// attempt of an RPC with a list of n of them, from the last to the first.
func ownPick(t testing.TB, n int) (*picker, balancer.PickInfo) {
	t.Helper()
	p := tableOf(64, 32, &stubPicker{result: balancer.PickResult{SubConn: &subConn{SubConn: stubSubConn{}}}})
	p.config.index = make(map[string]int)
	for i := range p.clusters {
		p.config.index[fmt.Sprint(i)] = i
	}
	var names []string
	for i := range n {
		names = append(names, fmt.Sprint(32-n/2+i))
	}
	p.config.slots = p.table.Slots
	return p, balancer.PickInfo{FullMethodName: "/service/Method", Ctx: attemptIn(WithClusters(context.Background(), names...), t)}
}

func TestPicksByAnOwnListAllocateNothing(t *testing.T) {
	for _, n := range []int{1, 3, 8, 64} {
		p, info := ownPick(t, n)
		allocs := testing.AllocsPerRun(100, func() {
			if _, err := p.Pick(info); err != nil {
				t.Fatal(err)
			}
		})
		if allocs != 0 {
			t.Errorf("a pick by a list of %d makes %v allocations: want none", n, allocs)
		}
	}
}

// BenchmarkPickOwn is BenchmarkPick for RPCs with a list of their own.
func BenchmarkPickOwn(b *testing.B) {
	for _, n := range []int{1, 8, 64} {
		b.Run(fmt.Sprintf("names=%d", n), func(b *testing.B) {
			p, info := ownPick(b, n)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := p.Pick(info); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
