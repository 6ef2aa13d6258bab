package composite_test

import (
	"context"
	"errors"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/balancer"
	"google.golang.org/grpc/balancer/base"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"

	"github.com/grpc-composite/grpc-composite/balancer/composite"
	"github.com/grpc-composite/grpc-composite/internal/testkit"
)

// TestSkipReasons checks what a trail says of a cluster, a, that an attempt passes
// over for another, b.
func TestSkipReasons(t *testing.T) {
	hole, _ := testkit.BlackHole(t)
	errPick := errors.New("the child cannot pick")
	more := func(c testkit.Cluster, fields map[string]any) testkit.Cluster {
		c.More = fields
		return c
	}
	for _, tc := range []struct {
		name string
		// cluster makes a, whose server has this target.
		cluster func(t *testing.T, target string) testkit.Cluster
		// before brings a, and with it cc, to where a is passed over.
		before func(t *testing.T, cc *grpc.ClientConn, a *testkit.Backend)
		reason string
		is     error  // what the skip's error is
		text   string // or has in it
	}{
		{
			name:    "a closed port",
			cluster: func(*testing.T, string) testkit.Cluster { return closedCluster("a") },
			reason:  "transient_failure", text: "connection refused",
		},
		{
			name: "no endpoints",
			cluster: func(*testing.T, string) testkit.Cluster {
				return testkit.Cluster{Name: "a", Target: testkit.EmptyTarget}
			},
			reason: "no_endpoints", text: testkit.EmptyTarget + " resolved to none",
		},
		{
			name: "a connection that takes too long",
			cluster: func(*testing.T, string) testkit.Cluster {
				return more(testkit.Cluster{Name: "a", Target: "passthrough:///" + hole}, map[string]any{"connectTimeout": "0.05s"})
			},
			reason: "connect_timeout",
		},
		{
			name: "no time to connect",
			cluster: func(*testing.T, string) testkit.Cluster {
				return more(testkit.Cluster{Name: "a", Target: "passthrough:///" + hole}, map[string]any{"connectTimeout": "0s", "lazy": true})
			},
			reason: "connect_timeout",
		},
		{
			name: "too many requests",
			cluster: func(_ *testing.T, target string) testkit.Cluster {
				return more(testkit.Cluster{Name: "a", Target: target}, map[string]any{"maxRequests": 1})
			},
			before: func(t *testing.T, cc *grpc.ClientConn, a *testkit.Backend) {
				t.Helper()
				a.Script(testkit.Reply{Hang: true})
				ctx, cancel := context.WithCancel(testkit.Context(t))
				done := make(chan struct{})
				go func() {
					defer close(done)
					_ = unaryRPC(ctx, cc)
				}()
				t.Cleanup(func() { cancel(); <-done })
				testkit.Eventually(t, "a call of a", func() bool { return a.Count() == 1 })
			},
			reason: "max_requests",
		},
		{
			name: "a rest",
			cluster: func(_ *testing.T, target string) testkit.Cluster {
				return more(testkit.Cluster{Name: "a", Target: target}, map[string]any{"cooldown": map[string]any{"consecutiveFailures": 1, "time": "60s"}})
			},
			before: func(t *testing.T, cc *grpc.ClientConn, a *testkit.Backend) {
				t.Helper()
				a.Script(testkit.U)
				_ = unaryRPC(testkit.Context(t), cc)
			},
			reason: "cooldown",
		},
		{
			name: "back, but not for long",
			cluster: func(_ *testing.T, target string) testkit.Cluster {
				return more(testkit.Cluster{Name: "a", Target: target}, map[string]any{"failbackDelay": "60s"})
			},
			before: func(t *testing.T, cc *grpc.ClientConn, a *testkit.Backend) {
				t.Helper()
				a.Stop()
				testkit.AwaitServer(t, cc, "b")
				a.Restart(t)
				testkit.Eventually(t, "a is held back", func() bool {
					var trail composite.Trail
					_ = unaryRPC(testkit.Context(t), cc, composite.RecordTrail(&trail))
					return story(trail) == "1 b OK committed past a:failback_delay"
				})
			},
			reason: "failback_delay",
		},
		{
			name: "a child that cannot pick",
			cluster: func(t *testing.T, _ string) testkit.Cluster {
				t.Helper()
				c, _ := policyCluster(t, "a", base.NewErrPicker(errPick))
				return c
			},
			reason: "pick_error", is: errPick,
		},
		{
			name: "a child that refuses its endpoints",
			cluster: func(t *testing.T, _ string) testkit.Cluster {
				t.Helper()
				policy := testkit.NewPolicy(t)
				policy.OnUpdate = func(*testkit.PolicyChild, balancer.ClientConnState) error { return errPick }
				return more(testkit.Cluster{Name: "a", Target: "passthrough:///" + testkit.ClosedPort}, map[string]any{"childPolicy": policy.Config()})
			},
			reason: "transient_failure", is: errPick,
		},
	} {
		for _, kind := range trailKinds {
			t.Run(tc.name+"/"+kind.name, func(t *testing.T) {
				t.Parallel()
				backends := startAnswering(t, "OK OK")
				s := testkit.Service{Clusters: testkit.Clusters(backends...)}
				s.Clusters[0] = tc.cluster(t, backends[0].Target())
				cc := dial(t, s)
				if err := unaryRPC(composite.WithAttempt(testkit.Context(t), 2), cc); err != nil {
					t.Fatal(err) // b is connected
				}
				if tc.before != nil {
					testkit.AwaitServer(t, cc, "a")
					tc.before(t, cc, backends[0])
				}
				trail, err := record(testkit.Context(t), t, cc, kind.call)
				if err != nil {
					t.Fatal(err)
				}
				checkStory(t, trail, "1 b OK committed past a:"+tc.reason, backends...)
				checkCause(t, trail.Attempts[0].Skipped[0].Err, tc.is, tc.text)
			})
		}
	}
}

