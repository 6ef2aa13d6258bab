package envoy_test

import (
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/grpc-composite/grpc-composite/internal/testkit"
	"github.com/grpc-composite/grpc-composite/interop/envoy"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// TestHosts has a composite cluster skip a cluster while it has no hosts.
func TestHosts(t *testing.T) {
	t.Parallel()
	a, b := testkit.Start(t, "a"), testkit.Start(t, "b")
	e := envoy.Start(t, envoy.Config{
		SkipClustersWithoutHosts: true,
		Clusters: []envoy.Cluster{
			{Name: "a", Hosts: []string{a.Addr}, Changing: true},
			{Name: "b", Hosts: []string{b.Addr}, Changing: true},
			{Name: "both", List: []string{"a", "b"}},
		},
		Routes: []envoy.Route{{Name: "test", Cluster: "both", Retry: &envoy.Retry{On: "unavailable", Retries: 1}}},
	})
	want := func(want string) {
		t.Helper()
		got, err := testkit.Unary(testkit.Context(t), e.Route("test"))
		if err != nil || got != want {
			t.Errorf("answer from %q, %v: want %s", got, err, want)
		}
	}
	want("a")
	a.Script(testkit.U)
	want("b")
	a.Script(testkit.OK)
	e.SetHosts(t, "a")
	want("b")
	e.SetHosts(t, "b")
	if _, err := testkit.Unary(testkit.Context(t), e.Route("test")); status.Code(err) != codes.Unavailable {
		t.Errorf("without hosts: %v: want UNAVAILABLE", err)
	}
	e.SetHosts(t, "a", a.Addr)
	want("a")
	e.CheckAlive(t)
}
