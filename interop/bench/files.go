package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// files are where results are written, each "" if it is not.
type files struct {
	docs, json, bench string
}

func (f files) write(r *results) error {
	if f.json != "" {
		text, err := json.MarshalIndent(r, "", "  ")
		if err != nil {
			return err
		}
		if err := write(f.json, string(text)+"\n"); err != nil {
			return err
		}
	}
	if f.bench != "" {
		if err := write(f.bench, benchText(r)); err != nil {
			return err
		}
	}
	if f.docs == "" {
		return nil
	}
	if err := write(filepath.Join(f.docs, "benchmarks.svg"), picture(r)); err != nil {
		return err
	}
	var page strings.Builder
	page.WriteString(pageHead)
	if err := writeText(&page, r); err != nil {
		return err
	}
	page.WriteString(pageFoot)
	return write(filepath.Join(f.docs, "benchmarks.md"), page.String())
}

func write(name, text string) error {
	return os.WriteFile(name, []byte(text), 0o644) //nolint:gosec // for all to read
}

// benchText has a line for each turn, in the format of Go's benchmarks: what
// benchstat compares. The ratios are those that mean the same on another machine.
func benchText(r *results) string {
	var b strings.Builder
	fmt.Fprintf(&b, "goos: %s\npkg: github.com/grpc-composite/grpc-composite/interop/bench\n", strings.ReplaceAll(r.System, "/", "\ngoarch: "))
	for _, c := range r.Cells {
		ref := r.find(c.Workload, bare)
		for i, t := range c.Turns {
			n := float64(t.RPCs)
			fmt.Fprintf(&b, "BenchmarkRPC/%s/%s %d %.0f ns/op %.0f p99-ns/op %.0f cpu-ns/op %.2f allocs/op",
				c.Workload, c.Contender, t.RPCs, float64(t.P50), float64(t.P99), float64(t.ClientCPU+t.ProxyCPU)/n, float64(t.Allocs)/n)
			if ref != nil && i < len(ref.Turns) {
				fmt.Fprintf(&b, " %.4f p50-x-bare", float64(t.P50)/float64(ref.Turns[i].P50))
			}
			b.WriteString("\n")
		}
	}
	for _, m := range r.Other {
		for _, row := range m.Rows {
			fmt.Fprintf(&b, "BenchmarkOther/%s/%s 1", m.Workload, row.Contender)
			for i, v := range row.Values {
				fmt.Fprintf(&b, " %g %s", v, strings.ReplaceAll(m.Columns[i], " ", "-"))
			}
			b.WriteString("\n")
		}
	}
	return b.String()
}

const pageHead = `# Benchmarks

What failover by the policy composite costs, beside what people use today. This page and its picture
are written by a command, which needs Go and, for Envoy, Python 3:

    cd interop && go run ./bench -out ../docs

Contenders take short turns at the same work in one process and one run; servers and the proxy have
processes of their own, on loopback. Each starts its turn after a garbage collection. A ratio is the
median over the rounds of what was measured within a round (CPU: over all rounds). Ratios hold on
other machines; times do not.

![Median latency and CPU of each contender](benchmarks.svg)

`

const pageFoot = ``
