package main

import (
	"context"
	"fmt"

	"google.golang.org/grpc"

	"github.com/grpc-composite/grpc-composite/examples/internal/demo"
)

// play is all that the steps act on.
type play struct {
	primary, secondary, fallback *demo.Server
	spare                        *demo.Server // belongs to no cluster at first
	controlPlane                 *controlPlane
	cc                           *grpc.ClientConn
}

func (p *play) servers() []*demo.Server {
	return []*demo.Server{p.primary, p.secondary, p.fallback, p.spare}
}

func start(ctx context.Context) (p *play, err error) {
	p = &play{
		primary: &demo.Server{Name: primary}, secondary: &demo.Server{Name: "secondary"},
		fallback: &demo.Server{Name: "fallback"}, spare: &demo.Server{Name: "spare"},
	}
	if err := demo.StartAll(p.servers()...); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			p.stop()
		}
	}()
	p.controlPlane, err = startControlPlane(ctx, map[string]*demo.Server{
		primary: p.primary, "secondary": p.secondary, "fallback": p.fallback,
	})
	if err != nil {
		return nil, err
	}
	bootstrap, err := bootstrapConfig(p.controlPlane.addr)
	if err != nil {
		return nil, err
	}
	p.cc, err = dial(bootstrap)
	return p, err
}

func (p *play) stop() {
	if p.cc != nil {
		_ = p.cc.Close()
	}
	if p.controlPlane != nil {
		p.controlPlane.stop()
	}
	demo.StopAll(p.servers()...)
}

// step is a change, and which server answers after it, on which attempt.
type step struct {
	title   string
	change  func(p *play) error
	server  string
	attempt int
}

var plot = []step{
	{"All is well", func(*play) error { return nil }, primary, 1},
	{"The server of primary answers UNAVAILABLE: the route retries, and the retry goes to secondary", func(p *play) error {
		p.primary.Unavailable.Store(true)
		return nil
	}, "secondary", 2},
	{"The server of primary is down: no attempt is spent on it", func(p *play) error {
		p.primary.Stop()
		return nil
	}, "secondary", 1},
	{"The control plane deletes the cluster secondary", func(p *play) error {
		delete(p.controlPlane.servers, "secondary")
		return p.controlPlane.publish()
	}, "fallback", 1},
	{"The control plane moves primary to a spare server", func(p *play) error {
		p.controlPlane.servers[primary] = p.spare
		return p.controlPlane.publish()
	}, "spare", 1},
	{"The control plane brings secondary back, and the spare server answers UNAVAILABLE", func(p *play) error {
		p.controlPlane.servers["secondary"] = p.secondary
		p.spare.Unavailable.Store(true)
		return p.controlPlane.publish()
	}, "secondary", 2},
	{"The control plane goes away, and then secondary answers UNAVAILABLE, too: all stays as it was, and works", func(p *play) error {
		p.controlPlane.stop()
		p.secondary.Unavailable.Store(true)
		return nil
	}, "fallback", 3},
}

// steps plays the plot. Not one RPC may fail.
func steps(ctx context.Context, out *demo.Output) error {
	p, err := start(ctx)
	if err != nil {
		return err
	}
	defer p.stop()
	out.Printf("A control plane runs on %s, and a server for each of its clusters.\nThe client's target: %s\n", p.controlPlane.addr, target)
	for _, s := range plot {
		if err := p.take(ctx, out, s); err != nil {
			return fmt.Errorf("%s: %w", s.title, err)
		}
	}
	out.Printf("\nAll went as it should. Not one RPC failed.\n")
	return nil
}

func (p *play) take(ctx context.Context, out *demo.Output, s step) error {
	out.Step(s.title)
	if err := s.change(p); err != nil {
		return err
	}
	// On a busy machine a cluster may take more than its time to connect.
	answer, err := demo.AwaitAnswer(ctx, p.cc, s.server, s.attempt, grpc.WaitForReady(true))
	if err != nil {
		return err
	}
	out.Printf("   %v\n", answer)
	return nil
}