// TestSkipOfIdleChild checks what a trail says of a cluster that has no host, and
// whose child, being IDLE, is asked all the same, as ring_hash has to be.
func TestSkipOfIdleChild(t *testing.T) {
	waits := &fixedPicker{err: balancer.ErrNoSubConnAvailable}
	for _, tc := range []struct {
		name   string
		idle   balancer.Picker
		reason string
	}{
		{"it connects", waits, "transient_failure"},
		{"it cannot pick", base.NewErrPicker(errors.New("the child cannot pick")), "pick_error"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			a, policy := policyCluster(t, "a", waits)
			backends := startAnswering(t, "OK OK")
			cc := dial(t, testkit.Service{Clusters: []testkit.Cluster{a, testkit.Clusters(backends...)[1]}})
			if err := unaryRPC(composite.WithAttempt(testkit.Context(t), 2), cc); err != nil {
				t.Fatal(err) // b is connected
			}
			child := policy.Child(t, 0)
			child.Report(connectivity.TransientFailure, errors.New("down"))
			child.ReportPicker(connectivity.Idle, tc.idle)
			trail, err := record(testkit.Context(t), t, cc, unaryRPC)
			checkError(t, err, codes.OK)
			checkStory(t, trail, "1 b OK committed past a:"+tc.reason, backends...)
		})
	}
}

// checkCause checks that an error is one and has a text, if there are any.
func checkCause(t *testing.T, err, is error, text string) {
	t.Helper()
	switch {
	case is == nil && text == "":
		if err != nil {
			t.Errorf("cause %v: want none", err)
		}
	case is != nil:
		if !errors.Is(err, is) {
			t.Errorf("cause %v: want %v", err, is)
		}
	default:
		testkit.Contains(t, err, text)
	}
}

