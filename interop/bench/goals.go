package main

import (
	"fmt"
	"math"
)

// goal is something that the policy is to reach.
type goal struct {
	Text   string  `json:"text"`
	Value  float64 `json:"value"` // a ratio, unless the text says otherwise
	Limit  float64 `json:"limit"`
	Least  bool    `json:"least,omitempty"` // the limit is the least, not the most
	Beside string  `json:"beside,omitempty"`
}

// reached tells whether the value keeps the limit.
func (g goal) reached() bool {
	if g.Least {
		return g.Value >= g.Limit
	}
	return g.Value <= g.Limit
}

// verdict is the word for it.
func (g goal) verdict() string {
	if g.reached() {
		return "reached"
	}
	return "missed"
}

// bound is the limit in words.
func (g goal) bound() string {
	if g.Least {
		return fmt.Sprintf("at least %.4g", g.Limit)
	}
	return fmt.Sprintf("at most %.4g", g.Limit)
}

// judge returns the goals of which all parts were measured.
func judge(r *results) []goal {
	var goals []goal
	add := func(text string, value, limit float64, beside string) {
		if value > 0 {
			goals = append(goals, goal{Text: text, Value: value, Limit: limit, Beside: beside})
		}
	}
	ofHandler := func(value float64) string {
		if value == 0 {
			return ""
		}
		return fmt.Sprintf("an empty stats handler alone: %.3f", value)
	}
	add("healthy unary RPC: p50, × a bare channel", r.ratio("unary-1", ours, bare, turnP50), 1.02,
		ofHandler(r.ratio("unary-1", handler, bare, turnP50)))
	if throughput := r.ratio("unary-64", ours, bare, turnThroughput); throughput > 0 {
		goals = append(goals, goal{
			Text: "64 callers: RPCs a second, × a bare channel", Value: throughput, Limit: 0.95, Least: true,
			Beside: ofHandler(r.ratio("unary-64", handler, bare, turnThroughput)),
		})
	}
	for _, w := range []string{"unary-1", "unary-64"} {
		add(w+": client CPU, × a bare channel", r.totalRatio(w, ours, bare, cell.cpu), 1.10,
			ofHandler(r.totalRatio(w, handler, bare, cell.cpu)))
	}
	if throughput := r.ratio("unary-64", lean, bare, turnThroughput); throughput > 0 {
		goals = append(goals, goal{Text: "LeanCounting, 64 callers: RPCs a second, × a bare channel", Value: throughput, Limit: 0.98, Least: true})
	}
	for _, w := range []string{"unary-1", "unary-64"} {
		add("LeanCounting, "+w+": client CPU, × composite without", r.totalRatio(w, lean, ours, cell.cpu), 0.92, "")
	}
	if c, ref := r.find("unary-1", lean), r.find("unary-1", bare); c != nil && ref != nil {
		// Some RPCs allocate what others find in a pool.
		goals = append(goals, goal{Text: "LeanCounting: allocations more than on a bare channel", Value: math.Round(c.Allocs - ref.Allocs), Limit: 2})
	}
	add("LeanCounting: CPU of client and proxy, × an Envoy as sidecar", r.totalRatio("unary-1", lean, envoyName, cell.cpu), 0.30, "")
	add("healthy unary RPC: p50, × an Envoy as sidecar", r.ratio("unary-1", ours, envoyName, turnP50), 0.42, "")
	add("healthy unary RPC: CPU of client and proxy, × an Envoy as sidecar", r.totalRatio("unary-1", ours, envoyName, cell.cpu), 0.33, "")
	add("first cluster's port closed: p50, × a bare channel to the second", r.ratio("closed", ours, bare, turnP50), 1.02,
		ofHandler(r.ratio("closed", handler, bare, turnP50)))
	for _, w := range []string{"unavailable", "unavailable-at-once"} {
		add(w+": p50, × the loop", r.ratio(w, ours, loopName, turnP50), 1, "")
		add(w+": p99, × the loop", r.ratio(w, ours, loopName, turnP99), 1, "")
	}
	for _, w := range []string{"stream-100", "bidi-100"} {
		add(w+": p50, × a bare channel", r.ratio(w, ours, bare, turnP50), 1.05,
			ofHandler(r.ratio(w, handler, bare, turnP50)))
	}
	return append(goals, judgeOther(r)...)
}

// judgeOther judges what is not measured by turns of RPCs.
func judgeOther(r *results) (goals []goal) {
	if first, ok := r.value("swallow", ours, 0); ok {
		later, _ := r.value("swallow", ours, 1)
		limit := millis(connectTimeout)
		goals = append(goals,
			// The RPC itself takes a moment, too.
			goal{Text: "connects are swallowed: the first RPC of a channel, × connectTimeout", Value: first / limit, Limit: 1.05},
			goal{Text: "connects are swallowed: the slowest of the others, × connectTimeout", Value: later / limit, Limit: 0.5},
		)
	}
	if failed, ok := r.value("failover", ours, 1); ok {
		goals = append(goals, goal{Text: "first cluster's server is killed under load: failed RPCs", Value: failed})
	}
	compare := func(text, workload string, column int, reference string, limit float64) {
		own, ok1 := r.value(workload, ours, column)
		other, ok2 := r.value(workload, reference, column)
		if ok1 && ok2 {
			goals = append(goals, goal{Text: text, Value: own / other, Limit: limit})
		}
	}
	compare("memory of 64 clusters × 100, connected, × round_robin over all", "memory-64x100", 0, flat, 1)
	compare("memory of 64 clusters × 1, connected, × 64 channels", "memory-64x1", 0, split, 1)
	compare("storm of changes: CPU, × the child policy alone", "storm", 0, child, 1.5)
	if ratio, ok := r.value("update", ours, 1); ok && ratio > 0 {
		goals = append(goals, goal{Text: "endpoints of one of 64 clusters: time, × the child policy alone", Value: ratio, Limit: 1.1})
	}
	own, ok1 := r.value("channels", lazyUnused, 1)
	other, ok2 := r.value("channels", bareUnused, 1)
	if ok1 && ok2 {
		goals = append(goals, goal{Text: "10,000 channels, not used: goroutines of each that a bare channel has not", Value: own - other})
	}
	own, ok1 = r.value("channels", lazyConnecting, 1)
	other, ok2 = r.value("channels", bareConnecting, 1)
	if ok1 && ok2 {
		goals = append(goals, goal{Text: "10,000 channels, one cluster connecting: goroutines of each that a bare channel has not", Value: own - other})
	}
	return goals
}
