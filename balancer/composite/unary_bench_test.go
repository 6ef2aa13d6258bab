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

// contender is a channel that makes an RPC.
type contender struct {
	name string
	call func() error
}

// unaryContenders returns, for the same server in a process of its own, a bare
// channel, one that has a stats handler which does nothing besides, and composite
// ones with full and lean counting, all with the same child policy.
func unaryContenders(b *testing.B) []contender {
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
	service := testkit.Service{Attempts: 3, Clusters: []testkit.Cluster{
		{Name: "primary", Target: target}, {Name: "secondary", Target: target}, {Name: "fallback", Target: target},
	}}
	return []contender{
		{"bare", client(testkit.Dial(b, target, config))},
		{"empty-handler", client(testkit.Dial(b, target, config, grpc.WithStatsHandler(connHandler(func() {}))))},
		{"composite", client(dial(b, service))},
		{"lean", client(dialLean(b, service))},
	}
}

// BenchmarkUnary compares a healthy unary RPC on a composite channel, with full and
// with lean counting, with one on a bare channel, and with one that has an empty
// stats handler: what that costs is gRPC-Go's own. They take turns, and the medians
// are compared.
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
			if err := contenders[who].call(); err != nil {
				b.Fatal(err)
			}
			times[who] = append(times[who], time.Since(start))
		}
		runtime.ReadMemStats(&after)
		allocs[who] += after.Mallocs - before.Mallocs
	}
	if len(times[len(times)-1]) == 0 {
		return // too short a run to compare anything
	}
	p50 := make([]float64, len(contenders))
	perRPC := make([]float64, len(contenders))
	for who := range times {
		slices.Sort(times[who])
		p50[who] = float64(times[who][len(times[who])/2])
		perRPC[who] = float64(allocs[who]) / float64(len(times[who]))
	}
	b.ReportMetric(p50[0]/1e3, "bare-p50-us")
	for who, c := range contenders[1:] {
		b.ReportMetric(p50[who+1]/p50[0], c.name+"-p50-ratio")
		b.ReportMetric(perRPC[who+1]-perRPC[0], c.name+"-more-allocs/RPC")
	}
	b.ReportMetric(0, "ns/op")
}
