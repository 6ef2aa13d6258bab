package composite_test

import (
	"context"
	"runtime"
	"slices"
	"testing"
	"time"

	testpb "google.golang.org/grpc/interop/grpc_testing"

	"github.com/grpc-composite/grpc-composite/internal/testkit"
)

// BenchmarkAttemptTimeout compares a healthy unary RPC on a channel whose
// clusters all have an attemptTimeout with one on a channel without. The two take
// turns, and the medians are compared.
func BenchmarkAttemptTimeout(b *testing.B) {
	target := "passthrough:///" + testkit.StartProcess(b)
	clusters := []testkit.Cluster{{Name: "primary", Target: target}, {Name: "secondary", Target: target}, {Name: "fallback", Target: target}}
	ctx, req := context.Background(), &testpb.Empty{}
	contenders := []testpb.TestServiceClient{
		testpb.NewTestServiceClient(dial(b, goingOn(clusters...))),
		testpb.NewTestServiceClient(dial(b, goingOn(timed(time.Minute, clusters...)...))),
	}
	var times [2][]time.Duration
	var allocs [2]uint64
	const turn = 50 // RPCs in a row, so that each contender has a warm cache
	for i := 0; b.Loop(); i++ {
		who := i % 2
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for range turn {
			start := time.Now()
			if _, err := contenders[who].EmptyCall(ctx, req); err != nil {
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
	b.ReportMetric(p50[0]/1e3, "without-p50-us")
	b.ReportMetric(p50[1]/1e3, "with-p50-us")
	b.ReportMetric(p50[1]/p50[0], "p50-ratio")
	b.ReportMetric(float64(allocs[1])/float64(len(times[1]))-float64(allocs[0])/float64(len(times[0])), "more-allocs/RPC")
	b.ReportMetric(0, "ns/op")
}
