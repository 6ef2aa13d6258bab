package composite

import (
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/grpc-composite/grpc-composite/internal/attempt"
	"github.com/grpc-composite/grpc-composite/internal/breaker"
)

// withSettings is a config of one cluster with these fields.
func withSettings(fields string) string {
	return `{"clusters":[{"name":"a",` + fields + `}]}`
}

func TestParseFeaturesRejects(t *testing.T) {
	const (
		duration = `must be a duration in seconds, such as "1.5s", and at most "315576000000s"`
		whole    = `must be a whole number, not negative, and at most 4294967295`
		code     = `must be the name of a status code such as UNAVAILABLE, and not OK or CANCELLED`
		needed   = `must be given, and be at least 1`
		repeated = `must be left out, since clusters[0] defines "a" and an entry that repeats it carries only name and attempts`
	)
	for _, tc := range []struct{ name, input, want string }{
		{"attemptTimeout is zero", withSettings(`"attemptTimeout":"0s"`), `clusters[0].attemptTimeout: "0s": must be positive`},
		{"attemptTimeout is minus zero", withSettings(`"attemptTimeout":"-0s"`), `clusters[0].attemptTimeout: "0s": must be positive`},
		{"attemptTimeout is negative", withSettings(`"attemptTimeout":"-0.000000001s"`), `clusters[0].attemptTimeout: "-0.000000001s": must be positive`},
		{"attemptTimeout of the second cluster", `{"clusters":[{"name":"a"},{"name":"b","attemptTimeout":"-1s"}]}`, `clusters[1].attemptTimeout: "-1s": must be positive`},
		{"attemptTimeout is a number", withSettings(`"attemptTimeout":1`), `clusters[0].attemptTimeout: 1: ` + duration},
		{"attemptTimeout has no unit", withSettings(`"attemptTimeout":"1"`), `clusters[0].attemptTimeout: "1": ` + duration},
		{"attemptTimeout is in Go's form", withSettings(`"attemptTimeout":"100ms"`), `clusters[0].attemptTimeout: "100ms": ` + duration},
		{"attemptTimeout is too long", withSettings(`"attemptTimeout":"315576000001s"`), `clusters[0].attemptTimeout: "315576000001s": ` + duration},
		{"attemptTimeout twice", withSettings(`"attemptTimeout":"1s","attemptTimeout":"1s"`), `clusters[0].attemptTimeout: must be given once`},
		{"attemptTimeout under both names", withSettings(`"attemptTimeout":"1s","attempt_timeout":"1s"`), `clusters[0].attempt_timeout: must be given once, and "attemptTimeout" is the same field`},

		{"maxRequests is zero", withSettings(`"maxRequests":0`), `clusters[0].maxRequests: 0: must be at least 1; leave it out for no limit`},
		{"maxRequests is negative", withSettings(`"maxRequests":-1`), `clusters[0].maxRequests: -1: ` + whole},
		{"maxRequests is a fraction", withSettings(`"maxRequests":0.5`), `clusters[0].maxRequests: 0.5: ` + whole},
		{"maxRequests has more than 32 bits", withSettings(`"maxRequests":4294967296`), `clusters[0].maxRequests: 4294967296: ` + whole},
		{"maxRequests is a word", withSettings(`"maxRequests":"many"`), `clusters[0].maxRequests: "many": ` + whole},
		{"maxRequests is a bool", withSettings(`"maxRequests":true`), `clusters[0].maxRequests: true: ` + whole},

		{"avoidPreviousHosts is 65", withSettings(`"avoidPreviousHosts":65`), `clusters[0].avoidPreviousHosts: 65: must be at most 64`},
		{"avoidPreviousHosts is the most there is", withSettings(`"avoidPreviousHosts":4294967295`), `clusters[0].avoidPreviousHosts: 4294967295: must be at most 64`},
		{"avoidPreviousHosts is negative", withSettings(`"avoidPreviousHosts":-1`), `clusters[0].avoidPreviousHosts: -1: ` + whole},
		{"avoidPreviousHosts is a bool", withSettings(`"avoidPreviousHosts":true`), `clusters[0].avoidPreviousHosts: true: ` + whole},

		{"cooldown is a duration", withSettings(`"cooldown":"10s"`), `clusters[0].cooldown: "10s": must be an object`},
		{"cooldown is a list", withSettings(`"cooldown":[]`), `clusters[0].cooldown: []: must be an object`},
		{"cooldown is empty", withSettings(`"cooldown":{}`), `clusters[0].cooldown.consecutiveFailures: ` + needed},
		{"consecutiveFailures is left out", withSettings(`"cooldown":{"time":"1s"}`), `clusters[0].cooldown.consecutiveFailures: ` + needed},
		{"consecutiveFailures is null", withSettings(`"cooldown":{"consecutiveFailures":null}`), `clusters[0].cooldown.consecutiveFailures: ` + needed},
		{"consecutiveFailures is zero", withSettings(`"cooldown":{"consecutiveFailures":0}`), `clusters[0].cooldown.consecutiveFailures: ` + needed},
		{"consecutiveFailures is negative", withSettings(`"cooldown":{"consecutiveFailures":-1}`), `clusters[0].cooldown.consecutiveFailures: -1: ` + whole},
		{"consecutiveFailures has more than 32 bits", withSettings(`"cooldown":{"consecutiveFailures":4294967296}`), `clusters[0].cooldown.consecutiveFailures: 4294967296: ` + whole},
		{"codes is a string", withSettings(`"cooldown":{"consecutiveFailures":1,"codes":"UNAVAILABLE"}`), `clusters[0].cooldown.codes: "UNAVAILABLE": must be a list`},
		{"a code is a number", withSettings(`"cooldown":{"consecutiveFailures":1,"codes":["UNAVAILABLE",14]}`), `clusters[0].cooldown.codes[1]: 14: must be a string`},
		{"a code is a number as a string", withSettings(`"cooldown":{"consecutiveFailures":1,"codes":["14"]}`), `clusters[0].cooldown.codes[0]: "14": ` + code},
		{"a code is null", withSettings(`"cooldown":{"consecutiveFailures":1,"codes":[null]}`), `clusters[0].cooldown.codes[0]: null: must be a string`},
		{"a code is empty", withSettings(`"cooldown":{"consecutiveFailures":1,"codes":[""]}`), `clusters[0].cooldown.codes[0]: "": ` + code},
		{"a code in lower case", withSettings(`"cooldown":{"consecutiveFailures":1,"codes":["unavailable"]}`), `clusters[0].cooldown.codes[0]: "unavailable": ` + code},
		{"a code in Go's form", withSettings(`"cooldown":{"consecutiveFailures":1,"codes":["DeadlineExceeded"]}`), `clusters[0].cooldown.codes[0]: "DeadlineExceeded": ` + code},
		{"a code that is none", withSettings(`"cooldown":{"consecutiveFailures":1,"codes":["INTERNAL","BROKEN"]}`), `clusters[0].cooldown.codes[1]: "BROKEN": ` + code},
		{"a code with a quotation mark", withSettings(`"cooldown":{"consecutiveFailures":1,"codes":["\"UNAVAILABLE\""]}`), `clusters[0].cooldown.codes[0]: "\"UNAVAILABLE\"": ` + code},
		{"the code OK", withSettings(`"cooldown":{"consecutiveFailures":1,"codes":["OK"]}`), `clusters[0].cooldown.codes[0]: "OK": ` + code},
		{"the code CANCELLED", withSettings(`"cooldown":{"consecutiveFailures":1,"codes":["CANCELLED"]}`), `clusters[0].cooldown.codes[0]: "CANCELLED": ` + code},
		{"the code CANCELED", withSettings(`"cooldown":{"consecutiveFailures":1,"codes":["CANCELED"]}`), `clusters[0].cooldown.codes[0]: "CANCELED": ` + code},
		{"time is zero", withSettings(`"cooldown":{"consecutiveFailures":1,"time":"0s"}`), `clusters[0].cooldown.time: "0s": must be positive`},
		{"time is negative", withSettings(`"cooldown":{"consecutiveFailures":1,"time":"-1s"}`), `clusters[0].cooldown.time: "-1s": must be positive`},
		{"time is a number", withSettings(`"cooldown":{"consecutiveFailures":1,"time":1}`), `clusters[0].cooldown.time: 1: ` + duration},
		{"maxTime is zero", withSettings(`"cooldown":{"consecutiveFailures":1,"maxTime":"0s"}`), `clusters[0].cooldown.maxTime: "0s": must be at least as long as time, which is 10s`},
		{"maxTime is shorter than time", withSettings(`"cooldown":{"consecutiveFailures":1,"time":"2s","maxTime":"1.999999999s"}`), `clusters[0].cooldown.maxTime: "1.999999999s": must be at least as long as time, which is 2s`},
		{"maxTime is shorter than the default time", withSettings(`"cooldown":{"consecutiveFailures":1,"maxTime":"9s"}`), `clusters[0].cooldown.maxTime: "9s": must be at least as long as time, which is 10s`},
		{"maxTime is a word", withSettings(`"cooldown":{"consecutiveFailures":1,"maxTime":"long"}`), `clusters[0].cooldown.maxTime: "long": ` + duration},
		{"cooldown of a cluster in a nested policy", withSettings(`"childPolicy":[{"composite":{"clusters":[{"name":"b","cooldown":{}}]}}]`), `clusters[0].childPolicy[0]: must be a valid config for "composite": composite: clusters[0].cooldown.consecutiveFailures: ` + needed},

		{"failbackDelay is negative", withSettings(`"failbackDelay":"-1s"`), `clusters[0].failbackDelay: "-1s": must not be negative`},
		{"failbackDelay is a number", withSettings(`"failbackDelay":30`), `clusters[0].failbackDelay: 30: ` + duration},
		{"failbackDelay is an object", withSettings(`"failbackDelay":{"seconds":1}`), `clusters[0].failbackDelay: {"seconds":1}: ` + duration},
		{"failbackDelay is too long", withSettings(`"failbackDelay":"315576000001s"`), `clusters[0].failbackDelay: "315576000001s": ` + duration},

		{"progression has an unknown name", `{"clusters":[{"name":"a"}],"progression":"NEXT"}`, `progression: "NEXT": must be one of ATTEMPT_COUNT, NEXT_CLUSTER`},
		{"progression in lower case", `{"clusters":[{"name":"a"}],"progression":"next_cluster"}`, `progression: "next_cluster": must be one of ATTEMPT_COUNT, NEXT_CLUSTER`},
		{"progression has an unknown number", `{"clusters":[{"name":"a"}],"progression":3}`, `progression: 3: must be one of ATTEMPT_COUNT, NEXT_CLUSTER`},
		{"progression is a bool", `{"clusters":[{"name":"a"}],"progression":true}`, `progression: true: must be one of ATTEMPT_COUNT, NEXT_CLUSTER`},
		{"progression is a list", `{"clusters":[{"name":"a"}],"progression":["NEXT_CLUSTER"]}`, `progression: ["..."]: must be one of ATTEMPT_COUNT, NEXT_CLUSTER`},

		{"a repeated entry with an attemptTimeout", `{"clusters":[{"name":"a"},{"name":"a","attemptTimeout":"1s"}]}`, `clusters[1].attemptTimeout: ` + repeated},
		{"a repeated entry with maxRequests", `{"clusters":[{"name":"a"},{"name":"a","maxRequests":1}]}`, `clusters[1].maxRequests: ` + repeated},
		{"a repeated entry with avoidPreviousHosts", `{"clusters":[{"name":"a"},{"name":"a","avoidPreviousHosts":1}]}`, `clusters[1].avoidPreviousHosts: ` + repeated},
		{"a repeated entry with a cooldown", `{"clusters":[{"name":"a"},{"name":"a","cooldown":{"consecutiveFailures":1}}]}`, `clusters[1].cooldown: ` + repeated},
		{"a repeated entry with a failbackDelay", `{"clusters":[{"name":"a"},{"name":"a","failbackDelay":"0s"}]}`, `clusters[1].failbackDelay: ` + repeated},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			cfg, err := parse(tc.input)
			if err == nil {
				t.Fatalf("ParseConfig(%s) = %+v: want the error %s", tc.input, cfg, tc.want)
			}
			if want := "composite: " + tc.want; err.Error() != want {
				t.Errorf("ParseConfig(%s):\ngot  %v\nwant %s", tc.input, err, want)
			}
		})
	}
}

