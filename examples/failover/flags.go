package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/grpc-composite/grpc-composite/examples/internal/demo"
)

const (
	defaultRPCs  = 10
	defaultEvery = 500 * time.Millisecond
	maxTargets   = 64 // as many attempts as the library allows
)

// options is what the command line says.
type options struct {
	targets []string // nil: the example's own servers
	n       int      // RPCs, 0: until interrupted
	every   time.Duration
}

func usage() string {
	return fmt.Sprintf(`Usage: go run ./examples/failover [-targets host:port,... [-n count] [-every interval]]

Shows gRPC failover with the load-balancing policy "composite": attempt 1 of an
RPC goes to the first cluster, attempt 2 to the second, and so on; a cluster that
is down is skipped at once.

Without flags, it starts three gRPC servers of its own, breaks them in turn and
checks that each RPC goes where it should. It ends by itself within 10 seconds.

Flags:
  -targets host:port,...
        Make the RPCs to these servers instead, in the order of attempts: 1 to %d
        of them, separated by commas. Anything that gRPC can resolve will do, such
        as dns:///name:port. A target that is listed again gets a later attempt,
        too. The servers must offer gRPC's health service (grpc.health.v1.Health)
        without TLS. Stop and start them to see what happens.
  -n count
        With -targets: how many RPCs to make; 0: until Ctrl-C. Default: %d.
  -every interval
        With -targets: the time from one RPC to the next, such as 100ms or 2s.
        Default: %v.
  -h
        Print this text.

Output: a line for each RPC.
  CLUSTER   which cluster answered; "-" if none did, or if the server's address
            does not tell
  ADDRESS   the address of the server that answered; "-" if none did
  ATTEMPT   the attempt that was answered; "-" if the server does not tell, as
            only this example's servers do, in the response header %q
  TIME      how long the RPC took, with all its attempts; %v at most
  STATUS    the RPC's status; an error is printed below, once if it repeats

Exit code ("go run" itself makes 1 of all but 0):
  0    all went as it should; with -targets: the last RPC was answered
  1    a step went wrong; with -targets: the last RPC failed
  2    the command line is wrong
  130  Ctrl-C came first; with -targets: before the first RPC was over

Examples:
  go run ./examples/failover
  go run ./examples/failover -targets localhost:50051,localhost:50052
  go run ./examples/failover -targets dns:///a.example:50051,dns:///b.example:50051 -n 0 -every 1s
`, maxTargets, defaultRPCs, defaultEvery, demo.AttemptHeader, rpcTimeout)
}

// parseFlags returns flag.ErrHelp if help is asked for, and otherwise a
// demo.UsageError if:
//   - a flag is not known, or its value not of its type;
//   - there are arguments besides flags;
//   - targets are none or more than 64, or one is empty;
//   - n is negative, or every is not positive;
//   - n or every is given without targets.
func parseFlags(args []string) (options, error) {
	fs := flag.NewFlagSet("failover", flag.ContinueOnError)
	fs.SetOutput(io.Discard) // run prints errors and help
	targets := fs.String("targets", "", "")
	n := fs.Int("n", defaultRPCs, "")
	every := fs.Duration("every", defaultEvery, "")
	if err := fs.Parse(args); errors.Is(err, flag.ErrHelp) {
		return options{}, err
	} else if err != nil {
		return options{}, &demo.UsageError{Err: err}
	}
	opts := options{n: *n, every: *every}
	given := make(map[string]bool)
	fs.Visit(func(f *flag.Flag) { given[f.Name] = true })

	bad := func(format string, args ...any) (options, error) {
		return options{}, &demo.UsageError{Err: fmt.Errorf(format, args...)}
	}
	if given["targets"] {
		for i, target := range strings.Split(*targets, ",") {
			target = strings.TrimSpace(target)
			if target == "" {
				return bad("-targets: %q: target %d is empty: must be a list such as host:port,host:port", *targets, i+1)
			}
			opts.targets = append(opts.targets, target)
		}
	}
	switch {
	case fs.NArg() > 0:
		return bad("%q: must be a flag: there are no arguments besides flags", fs.Arg(0))
	case len(opts.targets) > maxTargets:
		return bad("-targets: must list at most %d targets, and lists %d", maxTargets, len(opts.targets))
	case *n < 0:
		return bad("-n: %d: must not be negative", *n)
	case *every <= 0:
		return bad("-every: %v: must be positive", *every)
	case opts.targets == nil && given["n"]:
		return bad("-n: must come with -targets")
	case opts.targets == nil && given["every"]:
		return bad("-every: must come with -targets")
	}
	return opts, nil
}
