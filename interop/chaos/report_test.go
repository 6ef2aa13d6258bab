package chaos

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// report has RPCs judged, and counts what happens. Its methods are safe for
// concurrent use.
type report struct {
	t       *testing.T
	checker checker
	health  *health
	stop    <-chan struct{} // no more probes come
	judging sync.WaitGroup

	mu        sync.Mutex
	outcomes  map[string]int
	calls     map[string]int
	faults    map[kind]int
	routes    map[string]int // how the RPCs that ended well were served
	rpcs      int
	sure      int // RPCs that had a calm cluster from beginning to end
	dismissed map[string]int
	wrong     int
	longest   time.Duration
	back      time.Duration // the longest time to be back on the first cluster
}

func newReport(t *testing.T, w *world, h *health, stop <-chan struct{}) *report {
	t.Helper()
	c := checker{clusterOf: make(map[string]string), addrOf: make(map[string]string)}
	for addr, s := range w.byAddr {
		c.clusterOf[addr], c.addrOf[s.Name] = s.Cluster, addr
	}
	return &report{
		t: t, checker: c, health: h, stop: stop,
		outcomes: make(map[string]int), calls: make(map[string]int), faults: make(map[kind]int),
		routes: make(map[string]int), dismissed: make(map[string]int),
	}
}

func (r *report) fault(k kind) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.faults[k]++
}

func (r *report) wasBack(after time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.back = max(r.back, after)
}

// judge counts an RPC, and fails the test if something is wrong with it.
func (r *report) judge(o observation) {
	outcome, findings := r.checker.check(o)
	r.mu.Lock()
	r.rpcs++
	r.calls[o.call]++
	r.outcomes[outcome]++
	if n := len(o.trail.Attempts); o.err == nil && !o.own && n > 0 {
		last := o.trail.Attempts[n-1]
		r.routes[fmt.Sprintf("%s, attempt %d", last.Cluster, last.Number)]++
	}
	for _, cluster := range o.members {
		if o.wasCalm(cluster, o.start) {
			r.sure++
			break
		}
	}
	r.longest = max(r.longest, o.end.Sub(o.start))
	r.mu.Unlock()
	for _, f := range findings {
		r.judging.Go(func() { r.accuse(o, f) })
	}
}

// accuse fails the test for a finding, unless the machine may have been too slow.
func (r *report) accuse(o observation, f finding) {
	for _, cluster := range f.clusters {
		if o.late > promptTime || !r.health.vouch(cluster, f.from, f.to, r.stop) {
			r.mu.Lock()
			r.dismissed[strings.SplitN(f.what, ":", 2)[0]]++
			r.mu.Unlock()
			return
		}
	}
	r.mu.Lock()
	r.wrong++
	n := r.wrong
	r.mu.Unlock()
	const enough = 10
	if n <= enough {
		r.t.Errorf("%s: %s\nfrom %v for %v, clusters %v, late by %v\ncalm since: %v\nerror: %v\ntrail: %+v",
			o.call, f.what, o.start.Format(clock), o.end.Sub(o.start), o.members, o.late, times(o.calm), o.err, o.trail)
	} else {
		r.t.Fail()
	}
}

const clock = "15:04:05.000"

func times(calm map[string]time.Time) []string {
	var texts []string
	for _, cluster := range slices.Sorted(maps.Keys(calm)) {
		texts = append(texts, cluster+" "+calm[cluster].Format(clock))
	}
	return texts
}

// log tells all in a few lines.
func (r *report) log(took time.Duration) {
	r.judging.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	var text strings.Builder
	fmt.Fprintf(&text, "%d RPCs in %v, %.0f a second; %.0f %% of them had a cluster that was surely healthy\n",
		r.rpcs, took.Round(time.Second), float64(r.rpcs)/took.Seconds(), 100*float64(r.sure)/float64(max(r.rpcs, 1)))
	fmt.Fprintf(&text, "longest RPC %v; back on the first cluster within %v\n", r.longest.Round(time.Millisecond), r.back.Round(time.Millisecond))
	counts(&text, "RPCs", r.calls)
	counts(&text, "served by, but for those with a list of their own", r.routes)
	counts(&text, "ends", r.outcomes)
	counts(&text, "faults", r.faults)
	counts(&text, "perhaps since the machine was too slow", r.dismissed)
	r.t.Log(text.String())
	if r.sure == 0 {
		r.t.Error("no RPC has had a healthy cluster all the time: nothing was tested")
	}
}

func counts[K ~string](text *strings.Builder, title string, of map[K]int) {
	fmt.Fprintf(text, "%s:\n", title)
	for _, key := range slices.Sorted(maps.Keys(of)) {
		fmt.Fprintf(text, "  %7d %s\n", of[key], key)
	}
}
