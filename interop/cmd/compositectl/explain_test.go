package main

import (
	"fmt"
	"strings"
	"testing"
)

const assumed = `Assumed: the channel has composite.DialOptions, and nothing else retries. In the worst case each
attempt waits for each cluster that it comes to for the whole connectTimeout, and then for the
whole attemptTimeout of the slowest. An attemptTimeout ends with the response's header: only the
timeout limits an answer that has begun. For client and bidi streams it begins with the client's
half-close. Servers send no retry pushback, and nothing is retried transparently. The RPC's own
deadline, which is not known here, ends it in any case.
`

// nested is a cluster "n", with more fields, and a composite policy inside it.
func nested(more, policy, clusters string) string {
	return `{"name":"n","target":"unix:///n",` + more + `"childPolicy":[{"composite":{` + policy + `"clusters":[` + clusters + `]}}]}`
}

// weighted is a policy that sends RPCs to others.
func weighted(policies ...string) string {
	targets := make([]string, len(policies))
	for i, p := range policies {
		targets[i] = fmt.Sprintf(`"t%d":{"weight":1,"childPolicy":[%s]}`, i, p)
	}
	return `{"weighted_target_experimental":{"targets":{` + strings.Join(targets, ",") + `}}}`
}

func TestExplain(t *testing.T) {
	const retry = `"retryPolicy":{"maxAttempts":3,"initialBackoff":"0.1s","maxBackoff":"1s","backoffMultiplier":2,"retryableStatusCodes":["UNAVAILABLE","DEADLINE_EXCEEDED"]}`
	const bounded = `{"name":"a","attemptTimeout":"1s","connectTimeout":"0s"},{"name":"b","target":"unix:///b","attemptTimeout":"2s","connectTimeout":"3s","lazy":true,"maxRequests":7,"cooldown":{"consecutiveFailures":5},"childPolicy":[{"nothing":{}},{"pick_first":{}}]}`
	const slowest = `{"name":"a","attemptTimeout":"10s"},{"name":"b","target":"unix:///b","attemptTimeout":"1s","connectTimeout":"2s"}`
	for _, tc := range []struct{ name, config, want string }{
		{"an attempt that has no slot", `{"loadBalancingConfig":[{"composite":{"clusters":[` + bounded + `]}}],"methodConfig":[{"name":[{}],` + retry + `}]}`, `all methods (methodConfig[0])

  attempt 1 → a (the channel's own resolver, 1s timeout, 0s to connect)
       → if no host: b → if no host: the attempt fails with UNAVAILABLE
     │  after UNAVAILABLE or DEADLINE_EXCEEDED, and a back-off of 80ms to 120ms
  attempt 2 → b (unix:///b, 2s timeout, 3s to connect, lazy, at most 7 requests, rests after 5 failures in a row, pick_first)
       → if no host: the attempt fails with UNAVAILABLE
     │  after UNAVAILABLE or DEADLINE_EXCEEDED, and a back-off of 160ms to 240ms
  attempt 3 → no slot: the RPC ends with the status of the attempt before (overflow: FAIL)

  longest time, all clusters connected: 3.36s = 3s attempts + 360ms back-offs
  worst case:                           10.36s = 4s attempts + 6s connecting + 360ms back-offs

`},
		{"Envoy's way, and nothing skipped", `{"loadBalancingConfig":[{"composite":{"noHost":"FAIL_REQUEST","skipClustersWithoutHosts":false,"clusters":[` + bounded + `]}}],"methodConfig":[{"name":[{}],` + retry + `}]}`, `all methods (methodConfig[0])

  attempt 1 → a (the channel's own resolver, 1s timeout, 0s to connect)
       → if no host: the RPC ends with UNAVAILABLE
     │  after UNAVAILABLE or DEADLINE_EXCEEDED, and a back-off of 80ms to 120ms
  attempt 2 → b (unix:///b, 2s timeout, 3s to connect, lazy, at most 7 requests, rests after 5 failures in a row, pick_first)
       → if no host: the RPC ends with UNAVAILABLE
     │  after UNAVAILABLE or DEADLINE_EXCEEDED, and a back-off of 160ms to 240ms
  attempt 3 → no slot: the RPC ends with UNAVAILABLE (overflow: FAIL)

  longest time, all clusters connected: 3.36s = 3s attempts + 360ms back-offs
  worst case:                           6.36s = 3s attempts + 3s connecting + 360ms back-offs

`},
		{"overflow, the next cluster and a timeout", `{"loadBalancingConfig":[{"composite":{"progression":"NEXT_CLUSTER","overflow":"USE_LAST_CLUSTER","clusters":[` + bounded + `]}}],"methodConfig":[{"name":[{"service":"p.S"},{"service":"p.T","method":"M"}],"timeout":"4s",` + retry + `}]}`, `p.S, p.T/M (methodConfig[0])

  attempt 1 → a (the channel's own resolver, 1s timeout, 0s to connect)
       → if no host: b → if no host: the attempt fails with UNAVAILABLE
     │  after UNAVAILABLE or DEADLINE_EXCEEDED, and a back-off of 80ms to 120ms
  attempt 2 → b (unix:///b, 2s timeout, 3s to connect, lazy, at most 7 requests, rests after 5 failures in a row, pick_first)
       → if no host: the attempt fails with UNAVAILABLE
       (or later: progression NEXT_CLUSTER starts after the last slot that was used;
        or earlier, if an attempt found no host and so used no slot)
     │  after UNAVAILABLE or DEADLINE_EXCEEDED, and a back-off of 160ms to 240ms
  attempt 3 → b (unix:///b, 2s timeout, 3s to connect, lazy, at most 7 requests, rests after 5 failures in a row, pick_first) (overflow: USE_LAST_CLUSTER)
       → if no host: the attempt fails with UNAVAILABLE
       (or later: progression NEXT_CLUSTER starts after the last slot that was used;
        or earlier, if an attempt found no host and so used no slot)

  longest time, all clusters connected: 4s, the entry's timeout; without it 5.36s = 5s attempts + 360ms back-offs
  worst case:                           4s, the entry's timeout; without it 15.36s = 6s attempts + 9s connecting + 360ms back-offs

all methods that no entry of methodConfig names

  attempt 1 → a (the channel's own resolver, 1s timeout, 0s to connect)
       → if no host: b → if no host: the attempt fails with UNAVAILABLE
     no retry policy: no other attempt follows

  longest time, all clusters connected: 1s = 1s attempts
  worst case:                           5s = 2s attempts + 3s connecting

`},
		{"the next cluster, and more attempts than slots", `{"loadBalancingConfig":[{"composite":{"progression":"NEXT_CLUSTER","clusters":[` + slowest + `]}}],"methodConfig":[{"name":[{}],` + strings.Replace(retry, "3", "5", 1) + `}]}`, `all methods (methodConfig[0])

  attempt 1 → a (the channel's own resolver, 10s timeout, 1s to connect)
       → if no host: b → if no host: the attempt fails with UNAVAILABLE
     │  after UNAVAILABLE or DEADLINE_EXCEEDED, and a back-off of 80ms to 120ms
  attempt 2 → b (unix:///b, 1s timeout, 2s to connect)
       → if no host: the attempt fails with UNAVAILABLE
       (or later: progression NEXT_CLUSTER starts after the last slot that was used;
        or earlier, if an attempt found no host and so used no slot)
     │  after UNAVAILABLE or DEADLINE_EXCEEDED, and a back-off of 160ms to 240ms
  attempt 3 → no slot: the RPC ends with the status of the attempt before (overflow: FAIL)
       (or earlier, if an attempt found no host and so used no slot;
        an RPC then has up to 5 attempts)

  longest time, all clusters connected: 11.36s = 11s attempts + 360ms back-offs
  worst case:                           56.8s = 50s attempts + 5s connecting + 1.8s back-offs

`},
		{"the next cluster, and attempts that wait for a host", `{"loadBalancingConfig":[{"composite":{"progression":"NEXT_CLUSTER","clusters":[` + slowest + `]}}],"methodConfig":[{"name":[{}],"waitForReady":true,` + strings.Replace(retry, "3", "5", 1) + `}]}`, `all methods (methodConfig[0])

  attempt 1 → a (the channel's own resolver, 10s timeout, 1s to connect)
       → if no host: b → if no host: the RPC waits (waitForReady)
     │  after UNAVAILABLE or DEADLINE_EXCEEDED, and a back-off of 80ms to 120ms
  attempt 2 → b (unix:///b, 1s timeout, 2s to connect)
       → if no host: the RPC waits (waitForReady)
       (or later: progression NEXT_CLUSTER starts after the last slot that was used)
     │  after UNAVAILABLE or DEADLINE_EXCEEDED, and a back-off of 160ms to 240ms
  attempt 3 → no slot: the RPC ends with the status of the attempt before (overflow: FAIL)

  longest time, all clusters connected: 11.36s = 11s attempts + 360ms back-offs
  worst case:                           unbounded (it waits for ready, and no timeout)

`},
		{"the next cluster, and nothing skipped", `{"loadBalancingConfig":[{"composite":{"progression":"NEXT_CLUSTER","skipClustersWithoutHosts":false,"clusters":[` + slowest + `]}}],"methodConfig":[{"name":[{}],` + retry + `}]}`, `all methods (methodConfig[0])

  attempt 1 → a (the channel's own resolver, 10s timeout, 1s to connect)
       → if no host: the attempt fails with UNAVAILABLE
     │  after UNAVAILABLE or DEADLINE_EXCEEDED, and a back-off of 80ms to 120ms
  attempt 2 → b (unix:///b, 1s timeout, 2s to connect)
       → if no host: the attempt fails with UNAVAILABLE
     │  after UNAVAILABLE or DEADLINE_EXCEEDED, and a back-off of 160ms to 240ms
  attempt 3 → no slot: the RPC ends with the status of the attempt before (overflow: FAIL)

  longest time, all clusters connected: 11.36s = 11s attempts + 360ms back-offs
  worst case:                           14.36s = 11s attempts + 3s connecting + 360ms back-offs

`},
		{"the next cluster, Envoy's way", `{"loadBalancingConfig":[{"composite":{"progression":"NEXT_CLUSTER","noHost":"FAIL_REQUEST","clusters":[` + slowest + `]}}],"methodConfig":[{"name":[{}],` + retry + `}]}`, `all methods (methodConfig[0])

  attempt 1 → a (the channel's own resolver, 10s timeout, 1s to connect)
       → if no host: b → if no host: the RPC ends with UNAVAILABLE
     │  after UNAVAILABLE or DEADLINE_EXCEEDED, and a back-off of 80ms to 120ms
  attempt 2 → b (unix:///b, 1s timeout, 2s to connect)
       → if no host: the RPC ends with UNAVAILABLE
       (or later: progression NEXT_CLUSTER starts after the last slot that was used)
     │  after UNAVAILABLE or DEADLINE_EXCEEDED, and a back-off of 160ms to 240ms
  attempt 3 → no slot: the RPC ends with UNAVAILABLE (overflow: FAIL)

  longest time, all clusters connected: 11.36s = 11s attempts + 360ms back-offs
  worst case:                           14.36s = 11s attempts + 3s connecting + 360ms back-offs

`},
		{"the next cluster, Envoy's way and from the start again", `{"loadBalancingConfig":[{"composite":{"progression":"NEXT_CLUSTER","noHost":"FAIL_REQUEST","overflow":"ROUND_ROBIN","clusters":[` + slowest + `]}}],"methodConfig":[{"name":[{}],` + strings.Replace(retry, "3", "2", 1) + `}]}`, `all methods (methodConfig[0])

  attempt 1 → a (the channel's own resolver, 10s timeout, 1s to connect)
       → if no host: b → if no host: the RPC ends with UNAVAILABLE
     │  after UNAVAILABLE or DEADLINE_EXCEEDED, and a back-off of 80ms to 120ms
  attempt 2 → b (unix:///b, 1s timeout, 2s to connect)
       → if no host: the RPC ends with UNAVAILABLE
       (or later: progression NEXT_CLUSTER starts after the last slot that was used)

  longest time, all clusters connected: 11.12s = 11s attempts + 120ms back-offs
  worst case:                           22.12s = 20s attempts + 2s connecting + 120ms back-offs

`},
		{"composite inside composite", `{"loadBalancingConfig":[{"composite":{"clusters":[` + nested("", "", `{"name":"c","attemptTimeout":"2s"},{"name":"d","attemptTimeout":"30s"}`) + `,{"name":"b","target":"unix:///b","attemptTimeout":"1s"},{"name":"n"}]}}],"methodConfig":[{"name":[{}],` + retry + `}]}`, `all methods (methodConfig[0])

  attempt 1 → n (unix:///n, no timeout of its own, 1s to connect, composite)
       → if no host: b → if no host: the attempt fails with UNAVAILABLE
     │  after UNAVAILABLE or DEADLINE_EXCEEDED, and a back-off of 80ms to 120ms
  attempt 2 → b (unix:///b, 1s timeout, 1s to connect)
       → if no host: n → if no host: the attempt fails with UNAVAILABLE
     │  after UNAVAILABLE or DEADLINE_EXCEEDED, and a back-off of 160ms to 240ms
  attempt 3 → n (unix:///n, no timeout of its own, 1s to connect, composite)
       → if no host: the attempt fails with UNAVAILABLE

  longest time, all clusters connected: 3.36s = 3s attempts + 360ms back-offs
  worst case:                           1m7.36s = 1m0s attempts + 7s connecting + 360ms back-offs

`},
		{"composite inside composite, with a limit around it", `{"loadBalancingConfig":[{"composite":{"clusters":[` + nested(`"attemptTimeout":"3s",`, "", `{"name":"c","attemptTimeout":"2s"},{"name":"d"}`) + `,{"name":"n"}]}}],"methodConfig":[{"name":[{}],` + strings.Replace(retry, "3", "2", 1) + `}]}`, `all methods (methodConfig[0])

  attempt 1 → n (unix:///n, 3s timeout, 1s to connect, composite)
       → if no host: the attempt fails with UNAVAILABLE
     │  after UNAVAILABLE or DEADLINE_EXCEEDED, and a back-off of 80ms to 120ms
  attempt 2 → n (unix:///n, 3s timeout, 1s to connect, composite)
       → if no host: the attempt fails with UNAVAILABLE

  longest time, all clusters connected: 5.12s = 5s attempts + 120ms back-offs
  worst case:                           11.12s = 6s attempts + 5s connecting + 120ms back-offs

`},
		{"composite inside composite, without a limit inside", `{"loadBalancingConfig":[{"composite":{"clusters":[` + nested("", "", `{"name":"c","attemptTimeout":"2s"},{"name":"d"}`) + `]}}]}`, `all methods

  attempt 1 → n (unix:///n, no timeout of its own, 1s to connect, composite)
       → if no host: the attempt fails with UNAVAILABLE
     no retry policy: no other attempt follows

  longest time, all clusters connected: 2s = 2s attempts
  worst case:                           unbounded (no attemptTimeout of d inside n, and no timeout)

`},
		{"composite inside composite, after the last slot that was used", `{"loadBalancingConfig":[{"composite":{"clusters":[{"name":"a","attemptTimeout":"1s"},` + nested("", `"progression":"NEXT_CLUSTER","skipClustersWithoutHosts":false,`, `{"name":"c","attemptTimeout":"10s"},{"name":"d","attemptTimeout":"2s"},{"name":"e"}`) + `]}}],"methodConfig":[{"name":[{}],` + strings.Replace(retry, "3", "2", 1) + `}]}`, `all methods (methodConfig[0])

  attempt 1 → a (the channel's own resolver, 1s timeout, 1s to connect)
       → if no host: n → if no host: the attempt fails with UNAVAILABLE
     │  after UNAVAILABLE or DEADLINE_EXCEEDED, and a back-off of 80ms to 120ms
  attempt 2 → n (unix:///n, no timeout of its own, 1s to connect, composite)
       → if no host: the attempt fails with UNAVAILABLE

  longest time, all clusters connected: 11.12s = 11s attempts + 120ms back-offs
  worst case:                           25.12s = 20s attempts + 5s connecting + 120ms back-offs

`},
		{"composite inside another policy", `{"loadBalancingConfig":[{"composite":{"clusters":[{"name":"a","target":"unix:///a","childPolicy":[` +
			weighted(`{"composite":{"clusters":[{"name":"c","attemptTimeout":"2s"},{"name":"d","attemptTimeout":"3s"}]}}`, `{"composite":{"clusters":[{"name":"e","attemptTimeout":"5s","connectTimeout":"9s"}]}}`) +
			`]},{"name":"a"},{"name":"b","target":"unix:///b","attemptTimeout":"4s"}]}}],"methodConfig":[{"name":[{}],` + strings.Replace(retry, "3", "2", 1) + `}]}`, `all methods (methodConfig[0])

  attempt 1 → a (unix:///a, no timeout of its own, 1s to connect, weighted_target_experimental)
       → if no host: b → if no host: the attempt fails with UNAVAILABLE
     │  after UNAVAILABLE or DEADLINE_EXCEEDED, and a back-off of 80ms to 120ms
  attempt 2 → a (unix:///a, no timeout of its own, 1s to connect, weighted_target_experimental)
       → if no host: b → if no host: the attempt fails with UNAVAILABLE

  longest time, all clusters connected: 9.12s = 9s attempts + 120ms back-offs
  worst case:                           22.12s = 8s attempts + 14s connecting + 120ms back-offs

`},
		{"composite inside another policy, and one that is not", `{"loadBalancingConfig":[{"composite":{"clusters":[{"name":"a","target":"unix:///a","childPolicy":[` +
			weighted(`{"composite":{"clusters":[{"name":"c","attemptTimeout":"2s"}]}}`, `{"outlier_detection_experimental":{"childPolicy":[{"round_robin":{}}]}}`) + `]}]}}]}`, `all methods

  attempt 1 → a (unix:///a, no timeout, 1s to connect, weighted_target_experimental)
       → if no host: the attempt fails with UNAVAILABLE
     no retry policy: no other attempt follows

  longest time, all clusters connected: unbounded (no attemptTimeout of a, and no timeout)
  worst case:                           unbounded (no attemptTimeout of a, and no timeout)

`},
		{"composite inside another policy, in part without a limit", `{"loadBalancingConfig":[{"composite":{"clusters":[{"name":"a","target":"unix:///a","childPolicy":[` +
			weighted(`{"composite":{"clusters":[{"name":"c","attemptTimeout":"2s"}]}}`, `{"composite":{"clusters":[{"name":"d"}]}}`) + `]}]}}]}`, `all methods

  attempt 1 → a (unix:///a, no timeout of its own, 1s to connect, weighted_target_experimental)
       → if no host: the attempt fails with UNAVAILABLE
     no retry policy: no other attempt follows

  longest time, all clusters connected: unbounded (no attemptTimeout of d inside a, and no timeout)
  worst case:                           unbounded (no attemptTimeout of d inside a, and no timeout)

`},
		{"a cluster that comes again", `{"loadBalancingConfig":[{"composite":{"clusters":[` + bounded + `,{"name":"a"}]}}],"methodConfig":[{"name":[{}],` + strings.Replace(retry, "3", "2", 1) + `}]}`, `all methods (methodConfig[0])

  attempt 1 → a (the channel's own resolver, 1s timeout, 0s to connect)
       → if no host: b → if no host: the attempt fails with UNAVAILABLE
     │  after UNAVAILABLE or DEADLINE_EXCEEDED, and a back-off of 80ms to 120ms
  attempt 2 → b (unix:///b, 2s timeout, 3s to connect, lazy, at most 7 requests, rests after 5 failures in a row, pick_first)
       → if no host: a → if no host: the attempt fails with UNAVAILABLE

  longest time, all clusters connected: 3.12s = 3s attempts + 120ms back-offs
  worst case:                           10.12s = 4s attempts + 6s connecting + 120ms back-offs

`},
		{"a cluster that waits to connect and comes again", `{"loadBalancingConfig":[{"composite":{"clusters":[{"name":"a","attemptTimeout":"1s"},{"name":"a"}]}}]}`, `all methods

  attempt 1 → a (the channel's own resolver, 1s timeout, 1s to connect)
       → if no host: the attempt fails with UNAVAILABLE
     no retry policy: no other attempt follows

  longest time, all clusters connected: 1s = 1s attempts
  worst case:                           2s = 1s attempts + 1s connecting

`},
		{"no limit", `{"loadBalancingConfig":[{"composite":{"clusters":[{"name":"a"},{"name":"b","target":"unix:///b","attempts":2,"attemptTimeout":"1s"}]}}],"methodConfig":[{"name":[{}],"waitForReady":true}]}`, `all methods (methodConfig[0])

  attempt 1 → a (the channel's own resolver, no timeout, 1s to connect)
       → if no host: b → if no host: the RPC waits (waitForReady)
     no retry policy: no other attempt follows

  longest time, all clusters connected: unbounded (no attemptTimeout of a, and no timeout)
  worst case:                           unbounded (no attemptTimeout of a; it waits for ready, and no timeout)

`},
		{"no limit but a timeout", `{"loadBalancingConfig":[{"composite":{"clusters":[{"name":"a\tb"}]}}],"methodConfig":[{"name":[{}],"timeout":"0.5s"}]}`, `all methods (methodConfig[0])

  attempt 1 → "a\tb" (the channel's own resolver, no timeout, 1s to connect)
       → if no host: the attempt fails with UNAVAILABLE
     no retry policy: no other attempt follows

  longest time, all clusters connected: 500ms, the entry's timeout; without it unbounded (no attemptTimeout of "a\tb")
  worst case:                           500ms, the entry's timeout; without it unbounded (no attemptTimeout of "a\tb")

`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := runWith(tc.config, "explain", "-")
			got.errs = ""
			got.wants(t, ran{0, tc.want + assumed, ""})
		})
	}
}

