package main

import (
	"context"
	"time"

	testpb "google.golang.org/grpc/interop/grpc_testing"
)

// connectTimeout is a cluster's where the first one swallows connects.
const connectTimeout = 250 * time.Millisecond

// swallowDeadline is of each RPC there.
const swallowDeadline = time.Second

var swallowExtra = extra{
	name:       "swallow",
	title:      "first cluster's address swallows connects, connectTimeout 0.25 s, deadline 1 s",
	columns:    []string{"first-RPC-ms", "slowest-later-RPC-ms", "RPCs", "failed"},
	contenders: contenderNames(),
	run:        measureSwallow,
}

// measureSwallow opens channels, and makes some RPCs on each: few, if they fail.
func measureSwallow(ctx context.Context, t *host, o options, s *site, names []string) [][]float64 {
	if s.swallow == "" {
		return nil
	}
	times, later := 5, 100
	if o.small {
		times, later = 1, 5
	}
	var rows [][]float64
	for _, name := range names {
		var firsts []float64
		var slowest time.Duration
		rpcs, failed := 0, 0
		for range times {
			err := within(func(t *host) {
				set := s.setup(swallowing, time.Millisecond)
				set.connectTimeout = connectTimeout
				call := emptyCall(testpb.NewTestServiceClient(contenderNamed(name).open(t, set)))
				for i := 0; i <= later && (i < 2 || failed == 0); i++ {
					took, err := timed(ctx, call)
					rpcs++
					if err != nil {
						failed++
					}
					if i == 0 {
						firsts = append(firsts, millis(took))
					} else {
						slowest = max(slowest, took)
					}
				}
			})
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
		}
		rows = append(rows, []float64{median(firsts), millis(slowest), float64(rpcs), float64(failed)})
	}
	return rows
}

func timed(ctx context.Context, call rpc) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, swallowDeadline)
	defer cancel()
	start := time.Now()
	err := call(ctx)
	return time.Since(start), err
}
