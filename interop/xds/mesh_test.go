package xds

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/resolver"

	"github.com/grpc-composite/grpc-composite/balancer/composite"
	"github.com/grpc-composite/grpc-composite/internal/testkit"
	"github.com/grpc-composite/grpc-composite/resolver/xds"
)

// mesh is a control plane and a server for each of its clusters, all of one name.
type mesh struct {
	*controlPlane
	backends map[string]*testkit.Backend
}

// newMesh starts clusters with a server each. The route goes to the first, and
// retries UNAVAILABLE as often as there are clusters after it.
func newMesh(t testing.TB, names ...string) *mesh {
	t.Helper()
	m := &mesh{controlPlane: startControlPlane(t), backends: make(map[string]*testkit.Backend)}
	m.update(t, nodeID, func(r *resources) {
		r.put(newListener(t), newRoutes(names[0], retry(uint32(len(names)-1), "unavailable"))) //nolint:gosec // a small number
		for _, name := range names {
			m.backends[name] = testkit.StartOn(t, name, testkit.Loopback())
			r.put(newCluster(name), newEndpoints(t, name, []*testkit.Backend{m.backends[name]}))
		}
	})
	return m
}

// change changes what gRPC clients are served.
func (m *mesh) change(t testing.TB, change func(r *resources)) {
	t.Helper()
	m.update(t, nodeID, change)
}

// listed is a query that lists clusters.
func listed(names ...string) string { return "clusters=" + strings.Join(names, ",") }

// configured is a query with a config of the policy. A busy machine must not make a
// cluster look down.
func configured(clusters ...string) string {
	for i, c := range clusters {
		if !strings.Contains(c, "connectTimeout") {
			clusters[i] = strings.TrimSuffix(c, "}") + `,"connectTimeout":"20s"}`
		}
	}
	return "config=" + url.QueryEscape(`{"clusters":[`+strings.Join(clusters, ",")+`]}`)
}

// patient lists clusters that may take their time to connect.
func patient(names ...string) string {
	entries := make([]string, len(names))
	for i, name := range names {
		entries[i] = `{"name":"` + name + `"}`
	}
	return configured(entries...)
}

// dial opens a channel to the mesh.
func (m *mesh) dial(t testing.TB, query string, opts ...grpc.DialOption) *grpc.ClientConn {
	t.Helper()
	return m.dialWith(t, query, nil, opts...)
}

func (m *mesh) dialWith(t testing.TB, query string, providers map[string]any, opts ...grpc.DialOption) *grpc.ClientConn {
	t.Helper()
	return testkit.Dial(t, xds.Scheme+":///"+service+"?"+query, append(append(composite.DialOptions(),
		grpc.WithResolvers(m.builder(t, providers))), opts...)...)
}

func (m *mesh) builder(t testing.TB, providers map[string]any) resolver.Builder {
	t.Helper()
	builder, err := xds.NewBuilderForTesting(m.bootstrap(t, providers))
	if err != nil {
		t.Fatal(err)
	}
	return builder
}

// way makes a call and returns the clusters of its attempts, in order, and the
// trail's text of those passed over; "a b" or "-a b" if a was passed over.
func way(t testing.TB, cc grpc.ClientConnInterface, opts ...grpc.CallOption) (string, error) {
	t.Helper()
	var trail composite.Trail
	_, err := testkit.Unary(testkit.Context(t), cc, append(opts, composite.RecordTrail(&trail))...)
	return trailText(trail), err
}

func trailText(trail composite.Trail) string {
	var words []string
	for _, a := range trail.Attempts {
		for _, s := range a.Skipped {
			words = append(words, "-"+s.Cluster)
		}
		if a.Cluster != "" {
			words = append(words, a.Cluster)
		}
	}
	return strings.Join(words, " ")
}

// expect makes a call that must succeed on that way.
func expect(t testing.TB, cc grpc.ClientConnInterface, want string) {
	t.Helper()
	if got, err := way(t, cc); got != want || err != nil {
		t.Errorf("the call went %q, error %v: want %q", got, err, want)
	}
}

// await calls until a call succeeds on that way.
func await(t testing.TB, cc grpc.ClientConnInterface, want string) {
	t.Helper()
	var ways []string
	testkit.Eventually(t, "a call that goes "+want, func() bool {
		got, err := way(t, cc)
		if err != nil {
			got += ": " + err.Error()
		}
		if len(ways) == 0 || ways[len(ways)-1] != got {
			ways = append(ways, got)
		}
		return got == want
	})
	if i := slices.IndexFunc(ways, func(w string) bool { return strings.Contains(w, ": ") }); i >= 0 {
		t.Logf("ways until then: %q", ways)
	}
}

// awaitError waits until an RPC fails with each of the texts in its error. Another
// error may come first: the resolver of xDS gives an empty config, with which there
// are no addresses, before it tells why.
func awaitError(t testing.TB, cc grpc.ClientConnInterface, texts ...string) {
	t.Helper()
	var err error
	defer func() {
		if t.Failed() {
			t.Logf("the last error: %v", err)
		}
	}()
	testkit.Eventually(t, fmt.Sprintf("an error with each of %q", texts), func() bool {
		_, err = way(t, cc)
		return err != nil && !slices.ContainsFunc(texts, func(text string) bool {
			return !strings.Contains(err.Error(), text)
		})
	})
}
