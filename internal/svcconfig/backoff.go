package svcconfig

import (
	"math"
	"time"
)

// jitter is by how much gRPC-Go changes a back-off, up or down (gRFC A6 has it
// draw from zero instead).
const jitter = 0.2

// Backoff returns the shortest and the longest time that gRPC-Go waits before a
// retry; the first is number 1. A server's pushback replaces it.
func (p *RetryPolicy) Backoff(retry int) (shortest, longest time.Duration) {
	factor := math.Pow(p.BackoffMultiplier, float64(retry-1))
	nominal := min(float64(p.InitialBackoff)*factor, float64(p.MaxBackoff))
	return saturated(nominal * (1 - jitter)), saturated(nominal * (1 + jitter))
}

// Backoffs adds up the waits before the first so many retries.
func (p *RetryPolicy) Backoffs(retries int) (shortest, longest time.Duration) {
	for retry := range retries {
		least, most := p.Backoff(retry + 1)
		shortest, longest = Add(shortest, least), Add(longest, most)
	}
	return shortest, longest
}

// Add adds two durations that are not negative, and stops at the longest that there
// is.
func Add(a, b time.Duration) time.Duration {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

func saturated(d float64) time.Duration {
	if d >= math.MaxInt64 || math.IsNaN(d) {
		return math.MaxInt64
	}
	return time.Duration(d)
}
