package composite_test

import (
	"context"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

	"github.com/grpc-composite/grpc-composite/balancer/composite"
	"github.com/grpc-composite/grpc-composite/internal/testkit"
)

// TestTrail checks the trail of RPCs of all kinds. The clusters are a, b and so
// on: U is unavailable, OK healthy, D has a closed port, H sends a header before
// it fails, P is refused permission.
func TestTrail(t *testing.T) {
	replies := map[string]testkit.Reply{
		"U": testkit.U, "OK": answering, "D": answering, "P": fails(codes.PermissionDenied),
		"H": {Code: codes.Unavailable, Message: "scripted", Headers: true},
	}
	for _, tc := range []struct {
		name      string
		servers   []string
		attempts  int
		retryable []string
		policy    map[string]any
		start     int
		want      string
	}{
		{name: "success", servers: []string{"OK", "OK"}, attempts: 3, want: "1 a OK committed"},
		{name: "a retry", servers: []string{"U", "OK"}, attempts: 3, want: "1 a Unavailable; 2 b OK committed"},
		{name: "no retry", servers: []string{"U", "OK"}, want: "1 a Unavailable"},
		{name: "a code that is not retried", servers: []string{"P", "OK"}, attempts: 3, want: "1 a PermissionDenied"},
		{name: "retries exhausted", servers: []string{"U", "U", "OK"}, attempts: 2, want: "1 a Unavailable; 2 b Unavailable"},
		{name: "a code that is not retried, later", servers: []string{"U", "P"}, attempts: 3, want: "1 a Unavailable; 2 b PermissionDenied"},
		{name: "a skip", servers: []string{"D", "OK"}, attempts: 3, want: "1 b OK committed past a:transient_failure"},
		{name: "a skip, and a retry", servers: []string{"D", "U", "OK"}, attempts: 3, want: "1 b Unavailable past a:transient_failure; 2 b Unavailable; 3 c OK committed"},
		{name: "a retry, and a skip", servers: []string{"U", "D", "OK"}, attempts: 3, want: "1 a Unavailable; 2 c OK committed past b:transient_failure"},
		{name: "a header commits", servers: []string{"H", "OK"}, attempts: 3, want: "1 a Unavailable committed"},
		{name: "a header commits a retry", servers: []string{"U", "H", "OK"}, attempts: 3, want: "1 a Unavailable; 2 b Unavailable committed"},
		{name: "no host", servers: []string{"D", "D"}, attempts: 2, want: "1 - Unavailable unsent past a:transient_failure,b:transient_failure; 2 - Unavailable unsent past b:transient_failure"},
		{name: "no host, and no retry", servers: []string{"D", "D"}, want: "1 - Unavailable unsent past a:transient_failure,b:transient_failure"},
		{name: "no host ends the RPC", servers: []string{"U", "D"}, attempts: 5, policy: map[string]any{"noHost": "FAIL_REQUEST"}, want: "1 a Unavailable; 2 - Unavailable unsent past b:transient_failure"},
		{name: "no host in the own slot", servers: []string{"D", "OK", "OK"}, policy: map[string]any{"skipClustersWithoutHosts": false}, want: "1 - Unavailable unsent past a:transient_failure"},
		{name: "no host in the own slot, and a retry", servers: []string{"D", "OK", "OK"}, attempts: 3, policy: map[string]any{"skipClustersWithoutHosts": false}, want: "1 - Unavailable unsent past a:transient_failure; 2 b OK committed"},
		{name: "past the end", servers: []string{"U", "U"}, attempts: 5, want: "1 a Unavailable; 2 b Unavailable; 3 - Unavailable unsent"},
		{name: "past the end, Envoy's way", servers: []string{"P"}, attempts: 5, retryable: []string{"PERMISSION_DENIED"}, policy: map[string]any{"noHost": "FAIL_REQUEST"}, want: "1 a PermissionDenied; 2 - Unavailable unsent"},
		{name: "past the end, with a code that a picker may not use", servers: []string{"P"}, attempts: 5, retryable: []string{"PERMISSION_DENIED"}, want: "1 a PermissionDenied; 2 - PermissionDenied unsent"},
		{name: "past the end, to the last cluster", servers: []string{"U", "U"}, attempts: 4, policy: map[string]any{"overflow": "USE_LAST_CLUSTER"}, want: "1 a Unavailable; 2 b Unavailable; 3 b Unavailable; 4 b Unavailable"},
		{name: "past the end, round robin", servers: []string{"U", "D", "U"}, attempts: 5, policy: map[string]any{"overflow": "ROUND_ROBIN"}, want: "1 a Unavailable; 2 c Unavailable past b:transient_failure; 3 c Unavailable; 4 a Unavailable; 5 c Unavailable past b:transient_failure"},
		{name: "the next cluster", servers: []string{"D", "U", "OK"}, attempts: 3, policy: map[string]any{"progression": "NEXT_CLUSTER"}, want: "1 b Unavailable past a:transient_failure; 2 c OK committed"},
		{name: "from attempt 2 on", servers: []string{"OK", "U", "OK"}, attempts: 3, start: 2, want: "2 b Unavailable; 3 c OK committed"},
		{name: "from past the end on", servers: []string{"OK"}, attempts: 3, start: 2, want: "2 - Unavailable unsent"},
	} {
		for _, kind := range trailKinds {
			t.Run(tc.name+"/"+kind.name, func(t *testing.T) {
				t.Parallel()
				var backends []*testkit.Backend
				var clusters []testkit.Cluster
				for i, word := range tc.servers {
					b := testkit.Start(t, string(rune('a'+i)))
					b.Script(replies[word])
					c := testkit.Clusters(b)[0]
					if word == "D" {
						c = closedCluster(b.Name)
					}
					backends, clusters = append(backends, b), append(clusters, c)
				}
				cc := dial(t, testkit.Service{Clusters: clusters, Attempts: tc.attempts, Retryable: tc.retryable, More: tc.policy})
				ctx := testkit.Context(t)
				if tc.start != 0 {
					ctx = composite.WithAttempt(ctx, tc.start)
				}
				trail, _ := record(ctx, t, cc, kind.call)
				checkStory(t, trail, tc.want, backends...)
			})
		}
	}
}

