package main

import (
	"context"
	"errors"
	"fmt"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/grpc-composite/grpc-composite/examples/internal/demo"
)

// observe starts the servers, breaks them, and shows what can be seen of it.
func observe(ctx context.Context, out *demo.Output) (err error) {
	primary, secondary := &demo.Server{Name: "primary"}, &demo.Server{Name: "secondary"}
	if err := demo.StartAll(primary, secondary); err != nil {
		return err
	}
	defer demo.StopAll(primary, secondary)
	prom, err := startEndpoint()
	if err != nil {
		return err
	}
	spans := &lastTrace{}
	tracers := sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans))
	defer func() {
		ctx := context.WithoutCancel(ctx)
		err = errors.Join(err, prom.stop(ctx), tracers.Shutdown(ctx))
	}()
	cc, err := dial(primary.Addr, secondary.Addr, insecure.NewCredentials(), prom.meters, tracers)
	if err != nil {
		return err
	}
	defer func() { _ = cc.Close() }()

	for _, step := range []struct {
		title   string
		change  func()
		server  string // that answers, or "" if none does
		attempt int
	}{
		{"Both servers are up", func() {}, "primary", 1},
		{"The primary answers UNAVAILABLE", func() { primary.Unavailable.Store(true) }, "secondary", 2},
		{"The primary is down", primary.Stop, "secondary", 1},
		{"Both are down", secondary.Stop, "", 0},
	} {
		out.Step(step.title)
		step.change()
		if err := makeRPCs(ctx, out, cc, step.server, step.attempt); err != nil {
			return fmt.Errorf("%s: %w", step.title, err)
		}
		spans.print(out)
	}
	return printMetrics(ctx, out, prom)
}

// makeRPCs makes RPCs until one comes to what it should: the first one does, unless
// the channel has yet to learn of the change.
func makeRPCs(ctx context.Context, out *demo.Output, cc *grpc.ClientConn, server string, attempt int) error {
	if server == "" {
		return failRPC(ctx, out, cc)
	}
	answer, err := demo.AwaitAnswer(ctx, cc, server, attempt)
	if err == nil {
		out.Printf("   %v\n", answer)
	}
	return err
}

// failRPC makes an RPC that finds no host, once the channel knows that there is none.
func failRPC(ctx context.Context, out *demo.Output, cc *grpc.ClientConn) error {
	_, err := demo.Await(ctx, func() (missing, failed error) {
		if state := cc.GetState(); state != connectivity.TransientFailure {
			missing = fmt.Errorf("the channel is %v: it should have no host", state)
		}
		return missing, nil
	})
	if err != nil {
		return err
	}
	_, err = demo.Check(ctx, cc)
	code := status.Code(err)
	if code != codes.Unavailable {
		return fmt.Errorf("an RPC came to %v: it should have found no host: %w", code, err)
	}
	out.Printf("   failed with %v\n", code)
	return nil
}

// printMetrics prints what Prometheus would scrape, of the metrics composite.*.
func printMetrics(ctx context.Context, out *demo.Output, prom *endpoint) error {
	lines, err := prom.scrape(ctx)
	if err != nil {
		return err
	}
	out.Step("What Prometheus scrapes")
	for _, line := range lines {
		out.Printf("   %s\n", line)
	}
	return nil
}
