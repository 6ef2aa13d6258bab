package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"google.golang.org/grpc"
	testpb "google.golang.org/grpc/interop/grpc_testing"

	"github.com/grpc-composite/grpc-composite/examples/internal/demo"
)

const askTimeout = 5 * time.Second // with all attempts

// answer is what is known of an answer when its first token has come.
type answer struct {
	provider   string
	attempt    int
	version    string // x-provider-version, as the provider saw it
	firstToken time.Duration
}

// ask sends a prompt, and passes each token of the answer on as it comes; the
// first call of token has what is known of the answer. Nothing here is special to
// the library: which provider answers is settled when the first token comes.
func ask(ctx context.Context, cc grpc.ClientConnInterface, prompt string, token func(a answer, text string)) (answer, error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	start := time.Now()
	stream, err := testpb.NewTestServiceClient(cc).StreamingOutputCall(ctx, &testpb.StreamingOutputCallRequest{
		Payload: &testpb.Payload{Body: []byte(prompt)},
	})
	if err != nil {
		return answer{}, err
	}
	var a answer
	for {
		resp, err := stream.Recv()
		if errors.Is(err, io.EOF) && a.provider != "" {
			return a, nil
		}
		if err != nil {
			return a, fmt.Errorf("prompt %.20q: %w", prompt, err)
		}
		if a.provider == "" {
			if a, err = readHeader(stream); err != nil {
				return a, err
			}
			a.firstToken = time.Since(start)
		}
		token(a, string(resp.GetPayload().GetBody()))
	}
}

// readHeader reads what this example's providers tell in their response header.
func readHeader(stream grpc.ClientStream) (answer, error) {
	header, err := stream.Header()
	if err != nil {
		return answer{}, err
	}
	var a answer
	if version := header.Get(sawVersion); len(version) == 1 {
		a.version = version[0]
	}
	a.provider, a.attempt, err = demo.WhoAnswered(header)
	return a, err
}
