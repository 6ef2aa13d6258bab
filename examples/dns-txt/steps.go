package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/grpc-composite/grpc-composite/examples/internal/demo"
	"github.com/grpc-composite/grpc-composite/examples/internal/tinydns"
)

// play is what the example plays with.
type play struct {
	dns               *tinydns.Server
	primary, fallback *demo.Server
	out               *demo.Output
}

// steps starts the servers and a client, and then adds the TXT record.
func steps(ctx context.Context, out *demo.Output) error {
	p := &play{primary: &demo.Server{Name: "primary"}, fallback: &demo.Server{Name: "fallback"}, out: out}
	if err := demo.StartAll(p.primary, p.fallback); err != nil {
		return err
	}
	defer demo.StopAll(p.primary, p.fallback)
	var err error
	if p.dns, err = tinydns.Start(); err != nil {
		return err
	}
	defer p.dns.Stop()
	if err := errors.Join(p.dns.SetA("primary.example", "127.0.0.1"), p.dns.SetA("fallback.example", "127.0.0.1")); err != nil {
		return err
	}

	target := p.target(p.primary)
	cc, err := dial(target)
	if err != nil {
		return err
	}
	defer func() { _ = cc.Close() }()
	out.Printf("A client dials %s\n", target)

	for _, step := range []func(context.Context, *grpc.ClientConn) error{
		p.withoutRecord, p.withRecord, p.afterRestart, p.primaryDown,
	} {
		if err := step(ctx, cc); err != nil {
			return err
		}
	}
	if err := p.newClient(ctx, target); err != nil {
		return err
	}
	out.Printf("\nAll went as it should.\n")
	return nil
}

// target is a gRPC target for a server that asks this DNS server for its name.
func (p *play) target(s *demo.Server) string {
	return fmt.Sprintf("dns://%s/%s.example:%s", p.dns.Addr(), s.Name, s.Port())
}

func (p *play) withoutRecord(ctx context.Context, cc *grpc.ClientConn) error {
	p.out.Step("DNS has addresses only: primary answers, and its error is the RPC's")
	if err := p.expect(ctx, cc, "primary", 1); err != nil {
		return err
	}
	p.primary.Unavailable.Store(true)
	return p.expectError(ctx, cc)
}

func (p *play) withRecord(ctx context.Context, cc *grpc.ClientConn) error {
	p.out.Step("A TXT record is added: the client does not know yet")
	config := fmt.Sprintf(grpcConfig, p.target(p.fallback))
	text, err := txt(config)
	if err != nil {
		return err
	}
	if err := p.dns.SetTXT("_grpc_config.primary.example", text); err != nil {
		return err
	}
	p.out.Printf("   _grpc_config.primary.example TXT, %d bytes:\n", len(text))
	p.out.Printf("   grpc_config=%s\n", strings.ReplaceAll(strings.ReplaceAll(config, "\n", "\n   "), "\t", "  "))
	return p.expectError(ctx, cc)
}

func (p *play) afterRestart(ctx context.Context, cc *grpc.ClientConn) error {
	p.out.Step("primary restarts, and the client, which has lost a connection, asks DNS again")
	if err := p.primary.Restart(); err != nil {
		return err
	}
	p.primary.Unavailable.Store(true)
	took, err := demo.Await(ctx, func() (missing, failed error) {
		_, missing = demo.Check(ctx, cc) // fails until the config is there
		return missing, nil
	})
	if err != nil {
		return fmt.Errorf("the config of the TXT record did not come (does GRPC_ENABLE_TXT_SERVICE_CONFIG forbid it?): %w", err)
	}
	p.out.Printf("   the client had the config %s after the restart\n", demo.Milliseconds(took))
	return p.expect(ctx, cc, "fallback", 2)
}

func (p *play) primaryDown(ctx context.Context, cc *grpc.ClientConn) error {
	p.out.Step("primary is down: attempt 1 goes to fallback")
	p.primary.Stop()
	return p.expect(ctx, cc, "fallback", 1)
}

func (p *play) newClient(ctx context.Context, target string) error {
	p.out.Step("A client that starts now has the config at once")
	cc, err := dial(target)
	if err != nil {
		return err
	}
	defer func() { _ = cc.Close() }()
	return p.expect(ctx, cc, "fallback", 1)
}

// expect makes RPCs until the server answers on that attempt. None may fail.
func (p *play) expect(ctx context.Context, cc *grpc.ClientConn, server string, attempt int) error {
	a, err := demo.AwaitAnswer(ctx, cc, server, attempt)
	if err == nil {
		p.out.Printf("   %v\n", a)
	}
	return err
}

// expectError makes an RPC that has to fail with what primary answers.
func (p *play) expectError(ctx context.Context, cc *grpc.ClientConn) error {
	a, err := demo.Check(ctx, cc)
	switch {
	case err == nil:
		return fmt.Errorf("an RPC was %v: it should have failed with the error of primary", a)
	case status.Code(err) != codes.Unavailable:
		return fmt.Errorf("an RPC failed: %w: it should have been with UNAVAILABLE", err)
	}
	p.out.Printf("   %v\n", err)
	return nil
}
