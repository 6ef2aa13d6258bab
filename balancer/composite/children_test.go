package composite_test

import (
	"testing"
	"time"

	"google.golang.org/grpc"
	_ "google.golang.org/grpc/balancer/ringhash" // a policy that connects only when it is picked from
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	testpb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/status"

	"github.com/grpc-composite/grpc-composite/internal/testkit"
)

// nested is a cluster that is a composite policy itself.
func nested(name string, inner testkit.Service) testkit.Cluster {
	// Its clusters have targets of their own, so that its endpoints do not
	// matter, as long as its resolver delivers something.
	return testkit.Cluster{Name: name, Target: "passthrough:///nested", More: map[string]any{
		"childPolicy": []any{map[string]any{"composite": inner.Policy()}},
	}}
}

// TestNesting has the counts that a real Envoy has for the same lists.
func TestNesting(t *testing.T) {
	for _, tc := range []struct {
		name     string
		outer    string         // names; N is the nested policy
		inner    string         // names of its clusters
		policy   map[string]any // of the nested one
		down     string         // names of stopped servers
		attempts int
		counts   string // of a, b, c, d
	}{
		{name: "the attempt's number is shared", outer: "a N", inner: "c d", attempts: 2, counts: "1/0/0/1"},
		{name: "past its own list it has no host", outer: "a N b", inner: "c", attempts: 3, counts: "1/2/0/0"},
		{name: "in Envoy's way it still is a cluster like others", outer: "a N b", inner: "c", policy: map[string]any{"noHost": "FAIL_REQUEST"}, attempts: 3, counts: "1/2/0/0"},
		{name: "without hosts it is skipped", outer: "N b", inner: "c d", down: "c d", policy: map[string]any{"noHost": "FAIL_REQUEST"}, counts: "0/1/0/0"},
		{name: "without hosts from here on it is skipped", outer: "a N b", inner: "c d", down: "d", policy: map[string]any{"noHost": "FAIL_REQUEST"}, attempts: 2, counts: "1/1/0/0"},
		{name: "its own overflow", outer: "a N b", inner: "c", policy: map[string]any{"overflow": "USE_LAST_CLUSTER"}, attempts: 3, counts: "1/1/1/0"},
		{name: "first in the list", outer: "N b", inner: "c d", attempts: 2, counts: "0/1/1/0"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			backends := startAll(t, "a", "b", "c", "d")
			byName := make(map[string]testkit.Cluster)
			for i, c := range testkit.Clusters(backends...) {
				backends[i].Script(testkit.U)
				byName[c.Name] = c
			}
			inner := testkit.Service{More: tc.policy}
			for _, name := range letters(tc.inner) {
				inner.Clusters = append(inner.Clusters, byName[name])
			}
			byName["N"] = nested("N", inner)
			service := testkit.Service{Attempts: tc.attempts}
			for _, name := range letters(tc.outer) {
				service.Clusters = append(service.Clusters, byName[name])
			}
			cc := dial(t, service)
			for _, name := range letters(tc.down) {
				backends[name[0]-'a'].Stop()
			}
			_, err := testkit.Unary(testkit.Context(t), cc)
			if got := status.Code(err); got != codes.Unavailable {
				t.Errorf("code %v (%v): want UNAVAILABLE", got, err)
			}
			if got := testkit.Counts(backends...); got != tc.counts {
				t.Errorf("calls %s: want %s (%v)", got, tc.counts, err)
			}
		})
	}
}

// letters splits a list of one-letter names.
func letters(list string) []string {
	var names []string
	for _, r := range list {
		if r != ' ' {
			names = append(names, string(r))
		}
	}
	return names
}

func TestNestedErrorsAreTold(t *testing.T) {
	t.Parallel()
	inner := testkit.Service{Clusters: []testkit.Cluster{{Name: "c", Target: "passthrough:///" + testkit.ClosedPort}}}
	cc := dial(t, testkit.Service{Clusters: []testkit.Cluster{nested("N", inner)}})
	_, err := testkit.Unary(testkit.Context(t), cc)
	testkit.Contains(t, err, "N skipped", "c skipped", "connection refused")
}

func TestHealthCheckedCluster(t *testing.T) {
	t.Parallel()
	healthA, healthB := health.NewServer(), health.NewServer() // SERVING
	a := testkit.StartWith(t, "a", func(s *grpc.Server) { healthpb.RegisterHealthServer(s, healthA) })
	b := testkit.StartWith(t, "b", func(s *grpc.Server) { healthpb.RegisterHealthServer(s, healthB) })
	healthA.SetServingStatus("", healthpb.HealthCheckResponse_NOT_SERVING)
	cc := dial(t, testkit.Service{
		Clusters: testkit.Clusters(a, b),
		Other:    map[string]any{"healthCheckConfig": map[string]any{"serviceName": ""}},
	})
	if got := call(t, cc); got != "b" {
		t.Errorf("first NOT_SERVING: answer from %s: want b", got)
	}
	healthA.SetServingStatus("", healthpb.HealthCheckResponse_SERVING)
	testkit.AwaitServer(t, cc, "a")
	healthA.SetServingStatus("", healthpb.HealthCheckResponse_NOT_SERVING)
	testkit.AwaitServer(t, cc, "b")
	for range 20 {
		if got := call(t, cc); got != "b" {
			t.Fatalf("answer from %s: want b", got)
		}
	}
}

