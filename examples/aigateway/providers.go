package main

import (
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	testpb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/grpc-composite/grpc-composite/examples/internal/ca"
	"github.com/grpc-composite/grpc-composite/examples/internal/demo"
)

const (
	// sawVersion is the response header in which a provider tells the
	// x-provider-version that it saw.
	sawVersion = "saw-version"
	tokenPause = 15 * time.Millisecond // from one token of an answer to the next
	answerText = "Because air scatters blue light more than red light."
)

// provider is the model of a provider: it wants its key, has a rate limit, and
// answers all prompts in the same way.
type provider struct {
	testpb.UnimplementedTestServiceServer
	*demo.Server
	key   string
	limit *bucket // nil: none
}

// newProvider makes a provider with a certificate for loopback.
func newProvider(name string, limit *bucket, signedBy *ca.CA) (*provider, error) {
	cert, err := signedBy.Certificate("127.0.0.1")
	if err != nil {
		return nil, err
	}
	p := &provider{key: "key-of-" + name, limit: limit}
	p.Server = &demo.Server{
		Name:     name,
		Options:  []grpc.ServerOption{grpc.Creds(credentials.NewServerTLSFromCert(&cert))},
		Register: func(s *grpc.Server) { testpb.RegisterTestServiceServer(s, p) },
	}
	return p, nil
}

// StreamingOutputCall answers a prompt, token by token. What it refuses, it
// refuses without a response header: that would commit the RPC to this provider.
func (p *provider) StreamingOutputCall(_ *testpb.StreamingOutputCallRequest, stream grpc.ServerStreamingServer[testpb.StreamingOutputCallResponse]) error {
	ctx := stream.Context()
	md, _ := metadata.FromIncomingContext(ctx)
	if key := strings.Join(md.Get("authorization"), ", "); key != "Bearer "+p.key {
		return status.Errorf(codes.Unauthenticated, "%s does not know the key %q", p.Name, key)
	}
	if p.limit != nil && !p.limit.take(time.Now()) {
		return status.Errorf(codes.ResourceExhausted, "%s: rate limit: %v", p.Name, p.limit)
	}

	header := p.Header(ctx)
	header.Set(sawVersion, md.Get("x-provider-version")...)
	if err := stream.SetHeader(header); err != nil {
		return err
	}
	for i, word := range strings.Fields(answerText) {
		if i > 0 {
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(tokenPause):
			}
			word = " " + word
		}
		if err := stream.Send(&testpb.StreamingOutputCallResponse{Payload: &testpb.Payload{Body: []byte(word)}}); err != nil {
			return err
		}
	}
	return nil
}

// providers are the three of this example, and what a client verifies them by.
type providers struct {
	preferred, fallbackA, fallbackB *provider
	tls                             credentials.TransportCredentials
}

// startProviders starts the providers. The first two have a limit.
func startProviders() (*providers, error) {
	authority, err := ca.New("CA of the providers")
	if err != nil {
		return nil, err
	}
	p := &providers{tls: credentials.NewClientTLSFromCert(authority.Pool(), "")}
	if p.preferred, err = newProvider("preferred", newBucket(4, 3*time.Second), authority); err != nil {
		return nil, err
	}
	if p.fallbackA, err = newProvider("fallback-a", newBucket(4, 3*time.Second), authority); err != nil {
		return nil, err
	}
	if p.fallbackB, err = newProvider("fallback-b", nil, authority); err != nil {
		return nil, err
	}
	return p, demo.StartAll(p.preferred.Server, p.fallbackA.Server, p.fallbackB.Server)
}

func (p *providers) stop() {
	demo.StopAll(p.preferred.Server, p.fallbackA.Server, p.fallbackB.Server)
}
