package debugz_test

import (
	"context"
	"testing"

	testpb "google.golang.org/grpc/interop/grpc_testing"

	"github.com/grpc-composite/grpc-composite/balancer/composite/debugz"
	"github.com/grpc-composite/grpc-composite/internal/inspect"
	"github.com/grpc-composite/grpc-composite/internal/testkit"
)

// BenchmarkUnary shows what a handler adds to a healthy RPC on a channel. There is no
// way back, so that a run without a handler can only be a process's first.
func BenchmarkUnary(b *testing.B) {
	target := "passthrough:///" + testkit.StartProcess(b)
	cc, _ := dial(b, testkit.Service{Attempts: 2, Clusters: []testkit.Cluster{
		{Name: "primary", Target: target}, {Name: "fallback", Target: target},
	}})
	stub, ctx, req := testpb.NewTestServiceClient(cc), context.Background(), &testpb.Empty{}
	run := func(b *testing.B) {
		b.Helper()
		b.ReportAllocs()
		for b.Loop() {
			if _, err := stub.EmptyCall(ctx, req); err != nil {
				b.Fatal(err)
			}
		}
	}
	if !inspect.Watching() {
		b.Run("without", run)
	}
	debugz.Handler()
	b.Run("with", run)
}
