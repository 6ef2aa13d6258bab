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
	longest     = 3 * time.Second  // that a fault stays
)

// newPlan makes the faults of each phase. The same seed makes the same plan, of which
// a longer duration has more phases.
func newPlan(seed uint64, duration time.Duration) [][]fault {
	rng := rand.New(rand.NewPCG(seed, 0))
	var phases [][]fault
	for left := duration; left > 0; left -= phaseLength {
		phases = append(phases, newPhase(rng))
	}
	return phases
}

// newPhase makes the faults of one phase, which may be quiet or stormy.
func newPhase(rng *rand.Rand) []fault {
	var faults []fault
	between := func(from, to time.Duration) time.Duration { return from + time.Duration(rng.Int64N(int64(to-from))) }
	gap := between(200*time.Millisecond, time.Second)
	for at := time.Duration(0); at < phaseLength; at += between(0, 2*gap) {
		f := fault{
			At: at, For: between(100*time.Millisecond, longest),
			Kind: kinds[rng.IntN(len(kinds))], Cluster: rng.IntN(len(clusterNames)), Choice: rng.IntN(6),
		}
		// One server, or more of them, or all.
		f.Servers = rng.Perm(serversOfCluster)[:[]int{1, 1, 1, 2, 3, 3}[rng.IntN(6)]]
		if f.Kind.ofName() {
			// Names are asked for when connections are lost.
			f.Servers = []int{0, 1, 2}
		}
		slices.Sort(f.Servers)
		faults = append(faults, f)
	}
	return faults
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
	all := text(newPlan(1, 100*phaseLength))
	for _, k := range kinds {
		if !strings.Contains(all, string(k)) {
			t.Errorf("there is never: %s", k)
		}
	}
}
