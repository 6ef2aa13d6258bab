package composite

import "fmt"

var lintAttemptCases = []lintCase{
	{"as many attempts as slots", retried(lintABC, "", retryPolicy(3)), nil},
	{"no methodConfig", lintConfig(lintABC, "", ""), []Finding{{Error, "methodConfig",
		`there is no retry policy, so an RPC has one attempt: slot 2 ("b") and slot 3 ("c") are reached only if a cluster before is passed over`, fmt.Sprintf(addRetry, 3)}}},
	{"no retry policy", retried(lintAB, "", `"timeout":"1s"`), []Finding{{Error, "methodConfig",
		`there is no retry policy, so an RPC has one attempt: slot 2 ("b") is reached only if a cluster before is passed over`, fmt.Sprintf(addRetry, 2)}}},
	{"no retry policy, nothing skipped", lintConfig(lintABC, `,"skipClustersWithoutHosts":false`, ""), []Finding{{Error, "methodConfig",
		`there is no retry policy, so an RPC has one attempt: slot 2 ("b") and slot 3 ("c") are never reached`, fmt.Sprintf(addRetry, 3)}}},
	{"no retry policy, and one slot", lintConfig(`{"name":"a"}`, "", ""), nil},
	{"no retry policy, one cluster of two slots", lintConfig(`{"name":"a","attempts":2}`, "", ""), []Finding{{Error, "methodConfig",
		`there is no retry policy, so an RPC has one attempt: slot 2 ("a") is reached only if a cluster before is passed over`, fmt.Sprintf(addRetry, 2)}}},

	{"fewer attempts than slots", retried(lintABC, "", retryPolicy(2)), []Finding{{Error, "methodConfig[0].retryPolicy.maxAttempts",
		`an RPC has 2 attempts, and the clusters have 3 slots: slot 3 ("c") is reached only if a cluster before is passed over`, tooFew}}},
	{"fewer attempts than slots, nothing skipped", retried(lintABC, `,"skipClustersWithoutHosts":false`, retryPolicy(2)), []Finding{{Error, "methodConfig[0].retryPolicy.maxAttempts",
		`an RPC has 2 attempts, and the clusters have 3 slots: slot 3 ("c") is never reached`, tooFew}}},
	{"fewer attempts than slots of a repeated cluster", retried(lintAB+`,{"name":"a"}`, "", retryPolicy(2)), []Finding{{Error, "methodConfig[0].retryPolicy.maxAttempts",
		`an RPC has 2 attempts, and the clusters have 3 slots: slot 3 ("a") is reached only if a cluster before is passed over`, tooFew}}},

	{"more attempts than slots", retried(lintAB, "", retryPolicy(3)), []Finding{{Warning, "methodConfig[0].retryPolicy.maxAttempts",
		`it is 3, and the clusters have 2 slots: attempt 3 has no slot and ends the RPC with the status of the one before, after another back-off`, tooMany}}},
	{"more attempts than slots, Envoy's way", retried(lintAB, `,"noHost":"FAIL_REQUEST"`, retryPolicy(3)), []Finding{{Warning, "methodConfig[0].retryPolicy.maxAttempts",
		`it is 3, and the clusters have 2 slots: attempt 3 has no slot and ends the RPC with UNAVAILABLE, after another back-off`, tooMany}}},
	{"more attempts than one slot", retried(`{"name":"a"}`, "", retryPolicy(2)), []Finding{{Warning, "methodConfig[0].retryPolicy.maxAttempts",
		`it is 2, and the clusters have 1 slot: attempt 2 has no slot and ends the RPC with the status of the one before, after another back-off`, tooMany}}},
	{"more attempts than slots, the last again", retried(lintAB, `,"overflow":"USE_LAST_CLUSTER"`, retryPolicy(3)), nil},
	{"more attempts than slots, from the start again", retried(lintAB, `,"overflow":"ROUND_ROBIN"`, retryPolicy(3)), nil},
	{"more attempts than a channel makes", retried(lintAB, `,"overflow":"ROUND_ROBIN"`, retryPolicy(65)), []Finding{{Warning, "methodConfig[0].retryPolicy.maxAttempts",
		`it is 65, and DialOptions let a channel make 64`, `set it to at most 64, or give grpc.WithMaxCallAttempts after DialOptions`}}},
	{"as many attempts as a channel makes", retried(lintAB, `,"overflow":"ROUND_ROBIN"`, retryPolicy(64)), nil},

	{"an entry without a retry policy", lintConfig(lintAB, "", `,"methodConfig":[{"name":[{}],`+retryPolicy(2)+`},{"name":[{"service":"p.S","method":"M"},{"service":"p.T"}],"timeout":"1s"}]`),
		[]Finding{{Warning, "methodConfig[1]",
			`the entry has no retryPolicy, and gRPC-Go takes none from another entry, so an RPC of "p.S/M" and "p.T" has one attempt: slot 2 ("b") is reached only if a cluster before is passed over`, ownRetry}}},
	{"entries with retry policies", lintConfig(lintAB, "", `,"methodConfig":[{"name":[{}],`+retryPolicy(2)+`},{"name":[{"service":"p.S","method":"M"}],"timeout":"1s",`+retryPolicy(2)+`}]`), nil},
	{"an entry without names", lintConfig(lintAB, "", `,"methodConfig":[{"name":[{}],`+retryPolicy(2)+`},{`+retryPolicy(2)+`},{"name":[],"timeout":"1s"}]`),
		[]Finding{
			{Warning, "methodConfig[1].name", "the entry names no method, and gRPC-Go ignores it", "name methods, or all with [{}]"},
			{Warning, "methodConfig[2].name", "the entry names no method, and gRPC-Go ignores it", "name methods, or all with [{}]"},
		}},
	{"methods that no entry covers", lintConfig(lintAB, "", `,"methodConfig":[{"name":[{"service":"p.S"},{"service":"p.T","method":"M"}],`+retryPolicy(2)+`}]`),
		[]Finding{{Warning, "methodConfig",
			`no entry covers methods other than those of "p.S" and "p.T/M": they have no retry policy, so an RPC has one attempt: slot 2 ("b") is reached only if a cluster before is passed over`, forAll}}},
	{"many methods, but not all", lintConfig(lintAB, "", `,"methodConfig":[{"name":[{"service":"a"},{"service":"b"},{"service":"c"},{"service":"d"},{"service":"e"},{"service":"f"},{"service":"g"}],`+retryPolicy(2)+`}]`),
		[]Finding{{Warning, "methodConfig",
			`no entry covers methods other than those of "a", "b", "c", "d", "e" and 2 more: they have no retry policy, so an RPC has one attempt: slot 2 ("b") is reached only if a cluster before is passed over`, forAll}}},
	{"one cluster, and methods that no entry covers", lintConfig(`{"name":"a"}`, `,"overflow":"USE_LAST_CLUSTER"`, `,"methodConfig":[{"name":[{"service":"p.S"}],`+retryPolicy(2)+`}]`), nil},
}
