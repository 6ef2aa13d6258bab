package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/grpc-composite/grpc-composite/examples/internal/demo"
	"github.com/grpc-composite/grpc-composite/internal/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// command runs the command with arguments.
func command(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	return testkit.Command(testkit.Context(t), run, args...)
}

func TestFailover(t *testing.T) {
	t.Parallel()
	start := time.Now()
	code, stdout, stderr := command(t)
	if code != demo.ExitOK || stderr != "" {
		t.Fatalf("exit code %d, stderr %q: want %d and nothing, after:\n%s", code, stderr, demo.ExitOK, stdout)
	}
	if took := time.Since(start); took > 10*time.Second {
		t.Errorf("it took %v: want less than 10 s", took)
	}
	parts := regexp.MustCompile(`(?m)^\d+\. `).Split(stdout, -1)
	steps := parts[1:]
	want := []struct {
		title, cluster, attempt, status string
		text                            []string
	}{
		{"All servers are healthy", "primary", "1", "OK", []string{"connected and answered after"}},
		{"primary answers UNAVAILABLE", "secondary", "2", "OK", nil},
		{"primary is down", "secondary", "1", "OK", []string{"noticed after"}},
		{"primary and secondary are down", "fallback", "1", "OK", []string{"noticed after"}},
		{"All servers are down", "-", "-", "Unavailable", []string{"noticed after", "no host available", "attempt 1 primary skipped"}},
		{"All servers are up again", "primary", "1", "OK", []string{"back on primary after", "All 6 steps went as they should"}},
	}
	if len(steps) != len(want) {
		t.Fatalf("%d steps: want %d, in:\n%s", len(steps), len(want), stdout)
	}
	for i, w := range want {
		if !strings.HasPrefix(steps[i], w.title) {
			t.Errorf("step %d is %q: want the title %q", i+1, steps[i], w.title)
		}
		got, others := rows(t, steps[i])
		wantRows := []row{{"1", w.cluster, w.attempt, w.status}, {"2", w.cluster, w.attempt, w.status}, {"3", w.cluster, w.attempt, w.status}}
		if !slices.Equal(got, wantRows) {
			t.Errorf("step %d: rows %v: want %v", i+1, got, wantRows)
		}
		text := oneLine(others...)
		for _, part := range append(w.text, "RPC CLUSTER ADDRESS ATTEMPT TIME STATUS") {
			if strings.Count(text, part) != 1 {
				t.Errorf("step %d says %q: want %q in it, once", i+1, text, part)
			}
		}
	}
	checkAlignment(t, stdout)
}

