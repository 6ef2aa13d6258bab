// Command target takes its target from the environment, and gets failover from
// the target alone.
//
//	go run ./examples/target
//	TARGET=composite:///a.example:50051,b.example:50051 go run ./examples/target
//	TARGET=dns:///a.example:50051 go run ./examples/target
//
// The first starts two servers, breaks one and shows that the other answers. The
// second makes RPCs to two servers of yours, with failover; the third to one,
// without it, and with not a line of the program changed. -h tells more.
//
// Where to look first: client.go has all that the program knows of the library.
// rpc.go makes the RPCs, and steps.go breaks the example's own servers.
package main

import (
	"context"
	"errors"
	"flag"
	"io"
	"os"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/grpc-composite/grpc-composite/examples/internal/demo"
)

const usage = `Usage: [TARGET=target] go run ./examples/target [-tls]

Takes its target from the environment variable TARGET, and makes RPCs to it: 10
health checks (grpc.health.v1.Health), one each half second, so that there is time
to stop a server and see what happens.

Without TARGET it starts two servers of its own, breaks the first one and checks
that the second one answers. It ends by itself within a few seconds.

Targets:
  composite:///a.example:50051,b.example:50051
        Attempt 1 of an RPC goes to a.example; if that answers UNAVAILABLE, attempt
        2 goes to b.example. A server that is down is skipped at once.
  composite:///a.example:50051,b.example:50051?retryOn=UNAVAILABLE,RESOURCE_EXHAUSTED
        The same, with another list of statuses that the next attempt follows.
  dns:///a.example:50051
        Any other target of gRPC works as ever: without failover.

Flags:
  -tls
        Use TLS, with the system's certificate authorities, for servers in TARGET.
        Default: plaintext.
  -h
        Print this text.

Exit code ("go run" itself makes 1 of all but 0):
  0    all went as it should; with TARGET: the last RPC was answered
  1    a step went wrong; with TARGET: the last RPC failed
  2    the command line is wrong, or TARGET in a way that grpc.NewClient notices;
       other mistakes in TARGET fail the RPCs
  130  Ctrl-C came first
`

func main() { demo.Main(run) }

// run is the command. It returns the exit code.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	var useTLS bool
	return demo.Command{
		Name:  "target",
		Usage: usage,
		Flags: func(fs *flag.FlagSet) { fs.BoolVar(&useTLS, "tls", false, "") },
		Play: func(ctx context.Context, out *demo.Output) error {
			target := os.Getenv("TARGET")
			if target == "" && useTLS {
				return &demo.UsageError{Err: errors.New("-tls: must come with TARGET")}
			}
			if target == "" {
				return ownServers(ctx, out)
			}
			creds := insecure.NewCredentials()
			if useTLS {
				creds = credentials.NewTLS(nil)
			}
			return yourServers(ctx, out, target, creds, rpcEvery)
		},
	}.Run(ctx, args, stdout, stderr)
}
