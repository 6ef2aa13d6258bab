package main

import (
	"fmt"
	"strings"
)

// benchText has a line for each turn, in the format of Go's benchmarks: what
// benchstat compares. The ratios are those that mean the same on another machine.
func benchText(r *results) string {
	var b strings.Builder
	system, processor, _ := strings.Cut(r.System, "/")
	fmt.Fprintf(&b, "goos: %s\ngoarch: %s\npkg: github.com/grpc-composite/grpc-composite/interop/bench\n", system, processor)
	for _, c := range r.Cells {
		ref := r.find(c.Workload, bare)
		for i, t := range c.Turns {
			n := float64(t.RPCs)
			fmt.Fprintf(&b, "BenchmarkRPC/%s/%s %d %d ns/op %d p99-ns/op %.0f cpu-ns/op %.2f allocs/op",
				c.Workload, c.Contender, t.RPCs, t.P50, t.P99, float64(t.ClientCPU+t.ProxyCPU)/n, float64(t.Allocs)/n)
			if ref != nil && i < len(ref.Turns) {
				fmt.Fprintf(&b, " %.4f p50-x-bare", turnP50(t)/turnP50(ref.Turns[i]))
			}
			b.WriteString("\n")
		}
	}
	for _, m := range r.Other {
		for _, row := range m.Rows {
			fmt.Fprintf(&b, "BenchmarkOther/%s/%s 1", m.Workload, word(row.Contender))
			for i, v := range row.Values {
				if v != never {
					fmt.Fprintf(&b, " %g %s", v, word(m.Columns[i]))
				}
			}
			b.WriteString("\n")
		}
	}
	return b.String()
}

// word makes a text one that has no spaces.
func word(text string) string { return strings.ReplaceAll(strings.ReplaceAll(text, ",", ""), " ", "-") }
