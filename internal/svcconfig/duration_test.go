package svcconfig_test

import (
	"encoding/json"
	"math"
	"testing"
	"time"

	"github.com/grpc-composite/grpc-composite/internal/svcconfig"
)

func TestDuration(t *testing.T) {
	for text, want := range map[string]time.Duration{
		`"0s"`:              0,
		`"1s"`:              time.Second,
		`"1.5s"`:            1500 * time.Millisecond,
		`"-1.5s"`:           -1500 * time.Millisecond,
		`".5s"`:             500 * time.Millisecond,
		`"1.s"`:             time.Second,
		`"0.000000001s"`:    1,
		`"315576000000s"`:   math.MaxInt64,
		`"-315576000000s"`:  math.MinInt64,
		`"9223372035.999s"`: 9223372035999 * time.Millisecond,
	} {
		var got svcconfig.Duration
		if err := json.Unmarshal([]byte(text), &got); err != nil || time.Duration(got) != want {
			t.Errorf("%s is read as %v, error %v, want %v", text, time.Duration(got), err, want)
		}
	}
	for _, text := range []string{`1`, `""`, `"s"`, `"."`, `".s"`, `"-s"`, `"1"`, `"1ms"`, `"1.0000000000s"`, `"1.2.3s"`, `"315576000001s"`, `"1e3s"`, `null`} {
		var got svcconfig.Duration
		if err := got.UnmarshalJSON([]byte(text)); err == nil {
			t.Errorf("%s is read as %v, want an error", text, time.Duration(got))
		}
	}
}
