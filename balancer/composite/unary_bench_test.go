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

// unaryContenders returns a bare channel and a composite one with the same child
// policy, to the same server in a process of its own.
func unaryContenders(b *testing.B) (bare, composite func() error) {
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
	return client(testkit.Dial(b, target, grpc.WithDefaultServiceConfig(roundRobin))),
		client(dial(b, testkit.Service{Attempts: 3, Clusters: []testkit.Cluster{
			{Name: "primary", Target: target}, {Name: "secondary", Target: target}, {Name: "fallback", Target: target},
		}}))
}

// BenchmarkUnary compares a healthy unary RPC on a composite channel with one on
// a bare channel. The two take turns, and the medians are compared.
func BenchmarkUnary(b *testing.B) {
	bare, composite := unaryContenders(b)
	contenders := []func() error{bare, composite}
	var times [2][]time.Duration
	var allocs [2]uint64
	const turn = 50 // RPCs in a row, so that each contender has a warm cache
	for i := 0; b.Loop(); i++ {
		who := i % 2
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
	if len(times[1]) == 0 {
		return // too short a run to compare anything
	}
	var p50 [2]float64
	for who := range times {
		slices.Sort(times[who])
		p50[who] = float64(times[who][len(times[who])/2])
	}
	b.ReportMetric(p50[0]/1e3, "bare-p50-us")
	b.ReportMetric(p50[1]/1e3, "composite-p50-us")
	b.ReportMetric(p50[1]/p50[0], "p50-ratio")
	b.ReportMetric(float64(allocs[1])/float64(len(times[1]))-float64(allocs[0])/float64(len(times[0])), "more-allocs/RPC")
	b.ReportMetric(0, "ns/op")
}
