package main

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	testpb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/status"

	"github.com/grpc-composite/grpc-composite/interop/internal/tool"
)

// These variables of the environment make the program a server: on an address,
// of a name, and with a code that it answers every RPC with.
const (
	serveEnv = "BENCH_SERVE"
	nameEnv  = "BENCH_NAME"
	failEnv  = "BENCH_UNAVAILABLE"
)

// anyPort is the address of a server that may have any port.
const anyPort = "127.0.0.1:0"

// server is a server in a process of its own.
type server struct {
	addr    string
	process *tool.Process
}

// startServer starts a server that answers, or that is unavailable.
func startServer(t testing.TB, name, addr string, unavailable bool) *server {
	t.Helper()
	out, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = out.Close() }()
	cmd := exec.Command(os.Args[0]) //nolint:gosec // the program itself
	cmd.Env = append(os.Environ(), serveEnv+"="+addr, nameEnv+"="+name)
	if unavailable {
		cmd.Env = append(cmd.Env, failEnv+"=1")
	}
	cmd.Stdout, cmd.Stderr = in, os.Stderr
	s := &server{process: tool.Start(t, cmd)}
	_ = in.Close() // the process has its own
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("server %s does not say its address: %v", name, err)
	}
	s.addr = strings.TrimSpace(line)
	return s
}

// kill ends the server as a crash does.
func (s *server) kill(t testing.TB) {
	t.Helper()
	p, err := os.FindProcess(s.process.PID)
	if err == nil {
		err = p.Kill()
	}
	if err != nil {
		t.Fatal(err)
	}
	<-s.process.Done()
}

// serve is the server's process.
func serve(addr string) error {
	lis, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	s := grpc.NewServer()
	testpb.RegisterTestServiceServer(s, &service{name: os.Getenv(nameEnv), unavailable: os.Getenv(failEnv) != ""})
	fmt.Println(lis.Addr())
	return s.Serve(lis)
}

// service is what servers serve.
type service struct {
	testpb.UnimplementedTestServiceServer
	name        string
	unavailable bool
}

func (s *service) err() error {
	if s.unavailable {
		return status.Error(codes.Unavailable, "as always")
	}
	return nil
}

func (s *service) EmptyCall(context.Context, *testpb.Empty) (*testpb.Empty, error) {
	return &testpb.Empty{}, s.err()
}

// UnaryCall answers with the server's name, and as many bytes as it is asked for.
func (s *service) UnaryCall(_ context.Context, req *testpb.SimpleRequest) (*testpb.SimpleResponse, error) {
	return &testpb.SimpleResponse{
		Hostname: s.name,
		Payload:  &testpb.Payload{Body: make([]byte, req.GetResponseSize())},
	}, s.err()
}

// StreamingOutputCall sends a message for each of the parameters.
func (s *service) StreamingOutputCall(req *testpb.StreamingOutputCallRequest, stream grpc.ServerStreamingServer[testpb.StreamingOutputCallResponse]) error {
	for range req.GetResponseParameters() {
		if err := stream.Send(&testpb.StreamingOutputCallResponse{}); err != nil {
			return err
		}
	}
	return s.err()
}

// FullDuplexCall answers each message with one.
func (s *service) FullDuplexCall(stream grpc.BidiStreamingServer[testpb.StreamingOutputCallRequest, testpb.StreamingOutputCallResponse]) error {
	for {
		if _, err := stream.Recv(); err != nil {
			return s.err() // the client has sent all
		}
		if err := stream.Send(&testpb.StreamingOutputCallResponse{}); err != nil {
			return err
		}
	}
}
