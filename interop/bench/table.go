package main

import (
	"fmt"
	"io"
	"math"
	"strings"
)

// writeText writes the results as Markdown, which can be read as it is.
func writeText(out io.Writer, r *results) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s, grpc-go %s, %s, %d processors, %s. Each contender worked %s at each workload, in %d turns.\n",
		r.Go, r.GRPC, r.System, r.CPUs, r.When.Format("2006-01-02"), r.Duration, r.Rounds)
	for _, note := range r.Notes {
		fmt.Fprintf(&b, "\n**%s**\n", note)
	}
	if len(r.Cells) > 0 {
		writeCells(&b, r)
	}
	for _, m := range r.Other {
		writeMeasurement(&b, m)
	}
	if len(r.Goals) > 0 {
		writeGoals(&b, r.Goals)
	}
	_, err := io.WriteString(out, b.String())
	return err
}

func writeCells(b *strings.Builder, r *results) {
	rows := [][]string{{
		"workload", "contender", "p50 µs", "× bare", "p99 µs", "× bare", "RPCs/s", "× bare",
		"CPU client", "CPU proxy", "× bare", "allocations", "failed",
	}}
	last := ""
	for _, c := range r.Cells {
		name := c.Workload
		if name == last {
			name = ""
		}
		last = c.Workload
		rows = append(rows, []string{
			name, c.Contender,
			number(c.P50), times(r.ratio(c.Workload, c.Contender, bare, turnP50)),
			number(c.P99), times(r.ratio(c.Workload, c.Contender, bare, turnP99)),
			number(c.PerSecond), times(r.ratio(c.Workload, c.Contender, bare, turnThroughput)),
			number(c.ClientCPU), number(c.ProxyCPU), times(r.totalRatio(c.Workload, c.Contender, bare, cell.cpu)),
			number(c.Allocs), fmt.Sprint(c.Failed),
		})
	}
	fmt.Fprintf(b, "\n### RPCs\n\nCPU is in ms per 1,000 RPCs, allocations are the client's for each RPC. Where the first cluster\nis down, the bare channels lead to the second.\n\n")
	writeTable(b, rows, 2)
	b.WriteString("\n")
	for _, w := range workloads {
		fmt.Fprintf(b, "- `%s`: %s\n", w.name, w.title)
	}
	b.WriteString("\n")
	for _, c := range contenders {
		fmt.Fprintf(b, "- `%s`: %s\n", c.name, c.title)
	}
}

func writeMeasurement(b *strings.Builder, m measurement) {
	fmt.Fprintf(b, "\n### %s (`%s`)\n\n", m.Title, m.Workload)
	rows := [][]string{append([]string{""}, m.Columns...)}
	for _, r := range m.Rows {
		line := []string{r.Contender}
		for _, v := range r.Values {
			line = append(line, number(v))
		}
		rows = append(rows, line)
	}
	writeTable(b, rows, 1)
}

func writeGoals(b *strings.Builder, goals []goal) {
	rows := [][]string{{"goal", "measured", "", "", ""}}
	for _, g := range goals {
		rows = append(rows, []string{g.Text, number3(g.Value), g.bound(), g.verdict(), g.Beside})
	}
	b.WriteString("\n### Goals\n\n")
	writeTable(b, rows, 5)
}

// writeTable writes a table whose first columns are text, and the others numbers.
func writeTable(b *strings.Builder, rows [][]string, text int) {
	widths := make([]int, len(rows[0]))
	for _, line := range rows {
		for i, s := range line {
			widths[i] = max(widths[i], len([]rune(s)), 3)
		}
	}
	line := func(line []string) {
		for i, s := range line {
			pad := strings.Repeat(" ", widths[i]-len([]rune(s)))
			if i < text {
				fmt.Fprintf(b, "| %s%s ", s, pad)
			} else {
				fmt.Fprintf(b, "| %s%s ", pad, s)
			}
		}
		b.WriteString("|\n")
	}
	line(rows[0])
	for i, width := range widths {
		end := "-"
		if i >= text {
			end = ":" // aligned to the right
		}
		fmt.Fprintf(b, "|-%s%s", strings.Repeat("-", width), end)
	}
	b.WriteString("|\n")
	for _, row := range rows[1:] {
		line(row)
	}
}

// number has three digits or more.
func number(v float64) string {
	switch {
	case v == never:
		return "never"
	case v >= 100, v == math.Trunc(v):
		return fmt.Sprintf("%.0f", v)
	case v >= 10:
		return fmt.Sprintf("%.1f", v)
	default:
		return fmt.Sprintf("%.2f", v)
	}
}

func number3(v float64) string {
	if v >= 100 {
		return number(v)
	}
	return fmt.Sprintf("%.3f", v)
}

// times is a ratio, or a dash if there is none.
func times(ratio float64) string {
	if ratio == 0 {
		return "–"
	}
	return fmt.Sprintf("%.2f", ratio)
}
