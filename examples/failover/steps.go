package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/grpc-composite/grpc-composite/examples/internal/demo"
)

const (
	rpcsPerStep = 3
	timeLimit   = 9 * time.Second // for all steps; they need less than one
)

// step changes the servers, and says what RPCs must come to from then on.
type step struct {
	title   string
	change  func() error
	settled string // heads the time until the channel knew; "": not worth telling
	want    want
}

// want is the cluster that must answer, and on which attempt. The zero value
// wants RPCs to fail because no cluster has a host.
type want struct {
	cluster string
	attempt int
}

func steps(primary, secondary, fallback *demo.Server) []step {
	return []step{
		{
			title:   "All servers are healthy: primary answers",
			change:  func() error { return nil },
			settled: "connected and answered after",
			want:    want{cluster: "primary", attempt: 1},
		},
		{
			title:  "primary answers UNAVAILABLE: the retry, attempt 2, goes to secondary",
			change: func() error { primary.Unavailable.Store(true); return nil },
			want:   want{cluster: "secondary", attempt: 2},
		},
		{
			title:   "primary is down: attempt 1 goes to secondary, no retry, no backoff",
			change:  func() error { primary.Stop(); return nil },
			settled: "the channel had noticed after",
			want:    want{cluster: "secondary", attempt: 1},
		},
		{
			title:   "primary and secondary are down: attempt 1 goes to fallback",
			change:  func() error { secondary.Stop(); return nil },
			settled: "the channel had noticed after",
			want:    want{cluster: "fallback", attempt: 1},
		},
		{
			title:   "All servers are down: the error says why",
			change:  func() error { fallback.Stop(); return nil },
			settled: "the channel had noticed after",
		},
		{
			title: "All servers are up again: the channel goes back to primary by itself",
			change: func() error {
				return errors.Join(primary.Start(), secondary.Start(), fallback.Start())
			},
			settled: "back on primary after",
			want:    want{cluster: "primary", attempt: 1},
		},
	}
}

// failover starts the servers, opens a channel to them and goes through the
// steps.
func failover(ctx context.Context, t *table) error {
	servers := []*demo.Server{{Name: "primary"}, {Name: "secondary"}, {Name: "fallback"}}
	if err := demo.StartAll(servers...); err != nil {
		return err
	}
	defer demo.StopAll(servers...)
	var clusters []cluster
	for _, s := range servers {
		clusters = append(clusters, cluster{Name: s.Name, Target: s.Addr})
	}
	// After a connection has failed, gRPC waits 1 s before it tries again, then
	// longer and longer. Waiting less keeps the way back to the primary, and so
	// this example, short. Real servers are better off with the default.
	cc, err := dial(clusters, grpc.WithConnectParams(grpc.ConnectParams{
		Backoff:           backoff.Config{BaseDelay: 50 * time.Millisecond, Multiplier: 1.5, Jitter: 0.2, MaxDelay: 200 * time.Millisecond},
		MinConnectTimeout: time.Second,
	}))
	if err != nil {
		return err
	}
	defer func() { _ = cc.Close() }()

	start := time.Now()
	t.size(clusters, len(servers[0].Addr))
	t.Printf("Three servers run: primary, secondary and fallback. Attempt 1 of an RPC goes to\n" +
		"primary, attempt 2 to secondary, attempt 3 to fallback. Now they are broken in turn.\n")
	p := &play{cc: cc, directory: &directory{clusters: clusters}, table: t}
	all := steps(servers[0], servers[1], servers[2])
	if err := p.run(ctx, all); err != nil {
		return err
	}
	t.Printf("\nAll %d steps went as they should, in %.2f s.\n", len(all), time.Since(start).Seconds())
	return nil
}

// play goes through steps on one channel.
type play struct {
	cc        *grpc.ClientConn
	directory *directory
	table     *table
}

// run ends at the first RPC that does not come to what its step wants.
func (p *play) run(ctx context.Context, steps []step) error {
	limited, cancel := context.WithTimeout(ctx, timeLimit)
	defer cancel()
	for i, s := range steps {
		err := p.step(limited, i+1, s)
		if errors.Is(ctx.Err(), context.Canceled) {
			return demo.ErrInterrupted
		}
		if err != nil {
			return fmt.Errorf("step %d (%s): %w", i+1, s.title, err)
		}
	}
	return nil
}

func (p *play) step(ctx context.Context, number int, s step) error {
	p.table.Printf("\n%d. %s\n", number, s.title)
	if err := s.change(); err != nil {
		return err
	}
	took, err := p.settle(ctx, s.want)
	if err != nil {
		return err
	}
	if s.settled != "" {
		p.table.Printf("   (%s %s)\n", s.settled, demo.Milliseconds(took))
	}
	p.table.header()
	for i := range rpcsPerStep {
		a := check(ctx, p.cc, p.directory)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		p.table.row(i+1, a)
		if err := s.want.check(a); err != nil {
			return fmt.Errorf("RPC %d %w", i+1, err)
		}
	}
	return nil
}

// settle makes RPCs until one comes to what is wanted, and returns how long that
// took: the channel learns of a change a moment after it was made.
func (p *play) settle(ctx context.Context, w want) (time.Duration, error) {
	return demo.Await(ctx, func() (missing, failed error) {
		if err := w.check(check(ctx, p.cc, p.directory)); err != nil {
			missing = fmt.Errorf("the last RPC %w", err)
		}
		return missing, nil
	})
}

// check returns an error, to come after "the RPC", unless the answer is the one
// that is wanted.
func (w want) check(a answer) error {
	switch {
	case w == want{} && status.Code(a.err) == codes.Unavailable && a.address == "":
		return nil
	case w == want{}:
		return fmt.Errorf("%v: it should have failed, since no server is up", a)
	case a.err != nil || a.cluster != w.cluster || a.attempt != w.attempt:
		return fmt.Errorf("%v: it should have been answered by %s on attempt %d", a, w.cluster, w.attempt)
	}
	return nil
}
