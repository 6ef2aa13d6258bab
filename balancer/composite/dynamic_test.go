package composite_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc/metadata"

	"github.com/grpc-composite/grpc-composite/internal/testkit"
)

const (
	dynamicChanges = 500
	dynamicRate    = 1000 // RPCs a second
	generationKey  = "generation"
)

// dynamic is a channel whose config and endpoints change all the time, and what
// has to hold meanwhile. One cluster, "anchor", always has a host that answers.
type dynamic struct {
	t    *testing.T
	live *liveConfig
	rng  *rand.Rand

	names     []string // of all clusters there are, the anchor first
	backends  map[string]*testkit.Backend
	resolvers map[string][2]*testkit.Resolver // two targets that lead to the same server
	open      atomic.Int32

	mu           sync.Mutex
	configs      []testkit.Service // by generation
	acknowledged int               // the latest generation that is in force
}

func newDynamic(t *testing.T, seed uint64) *dynamic {
	t.Helper()
	d := &dynamic{
		t: t, rng: rand.New(rand.NewPCG(seed, 0)),
		names:     []string{"anchor", "b", "c", "d", "e"},
		backends:  make(map[string]*testkit.Backend),
		resolvers: make(map[string][2]*testkit.Resolver),
	}
	for _, name := range d.names {
		b := testkit.Start(t, name, connCount(&d.open))
		b.Respond(func(_ int, c testkit.Call) testkit.Reply { return d.answer(name, c) })
		d.backends[name] = b
		d.resolvers[name] = [2]*testkit.Resolver{testkit.NewResolver(t), testkit.NewResolver(t)}
		for _, r := range d.resolvers[name] {
			_ = r.Update(b)
		}
	}
	d.configs = []testkit.Service{{Clusters: []testkit.Cluster{{Name: "anchor", Target: d.resolvers["anchor"][0].Target()}}}}
	d.live = dialLive(t, d.configs[0])
	// What the test promises begins when the anchor is connected.
	testkit.AwaitServer(t, d.live.cc, "anchor")
	return d
}

// answer is a server's reply. The clusters "b" and "d" are unavailable whenever
// they are called.
func (d *dynamic) answer(name string, c testkit.Call) testkit.Reply {
	if began := c.Metadata[generationKey]; len(began) == 1 {
		d.checkStillListed(name, began[0])
	}
	if name == "b" || name == "d" {
		return testkit.U
	}
	return testkit.OK
}

// checkStillListed fails the test if a cluster is called for an RPC that began
// after the cluster was removed.
func (d *dynamic) checkStillListed(name, generation string) {
	began, err := strconv.Atoi(generation)
	if err != nil {
		d.t.Error(err)
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, s := range d.configs[began:] {
		for _, c := range s.Clusters {
			if c.Name == name {
				return
			}
		}
	}
	d.t.Errorf("%s was called for an RPC that began at generation %d; it is in no config since", name, began)
}

// randomConfig lists the anchor and some others, in any order and with any
// settings.
func (d *dynamic) randomConfig() testkit.Service {
	others := d.rng.IntN(len(d.names))
	picked := append([]string{"anchor"}, d.pickNames(others)...)
	d.rng.Shuffle(len(picked), func(i, j int) { picked[i], picked[j] = picked[j], picked[i] })
	service := testkit.Service{Attempts: len(d.names)}
	for _, name := range picked {
		policy := []string{"round_robin", "pick_first"}[d.rng.IntN(2)]
		service.Clusters = append(service.Clusters, testkit.Cluster{
			Name: name, Target: d.resolvers[name][d.rng.IntN(2)].Target(),
			More: map[string]any{"childPolicy": []any{map[string]any{policy: map[string]any{}}}},
		})
	}
	return service
}

func (d *dynamic) pickNames(n int) []string {
	names := append([]string(nil), d.names[1:]...)
	d.rng.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	return names[:n]
}

// change changes the config, or the endpoints of a cluster.
func (d *dynamic) change() {
	name := d.names[d.rng.IntN(len(d.names))]
	r := d.resolvers[name][d.rng.IntN(2)]
	switch kind := d.rng.IntN(10); {
	case kind < 6:
		next := d.randomConfig()
		// It is known before it is in force: an RPC that begins meanwhile may
		// see either.
		d.mu.Lock()
		d.configs = append(d.configs, next)
		d.mu.Unlock()
		d.live.set(d.t, next)
		d.mu.Lock()
		d.acknowledged++
		d.mu.Unlock()
	case kind == 6:
		r.Fail(errors.New("no such name"))
	case kind == 7 && name != "anchor":
		_ = r.Update()
	case kind == 8 && name != "anchor":
		_ = r.UpdateAddrs(testkit.ClosedPort)
	default:
		_ = r.UpdateState(testkit.OneEndpoint(d.backends[name].Addr, testkit.ClosedPort))
	}
}

// state returns how many configs are in force or past, and how many there are:
// the difference is the one on its way.
func (d *dynamic) state() (acknowledged, known int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.acknowledged, len(d.configs) - 1
}

// anchorIsLast tells whether the anchor is the last cluster of all configs of
// these generations: then it is within every RPC's attempts, even if the config
// changed meanwhile.
func (d *dynamic) anchorIsLast(from, to int) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, s := range d.configs[from : to+1] {
		if len(s.Clusters) != len(d.configs[from].Clusters) || s.Clusters[len(s.Clusters)-1].Name != "anchor" {
			return false
		}
	}
	return true
}

// call makes an RPC, which may fail only if the config changed while it ran.
func (d *dynamic) call(ctx context.Context) (checked bool) {
	from, _ := d.state()
	ctx = metadata.AppendToOutgoingContext(ctx, generationKey, fmt.Sprint(from))
	_, err := testkit.Unary(ctx, d.live.cc)
	_, to := d.state()
	if from != to && !d.anchorIsLast(from, to) {
		return false
	}
	if err != nil {
		d.t.Errorf("generations %d to %d: %v", from, to, err)
	}
	return true
}

// TestDynamicLife changes everything there is to change while RPCs go on.
func TestDynamicLife(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	d := newDynamic(t, seed)
	ctx, stop := context.WithCancel(context.Background())
	var calls sync.WaitGroup
	var made, checked atomic.Int32
	calls.Go(func() {
		tick := time.NewTicker(time.Second / dynamicRate)
		defer tick.Stop()
		for ctx.Err() == nil {
			<-tick.C
			calls.Go(func() {
				rpc, cancel := context.WithTimeout(context.Background(), testkit.Patience)
				defer cancel()
				made.Add(1)
				if d.call(rpc) {
					checked.Add(1)
				}
			})
		}
	})
	// On a busy machine most RPCs run while the config changes, and show nothing.
	const enough = 500
	changes := 0
	for ; changes < dynamicChanges || checked.Load() < enough; changes++ {
		d.change()
		time.Sleep(time.Duration(d.rng.IntN(12)) * time.Millisecond) // how close changes follow varies
	}
	stop()
	calls.Wait()
	t.Logf("%d changes, %d configs, %d RPCs, of which %d had to succeed", changes, len(d.configs), made.Load(), checked.Load())
	if err := d.live.cc.Close(); err != nil {
		t.Error(err)
	}
	testkit.Eventually(t, "all connections are closed", func() bool { return d.open.Load() == 0 })
	for name, pair := range d.resolvers {
		for _, r := range pair {
			if got := r.Open(); got != 0 {
				t.Errorf("%s: %d resolvers are open: want none", name, got)
			}
		}
	}
}
