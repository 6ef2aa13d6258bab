package main

import (
	"context"
	"slices"
	"sync"
	"time"

	testpb "google.golang.org/grpc/interop/grpc_testing"

	"github.com/grpc-composite/grpc-composite/internal/testkit"
)

// never is a time that did not come.
const never = -1

const (
	failoverCallers = 8
	failoverPause   = 2 * time.Millisecond // of each caller, between RPCs
)

var failoverExtra = extra{
	name:       "failover",
	title:      "first cluster's server is killed under load: 8 callers, 2 ms between RPCs, back-off 1 ms",
	columns:    []string{"RPCs", "failed", "gap-p50-ms", "gap-max-ms", "slowest-RPC-ms"},
	contenders: contenderNames(),
	run:        measureFailover,
}

// measureFailover kills a server several times for each contender. The gap is the
// longest time in which no RPC succeeds.
func measureFailover(ctx context.Context, t *host, o options, s *site, names []string) [][]float64 {
	times, before, after := 9, 200*time.Millisecond, 600*time.Millisecond
	if o.small {
		times, before, after = 1, 20*time.Millisecond, 200*time.Millisecond
	}
	gaps := make([][]float64, len(names))
	total := make([]load, len(names))
	for range times {
		for i, name := range names {
			err := within(func(t *host) {
				l := killUnderLoad(ctx, t, s, contenderNamed(name), before, after)
				gaps[i] = append(gaps[i], l.gap())
				total[i].succeeded = append(total[i].succeeded, l.succeeded...)
				total[i].failed += l.failed
				total[i].slowest = max(total[i].slowest, l.slowest)
			})
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			// The next contender finds the server where it was.
			s.victim = startServer(t, "victim", s.victim.addr, false)
		}
	}
	rows := make([][]float64, len(names))
	for i, l := range total {
		p50, most := median(gaps[i]), slices.Max(gaps[i])
		if slices.Contains(gaps[i], never) {
			p50, most = never, never
		}
		n := len(l.succeeded) + l.failed
		rows[i] = []float64{float64(n), float64(l.failed), p50, most, millis(l.slowest)}
	}
	return rows
}

func millis(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// load is what became of RPCs.
type load struct {
	succeeded []time.Time
	failed    int
	slowest   time.Duration
	end       time.Time
}

// gap is the longest time between two successes, in ms, or never if the longest
// one goes on to the end.
func (l *load) gap() float64 {
	slices.SortFunc(l.succeeded, time.Time.Compare)
	var longest time.Duration
	for i := range len(l.succeeded) - 1 {
		longest = max(longest, l.succeeded[i+1].Sub(l.succeeded[i]))
	}
	if n := len(l.succeeded); n == 0 || l.end.Sub(l.succeeded[n-1]) > longest {
		return never
	}
	return millis(longest)
}

func killUnderLoad(ctx context.Context, t *host, s *site, c contender, before, after time.Duration) *load {
	cc := c.open(t, s.setup(killed, time.Millisecond))
	testkit.AwaitServer(t, cc, "victim")
	warmUp(ctx, t, c.name, emptyCall(testpb.NewTestServiceClient(cc)))
	call := emptyCall(testpb.NewTestServiceClient(cc))
	end := time.Now().Add(before + after)
	ctx, cancel := context.WithDeadline(ctx, end.Add(2*time.Second))
	defer cancel()
	l := &load{end: end}
	var mu sync.Mutex
	var wg sync.WaitGroup
	for range failoverCallers {
		wg.Go(func() {
			for start := time.Now(); start.Before(end); start = time.Now() {
				err := call(ctx)
				now := time.Now()
				mu.Lock()
				if err == nil {
					l.succeeded = append(l.succeeded, now)
				} else {
					l.failed++
				}
				l.slowest = max(l.slowest, now.Sub(start))
				mu.Unlock()
				time.Sleep(failoverPause)
			}
		})
	}
	time.Sleep(before)
	s.victim.kill(t)
	wg.Wait()
	return l
}
