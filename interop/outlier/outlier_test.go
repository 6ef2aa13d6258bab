// Package outlier tests composite channels with child policies that come with
// gRPC's xDS support: outlier detection and weighted round robin.
package outlier

import (
	"testing"
	"time"

	"google.golang.org/grpc"
	_ "google.golang.org/grpc/xds" // registers outlier_detection_experimental

	"github.com/grpc-composite/grpc-composite/balancer/composite"
	"github.com/grpc-composite/grpc-composite/internal/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

const (
	interval     = 100 * time.Millisecond // between two looks at what was counted
	ejectionTime = 400 * time.Millisecond
)

// detection is outlier detection that a test can wait for. Without
// maxEjectionPercent it would eject a tenth of the hosts, and at least one.
func detection(ejection map[string]any) []any {
	config := map[string]any{
		"interval": "0.1s", "baseEjectionTime": "0.4s", "maxEjectionTime": "0.4s",
		"maxEjectionPercent": 100,
		"childPolicy":        []any{map[string]any{"round_robin": map[string]any{}}},
	}
	for k, v := range ejection {
		config[k] = v
	}
	return []any{map[string]any{"outlier_detection_experimental": config}}
}

// failurePercentage ejects a host of which more than half of the RPCs fail. It is
// off, and needs five hosts, unless the config says otherwise.
func failurePercentage() map[string]any {
	return map[string]any{"failurePercentageEjection": map[string]any{
		"threshold": 50, "enforcementPercentage": 100, "minimumHosts": 1, "requestVolume": 5,
	}}
}

// successRate ejects a host that does worse than the others of its cluster.
func successRate() map[string]any {
	return map[string]any{"successRateEjection": map[string]any{
		"stdevFactor": 1000, "enforcementPercentage": 100, "minimumHosts": 3, "requestVolume": 5,
	}}
}

func dial(t testing.TB, s testkit.Service) *grpc.ClientConn {
	t.Helper()
	return testkit.Dial(t, "composite:///", append(composite.DialOptions(), grpc.WithDefaultServiceConfig(s.JSON()))...)
}

func call(t testing.TB, cc *grpc.ClientConn, opts ...grpc.CallOption) string {
	t.Helper()
	name, err := testkit.Unary(testkit.Context(t), cc, opts...)
	if err != nil {
		t.Fatal(err)
	}
	return name
}

// hosts is a cluster of servers that have an endpoint each.
func hosts(t testing.TB, name string, more map[string]any, backends ...*testkit.Backend) testkit.Cluster {
	t.Helper()
	r := testkit.NewResolver(t)
	_ = r.Update(backends...)
	return testkit.Cluster{Name: name, Target: r.Target(), More: more}
}

// TestFailingPrimaryIsEjected has a primary that is connected and answers
// UNAVAILABLE. Its only host is ejected, so that it has no host: attempts go
// straight to the next cluster, its calls stop, and it comes back by itself.
func TestFailingPrimaryIsEjected(t *testing.T) {
	t.Parallel()
	a, b := testkit.Start(t, "a"), testkit.Start(t, "b")
	service := testkit.Service{Clusters: testkit.Clusters(a, b), Attempts: 2}
	service.Clusters[0].More = map[string]any{"childPolicy": detection(failurePercentage())}
	cc := dial(t, service)
	if got := call(t, cc); got != "a" {
		t.Fatalf("answer from %s: want a", got)
	}
	for range 2 { // it is ejected each time
		a.Script(testkit.U)
		last := time.Now() // when a call began that came to a
		testkit.Eventually(t, "the primary is ejected", func() bool {
			before, began := a.Count(), time.Now()
			if got := call(t, cc); got != "b" {
				t.Fatalf("answer from %s: want b", got)
			}
			if a.Count() == before {
				return true
			}
			last = began
			return false
		})
		var trail composite.Trail
		a.Script(testkit.OK) // and forgets its calls
		call(t, cc, composite.RecordTrail(&trail))
		if n := len(trail.Attempts); n != 1 || trail.Attempts[0].Cluster != "b" || len(trail.Attempts[0].Skipped) != 1 {
			t.Errorf("trail %+v: want one attempt, on b, past a", trail.Attempts)
		}
		testkit.Eventually(t, "the primary is back", func() bool { return call(t, cc) == "a" })
		if got := time.Since(last); got < ejectionTime {
			t.Errorf("the primary is back after %v: want its ejection to last %v", got, ejectionTime)
		}
	}
}

// TestEjectedHostOfACluster has one bad host of three: the cluster goes on without
// it, and the next one is not needed.
func TestEjectedHostOfACluster(t *testing.T) {
	for name, ejection := range map[string]map[string]any{"success rate": successRate(), "failure percentage": failurePercentage()} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bad, good, fine, b := testkit.Start(t, "bad"), testkit.Start(t, "good"), testkit.Start(t, "fine"), testkit.Start(t, "b")
			ejection["baseEjectionTime"], ejection["maxEjectionTime"] = "300s", "300s"
			cc := dial(t, testkit.Service{Attempts: 2, Clusters: append([]testkit.Cluster{
				hosts(t, "a", map[string]any{"childPolicy": detection(ejection)}, bad, good, fine),
			}, testkit.Clusters(b)...)})
			bad.Script(testkit.U)
			testkit.Eventually(t, "all hosts are called", func() bool {
				call(t, cc)
				return bad.Count() > 0 && good.Count() > 0 && fine.Count() > 0
			})
			testkit.Eventually(t, "the bad host is ejected", func() bool {
				before := bad.Count()
				for range 10 {
					call(t, cc)
				}
				return bad.Count() == before
			})
			b.Script(testkit.OK)
			for range 30 {
				if got := call(t, cc); got != "good" && got != "fine" {
					t.Errorf("answer from %s: want one of the good hosts", got)
				}
			}
			if got := b.Count(); got != 0 {
				t.Errorf("%d calls of the next cluster: want none", got)
			}
		})
	}
}

// TestEmptyClusterBelowOutlierDetection has a composite policy below outlier detection, which
// hands on what that says of an empty list: that it is one cluster's alone.
func TestEmptyClusterBelowOutlierDetection(t *testing.T) {
	t.Parallel()
	c := testkit.Start(t, "c")
	inner := testkit.Service{Clusters: []testkit.Cluster{{Name: "c", Target: c.Target()}, {Name: "d"}}}
	cc := dial(t, testkit.Service{Clusters: []testkit.Cluster{{Name: "n", Target: testkit.EmptyTarget, More: map[string]any{
		"childPolicy": []any{map[string]any{"outlier_detection_experimental": map[string]any{
			"childPolicy": []any{map[string]any{"composite": inner.Policy()}},
		}}},
	}}}})
	if got := call(t, cc); got != "c" {
		t.Errorf("answer from %s: want c", got)
	}
}
