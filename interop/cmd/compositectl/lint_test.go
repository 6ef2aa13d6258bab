package main

import "testing"

const (
	good    = `{"loadBalancingConfig":[{"composite":{"clusters":[{"name":"a"}]}}]}`
	errored = `{"loadBalancingConfig":[{"composite":{"clusters":[{"name":"a"},{"name":"b","target":"unix:///b"}]}}]}`
	warned  = `{"loadBalancingConfig":[{"composite":{"clusters":[{"name":"a","attempt":1}]}}]}`
	custom  = `{"loadBalancingConfig":[{"composite":{"clusters":[{"name":"a","target":"consul:///a","childPolicy":[{"our_own":{}}]}]}}]}`
)

func TestLint(t *testing.T) {
	for _, tc := range []struct {
		name, input string
		args        []string
		want        ran
	}{
		{"nothing", good, nil, ran{0, "standard input: nothing found\n", ""}},
		{"nothing, as JSON", good, []string{"--json"}, ran{0, "[]\n", ""}},
		{"an error", errored, nil, ran{1, `standard input: error: methodConfig
    there is no retry policy, so an RPC has one attempt: slot 2 ("b") is reached only if a cluster before is passed over
    -> add {"name": [{}], "retryPolicy": {...}} with "maxAttempts": 2, or retry with an interceptor after DialOptions
`, ""}},
		{"a warning", warned, nil, ran{0, `standard input: warning: loadBalancingConfig[0].composite.clusters[0].attempt
    the policy has no such field, and ignores it
    -> perhaps it should be "attempts"
`, ""}},
		{"as JSON", warned, []string{"--json"}, ran{0, `[
  {
    "severity": "warning",
    "path": "loadBalancingConfig[0].composite.clusters[0].attempt",
    "problem": "the policy has no such field, and ignores it",
    "remedy": "perhaps it should be \"attempts\""
  }
]
`, ""}},
		{"no JSON", "{\n", nil, ran{1, `standard input: error: the service config
    must be valid JSON: line 2, column 1: unexpected end of JSON input
    -> correct it: gRPC-Go refuses the whole service config
`, ""}},
		{"no JSON, as JSON", "", []string{"--json"}, ran{1, `[
  {
    "severity": "error",
    "path": "",
    "problem": "must be valid JSON: line 1, column 1: unexpected end of JSON input",
    "remedy": "correct it: gRPC-Go refuses the whole service config"
  }
]
`, ""}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			runWith(tc.input, append([]string{"lint", "-"}, tc.args...)...).wants(t, tc.want)
		})
	}
}

// TestLintKnown lints a config whose scheme and policy are another program's.
func TestLintKnown(t *testing.T) {
	runWith(custom, "lint", "-").wants(t, ran{1, `standard input: error: loadBalancingConfig[0].composite.clusters[0].target
    "consul:///a": must have a scheme that a resolver is registered for, and none is for "consul"
    -> correct it: gRPC-Go refuses the whole service config
`, ""})
	runWith(custom, "lint", "--scheme", "consul", "-", "--policy", "our_own").wants(t, ran{0, "standard input: nothing found\n", ""})
}

// TestLintKnownCase lints a config whose scheme and policy have capital letters, which
// only the registry of policies minds.
func TestLintKnownCase(t *testing.T) {
	const config = `{"loadBalancingConfig":[{"composite":{"clusters":[{"name":"a","target":"Nomad:///a","childPolicy":[{"OurOwn":{}}]}]}}]}`
	runWith(config, "lint", "--scheme", "Nomad", "--policy", "ourown", "-").wants(t, ran{1, `standard input: error: loadBalancingConfig[0].composite.clusters[0].childPolicy
    must name a policy that is registered, and none of these is: "OurOwn"
    -> correct it: gRPC-Go refuses the whole service config
`, ""})
	runWith(config, "lint", "--scheme", "Nomad", "--policy", "OurOwn", "-").wants(t, ran{0, "standard input: nothing found\n", ""})
}

// TestLintKnowsXDS lints a config with policies that gRPC-Go registers with xDS.
func TestLintKnowsXDS(t *testing.T) {
	runWith(`{"loadBalancingConfig":[{"composite":{"clusters":[{"name":"a","childPolicy":[{"outlier_detection_experimental":{"childPolicy":[{"least_request_experimental":{"choiceCount":2}}]}}]}]}}]}`,
		"lint", "-").wants(t, ran{0, "standard input: nothing found\n", ""})
}
