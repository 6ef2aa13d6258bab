package composite_test

import (
	"bytes"
	"encoding/binary"
	"net"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/grpc-composite/grpc-composite/balancer/composite"
	"github.com/grpc-composite/grpc-composite/internal/testkit"
)

// wiretap keeps what clients write, inside TLS if there is TLS: gRPC-Go does not
// show a server the request's :scheme.
type wiretap struct {
	credentials.TransportCredentials
	heard *heard
}

type heard struct {
	mu   sync.Mutex
	data bytes.Buffer // of the first connection
	taps int
}

func (w wiretap) ServerHandshake(conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	conn, info, err := w.TransportCredentials.ServerHandshake(conn)
	w.heard.mu.Lock()
	defer w.heard.mu.Unlock()
	if w.heard.taps++; err == nil && w.heard.taps == 1 {
		conn = tappedConn{conn, w.heard}
	}
	return conn, info, err
}

type tappedConn struct {
	net.Conn
	heard *heard
}

func (c tappedConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.heard.mu.Lock()
	defer c.heard.mu.Unlock()
	c.heard.data.Write(p[:n])
	return n, err
}

// scheme is that of the first request. Nothing precedes it in the connection's
// compression state, so that gRPC-Go writes it as an index of HPACK's static
// table, in one byte after the one for ":method: POST" (RFC 7541, appendix A).
func (h *heard) scheme() string {
	const frameHead, typeHeaders = 9, 1
	h.mu.Lock()
	defer h.mu.Unlock()
	data := bytes.TrimPrefix(h.data.Bytes(), []byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"))
	for len(data) > frameHead+2 {
		if data[3] == typeHeaders && data[frameHead] == 0x83 {
			return map[byte]string{0x86: "http", 0x87: "https"}[data[frameHead+1]]
		}
		data = data[min(len(data), frameHead+int(binary.BigEndian.Uint32(data[:4])>>8)):]
	}
	return "none"
}

// TestScheme checks that each request says of its own connection whether it has
// TLS.
func TestScheme(t *testing.T) {
	ca := testkit.NewCA(t, "test CA")
	plain, secure := insecure.NewCredentials(), trust(ca)
	for _, tc := range []struct {
		name    string
		creds   credentials.TransportCredentials
		outside bool // the channel has no clusters, and the first server's address
		want    []string
	}{
		{name: "entries", creds: composite.NewTransportCredentials(byCluster{"secure": secure, "plain": plain}, nil), want: []string{"https", "http"}},
		{name: "plaintext as fallback", creds: composite.NewTransportCredentials(byCluster{"secure": secure}, plain), want: []string{"https", "http"}},
		{name: "TLS as fallback", creds: composite.NewTransportCredentials(byCluster{"plain": plain}, secure), want: []string{"https", "http"}},
		{name: "the fallback of another policy", creds: composite.NewTransportCredentials(byCluster{"plain": plain}, secure), outside: true, want: []string{"https"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			heardBy := []*heard{{}, {}}
			cert := credentials.NewServerTLSFromCert(new(ca.Server(t, "secure.example")))
			backends := []*testkit.Backend{
				testkit.Start(t, "secure", grpc.Creds(wiretap{cert, heardBy[0]})),
				testkit.Start(t, "plain", grpc.Creds(wiretap{plain, heardBy[1]})),
			}
			backends[0].Script(testkit.U)
			cc := dial(t, testkit.Service{Clusters: exampleClusters(backends...), Attempts: 2}, withCreds(tc.creds))
			if tc.outside {
				cc = testkit.Dial(t, named(backends[0], "secure.example"), withCreds(tc.creds))
				backends[0].Script(testkit.OK)
			}
			call(t, cc)
			for i, want := range tc.want {
				if got := heardBy[i].scheme(); got != want {
					t.Errorf("%s: the scheme is %s: want %s", backends[i].Name, got, want)
				}
			}
		})
	}
}
