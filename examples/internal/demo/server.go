package demo

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync/atomic"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

const (
	// previousAttempts is the request header in which gRPC's clients tell how
	// many attempts of the RPC came before. A first attempt does not have it.
	previousAttempts = "grpc-previous-rpc-attempts"
	// AttemptHeader and serverHeader are the response headers in which servers
	// of this package say which attempt they answer, and who they are.
	AttemptHeader = "attempt"
	serverHeader  = "server-name"
)

// Server is a gRPC server on loopback that can be broken. It has the health
// service, which answers SERVING. Start and Stop must not be called at once.
type Server struct {
	Name        string
	Options     []grpc.ServerOption
	Register    func(*grpc.Server) // adds services; may be nil
	Addr        string             // host:port, once it has started; the same at each start
	Unavailable atomic.Bool        // answers UNAVAILABLE

	grpc   *grpc.Server  // nil if stopped
	served chan struct{} // closed when grpc has come to its end
}

// Start starts the server, healthy, on the port that it had before.
func (s *Server) Start() error {
	lis, err := listen(s.Addr)
	if err != nil {
		return fmt.Errorf("server %s cannot start: %w", s.Name, err)
	}
	s.Addr = lis.Addr().String()
	s.Unavailable.Store(false)
	srv, served := grpc.NewServer(append(s.Options, grpc.UnaryInterceptor(s.unary), grpc.StreamInterceptor(s.stream))...), make(chan struct{})
	healthpb.RegisterHealthServer(srv, health.NewServer())
	if s.Register != nil {
		s.Register(srv)
	}
	go func() {
		defer close(served)
		_ = srv.Serve(lis) // its errors are seen by the client
	}()
	s.grpc, s.served = srv, served
	return nil
}

// StartAll starts servers. If one cannot start, none is left running.
func StartAll(servers ...*Server) error {
	for _, s := range servers {
		if err := s.Start(); err != nil {
			StopAll(servers...)
			return err
		}
	}
	return nil
}

// Stop closes the server's port and its connections. A server that has stopped
// may be stopped again.
func (s *Server) Stop() {
	if s.grpc == nil {
		return
	}
	s.grpc.Stop()
	<-s.served
	s.grpc = nil
}

// StopAll stops servers.
func StopAll(servers ...*Server) {
	for _, s := range servers {
		s.Stop()
	}
}

// Restart stops the server and starts it again.
func (s *Server) Restart() error {
	s.Stop()
	return s.Start()
}

// Port is the port of Addr.
func (s *Server) Port() string {
	_, port, err := net.SplitHostPort(s.Addr)
	if err != nil {
		panic(err) // the server has not been started
	}
	return port
}

// unary answers for the services while the server is unavailable, and adds who
// answered to what they answer.
func (s *Server) unary(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	if err := s.broken(); err != nil {
		return nil, err
	}
	resp, err := handler(ctx, req)
	if err != nil {
		return nil, err
	}
	return resp, grpc.SetHeader(ctx, s.Header(ctx))
}

func (s *Server) stream(srv any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
	if err := s.broken(); err != nil {
		return err
	}
	return handler(srv, stream)
}

// broken has no response header: it would tell the client that the server has
// begun to answer, and so forbid a retry.
func (s *Server) broken() error {
	if s.Unavailable.Load() {
		return status.Errorf(codes.Unavailable, "%s is unavailable, as this step wants it", s.Name)
	}
	return nil
}

// Header is the response header that tells who answers which attempt. Unary RPCs
// have it; streams have to send it, once they know that they do not fail.
func (s *Server) Header(ctx context.Context) metadata.MD {
	attempt := 1
	for _, v := range metadata.ValueFromIncomingContext(ctx, previousAttempts) {
		if previous, err := strconv.Atoi(v); err == nil {
			attempt += previous
		}
	}
	return metadata.Pairs(serverHeader, s.Name, AttemptHeader, strconv.Itoa(attempt))
}

// WhoAnswered reads the response header of a [Server].
func WhoAnswered(header metadata.MD) (server string, attempt int, err error) {
	name, number := header.Get(serverHeader), header.Get(AttemptHeader)
	if len(name) != 1 || len(number) != 1 {
		return "", 0, errors.New("the response header does not tell who answered")
	}
	attempt, err = strconv.Atoi(number[0])
	return name[0], attempt, err
}