func TestExplainBadInput(t *testing.T) {
	for _, tc := range []struct{ name, config, want string }{
		{"no JSON", `{`, "must be valid JSON: line 1, column 1: unexpected end of JSON input"},
		{"refused as a whole", `[]`, "gRPC-Go refuses the service config: []: must be an object"},
		{"refused", `{"methodConfig":3}`, "gRPC-Go refuses the service config: methodConfig: 3: must be a list"},
		{"refused by the policy", `{"loadBalancingConfig":[{"composite":{"clusters":[{}]}}]}`, `gRPC-Go refuses the service config: loadBalancingConfig[0].composite: composite: clusters[0].name: "": must not be empty`},
		{"no policies", `{}`, `there is no loadBalancingConfig, so the policy "composite" is not in use`},
		{"another policy", `{"loadBalancingConfig":[{"pick_first":{}}]}`, `the policy in use is "pick_first" and not "composite"`},
		{"where the policy around it does not look", `{"loadBalancingConfig":[{"pick_first":{"childPolicy":[{"composite":{}}]}}]}`, `the policy in use is "pick_first" and not "composite"`},
		{"too deep", strings.Repeat("[", 101), `it has more than 100 objects and lists in one another, and is not looked into`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := runWith(tc.config, "explain", "-")
			got.wants(t, ran{1, "", "compositectl explain: standard input: " + tc.want + "\n"})
		})
	}
}

