package main

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"time"

	"google.golang.org/grpc"

	"github.com/grpc-composite/grpc-composite/internal/testkit"
)

// measure runs all that is asked for. It returns what was measured with the error.
func measure(ctx context.Context, o options) (*results, error) {
	r := &results{
		When: time.Now().UTC().Truncate(time.Second), Go: runtime.Version(), GRPC: grpc.Version,
		System: runtime.GOOS + "/" + runtime.GOARCH, CPUs: runtime.NumCPU(), Duration: o.duration.String(), Rounds: o.rounds,
	}
	// What cannot be measured must not cost the rest of a long run.
	var failed []error
	note := func(name string, err error) {
		if err != nil {
			failed = append(failed, fmt.Errorf("%s: %w", name, err))
			r.Notes = append(r.Notes, failed[len(failed)-1].Error())
		}
	}
	err := within(func(t *host) {
		s := newSite(t, o.wantsEnvoy())
		if s.noEnvoy != "" {
			r.Notes = append(r.Notes, "without Envoy: "+s.noEnvoy)
		}
		for _, w := range workloads {
			if ctx.Err() != nil {
				return
			}
			note(w.name, within(func(t *host) { r.Cells = append(r.Cells, compete(ctx, t, o, s, w)...) }))
		}
		for _, e := range extras {
			if ctx.Err() != nil {
				return
			}
			note(e.name, within(func(t *host) { r.Other = append(r.Other, e.measure(ctx, t, o, s)...) }))
		}
	})
	r.Goals = judge(r)
	return r, errors.Join(append(failed, err, ctx.Err())...)
}

func (o options) wantsEnvoy() bool {
	return slices.ContainsFunc(workloads, func(w workload) bool { return o.wants(w.name, envoyName) }) ||
		o.wants("failover", envoyName) || o.wants("swallow", envoyName)
}

// player is a contender at a workload.
type player struct {
	contender
	call  rpc
	turns []turn
}

// compete lets the contenders take turns at a workload.
func compete(ctx context.Context, t *host, o options, s *site, w workload) []cell {
	var players []*player
	for _, c := range contenders {
		if w.can(c) && o.wants(w.name, c.name) && (c.name != envoyName || s.envoy != nil) {
			players = append(players, &player{contender: c, call: w.of(c.open(t, s.setup(w.first, w.backoff)))})
		}
	}
	if len(players) == 0 {
		return nil
	}
	o.say("%s: %s", w.name, w.title)
	for _, p := range players {
		warmUp(ctx, t, p.name, p.call)
	}
	return takeTurns(ctx, t, o, players, w.name, w.callers, s)
}

// takeTurns lets players take turns, each time in another order: who comes first may
// be better or worse off. What the proxy does at other times is not Envoy's turn's.
func takeTurns(ctx context.Context, t *host, o options, players []*player, workload string, callers int, s *site) []cell {
	for round := range o.rounds {
		for i := range players {
			if ctx.Err() != nil {
				t.Fatal(ctx.Err())
			}
			p := players[(i+round)%len(players)]
			proxyCPU := noProxy
			if p.name == envoyName {
				proxyCPU = s.proxyCPU
			}
			p.turns = append(p.turns, takeTurn(ctx, p.call, callers, o.turn(), proxyCPU))
		}
	}
	var cells []cell
	for _, p := range players {
		cells = append(cells, newCell(workload, p.name, p.turns))
	}
	return cells
}

// warmUp waits until all connections are there that are going to be, and everything
// has been used.
func warmUp(ctx context.Context, t *host, name string, call rpc) {
	err := fmt.Errorf("no RPC was made")
	for end := time.Now().Add(testkit.Patience); err != nil; {
		if time.Now().After(end) || ctx.Err() != nil {
			t.Fatalf("%s: no RPC succeeds: %v", name, err)
		}
		if err = call(ctx); err != nil {
			time.Sleep(time.Millisecond) // nothing announces a connection to all contenders
		}
	}
	for range 20 {
		if err := call(ctx); err != nil {
			t.Fatalf("%s: an RPC fails: %v", name, err)
		}
	}
}
