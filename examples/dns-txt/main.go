// Command dns-txt has failover delivered by DNS: a program that dials an ordinary
// target gets a fallback when somebody adds a TXT record.
//
//	go run ./examples/dns-txt
//
// It starts two gRPC servers and a DNS server. The rest is what gRPC-Go does by
// itself: its resolver "dns" asks the DNS server for the addresses of the target's
// name and for the TXT record _grpc_config.NAME, which has a service config. All
// of it is real, the switch of the running channel too. It differs from a program
// of yours in two things:
//   - the target names the DNS server, dns://127.0.0.1:PORT/primary.example:PORT;
//     yours is dns:///primary.example:443, and asks the system's;
//   - gRPC-Go asks DNS again at most every 30 s. Here it is 0.1 s, so that the
//     example ends soon. Leave it at 30 s.
//
// What to know before you use it:
//   - Nothing has to be turned on: gRPC-Go looks for the TXT record unless the
//     environment has GRPC_ENABLE_TXT_SERVICE_CONFIG=false, or the program
//     grpc.WithDisableServiceConfig.
//   - A channel asks DNS when it is opened, and again only after one of its
//     connections was lost (or its name could not be resolved). So a new record
//     reaches a running client when a server restarts, when a server's
//     keepalive.ServerParameters.MaxConnectionAge ends a connection, or at the
//     latest when the primary goes down, which is when it is needed. But a
//     primary that keeps its connections and answers UNAVAILABLE brings nobody to
//     ask: set MaxConnectionAge.
//   - A client keeps the config when the record is gone. To take it back, have the
//     record deliver another: {"loadBalancingConfig":[{"pick_first":{}}]}.
//   - A Go client that imports the library and lacks DialOptions fails all RPCs
//     once the record names the policy. Clients without the library use the
//     policy that is listed after it; see record.go.
//
// Where to look first: record.go has the TXT record, client.go the client.
// steps.go is the plot; the DNS server is examples/internal/tinydns.
package main

import (
	"context"
	"io"
	"time"

	"google.golang.org/grpc/resolver/dns"

	"github.com/grpc-composite/grpc-composite/examples/internal/demo"
)

const usage = `Usage: go run ./examples/dns-txt

Shows failover that is delivered by DNS. It starts two gRPC servers and a DNS
server itself, adds a TXT record with a service config while a client runs, and
checks that the client uses it once it has asked DNS again. It ends by itself
within a few seconds.

Flags:
  -h
        Print this text.

Exit code ("go run" itself makes 1 of all but 0):
  0    all went as it should
  1    a step went wrong
  2    the command line is wrong
  130  Ctrl-C came first
`

// gRPC wants this set before there are channels.
func init() { dns.SetMinResolutionInterval(100 * time.Millisecond) }

func main() { demo.Main(run) }

// run is the command. It returns the exit code.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	return demo.Command{Name: "dns-txt", Usage: usage, Play: steps}.Run(ctx, args, stdout, stderr)
}
