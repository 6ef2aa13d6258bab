package composite

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"path/filepath"
	"reflect"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	testpb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/resolver"

	"github.com/grpc-composite/grpc-composite/internal/testkit"
)

func init() {
	resolver.Register(hostResolver{})
	resolver.Register(overridingResolver{})
}

// hostResolver takes the address from a target's host and leaves the rest of it
// to be the authority: "target-test://127.0.0.1:1/authority".
type hostResolver struct{}

func (hostResolver) Scheme() string { return "target-test" }

func (hostResolver) Build(target resolver.Target, cc resolver.ClientConn, _ resolver.BuildOptions) (resolver.Resolver, error) {
	state := resolver.State{Endpoints: []resolver.Endpoint{{Addresses: []resolver.Address{{Addr: target.URL.Host}}}}}
	return idleResolver{}, cc.UpdateState(state)
}

// overridingResolver does the same, and has its own idea of the authority.
type overridingResolver struct{ hostResolver }

func (overridingResolver) Scheme() string { return "target-test-override" }

func (overridingResolver) OverrideAuthority(target resolver.Target) string {
	return "override." + target.Endpoint()
}

type idleResolver struct{}

func (idleResolver) ResolveNow(resolver.ResolveNowOptions) {}
func (idleResolver) Close()                                {}

// targets are those that a cluster may have.
var targets = []struct {
	name, input string
	want        string // in full
	authority   string
}{
	{"host and port", "localhost:50051", "dns:///localhost:50051", "localhost:50051"},
	{"a host that is called like no scheme", "cache:50051", "dns:///cache:50051", "cache:50051"},
	{"host", "localhost", "dns:///localhost", "localhost"},
	{"port", ":443", "dns:///:443", "localhost:443"},
	{"IPv4", "10.0.0.1:50051", "dns:///10.0.0.1:50051", "10.0.0.1:50051"},
	{"IPv6", "[::1]:443", "dns:///[::1]:443", "[::1]:443"},
	{"IPv6 with a zone", "[fe80::1%25en0]:443", "dns:///[fe80::1%en0]:443", "[fe80::1%25en0]:443"},
	{"dns", "dns:///x:1", "dns:///x:1", "x:1"},
	{"dns with a server", "dns://8.8.8.8/x", "dns://8.8.8.8/x", "x"},
	{"dns with a port alone", "dns:///:443", "dns:///:443", "localhost:443"},
	{"dns without slashes", "dns:x:1", "dns:///x:1", "x:1"},
	{"dns with one slash", "dns:/x:1", "dns:///x:1", "x:1"},
	{"dns without a name", "dns:///", "dns:///", ""},
	{"upper-case scheme", "DNS:///X:1", "dns:///X:1", "X:1"},
	{"mixed-case scheme without slashes", "Unix:Path", "unix:///Path", "localhost"},
	{"unix, relative", "unix:path", "unix:///path", "localhost"},
	{"unix, absolute", "unix:///abs", "unix:///abs", "localhost"},
	{"unix, absolute, with one slash", "unix:/abs/olute", "unix:///abs/olute", "localhost"},
	{"unix-abstract", "unix-abstract:name", "unix-abstract:///name", "localhost"},
	{"passthrough", "passthrough:///x", "passthrough:///x", "x"},
	{"passthrough with a host", "passthrough://host/x", "passthrough://host/x", "x"},
	{"escapes are undone and made anew", "passthrough:///a%20b%2Fc", "passthrough:///a b/c", "a%20b%2Fc"},
	{"what an authority may have", "passthrough:///-_.~!$&'()*+,;=:[]@aZ09", "passthrough:///-_.~!$&'()*+,;=:[]@aZ09", "-_.~!$&'()*+,;=:[]@aZ09"},
	{"what an authority may not have", "passthrough:///a/b\\c\"<>^`{|}é", "passthrough:///a/b\\c\"<>^`{|}é", "a%2Fb%5Cc%22%3C%3E%5E%60%7B%7C%7D%C3%A9"},
	{"a port alone with more behind it", "passthrough:///:1/é", "passthrough:///:1/é", "localhost:1%2F%C3%A9"},
	{"a query is no part of it", "dns:///x:1?a=b#c", "dns:///x:1", "x:1"},
	{"a path without a scheme", "x/y", "dns:///x/y", "x%2Fy"},
	{"slashes without a scheme", "//x/y", "dns://///x/y", "%2F%2Fx%2Fy"},
	{"a resolver that overrides", "target-test-override:///x", "target-test-override:///x", "override.x"},
	{"a resolver that does not", "target-test:///x y", "target-test:///x y", "x%20y"},
}

