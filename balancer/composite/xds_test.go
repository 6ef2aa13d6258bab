package composite

import (
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/balancer"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/resolver"

	"github.com/grpc-composite/grpc-composite/internal/testkit"
)

// xdsCredentials say of themselves what gRPC's xDS credentials say.
type xdsCredentials struct {
	credentials.TransportCredentials
}

func (xdsCredentials) UsesXDS() bool { return true }

// TestCredentialsUseXDS has gRPC's xDS policies hand on TLS settings if any entry
// has a use for them.
func TestCredentialsUseXDS(t *testing.T) {
	t.Parallel()
	plain := insecure.NewCredentials()
	xds := xdsCredentials{plain}
	type byCluster = map[string]credentials.TransportCredentials
	for _, tc := range []struct {
		name      string
		byCluster byCluster
		fallback  credentials.TransportCredentials
		want      bool
	}{
		{"an entry", byCluster{"a": plain, "b": xds}, plain, true},
		{"the fallback", byCluster{"a": plain}, xds, true},
		{"an entry, and no fallback", byCluster{"a": xds}, nil, true},
		{"neither", byCluster{"a": plain}, plain, false},
		{"nothing at all", nil, nil, false},
	} {
		creds, ok := NewTransportCredentials(tc.byCluster, tc.fallback).(interface{ UsesXDS() bool })
		if !ok || creds.UsesXDS() != tc.want {
			t.Errorf("%s: want %v", tc.name, tc.want)
		}
	}
}

// TestChildHasEndpointsOfItsOwn is what gRPC's xDS policies do: they get an empty
// list, and connect to what the control plane told them.
func TestChildHasEndpointsOfItsOwn(t *testing.T) {
	t.Parallel()
	p := testkit.NewPolicy(t)
	p.OnUpdate = func(c *testkit.PolicyChild, s balancer.ClientConnState) error {
		s.ResolverState.Endpoints = []resolver.Endpoint{{Addresses: []resolver.Address{{Addr: testkit.ClosedPort}}}}
		return c.Connect(s)
	}
	r := testkit.NewResolver(t)
	_ = r.Update()
	cc := testkit.Dial(t, "composite:///", append(DialOptions(), grpc.WithDefaultServiceConfig(testkit.Service{
		Clusters: []testkit.Cluster{{Name: "a", Target: r.Target(), More: map[string]any{"childPolicy": p.Config()}}},
	}.JSON()))...)
	_, err := testkit.Unary(testkit.Context(t), cc)
	testkit.Contains(t, err, "a skipped: transient failure", "connection refused")
}
