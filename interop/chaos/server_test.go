package chaos

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	testpb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// serverEnv tells the test binary to be a server, and which.
const serverEnv = "CHAOS_SERVER"

const (
	clusterKey = "chaos-cluster" // the cluster that the client means
	serverKey  = "chaos-server"  // the server that answers
)

// serverSpec is what a server's process is told.
type serverSpec struct {
	Cluster, Name, Addr string
	Dir                 string // of the certificates
}

// Files in a server's folder.
const (
	certFile    = "server.pem"  // its certificate and key, read at each handshake
	clientsFile = "clients.pem" // who signs its clients' certificates
)

// serve is the server's process. It takes commands on its standard input, says when
// each is done, and ends with it.
func serve(text string) error {
	s := &service{}
	if err := json.Unmarshal([]byte(text), &s.serverSpec); err != nil {
		return err
	}
	creds, err := s.credentials()
	if err != nil {
		return err
	}
	s.creds = creds
	lis, err := net.Listen("tcp", s.Addr)
	if err != nil {
		return err
	}
	s.gate = newGate(lis)
	s.replace(false)
	go s.gate.accept()
	fmt.Println("ready")
	for commands := bufio.NewScanner(os.Stdin); commands.Scan(); fmt.Println("done") {
		switch command := commands.Text(); command {
		case "goaway":
			s.replace(false)
		case "age", "young":
			s.replace(command == "age")
		case "hole", "serve":
			s.gate.swallow(command == "hole")
		case "cut", "whole":
			s.gate.cuts.Store(command == "cut")
		case "drop":
			s.gate.drop()
		default:
			return fmt.Errorf("unknown command %q", command)
		}
	}
	return nil
}

// service is a server that says who it is, and refuses calls that are for another
// cluster.
type service struct {
	testpb.UnimplementedTestServiceServer
	serverSpec

	creds  credentials.TransportCredentials
	gate   *gate
	server *grpc.Server
}

// replace has a new gRPC server take the connections from now on, and the old one
// send GOAWAY.
func (s *service) replace(aging bool) {
	opts := []grpc.ServerOption{grpc.Creds(s.creds)}
	if aging {
		opts = append(opts, grpc.KeepaliveParams(keepalive.ServerParameters{MaxConnectionAge: 100 * time.Millisecond}))
	}
	server, old := grpc.NewServer(opts...), s.server
	testpb.RegisterTestServiceServer(server, s)
	s.server = server
	lis := s.gate.next()
	go func() { _ = server.Serve(lis) }()
	if old != nil {
		go old.GracefulStop()
	}
}

func (s *service) credentials() (credentials.TransportCredentials, error) {
	signers, err := os.ReadFile(filepath.Join(s.Dir, clientsFile))
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(signers) {
		return nil, errors.New("no certificate of those who sign clients' ones")
	}
	return credentials.NewTLS(&tls.Config{
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			name := filepath.Join(s.Dir, certFile)
			cert, err := tls.LoadX509KeyPair(name, name)
			return &cert, err
		},
		ClientAuth: tls.RequireAndVerifyClientCert,
		ClientCAs:  pool,
	}), nil
}

// identify says who answers, and refuses what is not for this cluster.
func (s *service) identify(ctx context.Context, setHeader func(metadata.MD) error) error {
	if got := metadata.ValueFromIncomingContext(ctx, clusterKey); len(got) != 1 || got[0] != s.Cluster {
		return status.Errorf(codes.DataLoss, "%s got an attempt for cluster %q", s.Name, got)
	}
	return setHeader(metadata.Pairs(serverKey, s.Name))
}

func (s *service) UnaryCall(ctx context.Context, _ *testpb.SimpleRequest) (*testpb.SimpleResponse, error) {
	if err := s.identify(ctx, func(md metadata.MD) error { return grpc.SetHeader(ctx, md) }); err != nil {
		return nil, err
	}
	return &testpb.SimpleResponse{Payload: payload(1 << 10)}, nil
}

func (s *service) StreamingOutputCall(req *testpb.StreamingOutputCallRequest, stream grpc.ServerStreamingServer[testpb.StreamingOutputCallResponse]) error {
	if err := s.identify(stream.Context(), stream.SetHeader); err != nil {
		return err
	}
	for _, p := range req.GetResponseParameters() {
		if err := stream.Send(&testpb.StreamingOutputCallResponse{Payload: payload(int(p.GetSize()))}); err != nil {
			return err
		}
	}
	return nil
}

func (s *service) StreamingInputCall(stream grpc.ClientStreamingServer[testpb.StreamingInputCallRequest, testpb.StreamingInputCallResponse]) error {
	if err := s.identify(stream.Context(), stream.SetHeader); err != nil {
		return err
	}
	size := 0
	for {
		req, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return stream.SendAndClose(&testpb.StreamingInputCallResponse{AggregatedPayloadSize: int32(size)})
		}
		if err != nil {
			return err
		}
		size += len(req.GetPayload().GetBody())
	}
}

func (s *service) FullDuplexCall(stream grpc.BidiStreamingServer[testpb.StreamingOutputCallRequest, testpb.StreamingOutputCallResponse]) error {
	if err := s.identify(stream.Context(), stream.SetHeader); err != nil {
		return err
	}
	for {
		_, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := stream.Send(&testpb.StreamingOutputCallResponse{Payload: payload(1 << 10)}); err != nil {
			return err
		}
	}
}

func payload(size int) *testpb.Payload { return &testpb.Payload{Body: make([]byte, size)} }
