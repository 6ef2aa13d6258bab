package main

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestChoose(t *testing.T) {
	for _, tc := range []struct {
		name   string
		all    string
		minors int
		want   string
	}{
		{"the last patch of each", "v1.1.0 v1.2.0 v1.2.1 v1.10.0 v1.9.2 v1.9.10", 3, "v1.2.1 v1.9.10 v1.10.0"},
		{"fewer than asked for", "v1.1.0", 8, "v1.1.0"},
		{"a pre-release of what comes", "v1.1.0 v1.2.0-dev v1.2.0 v1.3.0-dev", 1, "v1.2.0 v1.3.0-dev"},
		{"pre-releases of what has come", "v1.1.0-dev v1.1.0 v1.1.1 v1.1.1-rc", 2, "v1.1.1"},
		{"what is no version", "v1.1.0 v1.2 latest v1.2.0- v1.2.x", 2, "v1.1.0"},
		{"none", "", 2, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := strings.Join(choose(strings.Fields(tc.all), tc.minors), " "); got != tc.want {
				t.Errorf("versions %q: want %q", got, tc.want)
			}
		})
	}
}

func TestDifferencesOf(t *testing.T) {
	for v, want := range map[string]int{"v1.78.0": 4, "v1.79.3": 3, "v1.80.0": 2, "v1.80.1": 2, "v1.81.0-dev": 2, "v1.81.0": 0, "v1.86.0-dev": 0} {
		if got := len(differencesOf(v)); got != want {
			t.Errorf("%s has %d differences: want %d", v, got, want)
		}
	}
}

func TestRead(t *testing.T) {
	got := read(`=== RUN   TestA
--- PASS: TestA (0.00s)
--- FAIL: TestB (0.10s)
    --- PASS: TestB/x (0.00s)
    --- FAIL: TestB/y (0.00s)
        b_test.go:1: --- FAIL: not a test
        --- FAIL: TestB/y/z (0.00s)
--- FAIL: TestC (0.10s)
    --- PASS: TestC/x (0.00s)
--- SKIP: TestD (0.00s)
FAIL
`)
	if want := []string{"TestA", "TestB/x", "TestC/x"}; !slices.Equal(got.passed, want) {
		t.Errorf("passed %q: want %q", got.passed, want)
	}
	if want := []string{"TestB/y/z", "TestC"}; !slices.Equal(got.failed, want) {
		t.Errorf("failed %q: want %q", got.failed, want)
	}
}

func TestPattern(t *testing.T) {
	if got, want := pattern("TestA/x.y/z"), `^TestA$/^x\.y$/^z$`; got != want {
		t.Errorf("pattern %q: want %q", got, want)
	}
}

func TestCopyModule(t *testing.T) {
	from, to := t.TempDir(), filepath.Join(t.TempDir(), "copy")
	for _, name := range []string{"go.mod", "a.go", "p/a.go", "p/testdata/x", ".git/config", "other/go.mod", "other/a.go"} {
		path := filepath.Join(from, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(name), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := copyModule(from, to); err != nil {
		t.Fatal(err)
	}
	var got []string
	_ = filepath.WalkDir(to, func(path string, entry os.DirEntry, _ error) error {
		if !entry.IsDir() {
			name, _ := filepath.Rel(to, path)
			got = append(got, filepath.ToSlash(name))
		}
		return nil
	})
	if want := []string{"a.go", "go.mod", "other/a.go", "other/go.mod", "p/a.go", "p/testdata/x"}; !slices.Equal(got, want) {
		t.Errorf("files %q: want %q", got, want)
	}
}

func TestBadArguments(t *testing.T) {
	for _, args := range [][]string{{"1.85.0"}, {"v1.85"}, {"latest"}, {"-minors", "x"}} {
		if err := run(t.Context(), args, new(bytes.Buffer)); err == nil {
			t.Errorf("%q: no error", args)
		}
	}
}

// TestReport checks that what is not as known is an error, and says what.
func TestReport(t *testing.T) {
	for _, tc := range []struct {
		name   string
		result result
		text   string
		bad    bool
	}{
		{"well", result{version: "v1.85.0", passed: 3}, "| v1.85.0 | 3 packages pass in 0s |  |", false},
		{"again", result{version: "v1.85.0", passed: 3, flaky: []string{"p.TestA"}}, "pass only when run again: p.TestA", false},
		{"fails", result{version: "v1.85.0", failed: []string{"p.TestA"}}, "fail: p.TestA", true},
		{"stale", result{version: "v1.80.0", stale: []string{"p.TestA"}}, "pass and should fail: p.TestA", true},
		{"does not build", result{version: "v1.50.0", err: os.ErrInvalid}, "does not build: invalid argument", true},
		{"builds", result{version: "v1.78.0", builds: true}, "| v1.78.0 | builds | the library builds", false},
		{"differs", result{version: "v1.79.0"}, "ring_hash", false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var out bytes.Buffer
			if err := report(&out, []result{tc.result}); (err != nil) != tc.bad {
				t.Errorf("error %v: want one: %v", err, tc.bad)
			}
			if !strings.Contains(out.String(), tc.text) {
				t.Errorf("report %q: want %q in it", out.String(), tc.text)
			}
		})
	}
}
