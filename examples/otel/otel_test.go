package main

import (
	"bytes"
	"context"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/grpc-composite/grpc-composite/examples/internal/demo"
	"github.com/grpc-composite/grpc-composite/internal/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// TestOutput runs the example and compares its output, but for times and values
// that are different in each run, with what it should be.
func TestOutput(t *testing.T) {
	t.Parallel()
	const rpc, attempt = "Sent.grpc.health.v1.Health.Check", "Attempt.grpc.health.v1.Health.Check"
	var out, errs bytes.Buffer
	if code := run(testkit.Context(t), nil, &out, &errs); code != demo.ExitOK || errs.Len() > 0 {
		t.Fatalf("exit code %d, stderr %q: want %d and nothing, after:\n%s", code, &errs, demo.ExitOK, &out)
	}
	text := regexp.MustCompile(`[0-9.]+ ms`).ReplaceAllString(out.String(), "MS")
	text = regexp.MustCompile(`(?m) [1-9]\d*$`).ReplaceAllString(text, " N")
	metric := func(name, labels string) string {
		return `composite_` + name + `_total{` + labels + `,grpc_target="composite:///"} N`
	}
	want := []string{
		"1. Both servers are up",
		"answered by primary on attempt 1, after MS",
		rpc + " OK, MS",
		attempt + " composite.attempt=1 composite.cluster=primary OK, MS",
		"2. The primary answers UNAVAILABLE",
		"answered by secondary on attempt 2, after MS",
		rpc + " OK, MS",
		attempt + " composite.attempt=1 composite.cluster=primary error, MS",
		attempt + " composite.attempt=2 composite.cluster=secondary OK, MS",
		"3. The primary is down",
		"answered by secondary on attempt 1, after MS",
		rpc + " OK, MS",
		attempt + " composite.attempt=1 composite.cluster=secondary OK, MS",
		"4. Both are down",
		"failed with Unavailable",
		rpc + " error, MS",
		attempt + " composite.attempt=1 error, MS",
		attempt + " composite.attempt=2 error, MS",
		"5. What Prometheus scrapes",
		metric("exhausted", `composite_reason="no_host"`),
		metric("picks", `composite_attempt="1",composite_cluster="primary"`),
		metric("picks", `composite_attempt="1",composite_cluster="secondary"`),
		metric("picks", `composite_attempt="2",composite_cluster="secondary"`),
		metric("skips", `composite_cluster="primary",composite_reason="transient_failure"`),
		metric("skips", `composite_cluster="secondary",composite_reason="transient_failure"`),
	}
	var got []string
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" {
			got = append(got, line)
		}
	}
	// When the primary goes down while an RPC is on its way there, gRPC repeats the
	// attempt, which is then seen twice.
	for i := 1; i < len(got); i++ {
		if got[i-1] == attempt+" composite.attempt=1 composite.cluster=primary error, MS" && strings.HasPrefix(got[i], attempt+" composite.attempt=1 ") {
			got = slices.Delete(got, i-1, i)
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("output\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestInterrupted(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(testkit.Context(t))
	cancel()
	var out, errs bytes.Buffer
	if code := run(ctx, nil, &out, &errs); code != demo.ExitInterrupted {
		t.Errorf("exit code %d, stderr %q: want %d", code, &errs, demo.ExitInterrupted)
	}
}
