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
// servers.go the servers, targets.go what -targets does, rpc.go one RPC,
// table.go the output and flags.go the command line.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
)

// The exit codes.
const (
	exitOK          = 0
	exitFailed      = 1
	exitUsage       = 2
	exitInterrupted = 130 // as a shell reports a program that Ctrl-C ended
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// run is the command with its arguments, its output and, as ctx, its Ctrl-C. It
// returns the exit code.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	t := &table{w: stdout}
	opts, err := parseFlags(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		t.printf("%s", usage())
		err = nil
	case err != nil:
		// Told below.
	case opts.targets != nil:
		err = callTargets(ctx, t, opts)
	default:
		err = failover(ctx, t)
	}
	if err == nil {
		err = t.err
	}
	return exitCode(err, stderr)
}

// exitCode tells the user about an error, if there is one.
func exitCode(err error, stderr io.Writer) int {
	var bad *usageError
	switch {
	case err == nil:
		return exitOK
	case errors.Is(err, errInterrupted):
		_, _ = fmt.Fprintln(stderr, "failover: interrupted")
		return exitInterrupted
	case errors.As(err, &bad):
		_, _ = fmt.Fprintf(stderr, "failover: %v\nRun it with -h to see all flags.\n", err)
		return exitUsage
	default:
		_, _ = fmt.Fprintf(stderr, "failover: %v\n", err)
		return exitFailed
	}
}

// errInterrupted ends what Ctrl-C has cut short.
var errInterrupted = errors.New("interrupted")
