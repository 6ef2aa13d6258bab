package composite_test

import (
	"crypto/tls"
	"crypto/x509"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"

	"github.com/grpc-composite/grpc-composite/balancer/composite"
	"github.com/grpc-composite/grpc-composite/internal/testkit"
)

// reconnect stops a server and starts it again, and waits until its cluster, the
// first of two, is used again.
func reconnect(t testing.TB, cc *grpc.ClientConn, b *testkit.Backend) {
	t.Helper()
	b.Stop()
	testkit.AwaitServer(t, cc, "second")
	b.Restart(t)
	testkit.AwaitServer(t, cc, b.Name)
}

// dialRotating opens a channel to two clusters, of which the second never has
// trouble.
func dialRotating(t testing.TB, first *testkit.Backend, creds credentials.TransportCredentials) *grpc.ClientConn {
	t.Helper()
	ca := testkit.NewCA(t, "second's CA")
	second := startTLS(t, "second", ca, "second.example")
	cc := dial(t, testkit.Service{Clusters: exampleClusters(first, second)}, fastReconnect(),
		withCreds(composite.NewTransportCredentials(byCluster{"first": creds}, trust(ca))))
	if got := call(t, cc); got != "first" {
		t.Fatalf("answer from %s: want first", got)
	}
	return cc
}

func TestServerCertificateRotates(t *testing.T) {
	t.Parallel()
	ca := testkit.NewCA(t, "test CA")
	old, renewed := ca.Server(t, "first.example"), ca.Server(t, "first.example")
	cert := testkit.NewRotating(old)
	first := testkit.Start(t, "first", serverTLS(&tls.Config{GetCertificate: cert.ForServer}))
	cc := dialRotating(t, first, trust(ca))
	for _, want := range []*x509.Certificate{old.Leaf, renewed.Leaf} {
		var server peer.Peer
		if err := unaryRPC(testkit.Context(t), cc, grpc.Peer(&server)); err != nil {
			t.Fatal(err)
		}
		if got := server.AuthInfo.(credentials.TLSInfo).State.PeerCertificates[0]; !got.Equal(want) {
			t.Errorf("the server has certificate %v: want %v", got.SerialNumber, want.SerialNumber)
		}
		cert.Set(renewed)
		reconnect(t, cc, first)
	}
}

func TestClientCertificateRotates(t *testing.T) {
	t.Parallel()
	ca := testkit.NewCA(t, "test CA")
	var client atomic.Value // the common name of the latest client
	first := testkit.Start(t, "first", serverTLS(&tls.Config{
		Certificates: []tls.Certificate{ca.Server(t, "first.example")},
		ClientAuth:   tls.RequireAndVerifyClientCert,
		ClientCAs:    ca.Pool(),
		VerifyConnection: func(state tls.ConnectionState) error {
			client.Store(state.PeerCertificates[0].Subject.CommonName)
			return nil
		},
	}))
	cert := testkit.NewRotating(ca.Client(t, "old"))
	cc := dialRotating(t, first, credentials.NewTLS(&tls.Config{RootCAs: ca.Pool(), GetClientCertificate: cert.ForClient}))
	for _, want := range []string{"old", "renewed"} {
		if got := client.Load(); got != want {
			t.Errorf("the client is %q: want %q", got, want)
		}
		cert.Set(ca.Client(t, "renewed"))
		reconnect(t, cc, first)
	}
}

// TestCARotates replaces the authority that the client trusts, in a callback of
// its config, some time after the server's.
func TestCARotates(t *testing.T) {
	t.Parallel()
	one, two := testkit.NewCA(t, "CA one"), testkit.NewCA(t, "CA two")
	cert := testkit.NewRotating(one.Server(t, "first.example"))
	first := testkit.Start(t, "first", serverTLS(&tls.Config{GetCertificate: cert.ForServer}))
	var trusted atomic.Pointer[x509.CertPool]
	trusted.Store(one.Pool())
	cc := dialRotating(t, first, credentials.NewTLS(&tls.Config{
		InsecureSkipVerify: true, //nolint:gosec // VerifyConnection verifies
		VerifyConnection: func(state tls.ConnectionState) error {
			_, err := state.PeerCertificates[0].Verify(x509.VerifyOptions{Roots: trusted.Load(), DNSName: state.ServerName})
			return err
		},
	}))
	cert.Set(two.Server(t, "first.example"))
	first.Stop()
	first.Restart(t)
	testkit.AwaitServer(t, cc, "second")

	alone := dial(t, testkit.Service{Clusters: exampleClusters(first)}, withCreds(composite.NewTransportCredentials(nil, trust(one))))
	_, err := testkit.Unary(testkit.Context(t), alone)
	testkit.Contains(t, err, "first skipped", "unknown authority")

	trusted.Store(two.Pool())
	testkit.AwaitServer(t, cc, "first")
}
