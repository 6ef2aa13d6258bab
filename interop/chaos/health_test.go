package chaos

import (
	"context"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc"
	testpb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"

	"github.com/grpc-composite/grpc-composite/balancer/composite"
)

// health knows which clusters are calm: that nothing is wrong with them and that
// the channel is connected to them. What is in doubt is not calm. Its methods are
// safe for concurrent use.
type health struct {
	world  *world
	stalls *stallMeter

	mu       sync.Mutex
	clusters map[string]*clusterHealth
}

type clusterHealth struct {
	faults int       // that there are
	begun  int       // how many there were
	healed time.Time // the last one
	calm   time.Time // since when; zero: it is not calm
	probes [serversOfCluster][]probe
}

// probe is a call to a server that bypasses composite.
type probe struct {
	begin, end time.Time
	prompt     bool // answered, and soon
}

const (
	settleTime = time.Second // that a cluster gets after a fault, before it may be calm
	promptTime = attemptTimeout / 4
)

func newHealth(w *world, stalls *stallMeter) *health {
	h := &health{world: w, stalls: stalls, clusters: make(map[string]*clusterHealth)}
	for _, cluster := range clusterNames {
		h.clusters[cluster] = &clusterHealth{healed: time.Now()}
	}
	return h
}

// begin notes that something is about to be wrong with the cluster.
func (h *health) begin(cluster string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	c := h.clusters[cluster]
	c.faults, c.begun, c.calm = c.faults+1, c.begun+1, time.Time{}
}

// end notes that it is over.
func (h *health) end(cluster string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	c := h.clusters[cluster]
	c.faults, c.healed = c.faults-1, time.Now()
}

// calm tells since when clusters are calm.
func (h *health) calm() map[string]time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	calm := make(map[string]time.Time)
	for name, c := range h.clusters {
		if !c.calm.IsZero() {
			calm[name] = c.calm
		}
	}
	return calm
}

// run looks after the clusters and probes servers until stop is closed.
func (h *health) run(stop <-chan struct{}) {
	var all sync.WaitGroup
	for _, cluster := range clusterNames {
		all.Go(func() { every(100*time.Millisecond, stop, func() { h.settle(cluster) }) })
		for i, cc := range h.world.direct[cluster] {
			all.Go(func() { every(250*time.Millisecond, stop, func() { h.probe(cluster, i, cc) }) })
		}
	}
	all.Wait()
}

func every(period time.Duration, stop <-chan struct{}, f func()) {
	for {
		f()
		select {
		case <-stop:
			return
		case <-time.After(period):
		}
	}
}

// settle finds out whether the cluster has become calm: some time after the last
// fault an RPC that may go nowhere else goes there.
func (h *health) settle(cluster string) {
	h.mu.Lock()
	c := h.clusters[cluster]
	begun := c.begun
	due := c.faults == 0 && c.calm.IsZero() && time.Since(c.healed) > settleTime
	h.mu.Unlock()
	if !due {
		return
	}
	late := h.stalls.total()
	ctx, cancel := context.WithTimeout(context.Background(), rpcDeadline)
	defer cancel()
	var trail composite.Trail
	ctx = composite.WithClusters(ctx, cluster)
	_, err := testpb.NewTestServiceClient(h.world.cc).UnaryCall(ctx, &testpb.SimpleRequest{}, composite.RecordTrail(&trail))
	if err != nil || len(trail.Attempts) != 1 || h.stalls.total()-late > settleTime {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if c.begun == begun {
		c.calm = time.Now()
	}
}

// probe calls a server and remembers how that went.
func (h *health) probe(cluster string, i int, cc *grpc.ClientConn) {
	p := probe{begin: time.Now()}
	ctx, cancel := context.WithTimeout(metadata.AppendToOutgoingContext(context.Background(), clusterKey, cluster), 2*promptTime)
	defer cancel()
	_, err := testpb.NewTestServiceClient(cc).UnaryCall(ctx, &testpb.SimpleRequest{})
	p.end = time.Now()
	p.prompt = err == nil && p.end.Sub(p.begin) < promptTime
	h.mu.Lock()
	defer h.mu.Unlock()
	const remembered = 240 // a minute, or more
	probes := &h.clusters[cluster].probes[i]
	*probes = append(*probes, p)
	*probes = (*probes)[max(0, len(*probes)-remembered):]
}

// vouch tells whether all servers of a cluster have answered soon when they were
// probed between from and to, and next before and after. Then it is not for want of
// time on a busy machine that an attempt failed there.
func (h *health) vouch(cluster string, from, to time.Time, stop <-chan struct{}) bool {
	for i := range serversOfCluster {
		prompt, known := false, false
		for !known {
			if prompt, known = h.wasPrompt(cluster, i, from, to); known {
				break
			}
			select {
			case <-stop:
				return false
			case <-time.After(stallPeriod):
			}
		}
		if !prompt {
			return false
		}
	}
	return true
}

func (h *health) wasPrompt(cluster string, server int, from, to time.Time) (prompt, known bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	probes := h.clusters[cluster].probes[server]
	first := slices.IndexFunc(probes, func(p probe) bool { return p.end.After(from) })
	last := slices.IndexFunc(probes, func(p probe) bool { return p.begin.After(to) })
	if last < 0 {
		return false, false
	}
	for _, p := range probes[max(0, first-1) : last+1] {
		if !p.prompt {
			return false, true
		}
	}
	return first > 0, true
}
