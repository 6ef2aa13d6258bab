package svcconfig_test

import (
	"math"
	"testing"
	"time"

	"github.com/grpc-composite/grpc-composite/internal/svcconfig"
)

func TestBackoffs(t *testing.T) {
	const ms = svcconfig.Duration(time.Millisecond)
	for _, tc := range []struct {
		name              string
		policy            svcconfig.RetryPolicy
		retries           int
		shortest, longest time.Duration
	}{
		{"none", svcconfig.RetryPolicy{InitialBackoff: 10 * ms, MaxBackoff: 100 * ms, BackoffMultiplier: 2}, 0, 0, 0},
		{"one", svcconfig.RetryPolicy{InitialBackoff: 10 * ms, MaxBackoff: 100 * ms, BackoffMultiplier: 2}, 1, 8 * time.Millisecond, 12 * time.Millisecond},
		{"doubled", svcconfig.RetryPolicy{InitialBackoff: 10 * ms, MaxBackoff: 100 * ms, BackoffMultiplier: 2}, 3, 56 * time.Millisecond, 84 * time.Millisecond},
		{"limited", svcconfig.RetryPolicy{InitialBackoff: 10 * ms, MaxBackoff: 15 * ms, BackoffMultiplier: 2}, 3, 32 * time.Millisecond, 48 * time.Millisecond},
		{"limited from the start", svcconfig.RetryPolicy{InitialBackoff: 100 * ms, MaxBackoff: 10 * ms, BackoffMultiplier: 2}, 2, 16 * time.Millisecond, 24 * time.Millisecond},
		{"halved", svcconfig.RetryPolicy{InitialBackoff: 100 * ms, MaxBackoff: 100 * ms, BackoffMultiplier: 0.5}, 2, 120 * time.Millisecond, 180 * time.Millisecond},
		{"too long for Go", svcconfig.RetryPolicy{InitialBackoff: math.MaxInt64, MaxBackoff: math.MaxInt64, BackoffMultiplier: 1e300}, 63, math.MaxInt64, math.MaxInt64},
	} {
		shortest, longest := tc.policy.Backoffs(tc.retries)
		if shortest.Round(time.Microsecond) != tc.shortest.Round(time.Microsecond) || longest.Round(time.Microsecond) != tc.longest.Round(time.Microsecond) {
			t.Errorf("%s: Backoffs(%d) = %v, %v, want %v, %v", tc.name, tc.retries, shortest, longest, tc.shortest, tc.longest)
		}
	}
}
