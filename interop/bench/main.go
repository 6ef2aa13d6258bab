// Command bench measures what failover costs: by the policy composite, by what
// people use today, and by an Envoy as a sidecar.
//
//	go run ./bench                              # everything, a quarter of an hour
//	go run ./bench -duration 1s -run 'unary'    # only some of it
//	go run ./bench -out ../docs                 # the page and its picture
//
// Contenders take short turns at the same work, in one process and one run; servers
// and the proxy have processes of their own. What counts are ratios: times differ
// from machine to machine.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"regexp"
	"syscall"
	"time"
)

func main() {
	if addr := os.Getenv(serveEnv); addr != "" {
		exit(serve(addr))
	}
	if text := os.Getenv(weighEnv); text != "" {
		exit(weigh(text))
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	exit(err)
}

func exit(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// options are what a run is asked to do.
type options struct {
	// duration is how long each contender works at each workload.
	duration time.Duration
	// rounds is in how many turns it does so.
	rounds int
	// run matches "workload/contender".
	run *regexp.Regexp
	// small makes what is counted, and not timed, small too.
	small bool
	// progress is told what is being measured.
	progress io.Writer
}

func (o options) wants(workload, contender string) bool {
	return o.run.MatchString(workload + "/" + contender)
}

func (o options) turn() time.Duration { return o.duration / time.Duration(o.rounds) }

func (o options) say(format string, args ...any) {
	_, _ = fmt.Fprintf(o.progress, format+"\n", args...)
}

// run is the command without the process around it.
func run(ctx context.Context, args []string, out, progress io.Writer) error {
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(progress)
	o := options{progress: progress}
	flags.DurationVar(&o.duration, "duration", 4*time.Second, "how long each contender works at each workload")
	flags.IntVar(&o.rounds, "rounds", 20, "in how many turns it does so")
	pattern := flags.String("run", ".", "measure what this regular expression matches, of `WORKLOAD/CONTENDER`")
	flags.BoolVar(&o.small, "small", false, "count fewer channels, clusters and endpoints")
	var f files
	flags.StringVar(&f.docs, "out", "", "write benchmarks.md and benchmarks.svg to this `folder`")
	flags.StringVar(&f.json, "json", "", "write all that was measured to this `file`")
	flags.StringVar(&f.bench, "benchfmt", "", "write the turns to this `file`, for benchstat")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if o.duration <= 0 || o.rounds <= 0 || flags.NArg() > 0 {
		return fmt.Errorf("-duration and -rounds must be positive, and there are no arguments besides flags")
	}
	var err error
	if o.run, err = regexp.Compile(*pattern); err != nil {
		return fmt.Errorf("-run: %w", err)
	}
	if err := f.prepare(); err != nil {
		return err
	}
	r, err := measure(ctx, o)
	if err := writeText(out, r); err != nil {
		return err
	}
	if err != nil {
		return err // and no file looks as if all were well
	}
	return f.write(r)
}
