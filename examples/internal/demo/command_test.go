package demo

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"strings"
	"testing"

	"github.com/grpc-composite/grpc-composite/internal/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

func TestCommand(t *testing.T) {
	t.Parallel()
	errPlay := errors.New("step 1: no answer")
	for _, tc := range []struct {
		name   string
		args   []string
		err    error // of the play
		cancel bool  // Ctrl-C during the play
		code   int
		stdout string
		stderr string
	}{
		{name: "all well", code: ExitOK, stdout: "played with 1\n"},
		{name: "a flag", args: []string{"-n", "2"}, code: ExitOK, stdout: "played with 2\n"},
		{name: "help", args: []string{"-h"}, code: ExitOK, stdout: "Usage: x\n"},
		{name: "help among others", args: []string{"-n", "2", "--help"}, code: ExitOK, stdout: "Usage: x\n"},
		{name: "the play fails", err: errPlay, code: ExitFailed, stdout: "played with 1\n", stderr: "x: step 1: no answer\n"},
		{name: "the play finds a mistake of the user", err: fmt.Errorf("a step: %w", &UsageError{errors.New("TARGET: bad")}), code: ExitUsage, stdout: "played with 1\n", stderr: "x: a step: TARGET: bad\nRun it with -h to see all flags.\n"},
		{name: "interrupted", cancel: true, err: errPlay, code: ExitInterrupted, stdout: "played with 1\n", stderr: "x: interrupted\n"},
		{name: "interrupted too late", cancel: true, code: ExitOK, stdout: "played with 1\n"},
		{name: "unknown flag", args: []string{"-m"}, code: ExitUsage, stderr: "x: flag provided but not defined: -m\nRun it with -h to see all flags.\n"},
		{name: "bad value", args: []string{"-n", "y"}, code: ExitUsage, stderr: "x: invalid value \"y\" for flag -n: parse error\nRun it with -h to see all flags.\n"},
		{name: "argument", args: []string{"y"}, code: ExitUsage, stderr: "x: \"y\": must be a flag: there are no arguments besides flags\nRun it with -h to see all flags.\n"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			var n int
			c := Command{
				Name: "x", Usage: "Usage: x\n",
				Flags: func(fs *flag.FlagSet) { fs.IntVar(&n, "n", 1, "") },
				Play: func(_ context.Context, out *Output) error {
					if tc.cancel {
						cancel()
					}
					out.Printf("played with %d\n", n)
					return tc.err
				},
			}
			var stdout, stderr bytes.Buffer
			code := c.Run(ctx, tc.args, &stdout, &stderr)
			if code != tc.code || stdout.String() != tc.stdout || stderr.String() != tc.stderr {
				t.Errorf("exit code %d, stdout %q, stderr %q: want %d, %q and %q", code, stdout.String(), stderr.String(), tc.code, tc.stdout, tc.stderr)
			}
		})
	}
}

type fullDisk struct{ writes int }

func (d *fullDisk) Write([]byte) (int, error) {
	d.writes++
	return 0, errors.New("disk full")
}

// TestOutputFails has the output go where it cannot be written.
func TestOutputFails(t *testing.T) {
	t.Parallel()
	var disk fullDisk
	var stderr bytes.Buffer
	c := Command{Name: "x", Play: func(_ context.Context, out *Output) error {
		out.Step("One")
		out.Text("a text")
		return nil
	}}
	if code := c.Run(t.Context(), nil, &disk, &stderr); code != ExitFailed || stderr.String() != "x: disk full\n" {
		t.Errorf("exit code %d, stderr %q: want %d and the error", code, stderr.String(), ExitFailed)
	}
	if disk.writes != 1 {
		t.Errorf("%d writes: want none after the one that failed", disk.writes)
	}
}

func TestOutput(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	out := NewOutput(&b)
	out.Step("One")
	out.Text(strings.Repeat("word ", 20))
	out.Step("Two")
	want := "\n1. One\n       " + strings.Repeat("word ", 17) + "word\n       word word\n\n2. Two\n"
	if b.String() != want || out.Err() != nil {
		t.Errorf("%q, error %v: want %q", b.String(), out.Err(), want)
	}
}
