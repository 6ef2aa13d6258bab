package main

import (
	"bytes"
	"context"
	"regexp"
	"strings"
	"testing"

	"github.com/grpc-composite/grpc-composite/examples/internal/demo"
	"github.com/grpc-composite/grpc-composite/internal/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

func TestRun(t *testing.T) {
	t.Parallel()
	code, stdout, stderr := testkit.Command(testkit.Context(t), run)
	if code != demo.ExitOK || stderr != "" {
		t.Fatalf("exit code %d, stderr %q: want %d and nothing, after:\n%s", code, stderr, demo.ExitOK, stdout)
	}
	want := []string{
		"A control plane runs on",
		"1. .* answered by primary on attempt 1", "2. .* answered by secondary on attempt 2",
		"3. .* answered by secondary on attempt 1", "4. .* answered by fallback on attempt 1",
		"5. .* answered by spare on attempt 1", "6. .* answered by secondary on attempt 2",
		"7. .* answered by fallback on attempt 3", "All went as it should",
	}
	if !regexp.MustCompile("^" + strings.Join(want, ".*")).MatchString(strings.Join(strings.Fields(stdout), " ")) {
		t.Errorf("want in this order: %q, in:\n%s", want, stdout)
	}
}

func TestHelp(t *testing.T) {
	t.Parallel()
	if code, stdout, stderr := testkit.Command(t.Context(), run, "-h"); code != demo.ExitOK || stdout != usage || stderr != "" {
		t.Errorf("exit code %d, stdout %q, stderr %q: want %d and the usage", code, stdout, stderr, demo.ExitOK)
	}
}

// TestInterrupted has Ctrl-C end the command at once.
func TestInterrupted(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if code, _, stderr := testkit.Command(ctx, run); code != demo.ExitInterrupted {
		t.Errorf("exit code %d, stderr %q: want %d", code, stderr, demo.ExitInterrupted)
	}
}

// TestWrongExpectation has the example find what it does not want.
func TestWrongExpectation(t *testing.T) {
	t.Parallel()
	p, err := start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer p.stop()
	p.controlPlane.stop()
	demo.StopAll(p.servers()...)
	err = p.take(testkit.Context(t), demo.NewOutput(new(bytes.Buffer)), plot[0])
	testkit.Contains(t, err, "an RPC failed", "primary")
}
