package main

import "testing"

func TestTarget(t *testing.T) {
	const hangs = "composite:///a=unix:///a,b=unix:///b?retryOn=UNAVAILABLE&attemptTimeout=1s"
	for _, tc := range []struct {
		name string
		args []string
		want ran
	}{
		{"nothing found", []string{"lint", "composite:///a:1,b:1"}, ran{0, "composite:///a:1,b:1: nothing found\n", ""}},
		{"a mistake", []string{"lint", hangs}, ran{1, hangs + `: error: methodConfig[0].retryPolicy.retryableStatusCodes
    an attempt on "a" that takes longer than its attemptTimeout of 1s ends the RPC with DEADLINE_EXCEEDED, which is not listed, and no other cluster is tried
    -> add "DEADLINE_EXCEEDED"
`, ""}},
		{"another program's scheme", []string{"lint", "--scheme", "consul", "composite:///consul:///a"}, ran{0, "composite:///consul:///a: nothing found\n", ""}},
		{"an empty entry", []string{"explain", "composite:///a:1,"}, ran{1, "", `compositectl explain: composite:///a:1,: composite: target: cluster 2: "": must have a target; a target looks like "composite:///primary=dns:///a.example:443,fallback=dns:///b.example:443?retryOn=UNAVAILABLE"
`}},
		{"no URL", []string{"lint", "composite:///%zz"}, ran{1, `composite:///%zz: error: the target
    parse "composite:///%zz": invalid URL escape "%zz"
    -> correct it: a channel with this target has no service config
`, ""}},
		{"no clusters, for a program", []string{"lint", "--json", "composite:///"}, ran{1, `[
  {
    "severity": "error",
    "path": "the target",
    "problem": "composite: target: without clusters in it, it makes no service config: give the file that has the program's own",
    "remedy": "correct it: a channel with this target has no service config"
  }
]
`, ""}},
		{"upper case", []string{"lint", "COMPOSITE:///a:1,b:1"}, ran{0, "COMPOSITE:///a:1,b:1: nothing found\n", ""}},
		{"another kind of target", []string{"lint", "dns:///a:1"}, ran{exitUsage, "", "compositectl lint: open dns:///a:1: no such file or directory; of targets, only those with clusters in them can be looked at, such as composite:///a:443,b:443\n"}},
		{"for Envoy's it is a file", []string{"from-envoy", "composite:///a:1"}, ran{exitUsage, "", "compositectl from-envoy: open composite:///a:1: no such file or directory\n"}},
	} {
		t.Run(tc.name, func(t *testing.T) { runWith("", tc.args...).wants(t, tc.want) })
	}
}

// TestExplainTarget explains a target as the file that has its service config.
func TestExplainTarget(t *testing.T) {
	const target = "composite:///a=unix:///a,b=unix:///b?attempts=2&connectTimeout=2s"
	const config = `{"loadBalancingConfig":[{"composite":{"clusters":[
		{"name":"a","target":"unix:///a","attempts":2,"connectTimeout":"2s"},{"name":"b","target":"unix:///b","attempts":2,"connectTimeout":"2s"}]}}],
		"methodConfig":[{"name":[{}],"retryPolicy":{"maxAttempts":4,"initialBackoff":"0.001s","maxBackoff":"0.01s","backoffMultiplier":2,"retryableStatusCodes":["UNAVAILABLE"]}}]}`
	want := runWith(config, "explain", "-")
	if want.code != 0 || want.out == "" {
		t.Fatalf("explain of the config: %+v", want)
	}
	runWith("", "explain", target).wants(t, want)
}
