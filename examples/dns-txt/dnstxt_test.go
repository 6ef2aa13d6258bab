package main

import (
	"io"
	"regexp"
	"strings"
	"testing"

	"github.com/grpc-composite/grpc-composite/examples/internal/demo"
	"github.com/grpc-composite/grpc-composite/internal/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// command runs the command with arguments.
func command(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	return testkit.Command(testkit.Context(t), run, args...)
}

func TestRun(t *testing.T) {
	t.Parallel()
	code, stdout, stderr := command(t)
	if code != demo.ExitOK || stderr != "" {
		t.Fatalf("exit code %d, stderr %q: want %d and nothing, after:\n%s", code, stderr, demo.ExitOK, stdout)
	}
	const primaryError = "primary is unavailable, as this step wants it"
	want := []string{
		`A client dials dns://127\.0\.0\.1:\d+/primary\.example:\d+`,
		"1. DNS has addresses only", "answered by primary on attempt 1", primaryError,
		"2. A TXT record is added", `grpc_config=\[\{ "serviceConfig":`, `"name": "fallback", "target": "dns://127`, primaryError,
		"3. primary restarts", "the client had the config", "answered by fallback on attempt 2",
		"4. primary is down", "answered by fallback on attempt 1",
		"5. A client that starts now", "answered by fallback on attempt 1",
		"All went as it should",
	}
	text := strings.Join(strings.Fields(stdout), " ")
	if !regexp.MustCompile("^" + strings.Join(want, ".*")).MatchString(text) {
		t.Errorf("want in this order: %q, in:\n%s", want, stdout)
	}
}

func TestHelp(t *testing.T) {
	t.Parallel()
	if code, stdout, stderr := command(t, "-h"); code != demo.ExitOK || stdout != usage || stderr != "" {
		t.Errorf("exit code %d, stdout %q, stderr %q: want %d and the usage", code, stdout, stderr, demo.ExitOK)
	}
}

func TestTXT(t *testing.T) {
	t.Parallel()
	got, err := txt(`[{"serviceConfig": {
		"loadBalancingConfig": [{"pick_first": {}}]
	}}]`)
	if want := `grpc_config=[{"serviceConfig":{"loadBalancingConfig":[{"pick_first":{}}]}}]`; err != nil || got != want {
		t.Errorf("%q, error %v: want %q", got, err, want)
	}
	_, err = txt("[{")
	testkit.Contains(t, err, "service config: unexpected end of JSON input")
}

// TestWrongExpectation has the example find what it does not want.
func TestWrongExpectation(t *testing.T) {
	t.Parallel()
	s := &demo.Server{Name: "primary"}
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	cc, err := dial(s.Addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cc.Close() })
	p := &play{primary: s, out: demo.NewOutput(io.Discard)}
	testkit.Contains(t, p.expectError(testkit.Context(t), cc), "an RPC was answered by primary on attempt 1", "it should have failed")
	s.Unavailable.Store(true)
	testkit.Contains(t, p.expect(testkit.Context(t), cc, "primary", 1), "an RPC failed, which primary should have answered on attempt 1")
}
