package svcconfig

import (
	"encoding/json"
	"errors"
	"math"
	"strconv"
	"strings"
	"time"
)

// Duration is a duration as a service config writes it ("1.5s"). gRPC-Go cuts one
// that is too long for Go to the longest that there is.
type Duration time.Duration

// maxSeconds is the longest duration of protobuf's JSON form.
const maxSeconds = 315_576_000_000

var errDuration = errors.New(`must be a duration in seconds, such as "1.5s"`)

// UnmarshalJSON reads what gRPC-Go reads, which is a little more than protobuf's
// JSON form has: ".5s" and "1.s" too.
func (d *Duration) UnmarshalJSON(data []byte) error {
	var text string
	if err := json.Unmarshal(data, &text); err != nil {
		return errDuration
	}
	number, isDuration := strings.CutSuffix(text, "s")
	number, negative := strings.CutPrefix(number, "-")
	whole, fraction, _ := strings.Cut(number, ".")
	if !isDuration || whole+fraction == "" || len(fraction) > 9 {
		return errDuration
	}
	seconds, err := integer(whole)
	if err != nil || seconds > maxSeconds {
		return errDuration
	}
	nanos, err := integer(fraction)
	if err != nil {
		return errDuration
	}
	for range 9 - len(fraction) {
		nanos *= 10
	}
	if negative {
		seconds, nanos = -seconds, -nanos
	}
	*d = clamp(seconds, nanos)
	return nil
}

// integer reads one side of the point, which may be empty.
func integer(text string) (int64, error) {
	if text == "" {
		return 0, nil
	}
	return strconv.ParseInt(text, 10, 64)
}

// clamp adds seconds and nanoseconds, of which there are less than a second.
func clamp(seconds, nanos int64) Duration {
	const most = math.MaxInt64 / int64(time.Second)
	switch {
	case seconds > most-1:
		return math.MaxInt64
	case seconds < 1-most:
		return math.MinInt64
	default:
		return Duration(seconds*int64(time.Second) + nanos)
	}
}
