package composite_test

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	testpb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/status"

	"github.com/grpc-composite/grpc-composite/balancer/composite"
	"github.com/grpc-composite/grpc-composite/internal/testkit"
)

// hangOften has a server count its calls, hang in one of n, and otherwise answer
// at once.
func hangOften(n int64, calls *atomic.Int64) []grpc.ServerOption {
	hangs := func() bool { return calls.Add(1)%n == 0 }
	return []grpc.ServerOption{
		grpc.UnaryInterceptor(func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
			if hangs() {
				<-ctx.Done()
			}
			return handler(ctx, req)
		}),
		grpc.StreamInterceptor(func(_ any, ss grpc.ServerStream, _ *grpc.StreamServerInfo, _ grpc.StreamHandler) error {
			if hangs() {
				<-ss.Context().Done()
			}
			return nil
		}),
	}
}

// smallRPC is an RPC of one kind or the other.
func smallRPC(ctx context.Context, client testpb.TestServiceClient, bidi bool) error {
	if !bidi {
		_, err := client.EmptyCall(ctx, &testpb.Empty{})
		return err
	}
	stream, err := client.FullDuplexCall(ctx)
	if err != nil {
		return err
	}
	if err := stream.CloseSend(); err != nil {
		return err
	}
	if _, err = stream.Recv(); errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// remains is what a process keeps: goroutines, and objects on the heap.
func remains() (goroutines int, objects uint64) {
	var stats runtime.MemStats
	runtime.GC()
	runtime.GC() // what was in pools goes with the second
	runtime.ReadMemStats(&stats)
	return runtime.NumGoroutine(), stats.HeapObjects
}

// TestTimeoutsLeaveNothing makes many RPCs that succeed, take too long, or are
// cancelled, and checks that neither goroutines nor timers outlive them: a timer
// that runs is an object, and so is the attempt that it belongs to.
func TestTimeoutsLeaveNothing(t *testing.T) {
	n := int64(100_000)
	if testing.Short() || composite.RaceEnabled {
		n = 10_000
	}
	const callers = 64
	var calls, moved atomic.Int64
	hanging, healthy := testkit.Start(t, "hanging", hangOften(20, &calls)...), testkit.Start(t, "healthy", hangOften(1<<40, &moved)...)
	cc := dial(t, goingOn(timed(20*time.Millisecond, testkit.Clusters(hanging, healthy)...)...))
	client := testpb.NewTestServiceClient(cc)
	var seen [codes.Unauthenticated + 1]atomic.Int64
	load := func(n int64) {
		var left atomic.Int64
		left.Store(n)
		var wg sync.WaitGroup
		for range callers {
			wg.Go(func() {
				for i := left.Add(-1); i >= 0; i = left.Add(-1) {
					ctx, cancel := context.WithTimeout(context.Background(), testkit.Patience)
					if i%20 == 0 {
						time.AfterFunc(rand.N(10*time.Millisecond), cancel)
					}
					seen[status.Code(smallRPC(ctx, client, i%4 == 0))].Add(1)
					cancel()
				}
			})
		}
		wg.Wait()
	}
	load(10 * callers) // makes what is kept on purpose: connections, pools
	goroutines, objects := remains()
	load(n)
	testkit.Eventually(t, "all goroutines end, and what they had is gone", func() bool {
		g, o := remains()
		return g <= goroutines && o < objects+uint64(n)/10 //nolint:gosec // not negative
	})
	if moved.Load() == 0 || seen[codes.OK].Load() == 0 || seen[codes.Canceled].Load() == 0 {
		t.Errorf("%d attempts have moved on, %d RPCs succeeded, %d were cancelled: want some of each", moved.Load(), seen[codes.OK].Load(), seen[codes.Canceled].Load())
	}
}
