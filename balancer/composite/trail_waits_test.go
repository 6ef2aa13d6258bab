package composite_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"google.golang.org/grpc/balancer"
	"google.golang.org/grpc/connectivity"

	"github.com/grpc-composite/grpc-composite/balancer/composite"
	"github.com/grpc-composite/grpc-composite/internal/testkit"
)

// TestTrailOfWaits checks the trail of attempts that end while they wait: it has the
// cluster that they waited for, and those that they passed over for it.
func TestTrailOfWaits(t *testing.T) {
	hole, _ := testkit.BlackHole(t)
	connecting := func(name string) testkit.Cluster {
		return testkit.Cluster{Name: name, Target: "passthrough:///" + hole}
	}
	for _, tc := range []struct {
		name     string
		clusters []testkit.Cluster
		want     string
	}{
		{"a skip, and a wait", []testkit.Cluster{closedCluster("a"), connecting("b")}, "1 b DeadlineExceeded unsent past a:transient_failure"},
		{"skips on both sides of a wait", []testkit.Cluster{closedCluster("a"), connecting("b"), closedCluster("c")}, "1 b DeadlineExceeded unsent past a:transient_failure"},
	} {
		for _, kind := range trailKinds {
			t.Run(tc.name+"/"+kind.name, func(t *testing.T) {
				t.Parallel()
				cc := dial(t, testkit.Service{Clusters: tc.clusters})
				ctx, cancel := context.WithTimeout(testkit.Context(t), 200*time.Millisecond)
				defer cancel()
				trail, _ := record(ctx, t, cc, kind.call)
				checkStory(t, trail, tc.want)
			})
		}
	}
}

// TestTrailOfWaitAfterPick checks that an attempt which waits has left behind what it
// picked before: p has no host until it makes the attempt wait, and q picks a
// connection that is not ready.
func TestTrailOfWaitAfterPick(t *testing.T) {
	for _, kind := range trailKinds {
		t.Run(kind.name, func(t *testing.T) {
			t.Parallel()
			waits := &fixedPicker{err: balancer.ErrNoSubConnAvailable}
			p, policy := policyCluster(t, "p", nil)
			policy.OnUpdate = func(c *testkit.PolicyChild, _ balancer.ClientConnState) error {
				c.Report(connectivity.TransientFailure, errors.New("down"))
				return nil
			}
			p.More["maxRequests"] = 10 // has it picked for with all else that a pick looks at
			q, picker, _ := unreadyCluster(t, "q")
			cc := dial(t, testkit.Service{Clusters: []testkit.Cluster{p, q}})
			ctx, cancel := context.WithCancel(testkit.Context(t))
			defer cancel()
			over := make(chan struct{})
			go func() {
				defer close(over)
				testkit.Eventually(t, "a pick of q", func() bool { return picker.picks.Load() > 0 })
				policy.Child(t, 0).ReportPicker(connectivity.Ready, waits)
				testkit.Eventually(t, "a pick of p", func() bool { return waits.picks.Load() > 0 })
				cancel()
			}()
			trail, _ := record(ctx, t, cc, kind.call)
			<-over
			checkStory(t, trail, "1 p Canceled unsent")
		})
	}
}

// TestTrailPastNewEnd checks the trail of an attempt that waits for a cluster which a
// new config no longer has, so that it is past the end.
func TestTrailPastNewEnd(t *testing.T) {
	for _, kind := range trailKinds {
		t.Run(kind.name, func(t *testing.T) {
			t.Parallel()
			waits := &fixedPicker{err: balancer.ErrNoSubConnAvailable}
			p, _ := policyCluster(t, "p", waits)
			backends := startAll(t, "a")
			s := testkit.Service{Clusters: append(testkit.Clusters(backends...), p)}
			live := dialLive(t, s)
			live.set(t, s)
			over := make(chan struct{})
			go func() {
				defer close(over)
				testkit.Eventually(t, "a pick of p", func() bool { return waits.picks.Load() > 0 })
				s.Clusters = s.Clusters[:1]
				live.set(t, s)
			}()
			trail, _ := record(composite.WithAttempt(testkit.Context(t), 2), t, live.cc, kind.call)
			<-over
			checkStory(t, trail, "2 - Unavailable unsent")
		})
	}
}