// TestUsedThoughHeldBack checks that the trail has what an attempt passed over
// before it came back to a cluster that is held back.
func TestUsedThoughHeldBack(t *testing.T) {
	resting := map[string]any{"cooldown": map[string]any{"consecutiveFailures": 1, "time": "60s"}}
	for _, kind := range trailKinds {
		t.Run(kind.name, func(t *testing.T) {
			t.Parallel()
			backends := startScripted(t, "U U")
			clusters := append(testkit.Clusters(backends...), closedCluster("c"))
			clusters[0].More, clusters[1].More = resting, resting
			cc := dial(t, testkit.Service{Clusters: clusters})
			testkit.Eventually(t, "all clusters settle", func() bool {
				trail, _ := record(testkit.Context(t), t, cc, unaryRPC)
				return story(trail) == "1 a Unavailable past b:cooldown,c:transient_failure"
			})
			trail, err := record(testkit.Context(t), t, cc, kind.call)
			checkError(t, err, codes.Unavailable)
			checkStory(t, trail, "1 a Unavailable past b:cooldown,c:transient_failure", backends...)
		})
	}
}

// TestRemovedClusterInTrail checks the trail of an RPC whose own list has a cluster
// that a new config no longer has.
func TestRemovedClusterInTrail(t *testing.T) {
	for _, kind := range trailKinds {
		t.Run(kind.name, func(t *testing.T) {
			t.Parallel()
			backends := startAnswering(t, "OK OK OK")
			s := testkit.Service{Clusters: testkit.Clusters(backends...), Attempts: 3}
			live := dialLive(t, s)
			live.set(t, s)
			less := s
			less.Clusters = []testkit.Cluster{s.Clusters[0], s.Clusters[2]}
			backends[0].Respond(func(int, testkit.Call) testkit.Reply {
				live.set(t, less)
				return testkit.U
			})
			ctx := composite.WithClusters(testkit.Context(t), "a", "b", "c")
			trail, err := record(ctx, t, live.cc, kind.call)
			checkError(t, err, codes.OK)
			checkStory(t, trail, "1 a Unavailable; 2 c OK committed past b:removed", backends...)
		})
	}
}

// TestOwnListInTrail checks the trails of RPCs with lists of their own.
func TestOwnListInTrail(t *testing.T) {
	for _, tc := range []struct {
		name string
		list []string
		want string
	}{
		{"in another order", []string{"b", "c", "a"}, "1 b Unavailable; 2 a OK committed past c:transient_failure"},
		{"twice the same", []string{"c", "b", "c", "a"}, "1 b Unavailable past c:transient_failure; 2 b Unavailable; 3 a OK committed past c:transient_failure"},
		{"nothing but a closed port", []string{"c"}, "1 - Unavailable unsent past c:transient_failure; 2 - Unavailable unsent"},
		{"past the end", []string{"b"}, "1 b Unavailable; 2 - Unavailable unsent"},
		{"an unknown name", []string{"a", "x"}, "1 - Internal unsent"},
	} {
		for _, kind := range trailKinds {
			t.Run(tc.name+"/"+kind.name, func(t *testing.T) {
				t.Parallel()
				backends := startAnswering(t, "OK U")
				s := testkit.Service{Clusters: append(testkit.Clusters(backends...), closedCluster("c")), Attempts: 4}
				trail, _ := record(composite.WithClusters(testkit.Context(t), tc.list...), t, dial(t, s), kind.call)
				checkStory(t, trail, tc.want, backends...)
			})
		}
	}
}

// TestCauseOutlivesChannel checks that an error tells why a cluster was skipped
// when it is read after the channel was closed, as by the caller of a function
// that closes it.
func TestCauseOutlivesChannel(t *testing.T) {
	t.Parallel()
	backends := startScripted(t, "U")
	cc := dial(t, testkit.Service{Clusters: []testkit.Cluster{closedCluster("down"), testkit.Clusters(backends...)[0]}})
	err := unaryRPC(testkit.Context(t), cc)
	_ = cc.Close()
	checkError(t, err, codes.Unavailable, "down skipped: transient failure (", "connection refused")
}
