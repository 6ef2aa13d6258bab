package composite_test

import (
	"crypto/tls"
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	testpb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/resolver"

	"github.com/grpc-composite/grpc-composite/internal/testkit"
)

// named is a target with a server's address whose servers are called name.
func named(b *testkit.Backend, name string) string {
	return "testkit-host://" + b.Addr + "/" + name
}

// patientCluster may take its time to connect, which a TLS handshake does on a
// busy machine.
func patientCluster(name, target string) testkit.Cluster {
	return testkit.Cluster{Name: name, Target: target, More: map[string]any{"connectTimeout": "20s"}}
}

// exampleClusters returns a cluster for each server, whose servers are called
// "<name>.example".
func exampleClusters(backends ...*testkit.Backend) []testkit.Cluster {
	var clusters []testkit.Cluster
	for _, b := range backends {
		clusters = append(clusters, patientCluster(b.Name, named(b, b.Name+".example")))
	}
	return clusters
}

// nestedPatiently is nested for clusters that may take their time to connect.
func nestedPatiently(name string, inner testkit.Service) testkit.Cluster {
	c := nested(name, inner)
	c.More["connectTimeout"] = "20s"
	return c
}

// relisted is an entry that gives a cluster another attempt.
func relisted(name string) testkit.Cluster { return testkit.Cluster{Name: name} }

// seen is what each attempt brought to a server under a key, as text: "[x] []"
// for one attempt with x and another without any.
func seen(b *testkit.Backend, key string) string {
	var values []string
	for _, call := range b.Calls() {
		values = append(values, fmt.Sprint(call.Metadata[key]))
	}
	return strings.Join(values, " ")
}

// wantSeen compares what an attempt brought to each server.
func wantSeen(t testing.TB, key string, backends []*testkit.Backend, want ...string) {
	t.Helper()
	for i, b := range backends {
		if got := seen(b, key); got != want[i] {
			t.Errorf("server %s has seen %s %s: want %s", b.Name, key, got, want[i])
		}
	}
}

// startTLS starts a server with a certificate for names.
func startTLS(t testing.TB, backend string, ca *testkit.CA, names ...string) *testkit.Backend {
	t.Helper()
	return testkit.Start(t, backend, serverTLS(&tls.Config{Certificates: []tls.Certificate{ca.Server(t, names...)}}))
}

func serverTLS(config *tls.Config) grpc.ServerOption {
	return grpc.Creds(credentials.NewTLS(config))
}

// trust returns credentials that trust an authority.
func trust(ca *testkit.CA) credentials.TransportCredentials {
	return credentials.NewTLS(&tls.Config{RootCAs: ca.Pool()})
}

// withCreds dials with other credentials than none.
func withCreds(creds credentials.TransportCredentials) grpc.DialOption {
	return grpc.WithTransportCredentials(creds)
}

// dialLiveWith is dialLive with options for the channel.
func dialLiveWith(t testing.TB, s testkit.Service, opts ...grpc.DialOption) *liveConfig {
	t.Helper()
	l := &liveConfig{resolver: testkit.NewResolver(t)}
	l.cc = dialTarget(t, l.resolver.Target(), s, opts...)
	_ = l.resolver.UpdateState(resolver.State{})
	l.cc.Connect()
	testkit.Eventually(t, "the resolver is built", func() bool { return l.resolver.Built() > 0 })
	return l
}

// listenOn has a server answer on another address too, and returns that. The
// network is "tcp", "tcp6" or "unix"; the test is skipped if the machine has no
// IPv6.
func listenOn(t *testing.T, backend *testkit.Backend, network string, opts ...grpc.ServerOption) string {
	t.Helper()
	addr := "127.0.0.1:0"
	switch network {
	case "tcp6":
		addr = "[::1]:0"
	case "unix":
		addr = filepath.Join(t.TempDir(), "s")
	}
	lis, err := net.Listen(network, addr)
	if err != nil && network == "tcp6" {
		t.Skipf("no IPv6 on this machine: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer(opts...)
	testpb.RegisterTestServiceServer(server, backend)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(lis) // ends by Stop
	}()
	t.Cleanup(func() { server.Stop(); <-done })
	return lis.Addr().String()
}
