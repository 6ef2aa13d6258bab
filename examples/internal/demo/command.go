package demo

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
	ExitOK          = 0
	ExitFailed      = 1
	ExitUsage       = 2
	ExitInterrupted = 130 // as a shell reports a program that Ctrl-C ended
)

// ErrInterrupted ends what Ctrl-C has cut short.
var ErrInterrupted = errors.New("interrupted")

// UsageError is an error in the command line or the environment.
type UsageError struct{ Err error }

func (e *UsageError) Error() string { return e.Err.Error() }

func (e *UsageError) Unwrap() error { return e.Err }

// Command is an example as a command.
type Command struct {
	Name  string
	Usage string              // what -h prints
	Flags func(*flag.FlagSet) // adds flags besides -h; may be nil
	Play  func(ctx context.Context, out *Output) error
}

// Run runs the command with its arguments, its output and, as ctx, its Ctrl-C. It
// returns the exit code.
func (c Command) Run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	out := NewOutput(stdout)
	fs := flag.NewFlagSet(c.Name, flag.ContinueOnError)
	fs.SetOutput(io.Discard) // errors and help are printed here
	if c.Flags != nil {
		c.Flags(fs)
	}
	err := fs.Parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		out.Printf("%s", c.Usage)
		err = nil
	case err != nil:
		err = &UsageError{err}
	case fs.NArg() > 0:
		err = &UsageError{fmt.Errorf("%q: must be a flag: there are no arguments besides flags", fs.Arg(0))}
	default:
		err = c.Play(ctx, out)
		if err != nil && errors.Is(ctx.Err(), context.Canceled) {
			err = ErrInterrupted
		}
	}
	return ExitCode(c.Name, errors.Join(err, out.Err()), stderr)
}

// ExitCode tells the user about an error, if there is one.
func ExitCode(name string, err error, stderr io.Writer) int {
	var bad *UsageError
	switch {
	case err == nil:
		return ExitOK
	case errors.Is(err, ErrInterrupted):
		_, _ = fmt.Fprintf(stderr, "%s: interrupted\n", name)
		return ExitInterrupted
	case errors.As(err, &bad):
		_, _ = fmt.Fprintf(stderr, "%s: %v\nRun it with -h to see all flags.\n", name, err)
		return ExitUsage
	default:
		_, _ = fmt.Fprintf(stderr, "%s: %v\n", name, err)
		return ExitFailed
	}
}

// Main runs a command as the process, with Ctrl-C as the end of its context.
func Main(run func(ctx context.Context, args []string, stdout, stderr io.Writer) int) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}
