package main

import (
	"encoding/xml"
	"errors"
	"io"
	"regexp"
	"strings"
	"testing"
	"time"
)

// sample is what a run might have measured.
func sample() *results {
	r := &results{When: time.Unix(0, 0).UTC(), Go: "go1", GRPC: "1", System: "linux/amd64", CPUs: 2, Duration: "3s", Rounds: 1}
	for i, c := range contenders {
		t := turn{RPCs: 1000, Wall: time.Second, P50: time.Duration(i+1) * time.Millisecond, P99: time.Second, ClientCPU: time.Second, Allocs: 5000}
		t.latencies = []time.Duration{t.P50}
		r.Cells = append(r.Cells, newCell(workloads[0].name, c.name, []turn{t}))
	}
	r.Cells[0].Failed = 3
	r.Other = []measurement{{Workload: "failover", Title: "a <title>", Columns: []string{"gap ms", "failed"}, Rows: []row{
		{"a, b", []float64{never, 7}},
	}}}
	return r
}

func TestBenchText(t *testing.T) {
	text := benchText(sample())
	line := regexp.MustCompile(`^Benchmark[\w/-]+( \d+)( [\d.e+-]+ [\w/-]+)+$`)
	var lines []string
	for s := range strings.Lines(text) {
		if s = strings.TrimSpace(s); strings.HasPrefix(s, "Benchmark") {
			lines = append(lines, s)
			if !line.MatchString(s) {
				t.Errorf("benchstat cannot read %q", s)
			}
		}
	}
	if len(lines) != len(contenders)+1 {
		t.Fatalf("%d lines", len(lines))
	}
	if want := "BenchmarkRPC/unary-1/handler 1000 2000000 ns/op 1000000000 p99-ns/op 1000000 cpu-ns/op 5.00 allocs/op 2.0000 p50-x-bare"; lines[1] != want {
		t.Errorf("%s\nwant\n%s", lines[1], want)
	}
	// What never came has no number.
	if got, want := lines[len(lines)-1], "BenchmarkOther/failover/a-b 1 7 failed"; got != want {
		t.Errorf("%s: want %s", got, want)
	}
}

func TestTables(t *testing.T) {
	var b strings.Builder
	r := sample()
	r.Goals = []goal{{Text: "to be fast", Value: 1.5, Limit: 1.02, Beside: "beside"}}
	r.Notes = []string{"a note"}
	if err := writeText(&b, r); err != nil {
		t.Fatal(err)
	}
	text := b.String()
	for _, part := range []string{"a note", "| to be fast | 1.500    | at most 1.02 | missed | beside |", "| a, b |  never |      7 |", "|   2000 |   2.00 |"} {
		if !strings.Contains(text, part) {
			t.Errorf("no %q in\n%s", part, text)
		}
	}
	columns := 0
	for line := range strings.Lines(text) {
		n := strings.Count(line, "|")
		if n > 0 && columns > 0 && n != columns {
			t.Errorf("a line with %d columns, after one with %d: %s", n, columns, line)
		}
		columns = n
	}
}

func TestPicture(t *testing.T) {
	text := picture(sample())
	for _, part := range []string{"prefers-color-scheme:dark", "healthy, 1 caller", "2 ms (×2.00)", "composite"} {
		if !strings.Contains(text, part) {
			t.Errorf("no %q in the picture", part)
		}
	}
	wellFormed(t, text)
	wellFormed(t, picture(&results{}))
}

func wellFormed(t *testing.T, text string) {
	t.Helper()
	for d := xml.NewDecoder(strings.NewReader(text)); ; {
		if _, err := d.Token(); err != nil {
			if !errors.Is(err, io.EOF) {
				t.Error(err)
			}
			return
		}
	}
}