// TestTrailOfTimeouts checks the trail of RPCs that take too long.
func TestTrailOfTimeouts(t *testing.T) {
	hole, _ := testkit.BlackHole(t)
	hangs := testkit.Reply{Hang: true}
	slow := func(b *testkit.Backend) testkit.Cluster {
		c := testkit.Clusters(b)[0]
		c.More = map[string]any{"attemptTimeout": "0.05s"}
		return c
	}
	fast := func(b *testkit.Backend) testkit.Cluster { return testkit.Clusters(b)[0] }
	connecting := func(b *testkit.Backend) testkit.Cluster {
		return testkit.Cluster{Name: b.Name, Target: "passthrough:///" + hole}
	}
	closed := func(b *testkit.Backend) testkit.Cluster { return closedCluster(b.Name) }
	for _, tc := range []struct {
		name     string
		reply    testkit.Reply // of a
		a, b     func(*testkit.Backend) testkit.Cluster
		attempts int
		opts     []grpc.CallOption
		settled  bool   // an RPC was made before, so that all clusters are connected or down
		end      string // "deadline", "cancel" when a was called, or "" for neither
		want     string
	}{
		{name: "attempt timeout", reply: hangs, a: slow, b: fast, attempts: 2, want: "1 a DeadlineExceeded; 2 b OK committed"},
		{name: "attempt timeout, and no retry", reply: hangs, a: slow, b: fast, want: "1 a DeadlineExceeded"},
		{name: "deadline", reply: hangs, a: fast, b: fast, settled: true, end: "deadline", want: "1 a DeadlineExceeded"},
		{name: "cancelled", reply: hangs, a: fast, b: fast, attempts: 2, end: "cancel", want: "1 a Canceled"},
		{name: "deadline while connecting", a: connecting, b: fast, end: "deadline", want: "1 a DeadlineExceeded unsent"},
		{name: "deadline while waiting for a host", a: closed, b: closed, opts: []grpc.CallOption{grpc.WaitForReady(true)}, settled: true, end: "deadline", want: "1 - DeadlineExceeded unsent past a:transient_failure,b:transient_failure"},
		{name: "a wait for ready that finds one", a: closed, b: fast, attempts: 2, opts: []grpc.CallOption{grpc.WaitForReady(true)}, want: "1 b OK committed past a:transient_failure"},
	} {
		for _, kind := range trailKinds {
			t.Run(tc.name+"/"+kind.name, func(t *testing.T) {
				t.Parallel()
				backends := startAnswering(t, "OK OK")
				cc := dial(t, testkit.Service{
					Clusters: []testkit.Cluster{tc.a(backends[0]), tc.b(backends[1])},
					Attempts: tc.attempts, Retryable: []string{"DEADLINE_EXCEEDED"},
				})
				if tc.settled {
					_ = unaryRPC(testkit.Context(t), cc)
				}
				backends[0].Script(tc.reply)
				ctx, cancel := context.WithCancel(testkit.Context(t))
				defer cancel()
				switch tc.end {
				case "deadline":
					ctx, cancel = context.WithTimeout(ctx, 100*time.Millisecond)
					defer cancel()
				case "cancel":
					backends[0].Respond(func(int, testkit.Call) testkit.Reply {
						cancel()
						return tc.reply
					})
				}
				trail, _ := record(ctx, t, cc, kind.call, tc.opts...)
				checkStory(t, trail, tc.want, backends...)
			})
		}
	}
}
