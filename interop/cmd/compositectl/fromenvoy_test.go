package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/grpc-composite/grpc-composite/balancer/composite"
)

var update = flag.Bool("update", false, "write what from-envoy makes of the files in testdata/envoy")

// TestFromEnvoy compares what is printed for each file, and what is said, with the
// files that are named for it.
func TestFromEnvoy(t *testing.T) {
	for _, tc := range []struct{ name, file string }{
		{"documented", "documented.yaml"},
		{"everything", "everything.yaml"},
		{"config_dump", "config_dump.json"},
		{"static_dump", "static_dump.json"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			path := filepath.Join("testdata", "envoy", tc.file)
			got := runWith("", "from-envoy", path)
			for suffix, text := range map[string]string{".out": got.out, ".err": got.errs} {
				want := filepath.Join("testdata", "envoy", tc.name+suffix)
				if *update {
					if err := os.WriteFile(want, []byte(text), 0o600); err != nil {
						t.Fatal(err)
					}
				}
			}
			got.wants(t, ran{0, readTestdata(t, "envoy/"+tc.name+".out"), readTestdata(t, "envoy/"+tc.name+".err")})
			parses(t, got.out)
		})
	}
}

// parses checks that gRPC-Go and the policy accept a service config.
func parses(t *testing.T, config string) {
	t.Helper()
	for _, f := range composite.Lint(config) {
		if strings.HasPrefix(f.Remedy, "correct it: gRPC-Go refuses") {
			t.Errorf("the result has the finding %v", f)
		}
	}
}

// TestFromEnvoyForms checks that a configuration is read in each form in which an
// Envoy has it.
func TestFromEnvoyForms(t *testing.T) {
	t.Run("names in camelCase", func(t *testing.T) {
		got := runWith("", "from-envoy", "testdata/envoy/camel.json")
		if want := readTestdata(t, "envoy/documented.out"); got.out != want {
			t.Errorf("it prints\n%s\nwant\n%s", got.out, want)
		}
	})
	t.Run("clusters and routes of discovery", func(t *testing.T) {
		got := runWith(readTestdata(t, "envoy/cds.yaml")+"---\n"+readTestdata(t, "envoy/rds.yaml"), "from-envoy", "-")
		got.wants(t, ran{0, readTestdata(t, "envoy/config_dump.out"), got.errs})
		for line := range strings.Lines(got.errs) {
			if !strings.HasPrefix(line, "standard input:27: ") && !strings.HasPrefix(line, "standard input:2: circuit_breakers: ") {
				t.Errorf("it says %q, want the lines 2 and 27 alone, counted over both documents", line)
			}
		}
	})
	t.Run("clusters without routes", func(t *testing.T) {
		got := runWith("", "from-envoy", "testdata/envoy/cds.yaml")
		if want := `testdata/envoy/cds.yaml:2: the file has no route to "composite" that a methodConfig can name: there is no retry policy, and so no retry` + "\n"; !strings.HasPrefix(got.errs, want) || got.code != 0 {
			t.Errorf("it ends with %d and says %q, want it to begin with %q", got.code, got.errs, want)
		}
	})
	t.Run("one of several", func(t *testing.T) {
		got := runWith("", "from-envoy", "--cluster", "second", "testdata/envoy/several.yaml")
		if !strings.Contains(got.out, `"target": "dns:///192.0.2.1:443"`) || got.code != 0 {
			t.Errorf("it ends with %d and prints %s", got.code, got.out)
		}
	})
}

func TestFromEnvoyBadInput(t *testing.T) {
	const self = `{"clusters": [{"name": "a", "cluster_type": {"name": "envoy.clusters.composite", "typed_config": {"clusters": [%s]}}}]}`
	for _, tc := range []struct{ name, input, want string }{
		{"no composite cluster", readTestdata(t, "envoy/none.yaml"), `there is no composite cluster (envoy.clusters.composite): "both" is envoy.extensions.clusters.aggregate.v3.ClusterConfig, "one" is STRICT_DNS, "two" is STATIC`},
		{"no clusters", "static_resources: {}\n", `there is no composite cluster (envoy.clusters.composite): there are no clusters at all`},
		{"nothing", "", `there is no composite cluster (envoy.clusters.composite): there are no clusters at all`},
		{"a service config", good, `there is no composite cluster (envoy.clusters.composite): there are no clusters at all`},
		{"several composite clusters", readTestdata(t, "envoy/several.yaml"), `there are several composite clusters, "first", "second", and a service config is for one: choose it with --cluster`},
		{"neither JSON nor YAML", "{\"a\": [1,\n2\n", `line 3: it is neither JSON (unexpected end of JSON input) nor YAML`},
		{"bad YAML", "a: b\n c: d\n", `line 2: mapping values are not allowed in this context`},
		{"a composite cluster of nothing", strings.Replace(self, "%s", "", 1), `line 1: the cluster "a" makes a config that is refused: composite: clusters: must list at least one cluster`},
		{"a composite cluster of no name", strings.Replace(self, "%s", "{}", 1), `line 1: the cluster "a" makes a config that is refused: composite: clusters[0].name: "": must not be empty`},
		{"too deep", strings.Repeat("[", 300) + strings.Repeat("]", 300), `it has more than 200 objects and lists in one another`},
		{"too deep, in YAML", strings.Repeat("- ", 300), `it has more than 200 objects and lists in one another`},
		{"an alias of what it is in", "a: &a [*a]\n", `it has more than 200 objects and lists in one another`},
		{"too much YAML", strings.Repeat("- \n", 2<<20), `it is not JSON, and YAML may have 4194304 bytes at the most`},
		{"aliases of aliases", bomb(), `it has more than 2000000 values`},
		{"aliases of a long text", "a: &a " + strings.Repeat("x", 1<<20) + "\nb: [" + strings.Repeat("*a,", 20) + "]", `it has more than 16777216 bytes of text, with that of each alias counted`},
		{"aliases of long keys", "a: &a {" + strings.Repeat(strings.Repeat("x", 1000)+": 1, ", 1000) + "}\nb: [" + strings.Repeat("*a,", 20) + "]", `it has more than 16777216 bytes of text, with that of each alias counted`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := runWith(tc.input, "from-envoy", "-")
			got.wants(t, ran{1, "", "compositectl from-envoy: standard input: " + tc.want + "\n"})
		})
	}
	t.Run("another name", func(t *testing.T) {
		got := runWith("", "from-envoy", "testdata/envoy/several.yaml", "--cluster=third")
		got.wants(t, ran{1, "", "compositectl from-envoy: testdata/envoy/several.yaml: there is no composite cluster \"third\", only \"first\", \"second\"\n"})
	})
}

// bomb is a little YAML that stands for ten billion values.
func bomb() string {
	text := "a0: &a0 x\n"
	for i := range 10 {
		text += fmt.Sprintf("a%d: &a%d [%s]\n", i+1, i+1, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*a%d, ", i), 10), ", "))
	}
	return text
}
