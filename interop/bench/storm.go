package main

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/balancer"
	"google.golang.org/grpc/connectivity"
	testpb "google.golang.org/grpc/interop/grpc_testing"

	"github.com/grpc-composite/grpc-composite/balancer/composite"
	"github.com/grpc-composite/grpc-composite/internal/testkit"
)

const (
	stormWaiting = 256              // RPCs that wait
	stormPace    = time.Millisecond // between changes
)

var stormExtra = extra{
	name:       "storm",
	title:      "one of 64 clusters flaps 1,000 times a second, the others have no host, 256 RPCs wait",
	columns:    []string{"cpu-ms-per-1000-changes", "x-child", "allocs-per-change"},
	contenders: []string{child, ours},
	run:        measureStorm,
}

var errDown = errors.New("down")

// busyPicker has RPCs wait, and counts how often they ask.
type busyPicker struct{ picks *atomic.Int64 }

func (p busyPicker) Pick(balancer.PickInfo) (balancer.PickResult, error) {
	p.picks.Add(1)
	return balancer.PickResult{}, balancer.ErrNoSubConnAvailable
}

// flapper is a child policy that flaps below a channel.
type flapper struct {
	child *testkit.PolicyChild
	picks *atomic.Int64
	up    bool
}

// change goes from READY to TRANSIENT_FAILURE or back: changes that all RPCs that wait
// have to look at.
func (f *flapper) change() {
	if f.up = !f.up; f.up {
		f.child.ReportPicker(connectivity.Ready, busyPicker{f.picks})
	} else {
		f.child.Report(connectivity.TransientFailure, errDown)
	}
}

// measureStorm lets a channel with the child policy alone and one with 64 clusters
// take turns. Each turn has as many changes as the pace allows.
func measureStorm(ctx context.Context, t *host, o options, s *site, names []string) [][]float64 {
	clusters := 64
	if o.small {
		clusters = 4
	}
	var players []*player
	for _, name := range names {
		n := clusters
		if name == child {
			n = 0
		}
		f := startFlapper(ctx, t, n)
		next := time.Now()
		players = append(players, &player{contender: contender{name: name}, call: func(context.Context) error {
			// A machine that falls behind must not catch up in one go.
			next = later(next.Add(stormPace), time.Now())
			time.Sleep(time.Until(next))
			f.change()
			return nil
		}})
	}
	r := &results{Cells: takeTurns(ctx, t, o, players, "storm", 1, s)}
	var rows [][]float64
	for _, c := range r.Cells {
		rows = append(rows, []float64{c.ClientCPU, r.totalRatio(c.Workload, c.Contender, child, cell.cpu), c.Allocs})
	}
	return rows
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// startFlapper opens a channel, with a number of clusters or with the policy alone,
// and has RPCs wait on it.
func startFlapper(ctx context.Context, t *host, clusters int) *flapper {
	flapping, down := testkit.NewPolicy(t), testkit.NewPolicy(t)
	down.OnUpdate = func(c *testkit.PolicyChild, _ balancer.ClientConnState) error {
		c.Report(connectivity.TransientFailure, errDown)
		return nil
	}
	const nowhere = "passthrough:///nowhere"
	var cc *grpc.ClientConn
	if clusters == 0 {
		cc = testkit.Dial(t, nowhere, grpc.WithDefaultServiceConfig(mustJSON(map[string]any{"loadBalancingConfig": flapping.Config()})))
	} else {
		var list []any
		for i := range clusters {
			policy := down
			if i == 0 {
				policy = flapping
			}
			list = append(list, map[string]any{"name": fmt.Sprint(i), "target": nowhere, "childPolicy": policy.Config()})
		}
		config := mustJSON(map[string]any{"loadBalancingConfig": []any{map[string]any{composite.Name: map[string]any{"clusters": list}}}})
		cc = testkit.Dial(t, "composite:///", append(composite.DialOptions(), grpc.WithDefaultServiceConfig(config))...)
	}
	cc.Connect()
	f := &flapper{child: flapping.Child(t, 0), picks: new(atomic.Int64)}
	f.change()
	wait(ctx, t, cc)
	testkit.Eventually(t, "all RPCs wait", func() bool { return f.picks.Load() >= stormWaiting })
	return f
}

// wait has RPCs wait until t ends.
func wait(ctx context.Context, t *host, cc *grpc.ClientConn) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{}, stormWaiting)
	stub := testpb.NewTestServiceClient(cc)
	for range stormWaiting {
		go func() {
			defer func() { done <- struct{}{} }()
			_, _ = stub.EmptyCall(ctx, &testpb.Empty{}, grpc.WaitForReady(true)) // until it is canceled
		}()
	}
	t.Cleanup(func() {
		cancel()
		for range stormWaiting {
			<-done
		}
	})
}
