package envoy

import (
	"context"
	"encoding/json"
	"net/netip"
	"os"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/grpc-composite/grpc-composite/internal/testkit"
)

// SetHosts changes the hosts of a cluster that is said to be changing, and waits
// until calls see whether it has any.
func (e *Envoy) SetHosts(t testing.TB, cluster string, hosts ...string) {
	t.Helper()
	if err := writeHosts(e.dir, Cluster{Name: cluster, Hosts: hosts, Changing: true}); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, "Envoy has read the hosts of "+cluster, func() bool {
		return e.hasHosts(t, cluster) == (len(hosts) > 0)
	})
}

// probeName is the route that leads to a cluster alone.
func probeName(cluster string) string { return "probe." + cluster }

// Probe calls a method that no server has, and returns its error: UNIMPLEMENTED if
// the call came to a server, which does not count it.
func Probe(ctx context.Context, cc grpc.ClientConnInterface) error {
	return cc.Invoke(ctx, "/probe/Probe", &emptypb.Empty{}, &emptypb.Empty{})
}

// hasHosts asks by a call, which comes to the thread that all calls come to: the
// admin interface would say what another thread knows.
func (e *Envoy) hasHosts(t testing.TB, cluster string) bool {
	t.Helper()
	err := Probe(testkit.Context(t), e.Route(probeName(cluster)))
	switch status.Code(err) {
	case codes.Unimplemented:
		return true
	case codes.Unavailable:
		return false
	default:
		t.Fatalf("probe of %s: %v", cluster, err)
		return false
	}
}

// writeHosts puts a cluster's file in place. Envoy watches for files that are
// moved, and would read half a file that is written where it is.
func writeHosts(dir string, c Cluster) error {
	text, err := json.Marshal(JSON{"resources": []JSON{
		typed("envoy.config.endpoint.v3.ClusterLoadAssignment", c.assignment()),
	}})
	if err != nil {
		return err
	}
	name := endpointFile(dir, c.Name)
	if err := os.WriteFile(name+".new", text, 0o600); err != nil {
		return err
	}
	return os.Rename(name+".new", name)
}

// assignment is what Envoy is told of a cluster's hosts.
func (c Cluster) assignment() JSON {
	endpoints := make([]JSON, 0, len(c.Hosts)+len(c.Unhealthy))
	for _, addr := range c.Hosts {
		endpoints = append(endpoints, endpoint(addr, "HEALTHY"))
	}
	for _, addr := range c.Unhealthy {
		endpoints = append(endpoints, endpoint(addr, "UNHEALTHY"))
	}
	return JSON{"cluster_name": c.Name, "endpoints": []JSON{{"lb_endpoints": endpoints}}}
}

func endpoint(addr, health string) JSON {
	a := netip.MustParseAddrPort(addr) // a server of the test's own
	return JSON{"health_status": health, "endpoint": JSON{"address": JSON{"socket_address": JSON{
		"address": a.Addr().String(), "port_value": a.Port(),
	}}}}
}
