// Command compositectl looks at service configs with the load-balancing policy
// "composite" before a program does: it finds mistakes, explains what becomes of an
// RPC, and makes a service config of an Envoy's composite cluster.
package main

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	// What service configs may name.
	_ "google.golang.org/grpc/balancer/leastrequest"
	_ "google.golang.org/grpc/balancer/randomsubsetting"
	_ "google.golang.org/grpc/balancer/rls"
	_ "google.golang.org/grpc/xds"

	_ "github.com/grpc-composite/grpc-composite/balancer/composite"
)

// Exit codes, besides 0.
const (
	exitFound = 1 // the input has errors, or what is found cannot be written
	exitUsage = 2 // the command line has
)

const usage = `compositectl looks at gRPC service configs with the policy "composite".

    compositectl lint [--json] FILE        finds mistakes in a service config
    compositectl explain FILE              shows what becomes of an RPC, and how long it may take
    compositectl from-envoy [flags] FILE   makes a service config of an Envoy's configuration

FILE may be - for the standard input, and for lint and explain a target with its
clusters in it, such as "composite:///a:443,b:443". "compositectl COMMAND -h" tells more.
`

// command is one of the program's commands. It reports what is wrong with its input
// by an error, or has printed it if the error is errFound.
type command struct {
	name, usage string
	limit       int64 // of the input, in bytes
	targets     bool  // instead of a file there may be a target
	flags       func(*flag.FlagSet) runner
}

type runner func(input source, out, errs io.Writer) error

// source is what a command looks at.
type source struct {
	name  string
	text  string
	wrong error // a target makes no text, for this reason; nil for a file
}

// errFound has the command end with exitFound without another word.
var errFound = errors.New("errors were found")

var commands = []command{lintCommand, explainCommand, fromEnvoyCommand}

func main() { os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) }

// run is the program, with its arguments, and returns its exit code.
func run(args []string, in io.Reader, out, errs io.Writer) int {
	o, e := printer{to: out}, printer{to: errs}
	code := dispatch(args, in, &o, &e)
	if err := cmp.Or(o.err, e.err); err != nil {
		_, _ = fmt.Fprintf(errs, "compositectl: not all was written: %v\n", err)
		code = cmp.Or(code, exitFound)
	}
	return code
}

// printer keeps the first error of writing, which run looks at in the end, so that
// nobody else has to.
type printer struct {
	to  io.Writer
	err error
}

func (p *printer) Write(text []byte) (int, error) {
	n, err := p.to.Write(text)
	p.err = cmp.Or(p.err, err)
	return n, err
}

func dispatch(args []string, in io.Reader, out, errs io.Writer) int {
	if len(args) == 0 {
		_, _ = fmt.Fprint(errs, usage)
		return exitUsage
	}
	if slices.Contains([]string{"-h", "-help", "--help", "help"}, args[0]) {
		_, _ = fmt.Fprint(out, usage)
		return 0
	}
	for _, c := range commands {
		if c.name == args[0] {
			return c.run(args[1:], in, out, errs)
		}
	}
	_, _ = fmt.Fprintf(errs, "compositectl: there is no command %q\n\n%s", args[0], usage)
	return exitUsage
}

func (c command) run(args []string, in io.Reader, out, errs io.Writer) int {
	set := flag.NewFlagSet(c.name, flag.ContinueOnError)
	set.SetOutput(io.Discard)
	do := c.flags(set)
	help := func(w io.Writer) {
		_, _ = fmt.Fprint(w, c.usage)
		set.SetOutput(w)
		set.PrintDefaults()
	}
	files, err := parseArgs(set, args)
	if errors.Is(err, flag.ErrHelp) {
		help(out)
		return 0
	}
	if err == nil && len(files) != 1 {
		err = fmt.Errorf("there must be one FILE, or - for the standard input, and there are %d", len(files))
	}
	if err != nil {
		_, _ = fmt.Fprintf(errs, "compositectl %s: %v\n\n", c.name, err)
		help(errs)
		return exitUsage
	}
	if c.targets && isTarget(files[0]) {
		input := source{name: files[0]}
		input.text, input.wrong = configOfTarget(files[0])
		return c.finish(do(input, out, errs), input.name, errs)
	}
	input, err := read(files[0], in, c.limit)
	if err != nil {
		if c.targets && strings.Contains(files[0], ":///") {
			err = fmt.Errorf("%w; of targets, only those with clusters in them can be looked at, such as composite:///a:443,b:443", err)
		}
		_, _ = fmt.Fprintf(errs, "compositectl %s: %v\n", c.name, err)
		return exitUsage
	}
	return c.finish(do(input, out, errs), input.name, errs)
}

// finish returns the exit code of a command that has come to err.
func (c command) finish(err error, name string, errs io.Writer) int {
	switch {
	case errors.Is(err, errFound):
		return exitFound
	case err != nil:
		_, _ = fmt.Fprintf(errs, "compositectl %s: %s: %v\n", c.name, name, err)
		return exitFound
	default:
		return 0
	}
}

// parseArgs parses flags wherever they stand, and returns the other arguments.
func parseArgs(set *flag.FlagSet, args []string) (rest []string, err error) {
	for {
		if err := set.Parse(args); err != nil {
			return nil, err
		}
		if args = set.Args(); len(args) == 0 {
			return rest, nil
		}
		rest, args = append(rest, args[0]), args[1:]
	}
}

// read reads a file, or the standard input.
func read(file string, in io.Reader, limit int64) (source, error) {
	name := "standard input"
	if file != "-" {
		name = file
		f, err := os.Open(file) //nolint:gosec // The file is the user's own choice.
		if err != nil {
			return source{}, err
		}
		defer func() { _ = f.Close() }()
		in = f
	}
	data, err := io.ReadAll(io.LimitReader(in, limit+1))
	if err != nil {
		return source{}, fmt.Errorf("%s: %w", name, err)
	}
	if int64(len(data)) > limit {
		return source{}, fmt.Errorf("%s: it has more than %d bytes", name, limit)
	}
	return source{name: name, text: string(data)}, nil
}