// features is what the fields of a cluster are parsed to.
type features struct {
	attemptTimeout     *attempt.Limit
	maxRequests        int64
	avoidPreviousHosts int
	cooldown           *breaker.Config
	failbackDelay      time.Duration
	guarded            bool // follows from the others
}

func TestParseFeaturesAccepts(t *testing.T) {
	usual := breaker.CodesOf(codes.Unavailable, codes.DeadlineExceeded, codes.ResourceExhausted)
	limit := func(d time.Duration) features {
		return features{attemptTimeout: &attempt.Limit{After: d, Cluster: "a"}, guarded: true}
	}
	cooldown := func(c breaker.Config) features { return features{cooldown: &c, guarded: true} }
	for _, tc := range []struct {
		name, fields string
		want         features
	}{
		{"nothing", `"lazy":false`, features{}},
		{"null is the default", `"attemptTimeout":null,"maxRequests":null,"avoidPreviousHosts":null,"cooldown":null,"failbackDelay":null`, features{}},

		{"attemptTimeout", `"attemptTimeout":"2s"`, limit(2 * time.Second)},
		{"attemptTimeout in snake case", `"attempt_timeout":"0.1s"`, limit(100 * time.Millisecond)},
		{"attemptTimeout of a nanosecond", `"attemptTimeout":"0.000000001s"`, limit(1)},
		{"attemptTimeout longer than Go can tell", `"attemptTimeout":"315576000000s"`, limit(math.MaxInt64)},

		{"maxRequests", `"maxRequests":1`, features{maxRequests: 1, guarded: true}},
		{"maxRequests, the most", `"max_requests":4294967295`, features{maxRequests: math.MaxUint32, guarded: true}},
		{"maxRequests as a string", `"maxRequests":"7"`, features{maxRequests: 7, guarded: true}},

		{"avoidPreviousHosts of zero", `"avoidPreviousHosts":0`, features{}},
		{"avoidPreviousHosts", `"avoidPreviousHosts":3`, features{avoidPreviousHosts: 3, guarded: true}},
		{"avoidPreviousHosts, the most", `"avoid_previous_hosts":64`, features{avoidPreviousHosts: 64, guarded: true}},

		{"cooldown, the least of it", `"cooldown":{"consecutiveFailures":5}`, cooldown(breaker.Config{Failures: 5, Codes: usual, Time: 10 * time.Second, MaxTime: 300 * time.Second})},
		{"cooldown, the defaults in full", `"cooldown":{"consecutiveFailures":5,"codes":["UNAVAILABLE","DEADLINE_EXCEEDED","RESOURCE_EXHAUSTED"],"time":"10s","maxTime":"300s"}`, cooldown(breaker.Config{Failures: 5, Codes: usual, Time: 10 * time.Second, MaxTime: 300 * time.Second})},
		{"cooldown, null is the default", `"cooldown":{"consecutive_failures":1,"codes":null,"time":null,"maxTime":null}`, cooldown(breaker.Config{Failures: 1, Codes: usual, Time: 10 * time.Second, MaxTime: 300 * time.Second})},
		{"cooldown, no code is the default", `"cooldown":{"consecutiveFailures":1,"codes":[]}`, cooldown(breaker.Config{Failures: 1, Codes: usual, Time: 10 * time.Second, MaxTime: 300 * time.Second})},
		{"cooldown, codes of its own", `"cooldown":{"consecutiveFailures":1,"codes":["INTERNAL","UNKNOWN","INTERNAL","UNAUTHENTICATED"]}`, cooldown(breaker.Config{Failures: 1, Codes: breaker.CodesOf(codes.Internal, codes.Unknown, codes.Unauthenticated), Time: 10 * time.Second, MaxTime: 300 * time.Second})},
		{"cooldown, times of its own", `"cooldown":{"consecutiveFailures":1,"time":"0.5s","max_time":"2s"}`, cooldown(breaker.Config{Failures: 1, Codes: usual, Time: 500 * time.Millisecond, MaxTime: 2 * time.Second})},
		{"cooldown, the same time twice", `"cooldown":{"consecutiveFailures":1,"time":"7s","maxTime":"7s"}`, cooldown(breaker.Config{Failures: 1, Codes: usual, Time: 7 * time.Second, MaxTime: 7 * time.Second})},
		{"cooldown, a time longer than the longest by default", `"cooldown":{"consecutiveFailures":1,"time":"400s"}`, cooldown(breaker.Config{Failures: 1, Codes: usual, Time: 400 * time.Second, MaxTime: 400 * time.Second})},
		{"cooldown, the most", `"cooldown":{"consecutiveFailures":4294967295,"time":"315576000000s"}`, cooldown(breaker.Config{Failures: math.MaxUint32, Codes: usual, Time: math.MaxInt64, MaxTime: math.MaxInt64})},

		{"failbackDelay of zero", `"failbackDelay":"0s"`, features{}},
		{"failbackDelay", `"failback_delay":"30s"`, features{failbackDelay: 30 * time.Second}},
		{"failbackDelay longer than Go can tell", `"failbackDelay":"315576000000s"`, features{failbackDelay: math.MaxInt64}},

		{"all at once", `"attemptTimeout":"1s","maxRequests":2,"avoidPreviousHosts":3,"cooldown":{"consecutiveFailures":4},"failbackDelay":"5s"`, features{
			attemptTimeout: &attempt.Limit{After: time.Second, Cluster: "a"}, maxRequests: 2, avoidPreviousHosts: 3, guarded: true, failbackDelay: 5 * time.Second,
			cooldown: &breaker.Config{Failures: 4, Codes: usual, Time: 10 * time.Second, MaxTime: 300 * time.Second},
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			cfg, unknown, err := parseConfig(json.RawMessage(withSettings(tc.fields)))
			if err != nil || len(unknown) > 0 {
				t.Fatalf("error %v, unknown fields %v", err, unknown)
			}
			c := cfg.clusters[0]
			got := features{c.attemptTimeout, c.maxRequests, c.avoidPreviousHosts, c.cooldown, c.failbackDelay, c.guarded()}
			if !reflect.DeepEqual(got, tc.want) {
				t.Errorf("%s:\ngot  %s\nwant %s", tc.fields, got, tc.want)
			}
			if want := c.avoidPreviousHosts > 0; cfg.noteHosts != want {
				t.Errorf("noteHosts is %v: want %v", cfg.noteHosts, want)
			}
		})
	}
}

func (f features) String() string {
	return fmt.Sprintf("%+v %d %d %+v %v %v", f.attemptTimeout, f.maxRequests, f.avoidPreviousHosts, f.cooldown, f.failbackDelay, f.guarded)
}

func TestParseProgression(t *testing.T) {
	for _, tc := range []struct {
		value string
		want  bool // NEXT_CLUSTER
	}{
		{`null`, false},
		{`"PROGRESSION_UNSPECIFIED"`, false},
		{`"ATTEMPT_COUNT"`, false},
		{`"NEXT_CLUSTER"`, true},
		{`0`, false},
		{`1`, false},
		{`2`, true},
	} {
		cfg, err := parse(`{"clusters":[{"name":"a"}],"progression":` + tc.value + `}`)
		if err != nil {
			t.Errorf("%s: %v", tc.value, err)
			continue
		}
		if cfg.nextCluster != tc.want {
			t.Errorf("%s: %v, want %v", tc.value, cfg.nextCluster, tc.want)
		}
	}
}
