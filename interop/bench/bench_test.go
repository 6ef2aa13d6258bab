package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"

	testpb "google.golang.org/grpc/interop/grpc_testing"

	"github.com/grpc-composite/grpc-composite/internal/testkit"
)

func TestMain(m *testing.M) {
	if addr := os.Getenv(serveEnv); addr != "" {
		exit(serve(addr))
	}
	if text := os.Getenv(weighEnv); text != "" {
		exit(weigh(text))
	}
	testkit.Main(m)
}

// logWriter writes to a test's log.
type logWriter struct{ t *testing.T }

func (w logWriter) Write(p []byte) (int, error) {
	w.t.Log(strings.TrimSuffix(string(p), "\n"))
	return len(p), nil
}

// TestAll runs everything for a moment, and looks at all that comes out, but not
// at how long it took.
func TestAll(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "not", "there")
	file := filepath.Join(dir, "json", "all.json")
	var out bytes.Buffer
	args := []string{"-duration", "6ms", "-rounds", "2", "-small", "-out", dir, "-json", file, "-benchfmt", filepath.Join(dir, "all.txt")}
	if err := run(t.Context(), args, &out, logWriter{t}); err != nil {
		t.Fatal(err)
	}
	t.Log(out.String())
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var r results
	if err := json.Unmarshal(text, &r); err != nil {
		t.Fatal(err)
	}
	for _, w := range workloads {
		for _, c := range contenders {
			got := r.find(w.name, c.name)
			switch {
			case !w.can(c), c.name == envoyName && len(r.Notes) > 0:
				if got != nil {
					t.Errorf("%s/%s was measured", w.name, c.name)
				}
			case got == nil:
				t.Errorf("%s/%s was not measured", w.name, c.name)
			default:
				checkCell(t, *got)
			}
		}
	}
	for _, e := range extras {
		checkExtra(t, &r, e)
	}
	checkCounts(t, &r)
	for _, name := range []string{"benchmarks.md", "benchmarks.svg", "all.txt"} {
		if text, err := os.ReadFile(filepath.Join(dir, name)); err != nil || len(text) == 0 {
			t.Errorf("%s: %d bytes, %v", name, len(text), err)
		}
	}
}

func checkCell(t *testing.T, c cell) {
	t.Helper()
	what := c.Workload + "/" + c.Contender
	if len(c.Turns) != 2 || c.RPCs < 2 || c.Failed != 0 {
		t.Errorf("%s: %d turns, %d RPCs, %d failed: want 2, 2 or more, none", what, len(c.Turns), c.RPCs, c.Failed)
	}
	if c.P50 <= 0 || c.P99 < c.P50 || c.PerSecond <= 0 || c.ClientCPU <= 0 || c.Allocs < 10 {
		t.Errorf("%s: p50 %v, p99 %v, %v a second, CPU %v, %v allocations", what, c.P50, c.P99, c.PerSecond, c.ClientCPU, c.Allocs)
	}
}

func checkExtra(t *testing.T, r *results, e extra) {
	t.Helper()
	for _, c := range e.contenders {
		for i, column := range e.columns {
			got, ok := r.value(e.name, c, i)
			if !ok && (c == envoyName && len(r.Notes) > 0 || e.name == "swallow" && runtime.GOOS != "linux") {
				continue
			}
			if !ok || got < 0 && got != never {
				t.Errorf("%s/%s: %s: %v, %v", e.name, c, column, got, ok)
			}
		}
	}
}

// checkCounts looks at what does not depend on time.
func checkCounts(t *testing.T, r *results) {
	t.Helper()
	for _, tc := range []struct {
		workload, contender string
		column              int
		ok                  func(float64) bool
	}{
		{"failover", bare, 1, func(v float64) bool { return v > 0 }},
		{"failover", ours, 1, func(v float64) bool { return v == 0 }},
		{"failover", bare, 2, func(v float64) bool { return v == never }},
		{"failover", ours, 2, func(v float64) bool { return v > 0 }},
		{"swallow", ours, 0, func(v float64) bool { return v >= 250 || runtime.GOOS != "linux" }},
		{"swallow", ours, 3, func(v float64) bool { return v == 0 }},
		{"memory-64x1", ours, 0, func(v float64) bool { return v > 0 }},
		{"memory-64x1", ours, 2, func(v float64) bool { return v >= 4 }}, // a goroutine a connection at least
		{"channels", lazyUnused, 1, func(v float64) bool { return v < 10 }},
	} {
		if got, _ := r.value(tc.workload, tc.contender, tc.column); !tc.ok(got) {
			t.Errorf("%s/%s, column %d: %v", tc.workload, tc.contender, tc.column, got)
		}
	}
}

