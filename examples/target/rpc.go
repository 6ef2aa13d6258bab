package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/peer"

	"github.com/grpc-composite/grpc-composite/examples/internal/demo"
)

const (
	rpcs       = 10 // to your servers
	rpcEvery   = 500 * time.Millisecond
	rpcTimeout = 5 * time.Second // with all its attempts
)

// check makes one RPC and returns the address of the server that answered it.
func check(ctx context.Context, cc *grpc.ClientConn) (addr string, err error) {
	ctx, cancel := context.WithTimeout(ctx, rpcTimeout)
	defer cancel()
	var server peer.Peer
	_, err = healthpb.NewHealthClient(cc).Check(ctx, &healthpb.HealthCheckRequest{}, grpc.Peer(&server))
	if err != nil {
		return "", err
	}
	return server.Addr.String(), nil
}

// yourServers makes RPCs to a target of the user's, one each interval. It returns
// an error if the last one failed.
func yourServers(ctx context.Context, out *demo.Output, target string, creds credentials.TransportCredentials, every time.Duration) error {
	cc, err := dial(target, creds)
	if err != nil {
		return &demo.UsageError{Err: fmt.Errorf("TARGET: %w", err)}
	}
	defer func() { _ = cc.Close() }()

	out.Printf("TARGET=%s\n", target)
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	last := "" // error, which is printed once if it repeats
	for n := range rpcs {
		if n > 0 {
			select {
			case <-ctx.Done():
			case <-ticker.C:
			}
		}
		start := time.Now()
		addr, err := check(ctx, cc)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		took := demo.Milliseconds(time.Since(start))
		if err == nil {
			out.Printf("   %2d  answered by %s after %s\n", n+1, addr, took)
			last = ""
			continue
		}
		out.Printf("   %2d  failed after %s\n", n+1, took)
		if text := err.Error(); text != last {
			out.Text(text)
			last = text
		}
	}
	if last != "" {
		return errors.New("the last RPC failed") // its error is printed above
	}
	return nil
}
