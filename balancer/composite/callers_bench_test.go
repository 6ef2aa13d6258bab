//go:build unix

package composite_test

import (
	"sync"
	"syscall"
	"testing"
	"time"
)

// cpuTime is what this process has used.
func cpuTime(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkCallers has 64 callers make RPCs at once, and compares the client's CPU
// time and the throughput with those of a bare channel.
func BenchmarkCallers(b *testing.B) {
	const callers, turn = 64, 100
	contenders := unaryContenders(b)
	cpu := make([]time.Duration, len(contenders))
	wall := make([]time.Duration, len(contenders))
	for b.Loop() {
		for who, c := range contenders {
			start, used := time.Now(), cpuTime(b)
			var wg sync.WaitGroup
			for range callers {
				wg.Go(func() {
					for range turn {
						if err := c.call(); err != nil {
							b.Error(err)
							return
						}
					}
				})
			}
			wg.Wait()
			cpu[who] += cpuTime(b) - used
			wall[who] += time.Since(start)
		}
	}
	b.ReportMetric(float64(cpu[0].Microseconds())/float64(b.N*callers*turn), "bare-cpu-us/RPC")
	for who, c := range contenders[1:] {
		b.ReportMetric(float64(cpu[who+1])/float64(cpu[0]), c.name+"-cpu-ratio")
		b.ReportMetric(float64(wall[0])/float64(wall[who+1]), c.name+"-throughput-ratio")
	}
	b.ReportMetric(0, "ns/op")
}
