package languages

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"os"
	"strconv"
	"time"

	orcapb "github.com/cncf/xds/go/xds/data/orca/v3"
	orcagrpc "github.com/cncf/xds/go/xds/service/orca/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	_ "google.golang.org/grpc/encoding/gzip" // a compressor for both sides
	"google.golang.org/grpc/interop"
	testpb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/orca"
	"google.golang.org/grpc/status"
)

// goServerEnv tells the test binary to be a server.
const goServerEnv = "LANGUAGES_GO_SERVER"

// goService is grpc-go's own test service, with the few things that it lacks.
type goService struct{ testpb.TestServiceServer }

func asked(ctx context.Context) string {
	if values := metadata.ValueFromIncomingContext(ctx, behaviorKey); len(values) > 0 {
		return values[0]
	}
	return ""
}

func (s goService) UnaryCall(ctx context.Context, req *testpb.SimpleRequest) (*testpb.SimpleResponse, error) {
	switch asked(ctx) {
	case behaviorHeaders:
		if err := grpc.SendHeader(ctx, metadata.MD{}); err != nil {
			return nil, err
		}
	case behaviorCrash:
		panic("asked to crash")
	case behaviorHang:
		fmt.Println("hanging")
		<-ctx.Done()
		return nil, ctx.Err()
	}
	resp, err := s.TestServiceServer.UnaryCall(ctx, req)
	if req.GetFillServerId() && err == nil {
		resp.ServerId = "go"
	}
	return resp, err
}

func (s goService) StreamingOutputCall(req *testpb.StreamingOutputCallRequest, stream grpc.ServerStreamingServer[testpb.StreamingOutputCallResponse]) error {
	if err := s.TestServiceServer.StreamingOutputCall(req, stream); err != nil {
		return err
	}
	wanted := req.GetResponseStatus()
	return status.Error(codes.Code(wanted.GetCode()), wanted.GetMessage()) //nolint:gosec // a code from the test
}

// loadService reports load between calls as often as it is asked to. That of
// package orca does so every 30 seconds at the most.
type loadService struct {
	orcagrpc.UnimplementedOpenRcaServiceServer
	provider orca.ServerMetricsProvider
}

func (s loadService) StreamCoreMetrics(req *orcagrpc.OrcaLoadReportRequest, stream grpc.ServerStreamingServer[orcapb.OrcaLoadReport]) error {
	ticker := time.NewTicker(max(req.GetReportInterval().AsDuration(), time.Millisecond))
	defer ticker.Stop()
	for {
		m := s.provider.ServerMetrics()
		report := &orcapb.OrcaLoadReport{CpuUtilization: m.CPUUtilization, MemUtilization: m.MemUtilization, Utilization: m.Utilization}
		if err := stream.Send(report); err != nil {
			return err
		}
		select {
		case <-ticker.C:
		case <-stream.Context().Done():
			return stream.Context().Err()
		}
	}
}

// serveGo is the server's process.
func serveGo() error {
	recorder := orca.NewServerMetricsRecorder()
	opts := []grpc.ServerOption{orca.CallMetricsServerOption(nil)}
	if len(os.Args) > 1 {
		limit, err := strconv.ParseUint(os.Args[1], 10, 32)
		if err != nil {
			return err
		}
		opts = append(opts, grpc.MaxConcurrentStreams(uint32(limit)))
	}
	server := grpc.NewServer(opts...)
	service := interop.NewTestServer(interop.NewTestServerOptions{MetricsRecorder: recorder})
	testpb.RegisterTestServiceServer(server, goService{service})
	orcagrpc.RegisterOpenRcaServiceServer(server, loadService{provider: recorder})
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	go func() { _ = server.Serve(lis) }()
	fmt.Println("ready", lis.Addr().(*net.TCPAddr).Port, grpc.Version)
	for commands := bufio.NewScanner(os.Stdin); commands.Scan(); {
		switch commands.Text() {
		case "drain":
			go server.GracefulStop()
		case "stop":
			server.Stop()
			fmt.Println("stopped")
		}
	}
	return nil
}
