package composite_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"
)

// replayModel takes steps in a new world.
func replayModel(t testing.TB, tiers []string, pace modelPace, steps []modelStep) modelResult {
	t.Helper()
	return runModel(t, tiers, pace, func(*model) *modelStep {
		if len(steps) == 0 {
			return nil
		}
		step := steps[0]
		steps = steps[1:]
		return &step
	}, func(modelOutcome) {})
}

// reportModel fails the test, and tells by the fewest steps that it finds what is
// wrong.
func reportModel(t *testing.T, world int64, tiers []string, failed modelResult) {
	t.Helper()
	t.Errorf("world %d: %s", world, failed.failure)
	best := replayModel(t, tiers, failed.pace, failed.steps)
	if best.failure == "" {
		t.Logf("the same steps do not fail again. What came before:\n%s", strings.Join(failed.history[max(0, len(failed.history)-20):], "\n"))
		return
	}
	r := &modelReducer{t: t, tiers: tiers, best: best, end: time.Now().Add(*modelReduce)}
	r.reduce()
	t.Logf("reduced to %d of %d steps:\n%s\n%s", len(r.best.steps), len(failed.steps), modelStepsJSON(r.best.steps), r.best.failure)
	t.Logf("the service config: %s", r.best.config)
}

func modelStepsJSON(steps []modelStep) string {
	var lines []string
	for _, step := range steps {
		text, err := json.Marshal(step)
		if err != nil {
			panic(err) // cannot happen
		}
		lines = append(lines, string(text))
	}
	return "[" + strings.Join(lines, ",\n") + "]"
}

// modelReducer makes a failing run smaller.
type modelReducer struct {
	t     testing.TB
	tiers []string
	best  modelResult
	end   time.Time
}

// try keeps steps that fail too.
func (r *modelReducer) try(steps []modelStep) bool {
	if time.Now().After(r.end) {
		return false
	}
	result := replayModel(r.t, r.tiers, r.best.pace, steps)
	if result.failure == "" || result.slow {
		return false
	}
	r.best = result
	return true
}

func (r *modelReducer) reduce() {
	for smaller := true; smaller && time.Now().Before(r.end); {
		smaller = r.dropSteps()
		for i := range r.best.steps { // simplify makes them fewer
			for r.simplify(i) {
				smaller = true
			}
		}
	}
}

// dropSteps tries without half of the steps, a quarter, and so on.
func (r *modelReducer) dropSteps() (smaller bool) {
	for size := len(r.best.steps) / 2; size > 0; size /= 2 {
		for from := 0; from+size < len(r.best.steps); {
			steps := slices.Concat(r.best.steps[:from], r.best.steps[from+size:])
			if r.try(steps) {
				smaller = true
			} else {
				from += size
			}
		}
	}
	return smaller
}

// simplify tries to make a step simpler, and tells whether it is.
func (r *modelReducer) simplify(i int) bool {
	if i >= len(r.best.steps) {
		return false
	}
	for _, simpler := range simplerSteps(r.best.steps[i]) {
		steps := slices.Clone(r.best.steps)
		steps[i] = simpler
		if r.try(steps) {
			return true
		}
	}
	return false
}

// simplerSteps are those that have one thing less.
func simplerSteps(s modelStep) []modelStep {
	var out []modelStep
	switch {
	case s.RPC != nil:
		for _, rpc := range simplerRPCs(*s.RPC) {
			out = append(out, modelStep{RPC: &rpc})
		}
	case s.Config != nil:
		for _, list := range simplerLists(s.Config.modelList) {
			cfg := *s.Config
			cfg.modelList = list
			out = append(out, modelStep{Config: &cfg})
		}
		if s.Config.MaxAttempts > 0 {
			cfg := *s.Config
			if cfg.MaxAttempts--; cfg.MaxAttempts == 1 {
				cfg.MaxAttempts, cfg.Retryable = 0, nil
			}
			out = append(out, modelStep{Config: &cfg})
		}
		for j := range s.Config.Retryable {
			if len(s.Config.Retryable) > 1 {
				cfg := *s.Config
				cfg.Retryable = slices.Delete(slices.Clone(cfg.Retryable), j, j+1)
				out = append(out, modelStep{Config: &cfg})
			}
		}
	case s.Site != nil && s.Site.To.Endpoints != "":
		move := *s.Site
		move.To.Endpoints = ""
		out = append(out, modelStep{Site: &move})
	}
	return out
}

