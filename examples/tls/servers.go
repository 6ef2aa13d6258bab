package main

import (
	"context"
	"errors"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"

	"github.com/grpc-composite/grpc-composite/examples/internal/ca"
	"github.com/grpc-composite/grpc-composite/examples/internal/demo"
	"github.com/grpc-composite/grpc-composite/examples/internal/tinydns"
)

// play is what the example plays with.
type play struct {
	dns                           *tinydns.Server
	caOne, caTwo                  *ca.CA
	primary, secondary, plaintext *demo.Server
}

// start makes the CAs and starts the servers, whose names are NAME.example.
func start() (*play, error) {
	p := new(play)
	var err error
	if p.caOne, err = ca.New("CA One"); err != nil {
		return nil, err
	}
	if p.caTwo, err = ca.New("CA Two"); err != nil {
		return nil, err
	}
	if p.primary, err = newServer("primary", p.caOne); err != nil {
		return nil, err
	}
	if p.secondary, err = newServer("secondary", p.caTwo); err != nil {
		return nil, err
	}
	if p.plaintext, err = newServer("plaintext", nil); err != nil {
		return nil, err
	}
	if p.dns, err = tinydns.Start(); err != nil {
		return nil, err
	}
	for _, s := range []*demo.Server{p.primary, p.secondary, p.plaintext} {
		if err = errors.Join(err, p.dns.SetA(host(s.Name), "127.0.0.1"), s.Start()); err != nil {
			p.stop()
			return nil, err
		}
	}
	return p, nil
}

// newServer makes a server that has a certificate for its name, or none if
// signedBy is nil.
func newServer(name string, signedBy *ca.CA) (*demo.Server, error) {
	s := &demo.Server{Name: name, Options: []grpc.ServerOption{grpc.ChainUnaryInterceptor(tellWhatItSaw)}}
	if signedBy == nil {
		return s, nil
	}
	cert, err := signedBy.Certificate(host(name))
	s.Options = append(s.Options, grpc.Creds(credentials.NewServerTLSFromCert(&cert)))
	return s, err
}

func (p *play) stop() {
	demo.StopAll(p.primary, p.secondary, p.plaintext)
	p.dns.Stop()
}

// target is where DNS finds a server. With the DNS of your system it is
// "dns:///primary.example:443".
func (p *play) target(s *demo.Server) string {
	return "dns://" + p.dns.Addr() + "/" + authority(s)
}

// authority is a server's name and port, as in its target.
func authority(s *demo.Server) string { return host(s.Name) + ":" + s.Port() }

func host(name string) string { return name + ".example" }

// The response headers in which a server tells what it saw.
const (
	sawAuthority = "saw-authority"
	sawToken     = "saw-token"
)

// tellWhatItSaw adds to an answer which authority and token the request had. (A
// server of yours would check the token, and never tell it.)
func tellWhatItSaw(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	md, _ := metadata.FromIncomingContext(ctx)
	saw := metadata.MD{
		sawAuthority: md.Get(":authority"),
		sawToken:     md.Get("authorization"),
	}
	if err := grpc.SetHeader(ctx, saw); err != nil {
		return nil, err
	}
	return handler(ctx, req)
}
