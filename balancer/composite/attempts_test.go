package composite_test

import (
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/grpc-composite/grpc-composite/internal/testkit"
)

// TestAttemptsGoToClusters runs calls against clusters that are unavailable (U),
// healthy (OK), exhausted (R: RESOURCE_EXHAUSTED) or have a closed port (D), and
// checks which of them were called, and how often.
func TestAttemptsGoToClusters(t *testing.T) {
	exhausted := testkit.Reply{Code: codes.ResourceExhausted, Message: "slow down"}
	early := testkit.Reply{Code: codes.Unavailable, Message: "after headers", Headers: true}
	for _, tc := range []struct {
		name      string
		clusters  string // one for each cluster, "E": its resolver has no endpoints
		list      string // names of clusters by letter; default: each once
		attempts  int
		retryable []string
		policy    map[string]any
		opts      []grpc.CallOption
		counts    string
		code      codes.Code
		message   string
	}{
		{name: "attempt n goes to cluster n", clusters: "U U OK", attempts: 3, counts: "1/1/1"},
		{name: "attempts past the list end the RPC", clusters: "U U U", attempts: 5, counts: "1/1/1", code: codes.Unavailable, message: "scripted"},
		{name: "attempts past the list end the RPC that waits for ready", clusters: "U U U", attempts: 5, opts: []grpc.CallOption{grpc.WaitForReady(true)}, counts: "1/1/1", code: codes.Unavailable, message: "scripted"},
		{name: "an empty cluster is skipped without a retry policy", clusters: "E OK", counts: "0/1"},
		{name: "a failover does not shift later attempts", clusters: "D U OK", attempts: 3, counts: "0/2/1", code: codes.OK},
		{name: "an exhausted list does not go back", clusters: "U D D", attempts: 3, counts: "1/0/0", code: codes.Unavailable, message: "no_healthy_upstream"},
		{name: "a closed port costs no attempt", clusters: "D OK", counts: "0/1"},
		{name: "RESOURCE_EXHAUSTED advances if it is retryable", clusters: "R OK", attempts: 2, retryable: []string{"RESOURCE_EXHAUSTED"}, counts: "1/1"},
		{name: "RESOURCE_EXHAUSTED does not advance if it is not", clusters: "R OK", attempts: 2, counts: "1/0", code: codes.ResourceExhausted, message: "slow down"},
		{name: "no retry policy, no retry", clusters: "U OK", counts: "1/0", code: codes.Unavailable},
		{name: "headers before the error commit", clusters: "H OK", attempts: 2, counts: "1/0", code: codes.Unavailable, message: "after headers"},
		{name: "a repeated name gets consecutive attempts", clusters: "U OK", list: "a a b", attempts: 3, counts: "2/1"},
		{name: "a repeated name gets a later attempt", clusters: "U U OK", list: "a b a c", attempts: 4, counts: "2/1/1"},
		{name: "an exhausted list has the last attempt's own error", clusters: "U R", attempts: 5, retryable: []string{"UNAVAILABLE", "RESOURCE_EXHAUSTED"}, counts: "1/1", code: codes.ResourceExhausted, message: "slow down"},
		{name: "an exhausted list in Envoy's way", clusters: "U R", attempts: 5, retryable: []string{"UNAVAILABLE", "RESOURCE_EXHAUSTED"}, policy: map[string]any{"noHost": "FAIL_REQUEST"}, counts: "1/1", code: codes.Unavailable, message: `RESOURCE_EXHAUSTED "slow down"`},
		{name: "overflow to the last cluster", clusters: "U U", attempts: 4, policy: map[string]any{"overflow": "USE_LAST_CLUSTER"}, counts: "1/3", code: codes.Unavailable, message: "scripted"},
		{name: "overflow round robin", clusters: "U U U", attempts: 5, policy: map[string]any{"overflow": "ROUND_ROBIN"}, counts: "2/2/1", code: codes.Unavailable, message: "scripted"},
		{name: "without skipping only the own slot counts", clusters: "D OK", attempts: 2, policy: map[string]any{"skipClustersWithoutHosts": false}, counts: "0/1"},
		{name: "without skipping and without retries", clusters: "D OK", policy: map[string]any{"skipClustersWithoutHosts": false}, counts: "0/0", code: codes.Unavailable},
		{name: "no host may be retried", clusters: "U D OK", attempts: 3, policy: map[string]any{"skipClustersWithoutHosts": false}, counts: "1/0/1"},
		{name: "no host may end the RPC", clusters: "U D OK", attempts: 3, policy: map[string]any{"skipClustersWithoutHosts": false, "noHost": "FAIL_REQUEST"}, counts: "1/0/0", code: codes.Unavailable, message: "no host available"},
		{name: "eight clusters, more than gRPC's own cap", clusters: "U U U U U U U OK", attempts: 8, counts: "1/1/1/1/1/1/1/1"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			var service testkit.Service
			var backends []*testkit.Backend
			for i, kind := range strings.Fields(tc.clusters) {
				b := testkit.Start(t, string(rune('a'+i)))
				backends = append(backends, b)
				target := b.Target()
				switch kind {
				case "U":
					b.Script(testkit.U)
				case "R":
					b.Script(exhausted)
				case "H":
					b.Script(early)
				case "D":
					target = "passthrough:///" + testkit.ClosedPort
				case "E":
					target = testkit.EmptyTarget
				}
				service.Clusters = append(service.Clusters, testkit.Cluster{Name: b.Name, Target: target})
			}
			if tc.list != "" {
				service.Clusters = relist(service.Clusters, tc.list)
			}
			service.Attempts, service.Retryable, service.More = tc.attempts, tc.retryable, tc.policy

			_, err := testkit.Unary(testkit.Context(t), dial(t, service), tc.opts...)
			if got := status.Code(err); got != tc.code {
				t.Errorf("code %v (%v): want %v", got, err, tc.code)
			}
			if tc.message != "" {
				testkit.Contains(t, err, tc.message)
			}
			if got := testkit.Counts(backends...); got != tc.counts {
				t.Errorf("calls %s: want %s", got, tc.counts)
			}
		})
	}
}

// relist orders clusters by a list of names, in which a name may be repeated.
func relist(clusters []testkit.Cluster, list string) []testkit.Cluster {
	seen := make(map[string]bool)
	var out []testkit.Cluster
	for _, name := range strings.Fields(list) {
		for _, c := range clusters {
			if c.Name == name {
				if seen[name] {
					c = testkit.Cluster{Name: name}
				}
				out = append(out, c)
			}
		}
		seen[name] = true
	}
	return out
}
