// Package differences shows, side by side, where our policy differs from Envoy's
// composite cluster on purpose: a test for each difference.
package differences

import (
	"strconv"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/grpc-composite/grpc-composite/balancer/composite"
	"github.com/grpc-composite/grpc-composite/internal/testkit"
	"github.com/grpc-composite/grpc-composite/interop/envoy"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// servers are those of the clusters a, b, c, ... in this order, with a host each.
type servers []*testkit.Backend

// start starts servers that reply always the same.
func start(t testing.TB, replies ...testkit.Reply) servers {
	t.Helper()
	var list servers
	for i, reply := range replies {
		b := testkit.Start(t, string(rune('a'+i)))
		b.Script(reply)
		list = append(list, b)
	}
	return list
}

// clusters are the servers' clusters in Envoy. The first one has more.
func (s servers) clusters(more envoy.JSON) []envoy.Cluster {
	var list []envoy.Cluster
	for _, b := range s {
		list = append(list, envoy.Cluster{Name: b.Name, Hosts: []string{b.Addr}, More: more})
		more = nil
	}
	return list
}

// viaEnvoy returns a channel to an Envoy with a composite cluster over all of these
// clusters, in order.
func viaEnvoy(t testing.TB, clusters []envoy.Cluster, retry *envoy.Retry) grpc.ClientConnInterface {
	t.Helper()
	var list []string
	for _, c := range clusters {
		list = append(list, c.Name)
	}
	return envoyOver(t, true, list, clusters, retry)
}

// envoyOver is viaEnvoy for a list of its own, and either value of the runtime
// feature for skipping.
func envoyOver(t testing.TB, skip bool, list []string, clusters []envoy.Cluster, retry *envoy.Retry) grpc.ClientConnInterface {
	t.Helper()
	e := envoy.Start(t, envoy.Config{
		SkipClustersWithoutHosts: skip,
		Clusters:                 append(clusters, envoy.Cluster{Name: "composite", List: list}),
		Routes:                   []envoy.Route{{Name: "test", Cluster: "composite", Retry: retry}},
	})
	return e.Route("test")
}

// retry is a policy with retries for all that is listed.
func retry(retries int, on string) *envoy.Retry { return &envoy.Retry{On: on, Retries: retries} }

// ours returns a channel of ours.
func ours(t testing.TB, s testkit.Service) *grpc.ClientConn {
	t.Helper()
	return testkit.Dial(t, "composite:///", append(composite.DialOptions(), grpc.WithDefaultServiceConfig(s.JSON()))...)
}

// service has the servers' clusters. The first one has more.
func (s servers) service(attempts int, more map[string]any) testkit.Service {
	service := testkit.Service{Clusters: testkit.Clusters(s...), Attempts: attempts}
	service.Clusters[0].More = more
	return service
}

// check makes a call and checks how it ends and which servers it comes to: "1/0"
// is one attempt at the first and none at the second.
func (s servers) check(t testing.TB, side string, cc grpc.ClientConnInterface, counts string, code codes.Code, parts ...string) {
	t.Helper()
	before := make([]int, len(s))
	for i, b := range s {
		before[i] = b.Count()
	}
	_, err := testkit.Unary(testkit.Context(t), cc)
	if got := s.since(before); got != counts || status.Code(err) != code {
		t.Errorf("%s: attempts %s, %v: want %s, %v", side, got, err, counts, code)
	}
	if code != codes.OK {
		testkit.Contains(t, err, parts...)
	}
}

// since is how often each server was called since before, as text.
func (s servers) since(before []int) string {
	text := ""
	for i, b := range s {
		if i > 0 {
			text += "/"
		}
		text += strconv.Itoa(b.Count() - before[i])
	}
	return text
}

func checkCode(t testing.TB, err error, code codes.Code, parts ...string) {
	t.Helper()
	if status.Code(err) != code {
		t.Errorf("%v: want %v", err, code)
	}
	testkit.Contains(t, err, parts...)
}
