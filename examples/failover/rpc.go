package main

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/grpc-composite/grpc-composite/examples/internal/demo"
)

// rpcTimeout is for one RPC with all its attempts.
const rpcTimeout = 5 * time.Second

// answer is what came of one RPC.
type answer struct {
	cluster string // "" if no server answered, or its cluster is not known
	address string // of the server, or "" if none answered
	attempt int    // or 0 if the server does not tell
	took    time.Duration
	health  healthpb.HealthCheckResponse_ServingStatus // if err is nil
	err     error
}

// check makes one RPC, which asks a server for its health. Nothing in it is
// special to the library: the channel's service config does the failover.
func check(ctx context.Context, cc *grpc.ClientConn, d *directory) answer {
	ctx, cancel := context.WithTimeout(ctx, rpcTimeout)
	defer cancel()
	var server peer.Peer
	var header metadata.MD
	start := time.Now()
	resp, err := healthpb.NewHealthClient(cc).Check(ctx, &healthpb.HealthCheckRequest{}, grpc.Peer(&server), grpc.Header(&header))
	a := answer{took: time.Since(start), health: resp.GetStatus(), err: err}

	if server.Addr != nil {
		a.address = server.Addr.String()
		a.cluster = d.cluster(ctx, a.address)
	}
	if told := header.Get(demo.AttemptHeader); len(told) == 1 {
		a.attempt, _ = strconv.Atoi(told[0]) // 0 if it is not a number
	}
	return a
}

// code is the status of the RPC, and the server's health unless it is good.
func (a answer) code() string {
	if a.err != nil || a.health == healthpb.HealthCheckResponse_SERVING {
		return status.Code(a.err).String()
	}
	return fmt.Sprintf("%v, %v", codes.OK, a.health)
}

// String tells the answer in words that come after "the RPC".
func (a answer) String() string {
	if a.err != nil {
		return fmt.Sprintf("failed: %v", a.err)
	}
	return fmt.Sprintf("was answered by %s on attempt %d", a.cluster, a.attempt)
}
