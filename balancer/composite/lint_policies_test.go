package composite

import (
	"fmt"
	"strings"

	_ "google.golang.org/grpc/balancer/weightedtarget" // a policy around others
)

// around is a config with composite inside another policy.
const around = `{"loadBalancingConfig":[{"weighted_target_experimental":{"targets":{"one":{"weight":1,"childPolicy":[{"not_registered":{}},{"composite":{"clusters":[` + lintAB + `]}},{"round_robin":{}}]}}}}]`

// lintTwice is a cluster "n" with a composite policy inside that has two slots, and
// lintTwiceInner the path of those.
var (
	lintTwice      = lintNested("", `{"clusters":[{"name":"x","target":"dns:///x:1"},{"name":"y","target":"dns:///y:1"}]}`)
	lintTwiceInner = wholeConfig + ".clusters[0].childPolicy[0].composite.clusters"
)

var lintPolicyCases = []lintCase{
	{"no policies", `{}`, []Finding{{Warning, "loadBalancingConfig", `the policy "composite" is not in use: there is no list of policies`, notInUse}}},
	{"nothing", `null`, []Finding{{Warning, "loadBalancingConfig", `the policy "composite" is not in use: there is no list of policies`, notInUse}}},
	{"another policy by the old field", `{"loadBalancingPolicy":"round_robin"}`, []Finding{{Warning, "loadBalancingConfig", `the policy "composite" is not in use: there is no list of policies`, notInUse}}},
	{"another policy before", `{"loadBalancingConfig":[{"pick_first":{}},{"composite":{"clusters":[]}}]}`, []Finding{{Warning, "loadBalancingConfig[0].pick_first",
		`the policy "composite" is not in use: the first policy of the list that is registered is "pick_first"`, notInUse}}},
	{"another policy before that is not registered", `{"loadBalancingConfig":[{"not_registered":{}},{"composite":{"clusters":[{"name":"a"}]}},{"pick_first":{}}]}`, nil},
	{"composite inside another policy", around + `,"methodConfig":[{"name":[{}],` + retryPolicy(2) + `}]}`, nil},
	{"composite inside another policy, without retries", around + `}`, []Finding{{Error, "methodConfig",
		`there is no retry policy, so an RPC has one attempt: slot 2 ("b") is reached only if a cluster before is passed over`, fmt.Sprintf(addRetry, 2)}}},
	{"composite where the policy around it does not look", `{"loadBalancingConfig":[{"round_robin":{"childPolicy":[{"composite":{"clusters":[{"name":"a"},{}]}}]}}]}`, []Finding{{Warning, "loadBalancingConfig[0].round_robin.childPolicy[0].composite.clusters[1].name",
		`"": must not be empty; but the policy "round_robin" around it does not read it, and it is not in use`, "correct it, or remove it"}}},
	{"many composites inside another policy", fmt.Sprintf(`{"loadBalancingConfig":[{"weighted_target_experimental":{"targets":{%s"z":{"weight":1,"childPolicy":[{"round_robin":{}}]}}}}],"methodConfig":[{"name":[{}],%s}]}`, manyTargets(maxRoots+2), retryPolicy(2)), []Finding{
		{Warning, "loadBalancingConfig[0].weighted_target_experimental", `it has 18 policies "composite", and 2 are not looked into`, "look at the others in a config of their own"}}},

	{"too deep", strings.Repeat("[", 101) + strings.Repeat("]", 101), []Finding{{Error, "", "it has more than 100 objects and lists in one another, and is not looked into", "nest fewer policies"}}},
	{"brackets in text", lintConfig(`{"name":"\\\"`+strings.Repeat("[{", 60)+`"}`, "", ""), nil},

	{"composite inside composite", retried(`{"name":"a"},{"name":"n","childPolicy":[{"composite":{"clusters":[{"name":"c"},{"name":"d","target":"dns:///d:1"}]}}],"target":"dns:///n:1"}`, "", retryPolicy(2)), nil},
	{"composite inside composite without a slot", retried(`{"name":"a"},{"name":"n","childPolicy":[{"composite":{"cluster":0,"clusters":[{"name":"c"}]}}],"target":"dns:///n:1"}`, "", retryPolicy(2)), []Finding{
		{Warning, wholeConfig + ".clusters[1].childPolicy[0].composite.cluster", "the policy has no such field, and ignores it", `perhaps it should be "clusters"`},
		{Warning, wholeConfig + ".clusters[1].childPolicy[0].composite.clusters",
			`attempt 2 comes to the cluster "n" as attempt 2 and not as its first, and the policy inside has 1 slot: it has no host for it`, `list clusters for attempt 2 too, or set overflow to USE_LAST_CLUSTER inside`},
	}},
	{"composite inside composite, and attempts that start over", retried(lintTwice, `,"overflow":"USE_LAST_CLUSTER"`, retryPolicy(4)), []Finding{
		{Warning, lintTwiceInner, `attempt 3 comes to the cluster "n" as attempt 3 and not as its first, and the policy inside has 2 slots: it has no host for it`, `list clusters for attempt 3 too, or set overflow to USE_LAST_CLUSTER inside`},
	}},
	{"composite inside composite, and attempts that start over, two clusters", retried(lintTwice+`,{"name":"b","target":"dns:///b:1"}`, `,"overflow":"ROUND_ROBIN"`, retryPolicy(4)), []Finding{
		{Warning, lintTwiceInner, `attempt 3 comes to the cluster "n" as attempt 3 and not as its first, and the policy inside has 2 slots: it has no host for it`, `list clusters for attempt 3 too, or set overflow to USE_LAST_CLUSTER inside`},
	}},
	{"composite inside composite, and too few attempts to start over", retried(lintTwice+`,{"name":"b","target":"dns:///b:1"}`, `,"overflow":"ROUND_ROBIN"`, retryPolicy(2)), nil},
	{"composite inside composite, and attempts that stay with another", retried(lintTwice+`,{"name":"b","target":"dns:///b:1"}`, `,"overflow":"USE_LAST_CLUSTER"`, retryPolicy(4)), nil},
	{"composite inside two others, and attempts that start over", retried(lintNested("", `{"overflow":"ROUND_ROBIN","clusters":[`+lintTwice+`]}`), `,"overflow":"ROUND_ROBIN"`, retryPolicy(3)), []Finding{
		{Warning, wholeConfig + ".clusters[0].childPolicy[0].composite.clusters[0].childPolicy[0].composite.clusters",
			`attempt 3 comes to the cluster "n" as attempt 3 and not as its first, and the policy inside has 2 slots: it has no host for it`, `list clusters for attempt 3 too, or set overflow to USE_LAST_CLUSTER inside`},
	}},
	{"composite inside two others, and attempts that do not come to it", retried(lintNested("", `{"overflow":"ROUND_ROBIN","clusters":[`+lintTwice+`]}`)+`,{"name":"b","target":"dns:///b:1"},{"name":"c","target":"dns:///c:1"}`, "", retryPolicy(3)), nil},
	{"composite inside composite that starts at its first slot", retried(`{"name":"a"},{"name":"n","childPolicy":[{"composite":{"progression":"NEXT_CLUSTER","clusters":[{"name":"c"}]}}],"target":"dns:///n:1"}`, "", retryPolicy(2)), nil},
	{"composite inside composite that uses its last again", retried(`{"name":"a"},{"name":"n","childPolicy":[{"composite":{"overflow":"USE_LAST_CLUSTER","clusters":[{"name":"c"}]}}],"target":"dns:///n:1"}`, "", retryPolicy(2)), nil},
}

