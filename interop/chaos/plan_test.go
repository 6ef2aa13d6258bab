package chaos

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

// kind is a kind of fault.
type kind string

// Those of some servers of a cluster, of a cluster's DNS name, of the credentials,
// and of the config.
const (
	kill        kind = "kill -9"
	restart     kind = "restart on the same port"
	halt        kind = "SIGSTOP"
	hole        kind = "listener that never answers"
	reset       kind = "reset in the middle of a message"
	goaway      kind = "GOAWAY storm"
	age         kind = "GOAWAY storm by MaxConnectionAge"
	wrongCert   kind = "certificate of an unknown authority"
	rotate      kind = "credential rotation"
	dnsEmpty    kind = "empty DNS"
	dnsNXDomain kind = "NXDOMAIN"
	dnsServfail kind = "SERVFAIL"
	dnsSlow     kind = "slow DNS"
	dnsSilent   kind = "silent DNS"
	dnsFewer    kind = "DNS with fewer addresses"
	reorder     kind = "config with another order"
	remove      kind = "config without a cluster"
	policy      kind = "config with another child policy"
)

var kinds = []kind{
	kill, restart, halt, hole, reset, goaway, age, wrongCert, rotate,
	dnsEmpty, dnsNXDomain, dnsServfail, dnsSlow, dnsSilent, dnsFewer, reorder, remove, policy,
}

// ofConfig tells whether a fault is a change of the service config, of which there
// is one at a time.
func (k kind) ofConfig() bool { return k == reorder || k == remove || k == policy }

// ofName tells whether a fault is one of a cluster's DNS name.
func (k kind) ofName() bool {
	switch k {
	case dnsEmpty, dnsNXDomain, dnsServfail, dnsSlow, dnsSilent, dnsFewer:
		return true
	default:
		return false
	}
}

// isOutage tells whether a cluster is of no use while it has such a fault.
func (k kind) isOutage() bool {
	switch k {
	case kill, halt, hole, wrongCert, dnsEmpty, dnsNXDomain, remove:
		return true
	default:
		return false
	}
}

// fault is an entry of a plan.
type fault struct {
	At, For time.Duration // from the beginning of its phase; how long it stays
	Kind    kind
	Cluster int
	Servers []int // of the cluster
	Choice  int   // among the ways to do it
}

func (f fault) String() string {
	return fmt.Sprintf("%v for %v: %s, cluster %s, servers %v, way %d", f.At, f.For, f.Kind, clusterNames[f.Cluster], f.Servers, f.Choice)
}

const (
	phaseLength = 10 * time.Second // of faults; then all is healed
	longest     = 6 * time.Second  // that an outage stays
	shortest    = 100 * time.Millisecond
	brief       = 1500 * time.Millisecond // the longest of the other faults
)

// newPlan makes the faults of each phase. The same seed makes the same plan, of which
// a longer duration has more phases.
func newPlan(seed uint64, duration time.Duration) [][]fault {
	p := &planner{rng: rand.New(rand.NewPCG(seed, 0))}
	var phases [][]fault
	for left := duration; left > 0; left -= phaseLength {
		phases = append(phases, p.phase())
	}
	return phases
}

// planner makes plans. Each kind has its turn before any comes again.
type planner struct {
	rng  *rand.Rand
	next []kind
}

func (p *planner) between(from, to time.Duration) time.Duration {
	return from + time.Duration(p.rng.Int64N(int64(to-from)))
}

// phase makes the faults of one phase, which may be quiet or stormy. Nothing is done
// to what has a fault already, and all is over when the phase is.
func (p *planner) phase() []fault {
	var faults []fault
	until := make(map[string]time.Duration) // by what the last fault was done to
	gap := p.between(300*time.Millisecond, time.Second)
	for at := time.Duration(0); at < phaseLength; at += p.between(0, 2*gap) {
		if len(p.next) == 0 {
			p.next = slices.Clone(kinds)
			p.rng.Shuffle(len(p.next), func(i, j int) { p.next[i], p.next[j] = p.next[j], p.next[i] })
		}
		f := p.fault(p.next[0], at)
		if slices.ContainsFunc(f.touches(), func(what string) bool { return until[what] > at }) {
			continue
		}
		for _, what := range f.touches() {
			until[what] = at + f.For
		}
		faults, p.next = append(faults, f), p.next[1:]
	}
	return faults
}

// fault makes a fault of some kind.
func (p *planner) fault(k kind, at time.Duration) fault {
	f := fault{At: at, Kind: k, Cluster: []int{0, 0, 1, 2}[p.rng.IntN(4)], Choice: p.rng.IntN(len(orders))}
	if k.isOutage() {
		f.For = p.between(shortest, longest)
	} else {
		f.For = p.between(shortest, brief)
	}
	f.For = min(f.For, phaseLength-at)
	// One server, or more of them, or all.
	f.Servers = p.rng.Perm(serversOfCluster)[:[]int{1, 2, 3, 3}[p.rng.IntN(4)]]
	if k.ofName() {
		// Names are asked for when connections are lost.
		f.Servers = []int{0, 1, 2}
	}
	slices.Sort(f.Servers)
	return f
}

// touches is what the fault is done to.
func (f fault) touches() []string {
	if f.Kind.ofConfig() {
		return []string{"config"}
	}
	var what []string
	for _, n := range f.Servers {
		what = append(what, fmt.Sprintf("%s/%d", clusterNames[f.Cluster], n))
	}
	return what
}

func TestPlan(t *testing.T) {
	t.Parallel()
	short, long, other := newPlan(7, 3*phaseLength), newPlan(7, 10*phaseLength), newPlan(8, 3*phaseLength)
	if len(short) != 3 || len(long) != 10 {
		t.Fatalf("%d and %d phases: want 3 and 10", len(short), len(long))
	}
	text := func(plan [][]fault) string { return fmt.Sprint(plan) }
	if text(short) != text(long[:3]) {
		t.Error("the same seed makes another plan")
	}
	if text(short) == text(other) {
		t.Error("another seed makes the same plan")
	}
	for _, f := range slices.Concat(long...) {
		if f.At+f.For > phaseLength {
			t.Errorf("it ends after its phase: %v", f)
		}
	}
	all := text(newPlan(1, 100*phaseLength))
	for _, k := range kinds {
		if !strings.Contains(all, string(k)) {
			t.Errorf("there is never: %s", k)
		}
	}
}