// TestPolicyThatConnectsWhenPicked leaves the channel alone for longer than the
// connect timeout: the cluster must not be lost, since only a pick brings it to
// life.
func TestPolicyThatConnectsWhenPicked(t *testing.T) {
	for _, connectTimeout := range []string{"0.05s", "0s"} {
		t.Run(connectTimeout, func(t *testing.T) {
			t.Parallel()
			a, b := testkit.Start(t, "a"), testkit.Start(t, "b")
			service := testkit.Service{Clusters: testkit.Clusters(a, b)}
			service.Clusters[0].More = map[string]any{
				"connectTimeout": connectTimeout,
				"childPolicy":    []any{map[string]any{"ring_hash_experimental": map[string]any{"requestHashHeader": "h"}}},
			}
			cc := dial(t, service)
			cc.Connect()
			testkit.AwaitState(t, cc, connectivity.Ready) // the second is
			time.Sleep(100 * time.Millisecond)            // the time that has to pass
			if got, want := call(t, cc), map[string]string{"0.05s": "a", "0s": "b"}[connectTimeout]; got != want {
				t.Errorf("answer from %s: want %s", got, want)
			}
			testkit.AwaitServer(t, cc, "a")
		})
	}
}

func TestRequestsAboveTheRetryBufferAreNotRetried(t *testing.T) {
	for _, tc := range []struct {
		name   string
		size   int
		opts   []grpc.CallOption
		counts string
	}{
		{"200 KiB", 200 << 10, nil, "1/1"},
		{"300 KiB", 300 << 10, nil, "1/0"},
		{"300 KiB with a larger buffer", 300 << 10, []grpc.CallOption{grpc.MaxRetryRPCBufferSize(1 << 20)}, "1/1"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			a, b := testkit.Start(t, "a"), testkit.Start(t, "b")
			a.Script(testkit.U)
			cc := dial(t, testkit.Service{Clusters: testkit.Clusters(a, b), Attempts: 2})
			_, err := testpb.NewTestServiceClient(cc).UnaryCall(testkit.Context(t),
				&testpb.SimpleRequest{Payload: &testpb.Payload{Body: make([]byte, tc.size)}}, tc.opts...)
			if got := testkit.Counts(a, b); got != tc.counts {
				t.Errorf("calls %s (%v): want %s", got, err, tc.counts)
			}
		})
	}
}

// TestThrottlingStarvesTheSecondCluster shows why retryThrottling and failover do
// not go together: it counts for the whole channel (gRFC A6).
func TestThrottlingStarvesTheSecondCluster(t *testing.T) {
	t.Parallel()
	a, b := testkit.Start(t, "a"), testkit.Start(t, "b")
	a.Script(testkit.U)
	cc := dial(t, testkit.Service{
		Clusters: testkit.Clusters(a, b), Attempts: 2,
		Other: map[string]any{"retryThrottling": map[string]any{"maxTokens": 4, "tokenRatio": 0.1}},
	})
	for range 6 {
		_, _ = testkit.Unary(testkit.Context(t), cc)
	}
	if got := testkit.Counts(a, b); got != "6/2" && got != "6/1" {
		t.Errorf("calls %s: want most of the second cluster's to be missing", got)
	}
}

// TestRetryWithinAClusterOfTwo has a cluster of a bad and a good host listed
// twice: the second attempt may use the good one.
func TestRetryWithinAClusterOfTwo(t *testing.T) {
	t.Parallel()
	bad, good := testkit.Start(t, "bad"), testkit.Start(t, "good")
	bad.Script(testkit.U)
	r := testkit.NewResolver(t)
	_ = r.Update(bad, good)
	cc := dial(t, testkit.Service{
		Clusters: []testkit.Cluster{{Name: "a", Target: r.Target(), More: map[string]any{"attempts": 2}}},
		Attempts: 2,
	})
	testkit.AwaitServer(t, cc, "good")
	testkit.Eventually(t, "both hosts are connected", func() bool {
		_, _ = testkit.Unary(testkit.Context(t), cc)
		return bad.Count() > 0
	})
	bad.Script(testkit.U)
	for range 20 {
		if got := call(t, cc); got != "good" {
			t.Fatalf("answer from %s: want good", got)
		}
	}
	if bad.Count() == 0 {
		t.Error("the bad host was never tried: the test shows nothing")
	}
}

// TestNestedProgression has two nested policies that go on to the next cluster:
// each counts the slots of its own list.
func TestNestedProgression(t *testing.T) {
	t.Parallel()
	backends := startAll(t, "a", "b")
	backends[0].Script(testkit.U)
	next := map[string]any{"progression": "NEXT_CLUSTER"}
	cc := dial(t, testkit.Service{
		Clusters: []testkit.Cluster{
			nested("N", testkit.Service{Clusters: testkit.Clusters(backends[0]), More: next}),
			nested("M", testkit.Service{Clusters: testkit.Clusters(backends[1]), More: next}),
		},
		Attempts: 2,
	})
	if got := call(t, cc); got != "b" {
		t.Errorf("answer from %s: want b", got)
	}
	if got := testkit.Counts(backends...); got != "1/1" {
		t.Errorf("calls %s: want 1/1", got)
	}
}
