// Command tls gives each cluster its own TLS and its own token.
//
//	go run ./examples/tls
//
// It starts three servers: two with certificates of different CAs, which are made
// at the start and kept in memory, and one without TLS. It breaks them in turn and
// shows, for the RPC that each of them answers, which authority and which token
// the server saw, and which CA signed its certificate. Then it takes each CA for
// the other one, and shows the error of the RPC.
//
// Note what a plaintext cluster at the end of the list means: it answers when the
// others cannot be verified, too. It is here to show that tokens stay where they
// belong; think twice before you have one.
//
// Where to look first: client.go has all that a program needs. steps.go is the
// plot, servers.go the servers.
package main

import (
	"context"
	"io"

	"github.com/grpc-composite/grpc-composite/examples/internal/demo"
)

const usage = `Usage: go run ./examples/tls

Shows clusters with credentials of their own: a CA, a token, or plaintext without
any. It starts its servers itself, checks that each sees its own token and no
other, takes each CA for the other one, and shows the error of the RPC. It ends by
itself within a few seconds.

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
	return demo.Command{Name: "tls", Usage: usage, Play: steps}.Run(ctx, args, stdout, stderr)
}
