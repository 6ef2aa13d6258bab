package composite_test

import (
	"context"
	"net"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/balancer"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	testpb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/resolver"

	"github.com/grpc-composite/grpc-composite/balancer/composite"
	"github.com/grpc-composite/grpc-composite/internal/testkit"
)

// TestAuthorityOnTheWire compares what a server is called by a cluster and by a
// plain channel to the same target.
func TestAuthorityOnTheWire(t *testing.T) {
	backend := testkit.StartOn(t, "server", "127.0.0.1") // what a port alone leads to
	_, port, err := net.SplitHostPort(backend.Addr)
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct{ name, input, want string }{
		{"passthrough", "passthrough:///" + backend.Addr, backend.Addr},
		{"no scheme", backend.Addr, backend.Addr},
		{"dns", "dns:///" + backend.Addr, backend.Addr},
		{"a port alone", "passthrough:///:" + port, "localhost:" + port},
		{"unix", "unix:" + listenUnix(t, backend), "localhost"},
		{"escapes", "testkit-host://" + backend.Addr + "/a b%2F%C3%A9", "a%20b%2F%C3%A9"},
		{"a resolver that overrides", "testkit-host-override://" + backend.Addr + "/x", "override.x"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			service := testkit.Service{Clusters: []testkit.Cluster{{Name: "a", Target: tc.input}}}
			opts := append(composite.DialOptions(), grpc.WithDefaultServiceConfig(service.JSON()))
			for _, channel := range []struct {
				name string
				cc   *grpc.ClientConn
			}{
				{"a channel", testkit.Dial(t, tc.input, grpc.WithNoProxy())},
				{"a cluster", testkit.Dial(t, "composite:///", append(opts, grpc.WithNoProxy())...)},
			} {
				if got := authorityOf(testkit.Context(t), t, channel.cc, backend); got != tc.want {
					t.Errorf("%s to %q calls the server %q: want %q", channel.name, tc.input, got, tc.want)
				}
			}
		})
	}
}

// authorityOf makes a call and returns the authority that the server saw.
func authorityOf(ctx context.Context, t *testing.T, cc *grpc.ClientConn, backend *testkit.Backend) string {
	t.Helper()
	backend.Script(testkit.OK)
	if _, err := testkit.Unary(ctx, cc, grpc.WaitForReady(true)); err != nil {
		t.Fatal(err)
	}
	calls := backend.Calls()
	if len(calls) != 1 || len(calls[0].Metadata[":authority"]) != 1 {
		t.Fatalf("the server saw %+v: want one call with an authority", calls)
	}
	return calls[0].Metadata[":authority"][0]
}

// listenUnix has the server answer on a socket too, and returns its path.
func listenUnix(t *testing.T, backend *testkit.Backend) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "s")
	lis, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	testpb.RegisterTestServiceServer(server, backend)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(lis) // ends by Stop
	}()
	t.Cleanup(func() { server.Stop(); <-done })
	return path
}

// TestAuthorityOfOldEndpoints has a cluster get a target of its own that resolves to
// nothing yet. The endpoints of the channel's resolver serve meanwhile, under the
// channel's name.
func TestAuthorityOfOldEndpoints(t *testing.T) {
	t.Parallel()
	backends := startAll(t, "first", "second")
	next := testkit.NewResolver(t)
	live := dialLive(t, testkit.Service{Clusters: []testkit.Cluster{{Name: "c"}}})
	deliver := func(target string) {
		// One endpoint: it is connected to at its second address when the first is gone.
		state := testkit.OneEndpoint(backends[0].Addr, backends[1].Addr)
		state.ServiceConfig = live.resolver.Parse(testkit.Service{Clusters: []testkit.Cluster{{Name: "c", Target: target}}}.JSON())
		_ = live.resolver.UpdateState(state)
	}
	deliver("")
	testkit.AwaitServer(t, live.cc, "first")
	deliver(next.Target())
	testkit.Eventually(t, "the target is being resolved", func() bool { return next.Open() == 1 })
	backends[0].Stop()
	testkit.AwaitServer(t, live.cc, "second")
	want := backends[0].Calls()[0].Metadata[":authority"]
	if got := backends[1].Calls()[0].Metadata[":authority"]; !slices.Equal(got, want) {
		t.Errorf("the second address is called %q: want %q, as the first was", got, want)
	}
}

// handshakes notes what servers are called, by address.
type handshakes struct {
	credentials.TransportCredentials
	names *sync.Map
}

func (h handshakes) ClientHandshake(ctx context.Context, authority string, c net.Conn) (net.Conn, credentials.AuthInfo, error) {
	h.names.Store(c.RemoteAddr().String(), authority)
	return h.TransportCredentials.ClientHandshake(ctx, authority, c)
}

func (h handshakes) Clone() credentials.TransportCredentials { return h }

// TestAuthorityOfAnOldPolicy has a cluster's policy be replaced together with its target.
// What the old one connects to, as long as it serves, has the old target's name.
func TestAuthorityOfAnOldPolicy(t *testing.T) {
	t.Parallel()
	backends := startAll(t, "first", "second")
	next := testkit.NewResolver(t)
	silent, _ := testkit.BlackHole(t)
	// Whatever endpoints the new policy gets, it goes on connecting.
	connecting := nested("c", testkit.Service{Clusters: []testkit.Cluster{{Name: "in", Target: "passthrough:///" + silent, More: map[string]any{"connectTimeout": "20s"}}}})
	old := testkit.NewPolicy(t)
	old.OnUpdate = func(c *testkit.PolicyChild, s balancer.ClientConnState) error { return c.Connect(s) }
	shaken := handshakes{insecure.NewCredentials(), new(sync.Map)}
	live := dialLiveWith(t, testkit.Service{Clusters: []testkit.Cluster{{Name: "c"}}}, grpc.WithTransportCredentials(shaken))
	deliver := func(target string, policy any) {
		state := testkit.OneEndpoint(backends[0].Addr)
		state.ServiceConfig = live.resolver.Parse(testkit.Service{Clusters: []testkit.Cluster{{Name: "c", Target: target, More: map[string]any{
			"connectTimeout": "20s", "childPolicy": policy,
		}}}}.JSON())
		_ = live.resolver.UpdateState(state)
	}
	deliver("", old.Config())
	testkit.AwaitServer(t, live.cc, "first")
	deliver(next.Target(), connecting.More["childPolicy"])
	testkit.Eventually(t, "the new target is being resolved", func() bool { return next.Open() == 1 })
	_ = next.UpdateAddrs(testkit.ClosedPort)
	testkit.AwaitServer(t, live.cc, "first")
	sc, err := old.Child(t, 0).CC.NewSubConn([]resolver.Address{{Addr: backends[1].Addr}}, balancer.NewSubConnOptions{StateListener: func(balancer.SubConnState) {}})
	if err != nil {
		t.Fatal(err)
	}
	sc.Connect()
	var got any
	testkit.Eventually(t, "the old policy has connected to the second", func() (ok bool) {
		got, ok = shaken.names.Load(backends[1].Addr)
		return ok
	})
	if want, _ := shaken.names.Load(backends[0].Addr); got != want {
		t.Errorf("the old policy's new connection is called %q: want %q, as its other one", got, want)
	}
}
