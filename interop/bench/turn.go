package main

import (
	"context"
	"runtime"
	"slices"
	"sync"
	"time"
)

// rpc makes one RPC.
type rpc func(ctx context.Context) error

// turn is what one contender did in one of its turns.
type turn struct {
	RPCs      int           `json:"rpcs"`
	Failed    int           `json:"failed"`
	Wall      time.Duration `json:"wallNs"`
	P50       time.Duration `json:"p50Ns"`
	P99       time.Duration `json:"p99Ns"`
	ClientCPU time.Duration `json:"clientCpuNs"` // of all RPCs together
	ProxyCPU  time.Duration `json:"proxyCpuNs"`
	Allocs    uint64        `json:"allocs"`

	latencies []time.Duration // sorted
}

// takeTurn has a number of callers make one RPC after the other for a time. What
// others have left to the garbage collector is not this contender's.
func takeTurn(ctx context.Context, call rpc, callers int, length time.Duration, proxyCPU func() time.Duration) turn {
	var done turn
	runtime.GC()
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	allocs, proxy, client, start := memory.Mallocs, proxyCPU(), ownCPU(), time.Now()
	end := start.Add(length)
	if callers == 1 {
		done.latencies, done.Failed = callUntil(ctx, call, end)
	} else {
		var mu sync.Mutex
		var wg sync.WaitGroup
		for range callers {
			wg.Go(func() {
				latencies, failed := callUntil(ctx, call, end)
				mu.Lock()
				defer mu.Unlock()
				done.latencies = append(done.latencies, latencies...)
				done.Failed += failed
			})
		}
		wg.Wait()
	}
	done.Wall, done.ClientCPU, done.ProxyCPU = time.Since(start), ownCPU()-client, proxyCPU()-proxy
	runtime.ReadMemStats(&memory)
	done.Allocs = memory.Mallocs - allocs
	done.RPCs = len(done.latencies)
	slices.Sort(done.latencies)
	done.P50, done.P99 = percentile(done.latencies, 50), percentile(done.latencies, 99)
	return done
}

// callUntil makes one RPC at least.
func callUntil(ctx context.Context, call rpc, end time.Time) (latencies []time.Duration, failed int) {
	for start := time.Now(); ; {
		if err := call(ctx); err != nil {
			failed++
		}
		now := time.Now()
		latencies = append(latencies, now.Sub(start))
		if start = now; now.After(end) {
			return latencies, failed
		}
	}
}

// percentile is of sorted times.
func percentile(sorted []time.Duration, p int) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[min(len(sorted)*p/100, len(sorted)-1)]
}