// TestTarget compares a cluster's target with what grpc.NewClient makes of the
// same text.
func TestTarget(t *testing.T) {
	for _, tc := range targets {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			cfg, err := parse(withTarget(tc.input))
			if err != nil {
				t.Fatal(err)
			}
			got := cfg.clusters[0].target
			if got.text != tc.input || got.parsed.String() != tc.want || got.authority != tc.authority {
				t.Errorf("target %q is %q with the authority %q: want %q with %q", got.text, &got.parsed, got.authority, tc.want, tc.authority)
			}
			if got.builder.Scheme() != got.parsed.URL.Scheme {
				t.Errorf("the resolver is for the scheme %q: want %q", got.builder.Scheme(), got.parsed.URL.Scheme)
			}
			sameAsChannel(t, got)
		})
	}
}

// FuzzParseTarget checks that a target which a cluster may have means the same
// to a channel.
func FuzzParseTarget(f *testing.F) {
	for _, tc := range targets {
		f.Add(tc.input)
	}
	f.Fuzz(func(t *testing.T, text string) {
		target, err := parseTarget(text)
		if err != nil || text == "" {
			t.Skip("not a target")
		}
		sameAsChannel(t, target)
	})
}

// withTarget is a config with a target.
func withTarget(target string) string {
	text, err := json.Marshal(target)
	if err != nil {
		panic(err) // a test's own mistake
	}
	return fmt.Sprintf(`{"clusters":[{"name":"a","target":%s}]}`, text)
}

// sameAsChannel compares a target with what a resolver of a real channel to it
// is told.
func sameAsChannel(t *testing.T, got *clusterTarget) {
	t.Helper()
	want := channelTarget(t, got.text)
	if !reflect.DeepEqual(got.parsed.URL, want.target.URL) {
		t.Errorf("target %q is %#v: a channel has %#v", got.text, got.parsed.URL, want.target.URL)
	}
	if got.authority != want.authority {
		t.Errorf("target %q has the authority %q: a channel has %q", got.text, got.authority, want.authority)
	}
}

// channelTarget opens a channel, has it build its resolver, and returns what the
// resolver was told.
func channelTarget(t *testing.T, text string) built {
	t.Helper()
	seen := make(chan built, 1)
	var spies []resolver.Builder
	for _, scheme := range []string{"dns", "unix", "unix-abstract", "passthrough", "target-test", "target-test-override"} {
		spies = append(spies, spyOn(resolver.Get(scheme), seen))
	}
	cc, err := grpc.NewClient(text, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithResolvers(spies...), grpc.WithNoProxy())
	if err != nil {
		t.Fatalf("NewClient(%q): %v", text, err)
	}
	defer func() { _ = cc.Close() }()
	cc.Connect()
	select {
	case b := <-seen:
		return b
	case <-testkit.Context(t).Done():
		t.Fatalf("NewClient(%q): no resolver was built", text)
		return built{}
	}
}

// built is what a resolver is told when it is built.
type built struct {
	target    resolver.Target
	authority string
}

// spy stands in for a resolver builder and resolves nothing.
type spy struct {
	resolver.Builder
	seen chan<- built
}

func (s spy) Build(target resolver.Target, _ resolver.ClientConn, opts resolver.BuildOptions) (resolver.Resolver, error) {
	s.seen <- built{target, opts.Authority}
	return idleResolver{}, nil
}

// overridingSpy stands in for one that overrides the authority.
type overridingSpy struct {
	spy
	resolver.AuthorityOverrider
}

func spyOn(b resolver.Builder, seen chan<- built) resolver.Builder {
	s := spy{b, seen}
	if o, ok := b.(resolver.AuthorityOverrider); ok {
		return overridingSpy{s, o}
	}
	return s
}

// TestAuthorityOnTheWire compares what a server is called by a cluster and by a
// plain channel to the same target.
func TestAuthorityOnTheWire(t *testing.T) {
	backend := testkit.Start(t, "server")
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
		{"escapes", "target-test://" + backend.Addr + "/a b%2F%C3%A9", "a%20b%2F%C3%A9"},
		{"a resolver that overrides", "target-test-override://" + backend.Addr + "/x", "override.x"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			service := testkit.Service{Clusters: []testkit.Cluster{{Name: "a", Target: tc.input}}}
			opts := append(DialOptions(), grpc.WithDefaultServiceConfig(service.JSON()))
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
