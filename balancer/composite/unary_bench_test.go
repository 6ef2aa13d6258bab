package composite_test

import (
	"context"
	"runtime"
	"slices"
	"testing"
	"time"

	"google.golang.org/grpc"
	testpb "google.golang.org/grpc/interop/grpc_testing"

	"github.com/grpc-composite/grpc-composite/internal/testkit"
)

const roundRobin = `{"loadBalancingConfig": [{"round_robin": {}}]}`

// unaryContenders returns, for the same server in a process of its own, a bare
// channel, one that has a stats handler which does nothing besides, and a
// composite one, all with the same child policy.
func unaryContenders(b *testing.B) []func() error {
	b.Helper()
	addr := testkit.StartProcess(b)
	target := "passthrough:///" + addr
	client := func(cc *grpc.ClientConn) func() error {
		stub, ctx, req := testpb.NewTestServiceClient(cc), context.Background(), &testpb.Empty{}
		return func() error {
			_, err := stub.EmptyCall(ctx, req)
			return err
		}
	}
	config := grpc.WithDefaultServiceConfig(roundRobin)
	return []func() error{
		client(testkit.Dial(b, target, config)),
		client(testkit.Dial(b, target, config, grpc.WithStatsHandler(connHandler(func() {})))),
		client(dial(b, testkit.Service{Attempts: 3, Clusters: []testkit.Cluster{
			{Name: "primary", Target: target}, {Name: "secondary", Target: target}, {Name: "fallback", Target: target},
		}})),
	}
}

// BenchmarkUnary compares a healthy unary RPC on a composite channel with one on
// a bare channel, and with one that has an empty stats handler: what that costs
// is gRPC-Go's own. They take turns, and the medians are compared.
func BenchmarkUnary(b *testing.B) {
	contenders := unaryContenders(b)
	times := make([][]time.Duration, len(contenders))
	allocs := make([]uint64, len(contenders))
	const turn = 50 // RPCs in a row, so that each contender has a warm cache
	for i := 0; b.Loop(); i++ {
		who := i % len(contenders)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for range turn {
			start := time.Now()
			if err := contenders[who](); err != nil {
				b.Fatal(err)
			}
			times[who] = append(times[who], time.Since(start))
		}
		runtime.ReadMemStats(&after)
		allocs[who] += after.Mallocs - before.Mallocs
	}
	const bare, handler, composite = 0, 1, 2
	if len(times[composite]) == 0 {
		return // too short a run to compare anything
	}
	p50 := make([]float64, len(contenders))
	perRPC := make([]float64, len(contenders))
	for who := range times {
		slices.Sort(times[who])
		p50[who] = float64(times[who][len(times[who])/2])
		perRPC[who] = float64(allocs[who]) / float64(len(times[who]))
	}
	b.ReportMetric(p50[bare]/1e3, "bare-p50-us")
	b.ReportMetric(p50[composite]/p50[bare], "p50-ratio")
	b.ReportMetric(p50[handler]/p50[bare], "p50-ratio-empty-handler")
	b.ReportMetric(perRPC[composite]-perRPC[bare], "more-allocs/RPC")
	b.ReportMetric(perRPC[handler]-perRPC[bare], "more-allocs/RPC-empty-handler")
	b.ReportMetric(0, "ns/op")
}
