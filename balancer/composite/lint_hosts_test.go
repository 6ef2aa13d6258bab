package composite

import "fmt"

const (
	noSkip     = `,"skipClustersWithoutHosts":false`
	lintAlone  = `, and no other cluster is tried, since skipClustersWithoutHosts is false`
	noHostEnds = `it is FAIL_REQUEST: an attempt on a cluster without a host ends the RPC with UNAVAILABLE, whatever the retry policy` + lintAlone
	noHostSet  = `set it to FAIL_ATTEMPT, or leave skipClustersWithoutHosts out`
)

// twoEntries is a config with two entries of methodConfig, with these fields.
func twoEntries(policy, all, one string) string {
	return lintConfig(lintAB, policy, fmt.Sprintf(`,"methodConfig":[{"name":[{}],%s},{"name":[{"service":"p.S"}],%s}]`, all, one))
}

var lintHostCases = []lintCase{
	{"nothing skipped", retried(lintAB, noSkip, retryPolicy(2)), nil},
	{"nothing skipped, and the code of an attempt without a host is not retried", retried(lintAB, noSkip, retryPolicy(2, "RESOURCE_EXHAUSTED")), []Finding{{Warning, "methodConfig[0].retryPolicy.retryableStatusCodes",
		`an attempt on a cluster without a host ends the RPC with UNAVAILABLE, which is not listed` + lintAlone, `add "UNAVAILABLE", or leave skipClustersWithoutHosts out`}}},
	{"skipped, and the code of an attempt without a host is not retried", retried(lintAB, "", retryPolicy(2, "RESOURCE_EXHAUSTED")), nil},
	{"one cluster, and the code of an attempt without a host is not retried", retried(`{"name":"a","attempts":2}`, noSkip, retryPolicy(2, "RESOURCE_EXHAUSTED")), nil},

	{"nothing skipped, and RPCs that wait", retried(lintAB, noSkip, `"waitForReady":true,`+retryPolicy(2)), []Finding{{Warning, "methodConfig[0].waitForReady",
		`an attempt on a cluster without a host waits for one until the RPC's deadline` + lintAlone, `leave it out, or leave skipClustersWithoutHosts out`}}},
	{"nothing skipped, and RPCs that wait, whatever is retried", retried(lintAB, noSkip+`,"noHost":"FAIL_REQUEST"`, `"waitForReady":true,`+retryPolicy(2, "INTERNAL")), []Finding{{Warning, "methodConfig[0].waitForReady",
		`an attempt on a cluster without a host waits for one until the RPC's deadline` + lintAlone, `leave it out, or leave skipClustersWithoutHosts out`}}},
	{"nothing skipped, and RPCs that do not wait", retried(lintAB, noSkip, `"waitForReady":false,`+retryPolicy(2)), nil},
	{"skipped, and RPCs that wait", retried(lintAB, "", `"waitForReady":true,`+retryPolicy(2)), nil},

	{"nothing skipped, Envoy's way", twoEntries(noSkip+`,"noHost":"FAIL_REQUEST"`, retryPolicy(2), retryPolicy(2, "INTERNAL")), []Finding{{Warning, wholeConfig + ".noHost", noHostEnds, noHostSet}}},
	{"nothing skipped, Envoy's way, and some RPCs that wait", twoEntries(noSkip+`,"noHost":"FAIL_REQUEST"`, `"waitForReady":true,`+retryPolicy(2), retryPolicy(2)), []Finding{
		{Warning, wholeConfig + ".noHost", noHostEnds, noHostSet},
		{Warning, "methodConfig[0].waitForReady", `an attempt on a cluster without a host waits for one until the RPC's deadline` + lintAlone, `leave it out, or leave skipClustersWithoutHosts out`},
	}},
	{"nothing skipped, Envoy's way, one cluster", retried(`{"name":"a","attempts":2}`, noSkip+`,"noHost":"FAIL_REQUEST"`, retryPolicy(2)), nil},
	{"skipped, Envoy's way", retried(lintAB, `,"noHost":"FAIL_REQUEST"`, retryPolicy(2)), nil},
}
