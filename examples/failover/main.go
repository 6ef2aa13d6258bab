// Command failover shows what the policy "composite" does when servers fail.
//
//	go run ./examples/failover
//
// It starts three gRPC servers, breaks them in turn, and prints for each RPC
// which of them answered, on which attempt, and how long it took. With -targets
// it makes its RPCs to servers of your own instead; -h tells more.
//
// Where to look first: client.go has all that a program needs to use the
// library. The other files are the play around it: steps.go is the plot,
// targets.go what -targets does, rpc.go one RPC, table.go the output and flags.go
// the command line. The servers are in examples/internal/demo.
package main

import (
	"context"
	"errors"
	"flag"
	"io"

	"github.com/grpc-composite/grpc-composite/examples/internal/demo"
)

func main() { demo.Main(run) }

// run is the command with its arguments, its output and, as ctx, its Ctrl-C. It
// returns the exit code.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	t := &table{Output: demo.NewOutput(stdout)}
	opts, err := parseFlags(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		t.Printf("%s", usage())
		err = nil
	case err != nil:
		// Told below.
	case opts.targets != nil:
		err = callTargets(ctx, t, opts)
	default:
		err = failover(ctx, t)
	}
	if err == nil {
		err = t.Err()
	}
	return demo.ExitCode("failover", err, stderr)
}
