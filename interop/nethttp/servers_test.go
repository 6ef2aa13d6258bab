package nethttp

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"

	"connectrpc.com/connect"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/h2c" //nolint:staticcheck // deprecated, and still used by many servers
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	testpb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/status"

	"github.com/grpc-composite/grpc-composite/internal/testkit"
)

// server is a testkit.Backend behind net/http.
type server struct {
	*testkit.Backend

	http *http.Server
	lis  *listener
	// front, if set, gets the requests instead of the handler behind it.
	front atomic.Pointer[http.HandlerFunc]
}

// close stops the server at once, and resets its connections. Those that a handler
// has hijacked, as that of x/net does, the http.Server does not know any more.
func (s *server) close() {
	_ = s.http.Close()
	s.lis.reset()
}

// listener remembers the connections that it has accepted.
type listener struct {
	net.Listener

	mu    sync.Mutex
	conns []net.Conn
}

func (l *listener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err == nil {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.conns = append(l.conns, conn)
	}
	return conn, err
}

func (l *listener) reset() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, conn := range l.conns {
		_ = conn.Close()
	}
}

// kind is a way to serve gRPC by net/http.
type kind struct {
	name    string
	handler func(b *testkit.Backend) (handler http.Handler, stop func())
	serve   func(t *testing.T, s *http.Server, lis net.Listener, ca *testkit.CA)
	tls     bool
}

var kinds = []kind{
	{"grpc over h2c of x/net", grpcHandler, serveUpgrading, false},
	{"grpc over h2c of net/http", grpcHandler, serveH2C, false},
	{"grpc over TLS", grpcHandler, serveTLS, true},
	{"connect over h2c of x/net", connectHandler, serveUpgrading, false},
	{"connect over h2c of net/http", connectHandler, serveH2C, false},
	{"connect over TLS", connectHandler, serveTLS, true},
}

// grpcHandler serves by grpc.Server.ServeHTTP.
func grpcHandler(b *testkit.Backend) (http.Handler, func()) {
	s := grpc.NewServer()
	testpb.RegisterTestServiceServer(s, b)
	return s, s.Stop
}

// connectHandler serves by connect-go's handlers.
func connectHandler(b *testkit.Backend) (http.Handler, func()) { return connectWith(b), func() {} }

// connectWith does so with options.
func connectWith(b *testkit.Backend, opts ...connect.HandlerOption) http.Handler {
	mux := http.NewServeMux()
	mux.Handle(testpb.TestService_UnaryCall_FullMethodName, connect.NewUnaryHandlerSimple(testpb.TestService_UnaryCall_FullMethodName,
		func(ctx context.Context, req *testpb.SimpleRequest) (*testpb.SimpleResponse, error) {
			resp, err := b.UnaryCall(ctx, req)
			return resp, connectError(err)
		}, opts...))
	mux.Handle(testpb.TestService_StreamingOutputCall_FullMethodName, connect.NewServerStreamHandler(testpb.TestService_StreamingOutputCall_FullMethodName,
		func(ctx context.Context, req *connect.Request[testpb.StreamingOutputCallRequest], stream *connect.ServerStream[testpb.StreamingOutputCallResponse]) error {
			return connectError(b.StreamingOutputCall(req.Msg, serverStream{ctx: ctx, stream: stream}))
		}, opts...))
	return mux
}

// serverStream is a stream of connect-go for a handler of gRPC.
type serverStream struct {
	grpc.ServerStreamingServer[testpb.StreamingOutputCallResponse]

	ctx    context.Context //nolint:containedctx // a stream has its context
	stream *connect.ServerStream[testpb.StreamingOutputCallResponse]
}

func (s serverStream) Context() context.Context { return s.ctx }
func (s serverStream) Send(m *testpb.StreamingOutputCallResponse) error {
	return s.stream.Send(m)
}

// connectError is a status as an error of connect-go.
func connectError(err error) error {
	if err == nil {
		return nil
	}
	st := status.Convert(err)
	return connect.NewError(connect.Code(st.Code()), errors.New(st.Message()))
}

func serveUpgrading(_ *testing.T, s *http.Server, lis net.Listener, _ *testkit.CA) {
	h2 := &http2.Server{} //nolint:staticcheck // belongs to h2c
	// Shutdown reaches these connections too.
	_ = http2.ConfigureServer(s, h2)          //nolint:staticcheck // belongs to h2c
	s.Handler = h2c.NewHandler(s.Handler, h2) //nolint:staticcheck // as above
	go func() { _ = s.Serve(lis) }()
}

func serveH2C(_ *testing.T, s *http.Server, lis net.Listener, _ *testkit.CA) {
	s.Protocols = new(http.Protocols)
	s.Protocols.SetUnencryptedHTTP2(true)
	go func() { _ = s.Serve(lis) }()
}

func serveTLS(t *testing.T, s *http.Server, lis net.Listener, ca *testkit.CA) {
	t.Helper()
	s.TLSConfig = &tls.Config{Certificates: []tls.Certificate{ca.Server(t, "127.0.0.1")}, MinVersion: tls.VersionTLS12}
	go func() { _ = s.ServeTLS(lis, "", "") }()
}

// setup is servers of one kind, and a CA that their clients trust.
type setup struct {
	kind    kind
	ca      *testkit.CA
	wrap    func(http.Handler) http.Handler // around each server's handler
	servers []*server
}

// start adds a server, which is stopped when the test ends.
func (s *setup) start(t *testing.T, name string) *server {
	t.Helper()
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if s.ca == nil {
		s.ca = testkit.NewCA(t, "nethttp")
	}
	srv := &server{Backend: &testkit.Backend{Name: name, Addr: lis.Addr().String()}}
	handler, stop := s.kind.handler(srv.Backend)
	if s.wrap != nil {
		handler = s.wrap(handler)
	}
	srv.http = &http.Server{ReadHeaderTimeout: testkit.Patience, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if front := srv.front.Load(); front != nil {
			(*front)(w, r)
			return
		}
		handler.ServeHTTP(w, r)
	})}
	srv.lis = &listener{Listener: lis}
	s.kind.serve(t, srv.http, srv.lis, s.ca)
	t.Cleanup(func() {
		stop()
		srv.close()
	})
	s.servers = append(s.servers, srv)
	return srv
}

// credentials are the client's.
func (s *setup) credentials() grpc.DialOption {
	if !s.kind.tls {
		return grpc.WithTransportCredentials(insecure.NewCredentials())
	}
	return grpc.WithTransportCredentials(credentials.NewTLS(&tls.Config{RootCAs: s.ca.Pool(), MinVersion: tls.VersionTLS12}))
}
