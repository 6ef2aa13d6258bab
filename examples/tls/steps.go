package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"

	"github.com/grpc-composite/grpc-composite/examples/internal/demo"
)

// seen is what came of an RPC for those who look at its security.
type seen struct {
	authority, token string // as the server saw them; "": none
	signedBy         string // the CA of the server's certificate; "": plaintext
}

// steps starts the servers and breaks them, and then the client's trust.
func steps(ctx context.Context, out *demo.Output) error {
	p, err := start()
	if err != nil {
		return err
	}
	defer p.stop()
	targets := targets{p.target(p.primary), p.target(p.secondary), p.target(p.plaintext)}
	cc, err := dial(targets, roots{primary: p.caOne.Pool(), secondary: p.caTwo.Pool()})
	if err != nil {
		return err
	}
	defer func() { _ = cc.Close() }()

	out.Printf("Three servers run: primary has a certificate of CA One, secondary one of CA Two,\n" +
		"and plaintext none.\n")
	for _, step := range []struct {
		title  string
		change func()
		server *demo.Server
		want   seen
	}{
		{
			"All servers are up", func() {}, p.primary,
			seen{authority(p.primary), "Bearer token-of-primary", "CA One"},
		},
		{
			"primary is down: secondary has another CA and another token", p.primary.Stop, p.secondary,
			seen{authority(p.secondary), "Bearer token-of-secondary", "CA Two"},
		},
		{
			"secondary is down, too: the plaintext cluster gets no token", p.secondary.Stop, p.plaintext,
			seen{authority(p.plaintext), "", ""},
		},
	} {
		out.Step(step.title)
		step.change()
		if err := expect(ctx, out, cc, step.server, step.want); err != nil {
			return fmt.Errorf("%s: %w", step.title, err)
		}
	}

	if err := swap(ctx, out, p, targets); err != nil {
		return fmt.Errorf("with each CA taken for the other: %w", err)
	}
	out.Printf("\nAll went as it should: each server saw its own token, and no other's.\n")
	return nil
}

// expect makes RPCs until the server answers, and prints and checks what it saw.
func expect(ctx context.Context, out *demo.Output, cc *grpc.ClientConn, server *demo.Server, want seen) error {
	var header metadata.MD
	var from peer.Peer
	if _, err := demo.AwaitAnswer(ctx, cc, server.Name, 1, grpc.Header(&header), grpc.Peer(&from)); err != nil {
		return err
	}
	got := seen{authority: first(header.Get(sawAuthority)), token: first(header.Get(sawToken))}
	if info, ok := from.AuthInfo.(credentials.TLSInfo); ok {
		got.signedBy = info.State.PeerCertificates[0].Issuer.CommonName
	}
	row := func(columns ...any) { out.Printf("   %-9s  %-23s  %-25s  %s\n", columns...) }
	row("SERVER", "AUTHORITY IT SAW", "TOKEN IT SAW", "CERTIFICATE SIGNED BY")
	row(server.Name, got.authority, orNone(got.token), orNone(got.signedBy))
	if got != want {
		return fmt.Errorf("%s: %+v: want %+v", server.Name, got, want)
	}
	return nil
}

// swap opens a second channel, which takes each CA for the other one.
func swap(ctx context.Context, out *demo.Output, p *play, targets targets) error {
	if err := errors.Join(p.primary.Start(), p.secondary.Start()); err != nil {
		return err
	}
	out.Step("All are up, and a second channel takes each CA for the other: nothing verifies,\n" +
		"   and the plaintext cluster answers, without a token")
	cc, err := dial(targets, roots{primary: p.caTwo.Pool(), secondary: p.caOne.Pool()})
	if err != nil {
		return err
	}
	defer func() { _ = cc.Close() }()
	if err := expect(ctx, out, cc, p.plaintext, seen{authority: authority(p.plaintext)}); err != nil {
		return err
	}

	out.Step("The plaintext cluster is down: the error of the RPC tells of each cluster why")
	p.plaintext.Stop()
	_, err = demo.Await(ctx, func() (missing, failed error) {
		a, err := demo.Check(ctx, cc)
		if err == nil {
			return nil, fmt.Errorf("an RPC was %v", a)
		}
		for _, part := range []string{
			"attempt 1: no host available", `primary skipped: transient failure ("connection error`, `secondary skipped: transient failure ("connection error`,
			"certificate signed by unknown authority", "plaintext skipped",
		} {
			if !strings.Contains(err.Error(), part) {
				return fmt.Errorf("the error is %q: it should say %q", err.Error(), part), nil
			}
		}
		out.Text(err.Error())
		return nil, nil
	})
	return err
}

func first(values []string) string {
	if len(values) == 0 {
		return ""
	}
	return values[0]
}

func orNone(s string) string {
	if s == "" {
		return "none"
	}
	return s
}
