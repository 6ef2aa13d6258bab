// Command aigateway sends prompts to a preferred provider, and to others when that
// one is at its rate limit or down.
//
//	go run ./examples/aigateway
//
// It starts three providers with TLS, API keys and real rate limits of their own.
// A burst of prompts is more than the preferred one takes: it answers some, and
// RESOURCE_EXHAUSTED to the rest, which the fallbacks answer. Then it goes down.
// Each provider checks its own key and refuses all others, so that a key in the
// wrong place would end the example.
//
// An answer is a stream of tokens. It can move to another provider until the first
// one comes; an answer that breaks off later is an error to the caller, who alone
// knows whether to start over.
//
// Two things to know of your providers: one that sends response headers before it
// says RESOURCE_EXHAUSTED cannot be left any more; and one that answers with the
// trailer grpc-retry-pushback-ms is obeyed, which delays the move to the next one
// or, if the value is negative, forbids it.
//
// The service is StreamingOutputCall of grpc.testing.TestService, which comes with
// gRPC-Go, so that this example needs no generated code of its own: a request's
// payload is the prompt, and each response's payload a token.
//
// Where to look first: client.go has all that a gateway needs. ask.go sends a
// prompt, steps.go is the plot, providers.go and bucket.go are the providers.
package main

import (
	"context"
	"io"

	"github.com/grpc-composite/grpc-composite/examples/internal/demo"
)

const usage = `Usage: go run ./examples/aigateway

Shows a gateway with a preferred provider and two fallbacks. It starts them itself,
sends more prompts than the preferred one takes, stops it, and checks that no
prompt fails. It ends by itself within a few seconds.

Flags:
  -h
        Print this text.

Output of a burst: a line for each prompt, when its answer is complete.
  PROVIDER     which provider answered
  VERSION      the x-provider-version that the provider saw
  ATTEMPT      the attempt that was answered
  FIRST TOKEN  the time from the prompt to the first token, with all attempts
  TOKENS       of the answer

Exit code ("go run" itself makes 1 of all but 0):
  0    all went as it should
  1    a step went wrong
  2    the command line is wrong
  130  Ctrl-C came first
`

func main() { demo.Main(run) }

// run is the command. It returns the exit code.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	return demo.Command{Name: "aigateway", Usage: usage, Play: gateway}.Run(ctx, args, stdout, stderr)
}