func simplerRPCs(rpc modelRPC) []modelRPC {
	var out []modelRPC
	change := func(is bool, f func(rpc *modelRPC)) {
		if is {
			next := rpc
			next.Replies = maps.Clone(rpc.Replies)
			f(&next)
			out = append(out, next)
		}
	}
	change(rpc.Kind != "unary", func(rpc *modelRPC) { rpc.Kind = "unary" })
	change(rpc.Messages > 0, func(rpc *modelRPC) { rpc.Messages = 0 })
	change(rpc.Early, func(rpc *modelRPC) { rpc.Early = false })
	change(rpc.Wait, func(rpc *modelRPC) { rpc.Wait = false })
	change(rpc.Own != nil, func(rpc *modelRPC) { rpc.Own = nil })
	change(rpc.Start != nil, func(rpc *modelRPC) { rpc.Start = nil })
	change(rpc.OnWait != "", func(rpc *modelRPC) { rpc.OnWait = "" })
	for _, name := range sortedModelKeys(rpc.Replies) {
		replies := rpc.Replies[name]
		change(true, func(rpc *modelRPC) { delete(rpc.Replies, name) })
		for i := range replies {
			change(len(replies) > 1, func(rpc *modelRPC) { rpc.Replies[name] = slices.Delete(slices.Clone(replies), i, i+1) })
			one := replies[i]
			change(one.Headers || one.Delay || one.Late, func(rpc *modelRPC) {
				rpc.Replies[name] = slices.Clone(replies)
				rpc.Replies[name][i] = modelReply{Code: one.Code, Hang: one.Hang, Raw: one.Raw}
			})
		}
	}
	if rpc.Own != nil {
		for i := range *rpc.Own {
			change(true, func(rpc *modelRPC) {
				own := slices.Delete(slices.Clone(*rpc.Own), i, i+1)
				rpc.Own = &own
			})
		}
	}
	return out
}

func simplerLists(list modelList) []modelList {
	var out []modelList
	change := func(is bool, f func(l *modelList)) {
		if is {
			next := list
			next.Entries, next.Settings = slices.Clone(list.Entries), maps.Clone(list.Settings)
			f(&next)
			out = append(out, next)
		}
	}
	for i, e := range list.Entries {
		change(len(list.Entries) > 1, func(l *modelList) {
			l.Entries = slices.Delete(l.Entries, i, i+1)
			if !slices.Contains(l.slots(), e.Name) {
				delete(l.Settings, e.Name)
			}
		})
		change(e.Attempts > 0, func(l *modelList) { l.Entries[i].Attempts = 0 })
	}
	change(list.Overflow != "", func(l *modelList) { l.Overflow = "" })
	change(list.OwnSlotOnly, func(l *modelList) { l.OwnSlotOnly = false })
	change(list.FailRequest, func(l *modelList) { l.FailRequest = false })
	change(list.NextCluster, func(l *modelList) { l.NextCluster = false })
	for _, name := range sortedModelKeys(list.Settings) {
		for _, s := range simplerSettings(*list.Settings[name]) {
			change(true, func(l *modelList) { l.Settings[name] = &s })
		}
	}
	return out
}

func simplerSettings(s modelSettings) []modelSettings {
	var out []modelSettings
	change := func(is bool, f func(s *modelSettings)) {
		if is {
			next := s
			f(&next)
			out = append(out, next)
		}
	}
	change(s.MaxRequests > 0, func(s *modelSettings) { s.MaxRequests = 0 })
	change(s.AvoidHosts > 0, func(s *modelSettings) { s.AvoidHosts = 0 })
	change(s.Failures > 0, func(s *modelSettings) { s.Failures, s.FailureCodes = 0, nil })
	change(s.Failures > 1, func(s *modelSettings) { s.Failures-- })
	change(len(s.FailureCodes) > 0, func(s *modelSettings) { s.FailureCodes = nil })
	change(s.FailbackDelay, func(s *modelSettings) { s.FailbackDelay = false })
	change(s.AttemptTimeout, func(s *modelSettings) { s.AttemptTimeout = false })
	change(s.Lazy, func(s *modelSettings) { s.Lazy = false })
	change(s.NoConnectTime, func(s *modelSettings) { s.NoConnectTime = false })
	if s.Inner != nil {
		for _, list := range simplerLists(*s.Inner) {
			change(true, func(s *modelSettings) { s.Inner = &list })
		}
	}
	return out
}

// describe tells the state of all clusters.
func (m *model) describe() string {
	var text strings.Builder
	m.describeClusters(&text, m.clusters)
	return text.String()
}

func (m *model) describeClusters(text *strings.Builder, clusters map[string]*modelCluster) {
	for _, name := range sortedModelKeys(clusters) {
		c := clusters[name]
		condition := [...]string{"no host", "has a host", "connecting", "idle"}[m.condition(c)]
		fmt.Fprintf(text, "%s: %s, %d failures in a row, %d in flight", c.name, condition, c.failures, c.inFlight)
		if c.resting {
			text.WriteString(", at rest")
		}
		if c.lost && c.settings.FailbackDelay {
			text.WriteString(", within failbackDelay")
		}
		text.WriteString("\n")
		m.describeClusters(text, c.inner)
	}
}
