package demo

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/grpc"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
)

const (
	rpcTimeout = 5 * time.Second // for one RPC with all its attempts
	patience   = 8 * time.Second // with a change that should take milliseconds
	probePause = time.Millisecond
)

// Answer is what came of an RPC that a [Server] answered.
type Answer struct {
	Server  string
	Attempt int
	Took    time.Duration
}

// String tells the answer in words.
func (a Answer) String() string {
	return fmt.Sprintf("answered by %s on attempt %d, after %s", a.Server, a.Attempt, Milliseconds(a.Took))
}

// Check makes one RPC, which asks a server for its health.
func Check(ctx context.Context, cc grpc.ClientConnInterface, opts ...grpc.CallOption) (Answer, error) {
	ctx, cancel := context.WithTimeout(ctx, rpcTimeout)
	defer cancel()
	var header metadata.MD
	start := time.Now()
	_, err := healthpb.NewHealthClient(cc).Check(ctx, &healthpb.HealthCheckRequest{}, append(opts, grpc.Header(&header))...)
	took := time.Since(start)
	if err != nil {
		return Answer{}, err
	}
	server, attempt, err := WhoAnswered(header)
	return Answer{server, attempt, took}, err
}

// AwaitAnswer makes RPCs until the server of that name answers on that attempt,
// and returns that answer. None of the RPCs may fail.
func AwaitAnswer(ctx context.Context, cc grpc.ClientConnInterface, server string, attempt int, opts ...grpc.CallOption) (Answer, error) {
	var a Answer
	_, err := Await(ctx, func() (missing, failed error) {
		if a, failed = Check(ctx, cc, opts...); failed != nil {
			return nil, fmt.Errorf("an RPC failed, which %s should have answered on attempt %d: %w", server, attempt, failed)
		}
		if a.Server != server || a.Attempt != attempt {
			missing = fmt.Errorf("the last RPC was %v: it should have been by %s on attempt %d", a, server, attempt)
		}
		return missing, nil
	})
	return a, err
}

// Await calls f until nothing is missing, and returns how long that took: a
// channel learns of a change a moment after it was made. It ends at once if f says
// that it failed. After 8 s, or when ctx ends, it gives up, and says what was
// missing last.
func Await(ctx context.Context, f func() (missing, failed error)) (time.Duration, error) {
	start := time.Now()
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var last error
	for {
		missing, failed := f()
		took := time.Since(start)
		if failed != nil || missing == nil {
			return took, failed
		}
		if last == nil || ctx.Err() == nil { // or else it was cut short and tells nothing
			last = missing
		}
		select {
		case <-ctx.Done():
			return 0, fmt.Errorf("not so after %.1f s: %w", took.Seconds(), last)
		case <-time.After(probePause): // so as not to keep the processor busy
		}
	}
}
