package composite

const (
	lintTimed   = `{"name":"a","attemptTimeout":"2s"},{"name":"b","target":"dns:///b:1","attemptTimeout":"1s"},{"name":"c","target":"dns:///c:1","attemptTimeout":"5s"}`
	lintStarved = `it counts for the whole channel: while every attempt on "a" fails with a retryable code, gRPC-Go stops retrying at RPC `
	lintOthers  = ` in a row, and RPCs fail although other clusters could serve them`
)

// lintNested is a cluster "n", with more fields, and a composite policy inside it.
func lintNested(more, inner string) string {
	return `{"name":"n","target":"passthrough:///n",` + more + `"childPolicy":[{"composite":` + inner + `}]}`
}

// lintInner is a policy for two attempts, of which "c" has the shorter timeout.
const lintInner = `{"clusters":[{"name":"c","target":"dns:///c:1","attemptTimeout":"0.2s"},{"name":"d","target":"dns:///d:1","attemptTimeout":"3s"}]}`

// throttled is a config with as many attempts as slots and this throttling.
func throttled(clusters string, attempts int, throttling string) string {
	return lintConfig(clusters, "", `,"methodConfig":[{"name":[{}],`+retryPolicy(attempts)+`}],"retryThrottling":`+throttling)
}

var lintTimeCases = []lintCase{
	{"attempt timeouts that are retried", retried(lintTimed, "", retryPolicy(3, "UNAVAILABLE", "DEADLINE_EXCEEDED")), nil},
	{"attempt timeouts that are not", retried(lintTimed, "", retryPolicy(3)), []Finding{
		{Error, "methodConfig[0].retryPolicy.retryableStatusCodes", `an attempt on "a" that takes longer than its attemptTimeout of 2s ends the RPC with DEADLINE_EXCEEDED, which is not listed, and no other cluster is tried`, `add "DEADLINE_EXCEEDED"`},
		{Error, "methodConfig[0].retryPolicy.retryableStatusCodes", `an attempt on "b" that takes longer than its attemptTimeout of 1s ends the RPC with DEADLINE_EXCEEDED, which is not listed, and no other cluster is tried`, `add "DEADLINE_EXCEEDED"`},
	}},
	{"an attempt timeout of the last cluster alone", retried(`{"name":"a"},{"name":"b","target":"dns:///b:1","attemptTimeout":"1s"}`, "", retryPolicy(2)), nil},
	{"an attempt timeout of the last cluster, which comes again", retried(`{"name":"a","attempts":1,"attemptTimeout":"1s"}`, `,"overflow":"USE_LAST_CLUSTER"`, retryPolicy(2)), []Finding{
		{Error, "methodConfig[0].retryPolicy.retryableStatusCodes", `an attempt on "a" that takes longer than its attemptTimeout of 1s ends the RPC with DEADLINE_EXCEEDED, which is not listed, and no other cluster is tried`, `add "DEADLINE_EXCEEDED"`},
	}},
	{"an attempt timeout inside", retried(lintNested("", lintInner)+`,{"name":"b","target":"dns:///b:1"}`, "", retryPolicy(2)), []Finding{
		{Error, "methodConfig[0].retryPolicy.retryableStatusCodes", `an attempt on "c" inside "n" that takes longer than its attemptTimeout of 200ms ends the RPC with DEADLINE_EXCEEDED, which is not listed, and no other cluster is tried`, `add "DEADLINE_EXCEEDED"`},
	}},
	{"an attempt timeout inside that is retried", retried(lintNested("", lintInner)+`,{"name":"b","target":"dns:///b:1"}`, "", retryPolicy(2, "UNAVAILABLE", "DEADLINE_EXCEEDED")), nil},
	{"an attempt timeout inside a policy inside", retried(lintNested("", `{"clusters":[{"name":"x","childPolicy":[{"weighted_target_experimental":{"targets":{"one":{"weight":1,"childPolicy":[{"composite":`+lintInner+`}]}}}}]}]}`)+`,{"name":"b","target":"dns:///b:1"}`, "", retryPolicy(2)), []Finding{
		{Error, "methodConfig[0].retryPolicy.retryableStatusCodes", `an attempt on "c" inside "n" that takes longer than its attemptTimeout of 200ms ends the RPC with DEADLINE_EXCEEDED, which is not listed, and no other cluster is tried`, `add "DEADLINE_EXCEEDED"`},
	}},
	{"an attempt timeout inside that is longer", retried(lintNested(`"attemptTimeout":"0.1s",`, lintInner)+`,{"name":"b","target":"dns:///b:1"}`, "", retryPolicy(2)), []Finding{
		{Error, "methodConfig[0].retryPolicy.retryableStatusCodes", `an attempt on "n" that takes longer than its attemptTimeout of 100ms ends the RPC with DEADLINE_EXCEEDED, which is not listed, and no other cluster is tried`, `add "DEADLINE_EXCEEDED"`},
	}},
	{"an attempt timeout inside, of another attempt", retried(`{"name":"a"},`+lintNested(`"attemptTimeout":"5s",`, lintInner)+`,{"name":"b","target":"dns:///b:1"}`, "", retryPolicy(3)), []Finding{
		{Error, "methodConfig[0].retryPolicy.retryableStatusCodes", `an attempt on "d" inside "n" that takes longer than its attemptTimeout of 3s ends the RPC with DEADLINE_EXCEEDED, which is not listed, and no other cluster is tried`, `add "DEADLINE_EXCEEDED"`},
	}},
	{"an attempt timeout inside that no attempt comes to", retried(`{"name":"a"},`+lintNested("", `{"clusters":[{"name":"c","attemptTimeout":"1s"},{"name":"d"}]}`)+`,{"name":"b","target":"dns:///b:1"}`, "", retryPolicy(3)), nil},
	{"an attempt timeout inside, which starts at its first slot", retried(`{"name":"a"},`+lintNested("", `{"progression":"NEXT_CLUSTER","clusters":[{"name":"c","attemptTimeout":"1s"},{"name":"d"}]}`)+`,{"name":"b","target":"dns:///b:1"}`, "", retryPolicy(3)), []Finding{
		{Error, "methodConfig[0].retryPolicy.retryableStatusCodes", `an attempt on "c" inside "n" that takes longer than its attemptTimeout of 1s ends the RPC with DEADLINE_EXCEEDED, which is not listed, and no other cluster is tried`, `add "DEADLINE_EXCEEDED"`},
	}},
	{"an attempt timeout inside, shorter the second time", retried(`{"name":"n","attempts":2,"target":"passthrough:///n","childPolicy":[{"composite":{"skipClustersWithoutHosts":false,"clusters":[{"name":"c","attemptTimeout":"2s"},{"name":"d","attemptTimeout":"1s"}]}}]},{"name":"b","target":"dns:///b:1"}`, "", retryPolicy(3)), []Finding{
		{Error, "methodConfig[0].retryPolicy.retryableStatusCodes", `an attempt on "d" inside "n" that takes longer than its attemptTimeout of 1s ends the RPC with DEADLINE_EXCEEDED, which is not listed, and no other cluster is tried`, `add "DEADLINE_EXCEEDED"`},
	}},

	{"long back-offs", retried(lintABC, "", backoffPolicy(3, "0.5s", "10s", 2)), []Finding{
		{Warning, "methodConfig[0].retryPolicy", "the back-offs before 2 retries can add up to 1.8s, in which nothing is tried", quick}}},
	{"one long back-off", retried(lintAB, "", backoffPolicy(2, "0.9s", "10s", 2)), []Finding{
		{Warning, "methodConfig[0].retryPolicy", "the back-offs before 1 retry can add up to 1.08s, in which nothing is tried", quick}}},
	{"back-offs of a second", retried(lintAB, "", backoffPolicy(2, "0.8s", "10s", 2)), nil},
	{"long back-offs, but a low limit", retried(lintABC, "", backoffPolicy(3, "5s", "0.4s", 2)), nil},
	{"the back-off before the attempt that has no slot", retried(lintAB, "", backoffPolicy(5, "0.3s", "10s", 2)), []Finding{
		{Warning, "methodConfig[0].retryPolicy.maxAttempts", `it is 5, and the clusters have 2 slots: attempt 3 has no slot and ends the RPC with the status of the one before, after another back-off`, tooMany},
		{Warning, "methodConfig[0].retryPolicy", "the back-offs before 2 retries can add up to 1.08s, in which nothing is tried", quick}}},
	{"the back-offs before attempts that may have a slot", retried(lintAB, `,"progression":"NEXT_CLUSTER"`, backoffPolicy(4, "0.3s", "10s", 2)), []Finding{
		{Warning, "methodConfig[0].retryPolicy.maxAttempts", `it is 4, and the clusters have 2 slots: attempt 3 has no slot, unless an attempt before found no host, and ends the RPC with the status of the one before, after another back-off`, tooMany},
		{Warning, "methodConfig[0].retryPolicy", "the back-offs before 3 retries can add up to 2.52s, in which nothing is tried", quick}}},
	{"the back-offs before attempts that have none, since RPCs wait", retried(lintAB, `,"progression":"NEXT_CLUSTER"`, `"waitForReady":true,`+backoffPolicy(4, "0.3s", "10s", 2)), []Finding{
		{Warning, "methodConfig[0].retryPolicy.maxAttempts", `it is 4, and the clusters have 2 slots: attempt 3 has no slot and ends the RPC with the status of the one before, after another back-off`, tooMany},
		{Warning, "methodConfig[0].retryPolicy", "the back-offs before 2 retries can add up to 1.08s, in which nothing is tried", quick}}},
	{"back-offs without an end", retried(lintAB, `,"overflow":"ROUND_ROBIN"`, backoffPolicy(64, "315576000000s", "315576000000s", 1e300)), []Finding{
		{Warning, "methodConfig[0].retryPolicy", "the back-offs before 63 retries can add up to 2562047h47m16.854775807s, in which nothing is tried", quick}}},

	{"a timeout shorter than the attempts before the last", retried(lintTimed, "", `"timeout":"3s",`+retryPolicy(3, "UNAVAILABLE", "DEADLINE_EXCEEDED")), []Finding{
		{Warning, "methodConfig[0].timeout", `it is 3s, and the attemptTimeouts before slot 3 ("c") add up to 3s, with back-offs of at least 2.4ms: if those attempts time out, the RPC ends before that one has its turn`, `make it longer, or the attemptTimeouts before "c" shorter`}}},
	{"a timeout shorter than an attempt inside", retried(lintNested(`"attemptTimeout":"9s",`, lintInner)+`,{"name":"b","target":"dns:///b:1"}`, "", `"timeout":"0.2s",`+retryPolicy(2, "UNAVAILABLE", "DEADLINE_EXCEEDED")), []Finding{
		{Warning, "methodConfig[0].timeout", `it is 200ms, and the attemptTimeouts before slot 2 ("b") add up to 200ms, with back-offs of at least 800µs: if those attempts time out, the RPC ends before that one has its turn`, `make it longer, or the attemptTimeouts before "b" shorter`}}},
	{"a timeout longer than an attempt inside", retried(lintNested(`"attemptTimeout":"9s",`, lintInner)+`,{"name":"b","target":"dns:///b:1"}`, "", `"timeout":"0.3s",`+retryPolicy(2, "UNAVAILABLE", "DEADLINE_EXCEEDED")), nil},
	{"a timeout that leaves the last its turn", retried(lintTimed, "", `"timeout":"3.1s",`+retryPolicy(3, "UNAVAILABLE", "DEADLINE_EXCEEDED")), nil},
	{"a timeout, and no attempt timeouts", retried(lintABC, "", `"timeout":"0.001s",`+retryPolicy(3)), nil},
	{"a negative timeout, which is none", retried(lintTimed, "", `"timeout":"-1s",`+retryPolicy(3, "UNAVAILABLE", "DEADLINE_EXCEEDED")), nil},
	{"a timeout of zero", retried(lintTimed, "", `"timeout":"0s",`+retryPolicy(3, "UNAVAILABLE", "DEADLINE_EXCEEDED")), []Finding{
		{Error, "methodConfig[0].timeout", "it is zero: every RPC fails with DEADLINE_EXCEEDED before it is sent", "leave it out for no limit"}}},

	{"throttling", throttled(lintAB, 2, `{"maxTokens":4,"tokenRatio":0.1}`), []Finding{{Warning, "retryThrottling", lintStarved + "3" + lintOthers, noThrottle}}},
	{"throttling with many tokens", throttled(lintAB, 2, `{"maxTokens":1000,"tokenRatio":0.001}`), []Finding{{Warning, "retryThrottling", lintStarved + "501" + lintOthers, noThrottle}}},
	{"throttling, two attempts on the first cluster", throttled(`{"name":"a","attempts":2},{"name":"b","target":"dns:///b:1"}`, 3, `{"maxTokens":10,"tokenRatio":1}`), []Finding{{Warning, "retryThrottling", lintStarved + "4" + lintOthers, noThrottle}}},
	{"throttling that gives back what is taken", throttled(lintAB, 2, `{"maxTokens":9,"tokenRatio":1}`), []Finding{{Warning, "retryThrottling",
		`it counts for the whole channel: if 5 attempts on "a" fail at about the same time, gRPC-Go stops retrying, and RPCs fail although other clusters could serve them`, noThrottle}}},
	{"throttling that gives back nearly what is taken", throttled(lintAB, 2, `{"maxTokens":1000,"tokenRatio":0.999999}`), []Finding{{Warning, "retryThrottling",
		`it counts for the whole channel: if 500 attempts on "a" fail at about the same time, gRPC-Go stops retrying, and RPCs fail although other clusters could serve them`, noThrottle}}},
	{"throttling, and a first cluster that rests first", throttled(`{"name":"a","cooldown":{"consecutiveFailures":2}},{"name":"b","target":"dns:///b:1"}`, 2, `{"maxTokens":10,"tokenRatio":0.1}`), []Finding{{Warning, "retryThrottling",
		`it counts for the whole channel: if 5 attempts on "a" fail at about the same time, gRPC-Go stops retrying, and RPCs fail although other clusters could serve them`, noThrottle}}},
	{"throttling, and a first cluster that rests too late", throttled(`{"name":"a","cooldown":{"consecutiveFailures":6}},{"name":"b","target":"dns:///b:1"}`, 2, `{"maxTokens":10,"tokenRatio":0.1}`), []Finding{{Warning, "retryThrottling", lintStarved + "6" + lintOthers, noThrottle}}},
	{"throttling of all retries", throttled(lintAB, 2, `{"maxTokens":2,"tokenRatio":5}`), []Finding{{Error, "retryThrottling.maxTokens",
		"it is 2: the first failure leaves no more than half of the tokens, so no attempt is ever retried", "set it above 2, or leave retryThrottling out"}}},
	{"throttling of nothing, which gRPC-Go does not look at without a methodConfig", lintConfig(`{"name":"a"}`, "", `,"retryThrottling":{}`), nil},
	{"throttling of one cluster's retries", throttled(`{"name":"a","attempts":2}`, 2, `{"maxTokens":4,"tokenRatio":0.1}`), nil},
}
