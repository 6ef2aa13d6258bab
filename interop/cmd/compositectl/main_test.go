package main

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/grpc-composite/grpc-composite/internal/testkit"
)

func TestMain(m *testing.M) {
	// Lint would speak of the proxy of whoever runs the tests.
	for _, name := range []string{"HTTPS_PROXY", "https_proxy"} {
		if err := os.Unsetenv(name); err != nil {
			panic(err)
		}
	}
	testkit.Main(m)
}

// ran is what a run of the program gave.
type ran struct {
	code      int
	out, errs string
}

func runWith(input string, args ...string) ran {
	var out, errs bytes.Buffer
	code := run(args, strings.NewReader(input), &out, &errs)
	return ran{code, out.String(), errs.String()}
}

// wants compares a run with what it must give.
func (r ran) wants(t *testing.T, want ran) {
	t.Helper()
	if r.code != want.code {
		t.Errorf("it ends with %d, want %d", r.code, want.code)
	}
	if r.out != want.out {
		t.Errorf("it prints\n%s\nwant\n%s", r.out, want.out)
	}
	if r.errs != want.errs {
		t.Errorf("it says\n%s\nwant\n%s", r.errs, want.errs)
	}
}

func TestUsage(t *testing.T) {
	for _, tc := range []struct {
		name string
		args []string
		code int
		out  string // begins so
		errs string // begins so
	}{
		{"nothing", nil, exitUsage, "", usage},
		{"help", []string{"help"}, 0, usage, ""},
		{"-h", []string{"-h"}, 0, usage, ""},
		{"--help", []string{"--help"}, 0, usage, ""},
		{"an unknown command", []string{"lnit", "x"}, exitUsage, "", "compositectl: there is no command \"lnit\"\n\n" + usage},
		{"help of lint", []string{"lint", "-h"}, 0, "compositectl lint [flags] FILE\n", ""},
		{"help of explain", []string{"explain", "--help"}, 0, "compositectl explain [flags] FILE\n", ""},
		{"no file", []string{"lint", "--json"}, exitUsage, "", "compositectl lint: there must be one FILE, or - for the standard input, and there are 0\n\ncompositectl lint [flags] FILE\n"},
		{"two files", []string{"explain", "a", "b"}, exitUsage, "", "compositectl explain: there must be one FILE, or - for the standard input, and there are 2\n"},
		{"an unknown flag", []string{"lint", "a", "--yaml"}, exitUsage, "", "compositectl lint: flag provided but not defined: -yaml\n"},
		{"an empty scheme", []string{"lint", "-", "--scheme", ""}, exitUsage, "", "compositectl lint: invalid value \"\" for flag -scheme: must not be empty\n"},
		{"a file that does not exist", []string{"lint", "testdata/none.json"}, exitUsage, "", "compositectl lint: open testdata/none.json: "},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := runWith("", tc.args...)
			if got.code != tc.code {
				t.Errorf("it ends with %d, want %d", got.code, tc.code)
			}
			if !strings.HasPrefix(got.out, tc.out) || (tc.out == "") != (got.out == "") {
				t.Errorf("it prints %q, want it to begin with %q", got.out, tc.out)
			}
			if !strings.HasPrefix(got.errs, tc.errs) || (tc.errs == "") != (got.errs == "") {
				t.Errorf("it says %q, want it to begin with %q", got.errs, tc.errs)
			}
		})
	}
}

// TestNotWritten checks that no command ends as if all were well when what it prints,
// or what it says besides, cannot be written.
func TestNotWritten(t *testing.T) {
	const said = "compositectl: not all was written: no space\n"
	for _, tc := range []struct {
		name  string
		input string
		args  []string
		errs  bool // it is the standard error that cannot be written
	}{
		{"lint", good, []string{"lint", "-"}, false},
		{"lint, as JSON", good, []string{"lint", "--json", "-"}, false},
		{"lint, with an error", errored, []string{"lint", "-"}, false},
		{"explain", good, []string{"explain", "-"}, false},
		{"explain, and what lint finds", warned, []string{"explain", "-"}, true},
		{"from-envoy", "", []string{"from-envoy", "testdata/envoy/documented.yaml"}, false},
		{"from-envoy, and its notes", "", []string{"from-envoy", "testdata/envoy/documented.yaml"}, true},
		{"help", "", []string{"help"}, false},
		{"help of lint", "", []string{"lint", "-h"}, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var out, errs io.Writer = full{}, new(strings.Builder)
			if tc.errs {
				out, errs = io.Discard, full{}
			}
			if code := run(tc.args, strings.NewReader(tc.input), out, errs); code != exitFound {
				t.Errorf("it ends with %d, want %d", code, exitFound)
			}
			if text, ok := errs.(*strings.Builder); ok && !strings.HasSuffix(text.String(), said) {
				t.Errorf("it says %q, want it to end with %q", text, said)
			}
		})
	}
}

// full is a disk without space.
type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("no space") }

func TestInputTooLarge(t *testing.T) {
	got := runWith(strings.Repeat(" ", configLimit+1), "lint", "-")
	got.wants(t, ran{code: exitUsage, errs: "compositectl lint: standard input: it has more than 1048576 bytes\n"})
}

// readTestdata returns a file of testdata.
func readTestdata(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}
