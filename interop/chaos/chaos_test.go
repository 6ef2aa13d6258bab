package chaos

import (
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"runtime"
	"testing"
	"time"

	"github.com/grpc-composite/grpc-composite/balancer/composite/debugz"
)

const (
	// backWithin is how soon after healing traffic is back on the first cluster:
	// gRPC's dns resolver asks again after up to 5 s when it had no addresses, and
	// connecting takes up to 3.5 s with the back-off. A busy machine gets the rest.
	backWithin = time.Minute
	enoughRPCs = 20 // in a row
)

// rig is a world with a load, and what looks at both.
type rig struct {
	load   *load
	faults *inflictor
	report *report
	stalls *stallMeter
	health *health
	end    chan struct{} // closed when nobody looks any more
}

// newRig makes a world, and waits until all of it works. What it runs is over.
func newRig(t *testing.T) *rig {
	t.Helper()
	w := newWorld(t)
	r := &rig{stalls: &stallMeter{}, end: make(chan struct{})}
	r.health = newHealth(w, r.stalls)
	r.report = newReport(t, w, r.health, r.end)
	r.load = &load{world: w, health: r.health, stalls: r.stalls, report: r.report, limit: *rateFlag}
	r.faults = newInflictor(t, w, r.health, r.report)
	defer r.run()()
	awaitBack(t, r.load, time.Now())
	return r
}

// run makes RPCs, and looks at what happens, until end is called.
func (r *rig) run() (end func()) {
	observe, work := background(r.stalls.run, r.health.run), background(r.load.run)
	return func() {
		work()
		observe()
	}
}

// TestChaos breaks things according to a plan, and heals them between its phases.
func TestChaos(t *testing.T) {
	seed := *seedFlag
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("to repeat the plan: -run TestChaos -chaos.seed %d -chaos.duration %v", seed, *durationFlag)
	r := newRig(t)
	before := measure()
	begin, end := time.Now(), r.run()
	for n, phase := range newPlan(seed, *durationFlag) {
		r.faults.phase(phase)
		if !awaitBack(t, r.load, time.Now()) || t.Failed() {
			t.Logf("in phase %d: %v", n, phase)
			break
		}
	}
	end()
	close(r.end)
	r.report.log(time.Since(begin))
	before.awaitReturn(t)
}

// background runs each function until the returned one is called, which waits for
// them.
func background(run ...func(stop <-chan struct{})) (end func()) {
	stop, ended := make(chan struct{}), make(chan struct{})
	for _, f := range run {
		go func() {
			f(stop)
			ended <- struct{}{}
		}()
	}
	return func() {
		close(stop)
		for range run {
			<-ended
		}
	}
}

// awaitBack waits until all clusters are calm, traffic is back on the first one, and
// each server is used again. That is its promise if all was healed a moment ago.
func awaitBack(t *testing.T, l *load, healed time.Time) bool {
	t.Helper()
	l.restart()
	back := time.Duration(0)
	var idle []string // servers that have not been used so far
	for done := false; !done && !t.Failed(); <-time.After(stallPeriod) {
		if back == 0 && l.streak.Load() >= enoughRPCs {
			back = time.Since(healed)
			l.report.wasBack(back)
		}
		if time.Since(healed) > backWithin {
			t.Errorf("%v after all was healed, clusters calm: %v; RPCs in a row on the first one: %d; servers that are not used: %v", backWithin, times(l.health.calm()), l.streak.Load(), idle)
			t.Log(debugPage())
			return false
		}
		if done = back != 0 && len(l.health.calm()) == len(clusterNames); done {
			idle = l.world.unused()
			done = len(idle) == 0
		}
	}
	return true
}

// debugPage is what the channel says of itself.
func debugPage() string {
	w := httptest.NewRecorder()
	debugz.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/?format=json", nil))
	return w.Body.String()
}

// usage is what this process uses while it does nothing.
type usage struct {
	goroutines int
	heap       uint64
}

func measure() usage {
	runtime.GC()
	runtime.GC() // what the first one has put aside
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return usage{runtime.NumGoroutine(), m.HeapAlloc}
}

// awaitReturn waits until goroutines and memory are what they were, or nearly so.
func (u usage) awaitReturn(t *testing.T) {
	t.Helper()
	const fewGoroutines, littleHeap = 5, 4 << 20
	var now usage
	for end := time.Now().Add(backWithin); time.Now().Before(end); <-time.After(stallPeriod) {
		now = measure()
		if now.goroutines <= u.goroutines+fewGoroutines && now.heap <= u.heap+u.heap/2+littleHeap {
			t.Logf("goroutines %d, then %d; heap %d KiB, then %d KiB", u.goroutines, now.goroutines, u.heap>>10, now.heap>>10)
			return
		}
	}
	buf := make([]byte, 1<<20)
	t.Errorf("goroutines %d, then %d; heap %d KiB, then %d KiB\n%s", u.goroutines, now.goroutines, u.heap>>10, now.heap>>10, buf[:runtime.Stack(buf, true)])
}
