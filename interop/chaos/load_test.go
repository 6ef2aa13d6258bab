package chaos

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	testpb "google.golang.org/grpc/interop/grpc_testing"

	"github.com/grpc-composite/grpc-composite/balancer/composite"
)

// load is RPCs that are made all the time.
type load struct {
	world  *world
	health *health
	stalls *stallMeter
	report *report

	limit    int // RPCs a second
	inFlight atomic.Int64
	streak   atomic.Int64 // RPCs in a row that the first cluster has answered at once
	since    atomic.Int64 // streak has those that began after this time, in Unix nanoseconds
}

const (
	slowest      = 50  // RPCs a second, at the least
	mostInFlight = 400 // RPCs
	loadPeriod   = 20 * time.Millisecond
)

// run makes RPCs until stop is closed, and waits for them. There are fewer of them
// while this process is late, or they take long.
func (l *load) run(stop <-chan struct{}) {
	var all sync.WaitGroup
	defer all.Wait()
	rate, due, late, last := float64(l.limit)/4, 0.0, l.stalls.total(), time.Now()
	every(loadPeriod, stop, func() {
		now, stalled := time.Now(), l.stalls.total()
		passed := now.Sub(last)
		if stalled-late > passed/2 {
			rate *= 0.8
		} else {
			rate += float64(l.limit) / 200
		}
		rate = min(max(rate, slowest), float64(l.limit))
		due = min(due+rate*passed.Seconds(), rate/4) // no more than that to make up for
		last, late = now, stalled
		for ; due >= 1 && l.inFlight.Load() < mostInFlight; due-- {
			l.inFlight.Add(1)
			all.Go(func() {
				defer l.inFlight.Add(-1)
				l.rpc()
			})
		}
	})
}

// pick picks a kind of RPC.
func pick() call {
	n := 0
	for _, c := range calls {
		n += c.weight
	}
	n = rand.IntN(n)
	for _, c := range calls {
		if n -= c.weight; n < 0 {
			return c
		}
	}
	panic("unreachable")
}

// rpc makes an RPC of some kind, and has it judged. Some have clusters of their own,
// and some are given up.
func (l *load) rpc() {
	c := pick()
	o := observation{call: c.name, endless: c.endless, members: clusterNames, start: time.Now()}
	late := l.stalls.total()
	version, order := l.world.config.version()
	ctx, cancel := context.WithTimeout(context.Background(), rpcDeadline)
	defer cancel()
	if o.own = rand.IntN(20) == 0; o.own {
		o.order = slices.Clone(order)
		rand.Shuffle(len(o.order), func(i, j int) { o.order[i], o.order[j] = o.order[j], o.order[i] })
		o.order = o.order[:1+rand.IntN(len(o.order))]
		o.members = o.order
		ctx = composite.WithClusters(ctx, o.order...)
	}
	if o.abandoned = rand.IntN(50) == 0; o.abandoned {
		defer time.AfterFunc(rand.N(50*time.Millisecond), cancel).Stop()
	}
	r, err := c.make(ctx, testpb.NewTestServiceClient(l.world.cc), composite.RecordTrail(&o.trail))
	o.end, o.err, o.server, o.short = time.Now(), err, r.server, r.short
	after, _ := l.world.config.version()
	o.changed = version != after || version%2 == 1
	if !o.own && !o.changed {
		o.order = order
	}
	o.late, o.calm = l.stalls.total()-late, l.health.calm()
	l.note(o)
	l.report.judge(o)
}

// note counts the RPCs in a row that went to the first cluster at once.
func (l *load) note(o observation) {
	if o.own || o.abandoned || o.start.UnixNano() < l.since.Load() {
		return
	}
	if a := o.trail.Attempts; o.err == nil && len(a) == 1 && a[0].Cluster == clusterNames[0] && len(a[0].Skipped) == 0 {
		l.streak.Add(1)
	} else {
		l.streak.Store(0)
	}
}

// restart forgets the RPCs that have gone to the first cluster.
func (l *load) restart() {
	l.since.Store(time.Now().UnixNano())
	l.streak.Store(0)
}
