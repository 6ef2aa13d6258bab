package main

import (
	"strings"
	"testing"

	"github.com/grpc-composite/grpc-composite/examples/internal/demo"
)

func TestFlagErrors(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name string
		args []string
		want string
	}{
		{"no targets", []string{"-targets", ""}, `-targets: "": target 1 is empty`},
		{"only spaces", []string{"-targets", " "}, `-targets: " ": target 1 is empty`},
		{"an empty target", []string{"-targets", "a:1,,b:2"}, `-targets: "a:1,,b:2": target 2 is empty`},
		{"a comma at the end", []string{"-targets", "a:1,"}, "target 2 is empty"},
		{"too many targets", []string{"-targets", strings.Repeat("a:1,", 64) + "a:1"}, "must list at most 64 targets, and lists 65"},
		{"a scheme that nobody knows", []string{"-targets", "a:1,nosuch:///b"}, `clusters[1].target: "nosuch:///b": must have a scheme that a resolver is registered for`},
		{"a scheme that cannot be a cluster", []string{"-targets", "xds:///a"}, `must not be an "xds:" target`},
		{"negative n", []string{"-targets", "a:1", "-n", "-1"}, "-n: -1: must not be negative"},
		{"n is no number", []string{"-targets", "a:1", "-n", "many"}, `invalid value "many" for flag -n`},
		{"no interval", []string{"-targets", "a:1", "-every", "0s"}, "-every: 0s: must be positive"},
		{"negative interval", []string{"-targets", "a:1", "-every", "-1s"}, "-every: -1s: must be positive"},
		{"interval without unit", []string{"-targets", "a:1", "-every", "5"}, `invalid value "5" for flag -every`},
		{"n alone", []string{"-n", "3"}, "-n: must come with -targets"},
		{"interval alone", []string{"-every", "1s"}, "-every: must come with -targets"},
		{"stray argument", []string{"a:1"}, `"a:1": must be a flag`},
		{"stray argument after flags", []string{"-targets", "a:1", "b:2"}, `"b:2": must be a flag`},
		{"unknown flag", []string{"-target", "a:1"}, "flag provided but not defined: -target"},
		{"value left out", []string{"-targets"}, "flag needs an argument: -targets"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			code, stdout, stderr := command(t, tc.args...)
			if code != demo.ExitUsage || stdout != "" {
				t.Errorf("exit code %d, stdout %q: want %d and nothing", code, stdout, demo.ExitUsage)
			}
			if !strings.HasPrefix(stderr, "failover: ") || !strings.Contains(stderr, tc.want) || !strings.HasSuffix(stderr, "Run it with -h to see all flags.\n") {
				t.Errorf("stderr %q: want %q in it, and a word on -h at the end", stderr, tc.want)
			}
		})
	}
}

func TestHelp(t *testing.T) {
	t.Parallel()
	for _, arg := range []string{"-h", "--help"} {
		code, stdout, stderr := command(t, arg)
		if code != demo.ExitOK || stderr != "" {
			t.Errorf("%s: exit code %d, stderr %q: want %d and nothing", arg, code, stderr, demo.ExitOK)
		}
		for _, part := range []string{"-targets host:port", "-n count", "-every interval", "Default: 10.", "Default: 500ms.", "Examples:", "Exit code"} {
			if !strings.Contains(oneLine(stdout), part) {
				t.Errorf("%s: %q: want %q in it", arg, stdout, part)
			}
		}
	}
}