// TestStepFails has steps want what does not come.
func TestStepFails(t *testing.T) {
	t.Parallel()
	start := func(t *testing.T, opts ...grpc.DialOption) (*play, *demo.Server, *bytes.Buffer) {
		t.Helper()
		s := startServer(t, "primary")
		clusters := []cluster{{Name: s.Name, Target: s.Addr}}
		cc, err := dial(clusters, opts...)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = cc.Close() })
		var out bytes.Buffer
		return &play{cc: cc, directory: &directory{clusters: clusters}, table: &table{Output: demo.NewOutput(&out)}}, s, &out
	}
	nothing := func() error { return nil }

	for _, tc := range []struct {
		name string
		want want
		err  string
	}{
		{"another cluster answers", want{"secondary", 2}, "it should have been answered by secondary on attempt 2"},
		{"the attempt is another", want{"primary", 2}, "it should have been answered by primary on attempt 2"},
		{"an answer instead of an error", want{}, "it should have failed, since no server is up"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			// The time is over when the server has answered.
			ctx, cancel := context.WithCancel(testkit.Context(t))
			defer cancel()
			p, _, _ := start(t, grpc.WithChainUnaryInterceptor(func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoker grpc.UnaryInvoker, opts ...grpc.CallOption) error {
				err := invoker(ctx, method, req, reply, cc, opts...)
				if err == nil {
					cancel()
				}
				return err
			}))
			err := p.step(ctx, 1, step{title: "as it cannot be", change: nothing, want: tc.want})
			testkit.Contains(t, err, "not so after", "the last RPC was answered by primary on attempt 1: "+tc.err)
		})
	}
	t.Run("no time is left", func(t *testing.T) {
		t.Parallel()
		p, _, _ := start(t)
		ctx, cancel := context.WithTimeout(t.Context(), 0)
		defer cancel()
		err := p.run(ctx, []step{{title: "up", change: nothing, want: want{"primary", 1}}})
		testkit.Contains(t, err, "step 1 (up): not so after 0.0 s: the last RPC failed: ", "deadline exceeded")
	})
	t.Run("the change cannot be made", func(t *testing.T) {
		t.Parallel()
		p, _, _ := start(t)
		err := p.run(t.Context(), []step{{title: "up", change: func() error { return errors.New("port taken") }}})
		testkit.Contains(t, err, "step 1 (up): port taken")
		var stderr bytes.Buffer
		if code := demo.ExitCode("failover", err, &stderr); code != demo.ExitFailed || stderr.String() != "failover: step 1 (up): port taken\n" {
			t.Errorf("exit code %d, stderr %q: want %d and the error", code, stderr.String(), demo.ExitFailed)
		}
	})
	t.Run("a server fails later in the step", func(t *testing.T) {
		t.Parallel()
		p, s, out := start(t)
		// The header is printed when an RPC has come to what is wanted.
		p.table.Output = demo.NewOutput(onWrite(out, "CLUSTER", func() { s.Unavailable.Store(true) }))
		err := p.run(t.Context(), []step{
			{title: "up", change: nothing, want: want{"primary", 1}},
			{title: "never reached", change: func() error { t.Error("the steps went on"); return nil }},
		})
		testkit.Contains(t, err, "step 1 (up): RPC 1 failed", "primary is unavailable", "it should have been answered by primary on attempt 1")
		if got, _ := rows(t, out.String()); len(got) != 1 || got[0].cluster != "primary" || got[0].status != "Unavailable" {
			t.Errorf("rows %v: want the one that failed, with its cluster", got)
		}
	})
}

// startServer starts a server that is stopped when the test ends.
func startServer(t *testing.T, name string) *demo.Server {
	t.Helper()
	s := &demo.Server{Name: name}
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	return s
}

// onWrite returns a writer that calls f after it has written a text for the
// first time.
func onWrite(w io.Writer, text string, f func()) io.Writer {
	return writerFunc(func(p []byte) (int, error) {
		n, err := w.Write(p)
		if f != nil && bytes.Contains(p, []byte(text)) {
			f()
			f = nil
		}
		return n, err
	})
}

type writerFunc func(p []byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

func TestInterrupt(t *testing.T) {
	t.Parallel()
	up, down := startServer(t, "up"), startServer(t, "down")
	down.Stop()
	for _, tc := range []struct {
		name  string
		args  []string
		after string // the output at which Ctrl-C comes, "": before any
		code  int
		err   string
	}{
		{name: "before the steps", code: demo.ExitInterrupted, err: "failover: interrupted\n"},
		{name: "in a step", after: "3. ", code: demo.ExitInterrupted, err: "failover: interrupted\n"},
		{name: "between RPCs", after: "     1  primary", code: demo.ExitInterrupted, err: "failover: interrupted\n"},
		{name: "targets, before the first RPC", args: []string{"-targets", up.Addr}, code: demo.ExitInterrupted, err: "failover: interrupted\n"},
		{name: "targets without end", args: []string{"-targets", up.Addr, "-n", "0", "-every", "1ms"}, after: "    20  ", code: demo.ExitOK},
		{name: "targets, long before the next RPC", args: []string{"-targets", down.Addr, "-every", "1h"}, after: "     1  ", code: demo.ExitFailed, err: "failover: the last RPC failed\n"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			ctx, interrupt := context.WithCancel(testkit.Context(t))
			defer interrupt()
			if tc.after == "" {
				interrupt()
			}
			var out, errs bytes.Buffer
			code := run(ctx, tc.args, onWrite(&out, tc.after, interrupt), &errs)
			if code != tc.code || errs.String() != tc.err {
				t.Errorf("exit code %d, stderr %q: want %d and %q, after:\n%s", code, errs.String(), tc.code, tc.err, out.String())
			}
			if strings.Contains(out.String(), "Canceled") {
				t.Errorf("the RPC that was cut short is in the table:\n%s", out.String())
			}
		})
	}
}
