package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestReadme checks that README.md shows what the commands print.
func TestReadme(t *testing.T) {
	readme := readReadme(t)
	t.Chdir("testdata")
	explained, _, _ := strings.Cut(runWith("", "explain", "config.json").out, "\nAssumed:")
	for _, shown := range []string{
		"$ compositectl lint config.json\n" + runWith("", "lint", "config.json").out,
		"$ compositectl explain config.json\n" + explained,
	} {
		if !strings.Contains(readme, shown) {
			t.Errorf("README.md does not show\n%s", shown)
		}
	}
	// Of what from-envoy says a few lines are shown.
	said := strings.ReplaceAll(runWith("", "from-envoy", "envoy/documented.yaml").errs, "envoy/documented.yaml:", "envoy.yaml:")
	_, shown, _ := strings.Cut(readme, "$ compositectl from-envoy envoy.yaml > config.json\n")
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

// TestReadmeTargets checks that nothing is wrong with the targets that README.md
// shows for the environment.
func TestReadmeTargets(t *testing.T) {
	found := 0
	for line := range strings.Lines(readReadme(t)) {
		target, ok := strings.CutPrefix(strings.TrimSpace(line), "TARGET='")
		if target = strings.TrimSuffix(target, "'"); ok && isTarget(target) {
			found++
			runWith("", "lint", target).wants(t, ran{0, target + ": nothing found\n", ""})
		}
	}
	if found != 2 {
		t.Errorf("README.md shows %d targets: want 2", found)
	}
}

func readReadme(t *testing.T) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("..", "..", "..", "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}
