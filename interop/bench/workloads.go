package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"google.golang.org/grpc"
	testpb "google.golang.org/grpc/interop/grpc_testing"
)

// What the first cluster does.
type first string

const (
	healthy     first = "healthy"
	unavailable first = "unavailable" // answers each RPC with UNAVAILABLE
	closed      first = "closed"      // its port is closed
	killed      first = "killed"      // its server is killed under load
	swallowing  first = "swallowing"  // its address swallows connects
)

// workload is a kind of RPCs that contenders take turns at.
type workload struct {
	name, title string
	callers     int
	first       first
	backoff     time.Duration
	// without are names of contenders that cannot do it.
	without []string
	rpc     func(stub testpb.TestServiceClient) rpc
}

// messages are in a stream.
const messages = 100

var workloads = []workload{
	{name: "unary-1", title: "healthy, 1 caller", callers: 1, first: healthy, rpc: emptyCall},
	{name: "unary-64", title: "healthy, 64 callers", callers: 64, first: healthy, rpc: emptyCall},
	{name: "unavailable", title: "first cluster answers UNAVAILABLE, back-off 1 ms", callers: 1, first: unavailable, backoff: time.Millisecond, rpc: emptyCall},
	{name: "unavailable-at-once", title: "first cluster answers UNAVAILABLE, no back-off", callers: 1, first: unavailable, rpc: emptyCall},
	{name: "closed", title: "first cluster's port is closed", callers: 1, first: closed, rpc: emptyCall},
	{name: "stream-100", title: "stream of 100 messages from the server", callers: 1, first: healthy, rpc: serverStream},
	{name: "bidi-100", title: "stream of 100 messages each way, in turn", callers: 1, first: healthy, without: []string{"middleware"}, rpc: bidiStream},
	{name: "1KiB", title: "1 KiB each way", callers: 1, first: healthy, rpc: payload(1 << 10)},
	{name: "1MiB", title: "1 MiB each way", callers: 1, first: healthy, rpc: payload(1 << 20)},
}

// can tells whether a contender can do it.
func (w workload) can(c contender) bool { return !slices.Contains(w.without, c.name) }

// of makes RPCs on a channel.
func (w workload) of(cc grpc.ClientConnInterface) rpc { return w.rpc(testpb.NewTestServiceClient(cc)) }

func emptyCall(stub testpb.TestServiceClient) rpc {
	req := &testpb.Empty{}
	return func(ctx context.Context) error {
		_, err := stub.EmptyCall(ctx, req)
		return err
	}
}

func payload(size int32) func(testpb.TestServiceClient) rpc {
	req := &testpb.SimpleRequest{Payload: &testpb.Payload{Body: make([]byte, size)}, ResponseSize: size}
	return func(stub testpb.TestServiceClient) rpc {
		return func(ctx context.Context) error {
			_, err := stub.UnaryCall(ctx, req)
			return err
		}
	}
}

func serverStream(stub testpb.TestServiceClient) rpc {
	req := &testpb.StreamingOutputCallRequest{}
	for range messages {
		req.ResponseParameters = append(req.ResponseParameters, &testpb.ResponseParameters{})
	}
	return func(ctx context.Context) error {
		stream, err := stub.StreamingOutputCall(ctx, req)
		if err != nil {
			return err
		}
		for n := 0; ; n++ {
			if _, err := stream.Recv(); err != nil {
				return atEnd(n, err)
			}
		}
	}
}

func bidiStream(stub testpb.TestServiceClient) rpc {
	req := &testpb.StreamingOutputCallRequest{}
	return func(ctx context.Context) error {
		stream, err := stub.FullDuplexCall(ctx)
		if err != nil {
			return err
		}
		for range messages {
			if err := stream.Send(req); err != nil {
				return err
			}
			if _, err := stream.Recv(); err != nil {
				return err
			}
		}
		if err := stream.CloseSend(); err != nil {
			return err
		}
		_, err = stream.Recv()
		return atEnd(messages, err)
	}
}

// atEnd judges the error that ends a stream after n messages.
func atEnd(n int, err error) error {
	if !errors.Is(err, io.EOF) {
		return err
	}
	if n != messages {
		return fmt.Errorf("a stream of %d messages: want %d", n, messages)
	}
	return nil
}
