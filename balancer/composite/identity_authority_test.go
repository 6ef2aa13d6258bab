package composite_test

import (
	"crypto/tls"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/resolver"

	"github.com/grpc-composite/grpc-composite/balancer/composite"
	"github.com/grpc-composite/grpc-composite/internal/testkit"
)

// addressWithName is the target of a resolver that sets a server's name on its
// address.
func addressWithName(t testing.TB, addr, name string) string {
	t.Helper()
	r := testkit.NewResolver(t)
	_ = r.UpdateState(resolver.State{Addresses: []resolver.Address{{Addr: addr, ServerName: name}}})
	return r.Target()
}

// identity is a way for a cluster's servers to get their name.
type identity struct {
	name      string
	network   string // that the server listens on
	target    func(addr, port string) string
	channel   bool   // the target is the channel's and the cluster has none
	authority string // with PORT for the port
	verified  string // by TLS
}

func identities(t testing.TB) []identity {
	t.Helper()
	return []identity{
		{
			name: "dns", network: "tcp",
			target:    func(_, port string) string { return "dns:///localhost:" + port },
			authority: "localhost:PORT", verified: "localhost",
		},
		{
			name: "dns with an address", network: "tcp",
			target:    func(addr, _ string) string { return "dns:///" + addr },
			authority: "127.0.0.1:PORT", verified: "127.0.0.1",
		},
		{
			name: "no scheme", network: "tcp",
			target:    func(_, port string) string { return "localhost:" + port },
			authority: "localhost:PORT", verified: "localhost",
		},
		{
			name: "passthrough", network: "tcp",
			target:    func(_, port string) string { return "passthrough:///localhost:" + port },
			authority: "localhost:PORT", verified: "localhost",
		},
		{
			name: "dns with an IPv6 address", network: "tcp6",
			target:    func(addr, _ string) string { return "dns:///" + addr },
			authority: "[::1]:PORT", verified: "::1",
		},
		{
			name: "passthrough with an IPv6 address", network: "tcp6",
			target:    func(addr, _ string) string { return "passthrough:///" + addr },
			authority: "[::1]:PORT", verified: "::1",
		},
		{
			name: "unix", network: "unix",
			target:    func(addr, _ string) string { return "unix:" + addr },
			authority: "localhost", verified: "localhost",
		},
		{
			name: "a resolver that overrides", network: "tcp",
			target:    func(addr, _ string) string { return "testkit-host-override://" + addr + "/x" },
			authority: "override.x", verified: "override.x",
		},
		{
			name: "a resolver that sets it on the address", network: "tcp",
			target:    func(addr, _ string) string { return addressWithName(t, addr, "set.example") },
			authority: "set.example", verified: "set.example",
		},
		{
			name: "no target", network: "tcp", channel: true,
			target:    func(addr, _ string) string { return "testkit-host://" + addr + "/channel.example" },
			authority: "channel.example", verified: "channel.example",
		},
	}
}

// TestIdentityOfEachCluster sends the attempts of one RPC to two clusters, in
// both orders: no server is called by the other's name, or verified by it.
func TestIdentityOfEachCluster(t *testing.T) {
	ca := testkit.NewCA(t, "test CA")
	for _, tc := range identities(t) {
		for _, security := range []struct {
			name  string
			creds credentials.TransportCredentials // nil: plaintext
		}{
			{"plaintext", nil},
			{"TLS of the channel", trust(ca)},
			{"TLS of the cluster", composite.NewTransportCredentials(byCluster{"it": trust(ca)}, trust(ca))},
		} {
			for _, order := range []string{"it comes first", "it comes second"} {
				t.Run(tc.name+"/"+security.name+"/"+order, func(t *testing.T) {
					t.Parallel()
					checkIdentity(t, tc, ca, security.creds, order == "it comes first")
				})
			}
		}
	}
}

