package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestReadme checks that README.md shows what the commands print.
func TestReadme(t *testing.T) {
	path, err := filepath.Abs("../../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	readme, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir("testdata")
	explained, _, _ := strings.Cut(runWith("", "explain", "config.json").out, "\nAssumed:")
	for _, shown := range []string{
		"$ compositectl lint config.json\n" + runWith("", "lint", "config.json").out,
		"$ compositectl explain config.json\n" + explained,
	} {
		if !strings.Contains(string(readme), shown) {
			t.Errorf("README.md does not show\n%s", shown)
		}
	}
	// Of what from-envoy says a few lines are shown.
	said := strings.ReplaceAll(runWith("", "from-envoy", "envoy/documented.yaml").errs, "envoy/documented.yaml:", "envoy.yaml:")
	_, shown, _ := strings.Cut(string(readme), "$ compositectl from-envoy envoy.yaml > config.json\n")
	shown, _, ok := strings.Cut(shown, "...\n")
	if !ok || shown == "" {
		t.Error("README.md does not show from-envoy")
	}
	for line := range strings.Lines(shown) {
		if !strings.Contains(said, line) {
			t.Errorf("README.md has from-envoy say %q, and it does not", line)
		}
	}
}
