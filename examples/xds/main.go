// Command xds shows failover over the clusters of an xDS control plane.
//
//	cd examples/xds && go run .
//
// It starts a small control plane and a server for each of three clusters, all in
// the process. It breaks servers, and has the control plane delete a cluster, bring
// it back on another server, change how often its route retries, and go away. For
// each step it shows which cluster answered, and on which attempt.
//
// It is a module of its own, for the sake of the control plane: a client needs
// nothing but grpc-composite and gRPC.
//
// Where to look first: client.go has all that a program needs, resources.go what
// the control plane serves it. steps.go is the plot.
package main

import (
	"context"
	"io"

	"github.com/grpc-composite/grpc-composite/examples/internal/demo"
)

const usage = `Usage: cd examples/xds && go run .

Shows failover over the clusters of an xDS control plane, which it starts itself,
as it does the servers. It checks which cluster answers on which attempt while
servers break and the control plane changes its mind, and ends by itself within a
few seconds.

Flags:
  -h
        Print this text.

Exit code ("go run" itself makes 1 of all but 0):
  0    all went as it should
  1    a step went wrong
  2    the command line is wrong
  130  Ctrl-C came first
`

func main() { demo.Main(run) }

// run is the command. It returns the exit code.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	return demo.Command{Name: "xds", Usage: usage, Play: steps}.Run(ctx, args, stdout, stderr)
}
