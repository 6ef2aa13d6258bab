package composite

import (
	"encoding/json"
	"net/url"
	"reflect"
	"testing"

	"google.golang.org/grpc/resolver"
)

// retries is the method config with a retry policy of that many attempts.
func retries(attempts, retryOn string) string {
	return `"methodConfig":[{"name":[{}],"retryPolicy":{"maxAttempts":` + attempts +
		`,"initialBackoff":"0.001s","maxBackoff":"0.010s","backoffMultiplier":2,"retryableStatusCodes":[` + retryOn + `]}}]`
}

func TestServiceConfig(t *testing.T) {
	for _, tc := range []struct{ name, input, policy, rest string }{
		{
			name: "one slot has no retry policy", input: "composite:///a=x:1",
			policy: `{"clusters":[{"name":"a","target":"x:1"}]}`,
		},
		{
			name: "a retry policy of as many attempts as there are clusters", input: "composite:///a=x:1,y:1,c=z:1",
			policy: `{"clusters":[{"name":"a","target":"x:1"},{"name":"y:1","target":"y:1"},{"name":"c","target":"z:1"}]}`,
			rest:   retries("3", `"UNAVAILABLE"`),
		},
		{
			name: "attempts of one cluster", input: "composite:///a=x:1?attempts=3",
			policy: `{"clusters":[{"name":"a","target":"x:1","attempts":3}]}`,
			rest:   retries("3", `"UNAVAILABLE"`),
		},
		{
			name: "attempts of each cluster", input: "composite:///a,b?attempts=2",
			policy: `{"clusters":[{"name":"a","target":"a","attempts":2},{"name":"b","target":"b","attempts":2}]}`,
			rest:   retries("4", `"UNAVAILABLE"`),
		},
		{
			name: "a repeated cluster has its settings once", input: "composite:///a,b,a?policy=pick_first&connectTimeout=0s&attempts=2",
			policy: `{"clusters":[
				{"name":"a","target":"a","childPolicy":[{"pick_first":{}}],"connectTimeout":"0.000000000s","attempts":2},
				{"name":"b","target":"b","childPolicy":[{"pick_first":{}}],"connectTimeout":"0.000000000s","attempts":2},
				{"name":"a","attempts":2}]}`,
			rest: retries("6", `"UNAVAILABLE"`),
		},
		{
			name: "retryOn", input: "composite:///a,b?retryOn=RESOURCE_EXHAUSTED,ABORTED",
			policy: `{"clusters":[{"name":"a","target":"a"},{"name":"b","target":"b"}]}`,
			rest:   retries("2", `"RESOURCE_EXHAUSTED","ABORTED"`),
		},
		{
			name: "an attemptTimeout is retried", input: "composite:///a,b?attemptTimeout=1.5s",
			policy: `{"clusters":[{"name":"a","target":"a","attemptTimeout":"1.500000000s"},{"name":"b","target":"b","attemptTimeout":"1.500000000s"}]}`,
			rest:   retries("2", `"UNAVAILABLE","DEADLINE_EXCEEDED"`),
		},
		{
			name: "an attemptTimeout is not retried if retryOn says so", input: "composite:///a,b?attemptTimeout=1ns&retryOn=UNAVAILABLE",
			policy: `{"clusters":[{"name":"a","target":"a","attemptTimeout":"0.000000001s"},{"name":"b","target":"b","attemptTimeout":"0.000000001s"}]}`,
			rest:   retries("2", `"UNAVAILABLE"`),
		},
		{
			name: "the longest duration keeps its nanoseconds", input: "composite:///a?connectTimeout=9223372036854775807ns",
			policy: `{"clusters":[{"name":"a","target":"a","connectTimeout":"9223372036.854775807s"}]}`,
		},
		{
			name: "overflow", input: "composite:///a?overflow=USE_LAST_CLUSTER",
			policy: `{"clusters":[{"name":"a","target":"a"}],"overflow":"USE_LAST_CLUSTER"}`,
		},
		{
			name: "text that JSON escapes", input: "composite:///a=unix:/%22%5C%3C",
			policy: `{"clusters":[{"name":"a","target":"unix:/\"\\<"}]}`,
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			s, err := parseText(t, tc.input)
			if err != nil {
				t.Fatal(err)
			}
			got, err := s.serviceConfig()
			if err != nil {
				t.Fatal(err)
			}
			want := `{"loadBalancingConfig":[{"composite":` + tc.policy + `}]`
			if tc.rest != "" {
				want += "," + tc.rest
			}
			if !reflect.DeepEqual(decode(t, got), decode(t, want+"}")) {
				t.Errorf("service config %s: want %s}", got, want)
			}
			acceptedByGRPC(t, s)
		})
	}
}

func decode(t *testing.T, text string) any {
	t.Helper()
	var v any
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return v
}

func TestAuthorityOfTheChannel(t *testing.T) {
	for _, tc := range []struct{ name, input, want string }{
		{"no clusters", "composite:///", "localhost"},
		{"the first cluster's", "composite:///a=dns:///a.example:443,b.example:443", "a.example:443"},
		{"a port alone", "composite:///:443,b.example:443", "localhost:443"},
		{"a socket", "composite:///unix:/x,b.example:443", "localhost"},
		{"a cluster without one", "composite:///passthrough:///,b.example:443", "localhost"},
		{"an error", "composite:///a.example:443,", "localhost"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			u, err := url.Parse(tc.input)
			if err != nil {
				t.Fatal(err)
			}
			if got := (builder{}).OverrideAuthority(resolver.Target{URL: *u}); got != tc.want {
				t.Errorf("%s is called %q: want %q", tc.input, got, tc.want)
			}
		})
	}
}
