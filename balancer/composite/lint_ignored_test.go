package composite

var lintIgnoredCases = []lintCase{
	{"hedging", retried(lintAB, "", `"hedgingPolicy":{"maxAttempts":2},`+retryPolicy(2)), []Finding{{Warning, "methodConfig[0].hedgingPolicy",
		"gRPC-Go has no hedging and ignores it: no attempt starts beside another, and none follows without a retryPolicy", "use a retryPolicy"}}},
	{"a timeout of attempts that gRPC-Go does not have", retried(lintAB, "", `"retryPolicy":{"perAttemptRecvTimeout":"1s",`+retryPolicy(2)[len(`"retryPolicy":{`):]), []Finding{{Warning, "methodConfig[0].retryPolicy.perAttemptRecvTimeout",
		"gRPC-Go ignores it: no attempt ends because of it", "set attemptTimeout of the clusters"}}},
	{"unknown fields everywhere", `{"loadBalancingConfig":[{"composite":{"clusters":[{"name":"a","attempt":2,"cooldown":{"consecutiveFailures":1,"forever":true}}],"over_flow":"FAIL"}}],
		"method_config":[],"methodConfig":[{"name":[{"svc":"p.S"}],"timeOut":"1s","waitForRedy":true}],"retryThrottling":{"maxTokens":10,"tokenRatio":1,"tokens":1},"healthCheckConfig":{"servicename":"","port":1}}`, []Finding{
		{Warning, "method_config", "gRPC-Go has no such field, and ignores it", `perhaps it should be "methodConfig"`},
		{Warning, "methodConfig[0].name[0].svc", "gRPC-Go has no such field, and ignores it", noName},
		{Warning, "methodConfig[0].waitForRedy", "gRPC-Go has no such field, and ignores it", `perhaps it should be "waitForReady"`},
		{Warning, "retryThrottling.tokens", "gRPC-Go has no such field, and ignores it", noName},
		{Warning, "healthCheckConfig.port", "gRPC-Go has no such field, and ignores it", noName},
		{Warning, wholeConfig + ".clusters[0].attempt", "the policy has no such field, and ignores it", `perhaps it should be "attempts"`},
		{Warning, wholeConfig + ".clusters[0].cooldown.forever", "the policy has no such field, and ignores it", noName},
		{Warning, wholeConfig + ".over_flow", "the policy has no such field, and ignores it", `perhaps it should be "overflow"`},
	}},
	{"no unknown fields", `{"loadBalancingPolicy":"round_robin","loadBalancingConfig":[{"composite":{"clusters":[{"name":"a","connect_timeout":"1s"}],"skip_clusters_without_hosts":true}}],
		"METHODCONFIG":[{"name":[{"service":"p.S"}],"timeout":"1s","waitForReady":true,"maxRequestMessageBytes":1,"maxResponseMessageBytes":null}],
		"retryThrottling":{"maxTokens":10,"tokenRatio":1},"healthCheckConfig":{"serviceName":""}}`, nil},
	{"fields given twice", `{"loadBalancingConfig":[{"composite":{"clusters":[{"name":"a"}]}}],"methodConfig":[{"name":[{}],"timeout":"1s","TIMEOUT":"2s"}],"methodConfig":[]}`, []Finding{
		{Warning, "methodConfig[0].TIMEOUT", "it is given more than once in one object, and JSON does not say which one counts", "give it once"},
		{Warning, "methodConfig", "it is given more than once in one object, and JSON does not say which one counts", "give it once"},
	}},
}
