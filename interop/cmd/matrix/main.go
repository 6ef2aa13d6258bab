// Command matrix runs the tests of the core module against several versions of
// grpc-go, each in a copy of the module that it throws away:
//
//	go run ./cmd/matrix                       # the last eight minor versions, and the newest pre-release
//	go run ./cmd/matrix -short v1.79.3        # these versions, and only what is quick
//
// It prints a table of what came out. It fails if a version does not build, or fails
// tests other than those that are known to differ there, or no longer fails those.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "matrix:", err)
		os.Exit(1)
	}
}

// run is the command without the process around it.
func run(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("matrix", flag.ContinueOnError)
	root := flags.String("root", "..", "the folder of the core module")
	minors := flags.Int("minors", 8, "how many minor versions, if no version is given")
	short := flags.Bool("short", false, "leave out the examples, and run tests in their short form")
	list := flags.Bool("list", false, "print the versions, and run nothing")
	if err := flags.Parse(args); err != nil {
		return err
	}
	versions := flags.Args()
	for _, v := range versions {
		if _, ok := parse(v); !ok {
			return fmt.Errorf("version %q: must be like v1.85.0", v)
		}
	}
	if len(versions) == 0 {
		all, err := published(ctx)
		if err != nil {
			return err
		}
		if versions = choose(all, *minors); len(versions) == 0 {
			return fmt.Errorf("%s has no versions", module)
		}
	}
	if *list {
		_, err := fmt.Fprintln(out, strings.Join(versions, "\n"))
		return err
	}

	var results []result
	for _, v := range versions {
		_, _ = fmt.Fprintf(out, "=== %s %s\n", module, v)
		r := check(ctx, *root, v, *short, out)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		results = append(results, r)
	}
	return report(out, results)
}
