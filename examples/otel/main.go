// Command otel shows metrics and traces: which cluster each attempt went to, and why
// others were passed over.
//
//	cd examples/otel && go run .
//
// It starts two servers and a Prometheus endpoint, breaks the servers in turn,
// prints the spans of an RPC after each step, and at the end what Prometheus would
// scrape. It is a module of its own, so that the library needs no OpenTelemetry.
//
// Where to look first: client.go has the channel's options. spans.go puts the
// cluster on each attempt's span, and is made to be copied. endpoint.go is the
// Prometheus endpoint, printspans.go stands for your tracing back end, and steps.go
// is the plot.
package main

import (
	"context"
	"io"

	"github.com/grpc-composite/grpc-composite/examples/internal/demo"
)

const usage = `Usage: cd examples/otel && go run .

Shows metrics and traces of a channel with two clusters. It starts their servers
itself, breaks them in turn, prints the spans of an RPC after each step, and at the
end the metrics, which it gets from its own Prometheus endpoint. It ends by itself
within a few seconds.

Flags:
  -h
        Print this text.

Output of a step: the spans of its last RPC. The first line is the RPC's own, the
lines below it are those of its attempts, with the attributes that spans.go adds.

Exit code ("go run" itself makes 1 of all but 0):
  0    all went as it should
  1    a step went wrong
  2    the command line is wrong
  130  Ctrl-C came first
`

func main() { demo.Main(run) }

// run is the command. It returns the exit code.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	return demo.Command{Name: "otel", Usage: usage, Play: observe}.Run(ctx, args, stdout, stderr)
}
