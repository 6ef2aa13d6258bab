package main

import (
	"context"
	"fmt"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/grpc-composite/grpc-composite/examples/internal/demo"
)

// ownServers starts two servers and breaks the first.
func ownServers(ctx context.Context, out *demo.Output) error {
	first, second := &demo.Server{Name: "first"}, &demo.Server{Name: "second"}
	if err := demo.StartAll(first, second); err != nil {
		return err
	}
	defer demo.StopAll(first, second)

	target := "composite:///" + first.Addr + "," + second.Addr
	out.Printf("TARGET is not set: two servers run here, and the target is theirs.\n\nTARGET=%s\n", target)
	cc, err := dial(target, insecure.NewCredentials())
	if err != nil {
		return err
	}
	defer func() { _ = cc.Close() }()

	for _, step := range []struct {
		title  string
		change func()
		want   *demo.Server
	}{
		{"Both servers are up: the first answers", func() {}, first},
		{"The first answers UNAVAILABLE: the second answers", func() { first.Unavailable.Store(true) }, second},
		{"The first is down: the second answers", first.Stop, second},
	} {
		out.Step(step.title)
		step.change()
		if err := awaitAnswer(ctx, out, cc, step.want); err != nil {
			return fmt.Errorf("%s: %w", step.title, err)
		}
	}
	out.Printf("\nAll went as it should. Not one RPC failed.\n")
	return nil
}

// awaitAnswer makes RPCs until the server answers, which is the first of them
// unless the machine is very busy. None may fail.
func awaitAnswer(ctx context.Context, out *demo.Output, cc *grpc.ClientConn, want *demo.Server) error {
	_, err := demo.Await(ctx, func() (missing, failed error) {
		addr, err := check(ctx, cc)
		if err != nil {
			return nil, fmt.Errorf("an RPC failed, which the %s server should have answered: %w", want.Name, err)
		}
		out.Printf("   answered by %s\n", addr)
		if addr != want.Addr {
			missing = fmt.Errorf("the last RPC was answered by %s: it should have been by %s", addr, want.Addr)
		}
		return missing, nil
	})
	return err
}
