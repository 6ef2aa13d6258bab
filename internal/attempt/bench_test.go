package attempt

import (
	"context"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/stats"
)

// BenchmarkCount is what an RPC of one attempt costs, besides what gRPC-Go does:
// all that is called for it, in gRPC-Go's order.
func BenchmarkCount(b *testing.B) {
	var (
		h       = StatsHandler()
		info    = &stats.RPCTagInfo{FullMethodName: "/s/m"}
		begin   = &stats.Begin{Client: true, BeginTime: time.Now()}
		end     = &stats.End{Client: true, BeginTime: time.Now(), EndTime: time.Now()}
		events  = []stats.RPCStats{&stats.OutHeader{Client: true}, &stats.OutPayload{Client: true}, &stats.InHeader{Client: true}, &stats.InPayload{Client: true}, &stats.InTrailer{Client: true}, end}
		cluster Cluster
		picker  int
		parent  = context.Background()

		intercept = (&Interceptors{}).Unary()
	)
	invoke := func(ctx context.Context, _ string, _, _ any, _ *grpc.ClientConn, _ ...grpc.CallOption) error {
		ctx = h.TagRPC(ctx, info)
		h.HandleRPC(ctx, begin)
		a := FromContext(ctx)
		a.Pick()
		a.Choose(&cluster)
		a.PassOver(&picker, 0, 0)
		a.EnterNested()
		a.LeaveNested()
		for _, e := range events {
			h.HandleRPC(ctx, e)
		}
		return nil
	}
	b.ReportAllocs()
	for b.Loop() {
		if err := intercept(parent, "/s/m", nil, nil, nil, invoke); err != nil {
			b.Fatal(err)
		}
	}
}
