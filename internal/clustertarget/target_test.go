package clustertarget

import (
	"reflect"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/resolver"

	"github.com/grpc-composite/grpc-composite/internal/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

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
	{"a resolver that overrides", "testkit-host-override:///x", "testkit-host-override:///x", "override.x"},
	{"a resolver that does not", "testkit-host:///x y", "testkit-host:///x y", "x%20y"},
}

// TestTarget compares a cluster's target with what grpc.NewClient makes of the
// same text.
func TestTarget(t *testing.T) {
	for _, tc := range targets {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			got, err := Parse(tc.input)
			if err != nil {
				t.Fatal(err)
			}
			if got.Text != tc.input || got.Parsed.String() != tc.want || got.Authority != tc.authority {
				t.Errorf("target %q is %q with the authority %q: want %q with %q", got.Text, &got.Parsed, got.Authority, tc.want, tc.authority)
			}
			if got.Builder.Scheme() != got.Parsed.URL.Scheme {
				t.Errorf("the resolver is for the scheme %q: want %q", got.Builder.Scheme(), got.Parsed.URL.Scheme)
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
		target, err := Parse(text)
		if err != nil || text == "" {
			t.Skip("not a target")
		}
		sameAsChannel(t, target)
	})
}

// sameAsChannel compares a target with what a resolver of a real channel to it
// is told.
func sameAsChannel(t *testing.T, got *Target) {
	t.Helper()
	want := channelTarget(t, got.Text, got.Builder)
	if !reflect.DeepEqual(got.Parsed.URL, want.target.URL) {
		t.Errorf("target %q is %#v: a channel has %#v", got.Text, got.Parsed.URL, want.target.URL)
	}
	if got.Authority != want.authority {
		t.Errorf("target %q has the authority %q: a channel has %q", got.Text, got.Authority, want.authority)
	}
}

// channelTarget opens a channel, has it build its resolver, and returns what the
// resolver was told. It is one of those that are spied on here, or the one given.
func channelTarget(t *testing.T, text string, builder resolver.Builder) built {
	t.Helper()
	seen := make(chan built, 1)
	spies := []resolver.Builder{spyOn(builder, seen)}
	for _, scheme := range []string{"dns", "unix", "unix-abstract", "passthrough", "testkit-host", "testkit-host-override"} {
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
	return silent{}, nil
}

// overridingSpy stands in for one that overrides the authority.
type overridingSpy struct {
	spy
	resolver.AuthorityOverrider
}

// silent is a resolver that resolves nothing.
type silent struct{}

func (silent) ResolveNow(resolver.ResolveNowOptions) {}
func (silent) Close()                                {}

func spyOn(b resolver.Builder, seen chan<- built) resolver.Builder {
	s := spy{b, seen}
	if o, ok := b.(resolver.AuthorityOverrider); ok {
		return overridingSpy{s, o}
	}
	return s
}
