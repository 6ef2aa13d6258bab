package main

import (
	"bytes"
	"context"
	"io"
	"regexp"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/grpc-composite/grpc-composite/examples/internal/demo"
	"github.com/grpc-composite/grpc-composite/internal/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// command runs the command with a value of TARGET.
func command(ctx context.Context, t *testing.T, target string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	t.Setenv("TARGET", target)
	return testkit.Command(ctx, run, args...)
}

func TestOwnServers(t *testing.T) {
	code, stdout, stderr := command(testkit.Context(t), t, "")
	if code != demo.ExitOK || stderr != "" {
		t.Fatalf("exit code %d, stderr %q: want %d and nothing, after:\n%s", code, stderr, demo.ExitOK, stdout)
	}
	m := regexp.MustCompile(`TARGET=composite:///(127\.0\.0\.1:\d+),(127\.0\.0\.1:\d+)\n`).FindStringSubmatch(stdout)
	if m == nil {
		t.Fatalf("no target in:\n%s", stdout)
	}
	first, second := m[1], m[2]
	steps := strings.Split(stdout, "\n\n")[2:]
	want := []struct{ title, last string }{
		{"1. Both servers are up: the first answers", first},
		{"2. The first answers UNAVAILABLE: the second answers", second},
		{"3. The first is down: the second answers", second},
		{"All went as it should. Not one RPC failed.\n", ""},
	}
	if len(steps) != len(want) {
		t.Fatalf("%d parts: want %d, in:\n%s", len(steps), len(want), stdout)
	}
	for i, w := range want {
		if !strings.HasPrefix(steps[i], w.title) || !strings.HasSuffix(steps[i], w.last) {
			t.Errorf("part %d is %q: want %q, and at its end %q", i+1, steps[i], w.title, w.last)
		}
	}
}

// TestYourServers has targets of a user's, with and without failover.
func TestYourServers(t *testing.T) {
	t.Parallel()
	sick, well := &demo.Server{Name: "sick"}, &demo.Server{Name: "well"}
	if err := demo.StartAll(sick, well); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { demo.StopAll(sick, well) })
	sick.Unavailable.Store(true)
	for _, tc := range []struct {
		name, target string
		last         string // line
		err          string
	}{
		{"with failover", "composite:///" + sick.Addr + "," + well.Addr, "   10  answered by " + well.Addr + " after ", ""},
		{"without, to a server that is well", "dns:///" + well.Addr, "   10  answered by " + well.Addr + " after ", ""},
		{"without, to one that is not", "dns:///" + sick.Addr, "   10  failed after ", "the last RPC failed"},
		{"no failover on another status", "composite:///" + sick.Addr + "," + well.Addr + "?retryOn=ABORTED", "   10  failed after ", "the last RPC failed"},
		{"a mistake in a composite target", "composite://" + sick.Addr, "   10  failed after ", "the last RPC failed"},
		{"no target at all", "dns://%%%", "", "TARGET: "},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			var b bytes.Buffer
			err := yourServers(testkit.Context(t), demo.NewOutput(&b), tc.target, insecure.NewCredentials(), time.Millisecond)
			if tc.err == "" && err != nil {
				t.Errorf("error %v, after:\n%s", err, b.String())
			} else if tc.err != "" {
				testkit.Contains(t, err, tc.err)
			}
			if !strings.Contains(b.String(), tc.last) {
				t.Errorf("%q: want %q in it", b.String(), tc.last)
			}
		})
	}
}

// TestErrorPrintedOnce has a server that fails each RPC.
func TestErrorPrintedOnce(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	err := yourServers(testkit.Context(t), demo.NewOutput(&b), testkit.ClosedPort, insecure.NewCredentials(), time.Millisecond)
	testkit.Contains(t, err, "the last RPC failed")
	if n := strings.Count(b.String(), "connection refused"); n != 1 {
		t.Errorf("the error is printed %d times: want once, in:\n%s", n, b.String())
	}
}

// TestTLS has a plaintext server called with TLS.
func TestTLS(t *testing.T) {
	t.Parallel()
	s := &demo.Server{Name: "plaintext"}
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	var b bytes.Buffer
	err := yourServers(testkit.Context(t), demo.NewOutput(&b), s.Addr, credentials.NewTLS(nil), time.Millisecond)
	testkit.Contains(t, err, "the last RPC failed")
	if text := strings.Join(strings.Fields(b.String()), " "); !strings.Contains(text, "authentication handshake failed") {
		t.Errorf("%q: want a failed handshake in it", text)
	}
}

// TestEnvironment is interrupted when the first RPC has been answered.
func TestEnvironment(t *testing.T) {
	s := &demo.Server{Name: "one"}
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	ctx, interrupt := context.WithCancel(testkit.Context(t))
	defer interrupt()
	t.Setenv("TARGET", "composite:///"+s.Addr)
	var out, errs bytes.Buffer
	stdout := writerFunc(func(p []byte) (int, error) {
		if bytes.Contains(p, []byte("answered by")) {
			interrupt()
		}
		return out.Write(p)
	})
	code := run(ctx, nil, stdout, &errs)
	if code != demo.ExitInterrupted || errs.String() != "target: interrupted\n" || !strings.HasPrefix(out.String(), "TARGET=composite:///"+s.Addr+"\n    1  answered by "+s.Addr) {
		t.Errorf("exit code %d, stderr %q: want %d and why, after:\n%s", code, errs.String(), demo.ExitInterrupted, out.String())
	}
}

type writerFunc func(p []byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

func TestUsage(t *testing.T) {
	for _, tc := range []struct {
		name, target   string
		args           []string
		code           int
		stdout, stderr string
	}{
		{"help", "", []string{"-h"}, demo.ExitOK, "Usage: [TARGET=target] go run ./examples/target", ""},
		{"TLS without a target", "", []string{"-tls"}, demo.ExitUsage, "", "target: -tls: must come with TARGET\n"},
		{"a bad target", "dns://%%%", nil, demo.ExitUsage, "", "target: TARGET: "},
	} {
		t.Run(tc.name, func(t *testing.T) {
			code, stdout, stderr := command(testkit.Context(t), t, tc.target, tc.args...)
			if code != tc.code || !strings.HasPrefix(stdout, tc.stdout) || !strings.HasPrefix(stderr, tc.stderr) {
				t.Errorf("exit code %d, stdout %q, stderr %q: want %d, %q and %q", code, stdout, stderr, tc.code, tc.stdout, tc.stderr)
			}
		})
	}
}

// TestWrongServer has another server answer than the one that should.
func TestWrongServer(t *testing.T) {
	t.Parallel()
	s := &demo.Server{Name: "one"}
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	cc, err := dial(s.Addr, insecure.NewCredentials())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cc.Close() })
	ctx, cancel := context.WithCancel(testkit.Context(t))
	defer cancel()
	out := demo.NewOutput(writerFunc(func(p []byte) (int, error) { cancel(); return len(p), nil }))
	testkit.Contains(t, awaitAnswer(ctx, out, cc, &demo.Server{Name: "other", Addr: testkit.ClosedPort}),
		"the last RPC was answered by "+s.Addr+": it should have been by "+testkit.ClosedPort)
	s.Unavailable.Store(true)
	testkit.Contains(t, awaitAnswer(testkit.Context(t), demo.NewOutput(io.Discard), cc, s),
		"an RPC failed, which the one server should have answered", "one is unavailable")
}
