package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
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
	// attemptHeader is the response header in which this example's servers say
	// which attempt they answer.
	attemptHeader = "attempt"
)

// server is a gRPC server with the health service that can be broken. start and
// stop must not be called at once.
type server struct {
	name        string
	addr        string      // host:port, the same at each start
	unavailable atomic.Bool // answers UNAVAILABLE

	grpc   *grpc.Server  // nil if stopped
	served chan struct{} // closed when grpc has come to its end
}

// start starts the server, healthy, on the port that it had before.
func (s *server) start() error {
	lis, err := listen(s.addr)
	if err != nil {
		return fmt.Errorf("server %s cannot start: %w", s.name, err)
	}
	s.addr = lis.Addr().String()
	s.unavailable.Store(false)
	srv, served := grpc.NewServer(grpc.UnaryInterceptor(s.intercept)), make(chan struct{})
	healthpb.RegisterHealthServer(srv, health.NewServer())
	go func() {
		defer close(served)
		_ = srv.Serve(lis) // its errors are seen by the client
	}()
	s.grpc, s.served = srv, served
	return nil
}

// stop closes the server's port and its connections.
func (s *server) stop() {
	if s.grpc == nil {
		return
	}
	s.grpc.Stop()
	<-s.served
	s.grpc = nil
}

// intercept answers for the health service while the server is unavailable, and
// adds to its answers which attempt they are for.
func (s *server) intercept(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	if s.unavailable.Load() {
		// Without a response header: it would tell the client that the server
		// has begun to answer, and so forbid a retry.
		return nil, status.Errorf(codes.Unavailable, "%s is unavailable, as this step wants it", s.name)
	}
	resp, err := handler(ctx, req)
	if err != nil {
		return nil, err
	}
	attempt := 1
	for _, v := range metadata.ValueFromIncomingContext(ctx, previousAttempts) {
		previous, err := strconv.Atoi(v)
		if err != nil {
			return nil, status.Errorf(codes.InvalidArgument, "header %s: %v", previousAttempts, err)
		}
		attempt += previous
	}
	return resp, grpc.SetHeader(ctx, metadata.Pairs(attemptHeader, strconv.Itoa(attempt)))
}

// The ports to choose from. Port 0 would be simpler, but a port that the system
// has chosen may be given to another program while the server is down. These are
// below the range from which systems choose.
const (
	firstPort = 10000
	ports     = 22000
)

// nextPort is the port to try next, counted from firstPort. Each is tried once,
// so that no server gets another one's while that is down.
var nextPort atomic.Uint32

func init() { nextPort.Store(rand.Uint32N(ports)) } //nolint:gosec // a port is no secret

// listen opens a port: that of addr, or one of its own choice if addr is empty.
func listen(addr string) (net.Listener, error) {
	if addr != "" {
		return net.Listen("tcp", addr)
	}
	var errs []error
	for range 20 {
		port := firstPort + nextPort.Add(1)%ports
		lis, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err == nil {
			return lis, nil
		}
		errs = append(errs, err)
	}
	return nil, errors.Join(errs...)
}