func checkIdentity(t *testing.T, tc identity, ca *testkit.CA, creds credentials.TransportCredentials, first bool) {
	t.Helper()
	server := func(name string) grpc.ServerOption {
		if creds == nil {
			return grpc.Creds(insecure.NewCredentials())
		}
		return serverTLS(&tls.Config{Certificates: []tls.Certificate{ca.Server(t, name)}})
	}
	it, other := testkit.Start(t, "it"), testkit.Start(t, "other", server("other.example"))
	addr := listenOn(t, it, tc.network, server(tc.verified))
	port := addr[strings.LastIndexByte(addr, ':')+1:]
	target, channel := tc.target(addr, port), "composite:///"
	if tc.channel {
		target, channel = "", target
	}
	service := testkit.Service{Attempts: 2, Clusters: []testkit.Cluster{patientCluster("it", target), patientCluster("other", named(other, "other.example"))}}
	if first {
		it.Script(testkit.U)
	} else {
		other.Script(testkit.U)
		slices.Reverse(service.Clusters)
	}
	opts := []grpc.DialOption{grpc.WithNoProxy()}
	if creds != nil {
		opts = append(opts, withCreds(creds))
	}
	call(t, dialTarget(t, channel, service, opts...))
	authority := strings.ReplaceAll(tc.authority, "PORT", port)
	wantSeen(t, ":authority", []*testkit.Backend{it, other}, "["+authority+"]", "[other.example]")
}

// TestWithAuthority has one name for all servers, wherever they got theirs from.
func TestWithAuthority(t *testing.T) {
	ca := testkit.NewCA(t, "test CA")
	for _, security := range []struct {
		name  string
		opts  []grpc.ServerOption
		creds credentials.TransportCredentials
	}{
		{"plaintext", nil, insecure.NewCredentials()},
		{"TLS", []grpc.ServerOption{serverTLS(&tls.Config{Certificates: []tls.Certificate{ca.Server(t, "forced.example")}})}, composite.NewTransportCredentials(nil, trust(ca))},
	} {
		t.Run(security.name, func(t *testing.T) {
			t.Parallel()
			var backends []*testkit.Backend
			for _, name := range []string{"named", "overridden", "set", "targetless"} {
				backends = append(backends, testkit.Start(t, name, security.opts...))
			}
			for _, b := range backends[:3] {
				b.Script(testkit.U)
			}
			cc := dialTarget(t, named(backends[3], "channel.example"), testkit.Service{Attempts: 4, Clusters: []testkit.Cluster{
				patientCluster("named", named(backends[0], "named.example")),
				patientCluster("overridden", "testkit-host-override://"+backends[1].Addr+"/x"),
				patientCluster("set", addressWithName(t, backends[2].Addr, "set.example")),
				patientCluster("targetless", ""),
			}}, withCreds(security.creds), grpc.WithAuthority("forced.example"))
			if err := unaryRPC(testkit.Context(t), cc); err != nil {
				t.Fatal(err)
			}
			wantSeen(t, ":authority", backends, "[forced.example]", "[forced.example]", "[forced.example]", "[forced.example]")
		})
	}
}

// TestAuthorityChangesWithTheTarget keeps the address and changes the name.
func TestAuthorityChangesWithTheTarget(t *testing.T) {
	t.Parallel()
	ca := testkit.NewCA(t, "test CA")
	cert := testkit.NewRotating(ca.Server(t, "old.example"))
	a := testkit.Start(t, "a", serverTLS(&tls.Config{GetCertificate: cert.ForServer}))
	service := func(name string) testkit.Service {
		return testkit.Service{Clusters: []testkit.Cluster{patientCluster("a", named(a, name))}}
	}
	live := dialLiveWith(t, service("old.example"), withCreds(composite.NewTransportCredentials(nil, trust(ca))))
	call(t, live.cc)
	cert.Set(ca.Server(t, "new.example"))
	live.set(t, service("new.example"))
	ctx := testkit.Context(t)
	testkit.Eventually(t, "a call by the new name", func() bool {
		_ = unaryRPC(ctx, live.cc)
		return strings.HasSuffix(seen(a, ":authority"), "[new.example]")
	})
}