// TestExplainMuch checks that many policies and many methods do not multiply.
func TestExplainMuch(t *testing.T) {
	var targets, methods []string
	for i := range 1000 {
		targets = append(targets, fmt.Sprintf(`"t%d":{"weight":1,"childPolicy":[{"composite":{"clusters":[{"name":"a"}]}}]}`, i))
		methods = append(methods, fmt.Sprintf(`{"name":[{"service":"s%d"}]}`, i))
	}
	got := runWith(fmt.Sprintf(`{"loadBalancingConfig":[{"weighted_target_experimental":{"targets":{%s}}}],"methodConfig":[%s]}`,
		strings.Join(targets, ","), strings.Join(methods, ",")), "explain", "-")
	if size := len(got.out); size < 1<<20 || size > 2<<20 || !strings.Contains(got.out, "\nThere is more to say than this, and it is left out.\n\nAssumed:") || got.code != 0 {
		t.Errorf("it ends with %d and prints %d bytes, which end with %q", got.code, size, got.out[max(0, size-2000):])
	}
}

// TestExplainLints checks that what lint finds is said besides.
func TestExplainLints(t *testing.T) {
	got := runWith(errored, "explain", "-")
	if !strings.Contains(got.errs, "\ncompositectl lint says of it:\nstandard input: error: methodConfig\n") || got.code != 0 {
		t.Errorf("it ends with %d and says %q", got.code, got.errs)
	}
}
