package main

import (
	"bytes"
	"context"
	"regexp"
	"strings"
	"testing"

	"github.com/grpc-composite/grpc-composite/balancer/composite"
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
	const port = `:\d+ +`
	want := []string{
		"Three servers run", "1. All servers are up", `primary +primary\.example` + port + "Bearer token-of-primary +CA One",
		"2. primary is down", `secondary +secondary\.example` + port + "Bearer token-of-secondary +CA Two",
		"3. secondary is down, too", `plaintext +plaintext\.example` + port + "none +none",
		"4. All are up", `plaintext +plaintext\.example` + port + "none +none",
		"5. The plaintext cluster is down",
		`primary skipped: transient failure .* certificate signed by unknown authority.*; secondary skipped: transient failure .* certificate signed by unknown authority.*; plaintext skipped`,
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

// TestWrongExpectation has the example find what it does not want.
func TestWrongExpectation(t *testing.T) {
	t.Parallel()
	p, err := start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.stop)
	cc, err := dial(targets{p.target(p.primary), p.target(p.secondary), p.target(p.plaintext)}, roots{p.caOne.Pool(), p.caTwo.Pool()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cc.Close() })
	var b bytes.Buffer
	out := demo.NewOutput(&b)
	ctx := testkit.Context(t)
	want := seen{authority(p.primary), "Bearer token-of-secondary", "CA One"}
	testkit.Contains(t, expect(ctx, out, cc, p.primary, want), "primary: {", "token-of-primary", "want {", "token-of-secondary")

	over, cancel := context.WithCancel(ctx)
	cancel()
	testkit.Contains(t, expect(over, out, cc, p.primary, want), "an RPC failed, which primary should have answered on attempt 1")
	// An RPC that starts at a later slot comes to another server.
	for n, s := range []*demo.Server{p.primary, p.secondary, p.plaintext} {
		a, err := demo.Check(composite.WithAttempt(ctx, n+1), cc)
		if err != nil || a.Server != s.Name {
			t.Errorf("attempt %d: %v, error %v: want %s", n+1, a, err, s.Name)
		}
	}
}
