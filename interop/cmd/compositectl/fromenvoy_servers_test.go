package main

import (
	"fmt"
	"net"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

	"github.com/grpc-composite/grpc-composite/balancer/composite"
	"github.com/grpc-composite/grpc-composite/internal/testkit"
)

// envoyCluster is a static cluster of one server.
func envoyCluster(t *testing.T, b *testkit.Backend) string {
	t.Helper()
	host, port, err := net.SplitHostPort(b.Addr)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("- {name: %s, type: STATIC, load_assignment: {endpoints: [{lb_endpoints: [{endpoint: {address: {socket_address: {address: %q, port_value: %s}}}}]}]}}\n", b.Name, host, port)
}

func compositeCluster(name, list string) string {
	return fmt.Sprintf("- {name: %s, lb_policy: CLUSTER_PROVIDED, cluster_type: {name: envoy.clusters.composite, typed_config: {clusters: [%s]}}}\n", name, list)
}

// TestFromEnvoyServes makes RPCs under the service config of a composite cluster that
// has another one in it. Both count the same attempts, as in Envoy.
func TestFromEnvoyServes(t *testing.T) {
	var backends []*testkit.Backend
	text := "routes: {virtual_hosts: [{routes: [{match: {prefix: /}, route: {cluster: outer, retry_policy: {retry_on: unavailable, num_retries: 2}}}]}]}\n" +
		"clusters:\n" + compositeCluster("outer", "{name: a}, {name: inner}, {name: b}") + compositeCluster("inner", "{name: c}, {name: d}")
	for _, name := range []string{"a", "b", "c", "d"} {
		b := testkit.Start(t, name)
		backends, text = append(backends, b), text+envoyCluster(t, b)
	}
	got := runWith(text, "from-envoy", "-")
	if got.code != 0 {
		t.Fatalf("it ends with %d and says %s", got.code, got.errs)
	}
	cc := testkit.Dial(t, "composite:///", append(composite.DialOptions(), grpc.WithDefaultServiceConfig(got.out))...)
	for _, step := range []struct {
		down, want string // the server that begins to fail, and the one that then answers
	}{{"", "a"}, {"a", "d"}, {"d", "b"}} {
		for _, b := range backends {
			if b.Name == step.down {
				b.Respond(func(int, testkit.Call) testkit.Reply { return testkit.Reply{Code: codes.Unavailable} })
			}
		}
		if name, err := testkit.Unary(testkit.Context(t), cc); err != nil || name != step.want {
			t.Errorf("after %q fails, %q answers, error %v; want %q", step.down, name, err, step.want)
		}
	}
}