// manyTargets returns that many targets, each with a composite policy.
func manyTargets(n int) string {
	var targets strings.Builder
	for i := range n {
		fmt.Fprintf(&targets, `"t%d":{"weight":1,"childPolicy":[{"composite":{"clusters":[%s]}}]},`, i, lintAB)
	}
	return targets.String()
}

// The configs that gRPC-Go refuses, with the paths and texts of the findings.
var lintRefusedCases = []struct {
	name, config string
	want         []string
}{
	{"empty", ``, []string{`: must be valid JSON: line 1, column 1: unexpected end of JSON input`}},
	{"a comma too many", "{\n  \"methodConfig\": [],\n}", []string{`: must be valid JSON: line 3, column 1: invalid character '}' looking for beginning of object key string`}},
	{"cut off", "{\"a\":\n[1,", []string{`: must be valid JSON: line 2, column 3: unexpected end of JSON input`}},
	{"a list", `[]`, []string{`: []: must be an object`}},
	{"wrong types", `{"loadBalancingPolicy":1,"methodConfig":[{"name":{},"waitForReady":"yes","timeout":1,"maxRequestMessageBytes":1.5,
		"retryPolicy":{"maxAttempts":"3","initialBackoff":"1ms","maxBackoff":null,"backoffMultiplier":"2","retryableStatusCodes":["UNAVAILABLE","unavailable",17]}},3],
		"retryThrottling":[],"healthCheckConfig":{"serviceName":1}}`, []string{
		`loadBalancingPolicy: 1: must be a string`,
		`methodConfig[0].name: {}: must be a list`,
		`methodConfig[0].waitForReady: "yes": must be true or false`,
		`methodConfig[0].timeout: 1: must be a duration in seconds, such as "1.5s"`,
		`methodConfig[0].maxRequestMessageBytes: 1.5: must be a whole number`,
		`methodConfig[0].retryPolicy.maxAttempts: "3": must be a whole number, without quotes`,
		`methodConfig[0].retryPolicy.initialBackoff: "1ms": must be a duration in seconds, such as "1.5s"`,
		`methodConfig[0].retryPolicy.maxBackoff: null: must be a duration in seconds, such as "1.5s"`,
		`methodConfig[0].retryPolicy.backoffMultiplier: "2": must be a number, without quotes`,
		`methodConfig[0].retryPolicy.retryableStatusCodes[1]: "unavailable": must be the name of a status code, such as "UNAVAILABLE"`,
		`methodConfig[0].retryPolicy.retryableStatusCodes[2]: 17: must be the name of a status code, such as "UNAVAILABLE"`,
		`methodConfig[1]: 3: must be an object`,
		`retryThrottling: []: must be an object`,
		`healthCheckConfig.serviceName: 1: must be a string`,
	}},
	{"a retry policy of nothing", retried(lintAB, "", `"retryPolicy":{}`), []string{
		`methodConfig[0].retryPolicy.maxAttempts: 0: must be given, and be at least 2; for no retries leave the retry policy out`,
		`methodConfig[0].retryPolicy.initialBackoff: must be given, and be positive, such as "0.001s"`,
		`methodConfig[0].retryPolicy.maxBackoff: must be given, and be positive, such as "0.01s"`,
		`methodConfig[0].retryPolicy.backoffMultiplier: must be given, and be positive, such as 2`,
		`methodConfig[0].retryPolicy.retryableStatusCodes: must be given, and not be empty, such as ["UNAVAILABLE"]`,
	}},
	{"a retry policy of one attempt", retried(lintAB, "", retryPolicy(1)), []string{`methodConfig[0].retryPolicy.maxAttempts: 1: must be given, and be at least 2; for no retries leave the retry policy out`}},
	{"names", lintConfig(lintAB, "", `,"methodConfig":[{"name":[{"service":"p.S"},{"method":"M"}]},{"name":[{"service":"p.S","method":""},{},{}]}]`), []string{
		`methodConfig[0].name[1]: "M": must have a service besides the method`,
		`methodConfig[1].name[0]: "p.S": must not be named twice, and methodConfig[0].name[0] is the same`,
		`methodConfig[1].name[2]: "all methods that no other entry names": must not be named twice, and methodConfig[1].name[1] is the same`,
	}},
	{"throttling", lintConfig(lintAB, "", `,"methodConfig":[],"retryThrottling":{"maxTokens":1001}`), []string{
		`retryThrottling.maxTokens: 1001: must be given, and be above 0 and at most 1000`,
		`retryThrottling.tokenRatio: 0: must be given, and be positive`,
	}},
	{"a cluster without a name", lintConfig(`{"name":"a"},{}`, "", ""), []string{wholeConfig + `.clusters[1].name: "": must not be empty`}},
	{"no config", `{"loadBalancingConfig":[{"composite":3}]}`, []string{wholeConfig + `: 3: must be an object`}},
	{"composite by the old field", `{"loadBalancingPolicy":"composite"}`, []string{`loadBalancingPolicy: "composite": must be in loadBalancingConfig instead, since the policy needs a config`}},
	{"policies as an object", `{"loadBalancingConfig":{"composite":{}}}`, []string{`loadBalancingConfig: {"composite":{}}: must be a list of objects, such as [{"composite": {...}}]`}},
	{"two policies in one entry", `{"loadBalancingConfig":[{"composite":{},"round_robin":{}}]}`, []string{`loadBalancingConfig[0]: must have one key, the name of a policy, and has 2`}},
	{"no registered policy", `{"loadBalancingConfig":[{"x":{}},{"y":{}}]}`, []string{`loadBalancingConfig: must name a policy that is registered, and none of these is: "x", "y"`}},
	{"an empty list of policies", `{"loadBalancingConfig":[]}`, []string{`loadBalancingConfig: must name a policy that is registered`}},
	{"a bad config of another policy", `{"loadBalancingConfig":[{"pick_first":{"shuffleAddressList":3}}]}`, []string{
		`loadBalancingConfig[0].pick_first: pickfirst: unable to unmarshal LB policy config: {"shuffleAddressList":3}, error: json: cannot unmarshal number into Go struct field pfConfig.shuffleAddressList of type bool`}},
}
