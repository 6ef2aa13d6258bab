package composite_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/grpc-composite/grpc-composite/balancer/composite"
)

var (
	modelSeed   = flag.Uint64("model.seed", 0, "seed of the model test; 0: a random one")
	modelRPCs   = flag.Int("model.rpcs", 0, "number of RPCs of the model test; 0: 20,000, or 4,000 if the test is to be short")
	modelReduce = flag.Duration("model.reduce", time.Minute, "for how long the model test makes a failure smaller")
)

const modelRPCsOfWorld = 120

// modelSize is how many RPCs to make, and in how many worlds at once, which spend
// most of their time waiting.
func modelSize() (rpcs, worlds int) {
	rpcs, worlds = 20_000, 12*min(runtime.GOMAXPROCS(0), 4)
	if composite.RaceEnabled {
		worlds /= 3
	}
	if testing.Short() || composite.RaceEnabled {
		rpcs = 4_000
	}
	if *modelRPCs > 0 {
		rpcs = *modelRPCs
	}
	return rpcs, worlds
}

// modelResult is how a world came to its end.
type modelResult struct {
	pace    modelPace
	steps   []modelStep // up to the one that failed
	failure string      // "": none
	slow    bool        // the failure may be due to the machine, which was too slow
	config  string      // the last service config
	history []string    // of RPCs
}

// runModel takes the steps in a world of its own, until one fails, or none is left.
func runModel(t testing.TB, tiers []string, pace modelPace, next func(m *model) *modelStep, checked func(modelOutcome)) modelResult {
	t.Helper()
	result := modelResult{pace: pace}
	scope := &modelScope{TB: t}
	result.failure = scope.run(func() {
		w := newModelWorld(scope, tiers, pace)
		defer func() { result.slow, result.config, result.history = w.slow, w.config, w.history }()
		for step := next(w.model); step != nil; step = next(w.model) {
			result.steps = append(result.steps, *step)
			w.history = append(w.history, modelStepsJSON([]modelStep{*step}))
			if failure := w.do(*step, checked); failure != "" {
				scope.Fatalf("%s", failure)
			}
		}
	})
	return result
}

// do takes a step, and says what failed.
func (w *modelWorld) do(step modelStep, checked func(modelOutcome)) (failure string) {
	switch {
	case step.Config == nil && len(w.model.clusters) == 0:
		return "" // the reducer dropped the first config
	case step.Config != nil:
		if w.model.sure(*step.Config) {
			w.setConfig(*step.Config)
		}
	case step.Site != nil:
		if w.tiers[step.Site.Cluster] != nil {
			w.setSite(step.Site.Cluster, step.Site.To)
		}
	case step.Hold != nil:
		if w.model.clone().hold(*step.Hold) != "" {
			cluster := w.model.hold(*step.Hold)
			w.startHeld(*step.Hold, cluster)
		}
	case step.Release:
		if len(w.held) > 0 {
			w.endHeld(0)
			w.model.release(0)
		}
	case step.RPC != nil:
		return w.check(*step.RPC, checked)
	}
	w.settle()
	return ""
}

// check makes an RPC and compares what comes of it.
func (w *modelWorld) check(rpc modelRPC, checked func(modelOutcome)) (failure string) {
	if w.model.clone().run(rpc).unsure {
		return ""
	}
	before := w.model.describe()
	want := w.model.run(rpc)
	took, err := w.call(rpc, want)
	w.history = append(w.history, fmt.Sprintf("  %v, error %v", w.served(), err))
	failure = w.compare(want, err)
	if took > w.expected(want)+modelPatience {
		failure = fmt.Sprintf("it took %v: %s", took, failure)
	}
	if failure != "" {
		w.slow = want.features[featureDeadline] || timedModel(w.model.clusters)
		return fmt.Sprintf("%s\nRPC: %s\nwhile it waits: %+v\nin the state\n%s", failure, modelStepsJSON([]modelStep{{RPC: &rpc}}), want.Waits, before)
	}
	w.settle()
	checked(want)
	return ""
}

// expected is how long an RPC takes on an idle machine.
func (w *modelWorld) expected(want modelOutcome) time.Duration {
	expected := time.Duration(want.timeouts)*w.pace.attemptTimeout() + time.Duration(want.late)*w.pace.lateness()
	if want.features[featureDeadline] {
		expected += w.pace.deadline()
	}
	return expected
}

// timedModel tells whether attempts have to be answered in time.
func timedModel(clusters map[string]*modelCluster) bool {
	for _, c := range clusters {
		if c.settings.AttemptTimeout || timedModel(c.inner) {
			return true
		}
	}
	return false
}

// TestModel compares the policy with the model, RPC by RPC.
func TestModel(t *testing.T) {
	seed := *modelSeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	total, atOnce := modelSize()
	t.Logf("to repeat it: -run TestModel -model.seed %d -model.rpcs %d", seed, total)

	worlds := modelWorlds{seed: seed, coverage: new(modelCoverage)}
	var failed sync.Once
	var next atomic.Int64
	n := int64(total+modelRPCsOfWorld-1) / modelRPCsOfWorld
	begin := time.Now()
	var workers sync.WaitGroup
	for range atOnce {
		workers.Go(func() {
			for world := next.Add(1); world <= n && !t.Failed(); world = next.Add(1) {
				if *modelRPCs == 0 && time.Since(begin) > modelBudget {
					t.Logf("world %d is left out: the machine is too slow for so many", world)
					continue
				}
				if tiers, result := worlds.make(t, world); result.failure != "" {
					failed.Do(func() { reportModel(t, world, tiers, result) })
				}
			}
		})
	}
	workers.Wait()
	if !t.Failed() {
		worlds.coverage.log(t)
	}
}

// modelBudget is for how long new worlds begin, unless the number of RPCs was asked
// for. It is several times as long as all of them take on two processors.
const modelBudget = 2 * time.Minute

// modelPaces are those at which a world is made. One that fails, perhaps since the
// machine is too slow, is made again, with more time: what is wrong stays wrong.
var modelPaces = []modelPace{1, 6, 36}

// modelWorlds are the worlds of a run, of which several are made at once.
type modelWorlds struct {
	seed     uint64
	coverage *modelCoverage
	slow     atomic.Int64 // worlds that had to be made again
}

// make makes one world's RPCs.
func (w *modelWorlds) make(t *testing.T, world int64) (tiers []string, result modelResult) {
	t.Helper()
	paces := modelPaces
	if w.slow.Load() > 4 {
		paces = paces[1:]
	}
	var outcomes []modelOutcome
	for _, pace := range paces {
		outcomes = outcomes[:0]
		g := newModelGenerator(w.seed, uint64(world)) //nolint:gosec // it counts from 1
		tiers = g.tiers
		result = runModel(t, tiers, pace, g.steps(modelRPCsOfWorld), func(o modelOutcome) { outcomes = append(outcomes, o) })
		if !result.slow {
			break
		}
		w.slow.Add(1)
		why, _, _ := strings.Cut(result.failure, "\n")
		t.Logf("world %d failed at pace %d, perhaps since the machine is too slow: %s", world, pace, why)
	}
	for _, o := range outcomes {
		w.coverage.add(o.features)
	}
	return tiers, result
}

// steps returns a function that returns the next step, until there were as many
// RPCs.
func (g *modelGenerator) steps(rpcs int) func(m *model) *modelStep {
	return func(m *model) *modelStep {
		if rpcs == 0 {
			return nil
		}
		g.m = m
		step := g.next()
		if step.RPC != nil {
			rpcs--
		}
		return &step
	}
}