// TestContendersReachTheServer has each contender get its answer from where a
// workload says.
func TestContendersReachTheServer(t *testing.T) {
	err := within(func(h *host) {
		s := newSite(h, true)
		for state, want := range map[first]string{healthy: "a", unavailable: "b", closed: "b", killed: "victim"} {
			for _, c := range contenders {
				if c.name == envoyName && s.envoy == nil {
					continue
				}
				cc := c.open(t, s.setup(state, time.Millisecond))
				testkit.AwaitServer(t, cc, want)
				for range 5 {
					got, err := testkit.Unary(testkit.Context(t), cc)
					if err != nil || got != want {
						t.Errorf("%s, first cluster %s: answer from %q, %v: want %s", c.name, state, got, err, want)
					}
				}
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestStreamsAreWhole has a workload notice a stream that is too short.
func TestStreamsAreWhole(t *testing.T) {
	b := testkit.Start(t, "empty")
	b.Script(testkit.U)
	stub := testpb.NewTestServiceClient(testkit.Dial(t, b.Target()))
	for _, w := range workloads {
		if !strings.Contains(w.name, "100") {
			continue
		}
		if err := w.rpc(stub)(testkit.Context(t)); err == nil {
			t.Errorf("%s: no error from a server that is unavailable", w.name)
		}
	}
}

func TestFlags(t *testing.T) {
	for _, args := range [][]string{{"-duration", "0s"}, {"-rounds", "0"}, {"-run", "("}, {"unary"}, {"-what"}} {
		if err := run(testkit.Context(t), args, &bytes.Buffer{}, &bytes.Buffer{}); err == nil {
			t.Errorf("%q: no error", args)
		}
	}
}

// TestNoFolder checks that nothing is measured that could not be written.
func TestNoFolder(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, flag := range []string{"-out", "-json", "-benchfmt"} {
		var progress bytes.Buffer
		err := run(testkit.Context(t), []string{flag, filepath.Join(file, "a", "b")}, &bytes.Buffer{}, &progress)
		if err == nil || progress.Len() > 0 {
			t.Errorf("%s: error %v, after %q", flag, err, progress.String())
		}
	}
}

func TestRunMatches(t *testing.T) {
	o := options{run: regexp.MustCompile("^unary-1/(bare|composite)$")}
	for name, want := range map[string]bool{bare: true, ours: true, envoyName: false} {
		if got := o.wants("unary-1", name); got != want {
			t.Errorf("%s: %v", name, got)
		}
	}
	if o.wantsEnvoy() {
		t.Error("an Envoy is wanted")
	}
}

func TestParseStat(t *testing.T) {
	line := "4242 (a) S 9 (x) S 1 4242 4242 0 -1 4194560 1 2 3 4 150 50 7 8 20 0 1"
	if got, ok := parseStat(line); !ok || got != 2*time.Second {
		t.Errorf("%v, %v: want 2s", got, ok)
	}
	for _, text := range []string{"", "1 (a) S 1", "1 (a) S 1 2 3 4 5 6 7 8 9 10 x y 0"} {
		if got, ok := parseStat(text); ok {
			t.Errorf("%q: %v", text, got)
		}
	}
	if processCPU(-1) != 0 {
		t.Error("a process that is not there has used time")
	}
}

func TestRatios(t *testing.T) {
	turns := func(p50s ...time.Duration) (turns []turn) {
		for _, p := range p50s {
			turns = append(turns, turn{P50: p})
		}
		return turns
	}
	r := &results{Cells: []cell{
		{Workload: "w", Contender: bare, ClientCPU: 2, Turns: turns(10, 100, 10)},
		{Workload: "w", Contender: ours, ClientCPU: 3, ProxyCPU: 1, Turns: turns(20, 110, 15)},
	}}
	if got := r.ratio("w", ours, bare, turnP50); got != 1.5 {
		t.Errorf("the median of 2, 1.1 and 1.5 is %v", got)
	}
	if got := r.totalRatio("w", ours, bare, cell.cpu); got != 2 {
		t.Errorf("CPU of 4 and 2: ratio %v", got)
	}
	if got := r.ratio("w", envoyName, bare, turnP50); got != 0 {
		t.Errorf("a ratio of what was not measured: %v", got)
	}
	if got := median([]float64{4, 1, 3, 2}); got != 2.5 {
		t.Errorf("the median of 1 to 4 is %v", got)
	}
}

func TestPercentiles(t *testing.T) {
	var times []time.Duration
	for i := range 200 {
		times = append(times, time.Duration(i))
	}
	if p50, p99 := percentile(times, 50), percentile(times, 99); p50 != 100 || p99 != 198 {
		t.Errorf("p50 %d, p99 %d: want 100, 198", p50, p99)
	}
	if percentile(nil, 50) != 0 || percentile(times[:1], 99) != 0 {
		t.Error("percentiles of nothing, and of one")
	}
}

func TestGoals(t *testing.T) {
	for _, tc := range []struct {
		goal goal
		want string
	}{
		{goal{Value: 1, Limit: 1}, "at most 1 reached"},
		{goal{Value: 1.001, Limit: 1}, "at most 1 missed"},
		{goal{Value: 0.95, Limit: 0.95, Least: true}, "at least 0.95 reached"},
		{goal{Value: 0.94, Limit: 0.95, Least: true}, "at least 0.95 missed"},
	} {
		if got := tc.goal.bound() + " " + tc.goal.verdict(); got != tc.want {
			t.Errorf("%v: %s: want %s", tc.goal.Value, got, tc.want)
		}
	}
	if goals := judge(&results{}); len(goals) != 0 {
		t.Errorf("goals of nothing: %v", goals)
	}
}

// TestEnds has a host end what was started, last things first, whatever happens.
func TestEnds(t *testing.T) {
	var order []string
	err := within(func(t *host) {
		t.Cleanup(func() { order = append(order, "first") })
		t.Cleanup(func() { order = append(order, "second") })
		t.Fatalf("no %s", "more")
	})
	if got := fmt.Sprint(order, err); got != "[second first] no more" {
		t.Errorf("%s", got)
	}
}
