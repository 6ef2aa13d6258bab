package main

import (
	"slices"
	"time"
)

// results is all that a run has measured.
type results struct {
	When     time.Time     `json:"when"`
	Go       string        `json:"go"`
	GRPC     string        `json:"grpc"`
	System   string        `json:"system"`
	CPUs     int           `json:"cpus"`
	Duration string        `json:"duration"`
	Rounds   int           `json:"rounds"`
	Notes    []string      `json:"notes,omitempty"`
	Cells    []cell        `json:"cells"`
	Other    []measurement `json:"other"`
	Goals    []goal        `json:"goals"`
}

// cell is a contender at a workload: a line of the table.
type cell struct {
	Workload  string  `json:"workload"`
	Contender string  `json:"contender"`
	RPCs      int     `json:"rpcs"`
	Failed    int     `json:"failed"`
	P50       float64 `json:"p50us"`
	P99       float64 `json:"p99us"`
	PerSecond float64 `json:"rpcsPerSecond"`
	ClientCPU float64 `json:"clientCpuMsPer1000"`
	ProxyCPU  float64 `json:"proxyCpuMsPer1000"`
	Allocs    float64 `json:"allocsPerRPC"`
	Turns     []turn  `json:"turns"`
}

// newCell adds turns up.
func newCell(workload, contender string, turns []turn) cell {
	c := cell{Workload: workload, Contender: contender, Turns: turns}
	var all []time.Duration
	var wall, client, proxy time.Duration
	var allocs uint64
	for i, t := range turns {
		all = append(all, t.latencies...)
		turns[i].latencies = nil
		c.RPCs += t.RPCs
		c.Failed += t.Failed
		wall += t.Wall
		client += t.ClientCPU
		proxy += t.ProxyCPU
		allocs += t.Allocs
	}
	slices.Sort(all)
	n := float64(c.RPCs)
	c.P50, c.P99 = micros(percentile(all, 50)), micros(percentile(all, 99))
	c.PerSecond = n / wall.Seconds()
	c.ClientCPU, c.ProxyCPU = perThousand(client, n), perThousand(proxy, n)
	c.Allocs = float64(allocs) / n
	return c
}

func micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

// perThousand is in ms per 1,000 RPCs, which is µs per RPC.
func perThousand(d time.Duration, n float64) float64 { return micros(d) / n }

// cpu is of client and proxy.
func (c cell) cpu() float64 { return c.ClientCPU + c.ProxyCPU }

// find returns a line of the table, or nil.
func (r *results) find(workload, contender string) *cell {
	i := slices.IndexFunc(r.Cells, func(c cell) bool { return c.Workload == workload && c.Contender == contender })
	if i < 0 {
		return nil
	}
	return &r.Cells[i]
}

// Of what a ratio is made.
func turnP50(t turn) float64        { return float64(t.P50) }
func turnP99(t turn) float64        { return float64(t.P99) }
func turnThroughput(t turn) float64 { return float64(t.RPCs) / t.Wall.Seconds() }

// ratio compares two contenders round by round, and returns the median. It is 0 if
// there is nothing to compare.
func (r *results) ratio(workload, contender, reference string, of func(turn) float64) float64 {
	c, ref := r.find(workload, contender), r.find(workload, reference)
	if c == nil || ref == nil {
		return 0
	}
	var ratios []float64
	for i := range min(len(c.Turns), len(ref.Turns)) {
		if base := of(ref.Turns[i]); base > 0 {
			ratios = append(ratios, of(c.Turns[i])/base)
		}
	}
	return median(ratios)
}

// totalRatio compares what two contenders came to in all their turns: of times that
// the system counts too coarsely for one turn.
func (r *results) totalRatio(workload, contender, reference string, of func(cell) float64) float64 {
	c, ref := r.find(workload, contender), r.find(workload, reference)
	if c == nil || ref == nil || of(*ref) == 0 {
		return 0
	}
	return of(*c) / of(*ref)
}

func median(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	return (sorted[(len(sorted)-1)/2] + sorted[len(sorted)/2]) / 2
}

// measurement is a table of what is not measured by turns of RPCs.
type measurement struct {
	Workload string   `json:"workload"`
	Title    string   `json:"title"`
	Columns  []string `json:"columns"` // with their units
	Rows     []row    `json:"rows"`
}

type row struct {
	Contender string    `json:"contender"`
	Values    []float64 `json:"values"` // as many as columns
}

// value is of a contender at a measurement, in a column counted from 0, and false if
// there is none.
func (r *results) value(workload, contender string, column int) (float64, bool) {
	for _, m := range r.Other {
		if m.Workload != workload {
			continue
		}
		for _, row := range m.Rows {
			if row.Contender == contender {
				return row.Values[column], true
			}
		}
	}
	return 0, false
}
