package differential

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/grpc-composite/grpc-composite/internal/testkit"
	"github.com/grpc-composite/grpc-composite/interop/envoy"
)

var (
	scenarioCount = flag.Int("scenarios", 1000, "how many random scenarios are compared; 20000 in the long form")
	seedFlag      = flag.Uint64("seed", 0, "seed of the random scenarios; 0: a new one")
)

func TestMain(m *testing.M) { testkit.Main(m) }

// batchSize is how many scenarios share two Envoys, one for each value of the
// runtime feature, and how many of them run at once.
const (
	batchSize = 500
	atOnce    = 8
)

// What an attempt may take, in scenarios in which servers hang. A difference that
// shows under the first limit counts if it shows under the second one too: no
// server is that late because the machine is busy.
const (
	shortLimit = 400 * time.Millisecond
	longLimit  = 4 * time.Second
)

// TestDifferential compares Envoy's composite cluster with ours.
func TestDifferential(t *testing.T) {
	envoy.Binary(t)
	seed := *seedFlag
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("%d scenarios; repeat them with -seed %d", *scenarioCount, seed)
	for first := 1; first <= *scenarioCount; first += batchSize {
		var batch []scenario
		for id := first; id < first+batchSize && id <= *scenarioCount; id++ {
			batch = append(batch, generate(seed, id))
		}
		if differences := differing(t, batch); len(differences) > 0 {
			reduced := reduce(smallest(differences), func(list []scenario) []comparison { return differing(t, list) })
			t.Fatalf("%d of the scenarios up to %d differ with -seed %d. One of them, reduced:\n%v", len(differences), batch[len(batch)-1].id, seed, reduced)
		}
	}
}

// comparison is what came of a scenario on both sides.
type comparison struct {
	scenario    scenario
	envoy, ours []outcome
}

// differing returns the scenarios that differ, and fails the test only if they
// cannot be run.
func differing(t *testing.T, scenarios []scenario) []comparison {
	t.Helper()
	found := differ(run(t, scenarios, shortLimit))
	var again []scenario
	var sure []comparison
	for _, c := range found {
		if c.scenario.hangs() {
			again = append(again, c.scenario)
		} else {
			sure = append(sure, c)
		}
	}
	if len(again) > 0 {
		sure = append(sure, differ(run(t, again, longLimit))...)
	}
	return sure
}

func differ(all []comparison) []comparison {
	return slices.DeleteFunc(all, func(c comparison) bool { return c.differs() < 0 })
}

// run runs scenarios through both sides.
func run(t *testing.T, scenarios []scenario, limit time.Duration) []comparison {
	t.Helper()
	results := make([]comparison, len(scenarios))
	ok := t.Run("batch", func(t *testing.T) {
		servers := startServers(t)
		sides := map[bool]envoySide{}
		for _, skip := range []bool{false, true} {
			sides[skip] = startEnvoy(t, servers, scenarios, skip, limit)
		}
		next := make(chan int)
		var workers sync.WaitGroup
		for range atOnce {
			workers.Go(func() {
				for i := range next {
					s := scenarios[i]
					t.Run(fmt.Sprint(s.id), func(t *testing.T) {
						results[i] = comparison{
							scenario: s,
							envoy:    sides[s.skip].run(t, i, s),
							ours:     dialOurs(t, servers, s, limit).run(t),
						}
					})
				}
			})
		}
		for i := range scenarios {
			next <- i
		}
		close(next)
		workers.Wait()
		for _, side := range sides {
			side.envoy.CheckAlive(t)
		}
	})
	if !ok {
		t.FailNow()
	}
	return results
}

// differs is the index of the first call that differs, or -1.
func (c comparison) differs() int {
	for i := range c.scenario.calls {
		e, o := c.envoy[i], c.ours[i]
		want := e.code
		// The one difference that the generator cannot avoid: Envoy turns an
		// attempt that took too long into UNAVAILABLE, if it is the last one.
		if e.code == codes.Unavailable && strings.Contains(e.message, "upstream request timeout") {
			want = codes.DeadlineExceeded
		}
		if !slices.Equal(e.hits, o.hits) || o.code != want {
			return i
		}
	}
	return -1
}

// String is the scenario and what came of it, for a person to read.
func (c comparison) String() string {
	var b strings.Builder
	b.WriteString(c.scenario.String())
	differs := c.differs()
	for i, call := range c.scenario.calls {
		fmt.Fprintf(&b, "  call %d: %v\n    Envoy: %v\n    here:  %v", i+1, call, c.envoy[i], c.ours[i])
		if i == differs {
			b.WriteString("   <-- differs")
		}
		b.WriteString("\n")
	}
	return b.String()
}
