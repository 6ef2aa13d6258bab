package composite_test

import (
	"errors"
	"math"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"

	"github.com/grpc-composite/grpc-composite/balancer/composite"
	"github.com/grpc-composite/grpc-composite/internal/testkit"
)

// TestProgression has clusters a, b and so on that are up, answer UNAVAILABLE (U),
// or have no host (D), and compares the calls that they get with NEXT_CLUSTER and
// without it.
func TestProgression(t *testing.T) {
	last, again := map[string]any{"overflow": "USE_LAST_CLUSTER"}, map[string]any{"overflow": "ROUND_ROBIN"}
	ownSlot := map[string]any{"skipClustersWithoutHosts": false}
	for _, tc := range []struct {
		name     string
		servers  string
		list     string // default: each once, in order
		attempts int    // default 3
		start    int    // given to WithAttempt
		policy   map[string]any
		byCount  string // calls with ATTEMPT_COUNT
		next     string // calls with NEXT_CLUSTER
		code     codes.Code
		parts    []string
	}{
		{name: "no failover", servers: "U U OK", byCount: "1/1/1", next: "1/1/1"},
		{name: "a failover", servers: "D U OK", byCount: "0/2/1", next: "0/1/1"},
		{name: "over two", servers: "D D U OK", attempts: 4, byCount: "0/0/3/1", next: "0/0/1/1"},
		{name: "in the second attempt", servers: "U D U OK", attempts: 4, byCount: "1/0/2/1", next: "1/0/1/1"},
		{name: "in two attempts", servers: "D U D U OK", attempts: 5, byCount: "0/2/0/2/1", next: "0/1/0/1/1"},
		{name: "the list is over sooner", servers: "D D U", attempts: 5, byCount: "0/0/3", next: "0/0/1", code: codes.Unavailable, parts: []string{"scripted", "past the end of the list of 3 (a; b; c)"}},
		{name: "no cluster has a host", servers: "D D", byCount: "0/0", next: "0/0", code: codes.Unavailable, parts: []string{"no host available", "a skipped", "b skipped"}},

		{name: "a repeated cluster", servers: "U OK", list: "a a b", byCount: "2/1", next: "2/1"},
		{name: "a failover to a repeated cluster", servers: "D U OK", list: "a b b c", attempts: 4, byCount: "0/3/1", next: "0/2/1"},
		{name: "a cluster that comes again", servers: "D U OK", list: "a b a c", attempts: 4, byCount: "0/2/1", next: "0/1/1"},
		{name: "a cluster that comes again, up", servers: "U D", list: "a b a", attempts: 4, byCount: "3/0", next: "2/0", code: codes.Unavailable},

		{name: "past the end, to the last", servers: "D U U", attempts: 5, policy: last, byCount: "0/2/3", next: "0/1/4", code: codes.Unavailable},
		{name: "past the end, to the last, which has no host", servers: "U D", policy: last, byCount: "1/0", next: "1/0", code: codes.Unavailable, parts: []string{"b skipped"}},
		{name: "past the end, from the start", servers: "U U", attempts: 4, policy: again, byCount: "2/2", next: "2/2", code: codes.Unavailable},
		{name: "past the end, from the start, over the first", servers: "D U U", attempts: 5, policy: again, byCount: "0/4/1", next: "0/3/2", code: codes.Unavailable},
		{name: "not past the end, since the last has no host", servers: "U D", attempts: 4, policy: again, byCount: "2/0", next: "1/0", code: codes.Unavailable, parts: []string{"b skipped"}},

		{name: "nothing is passed over", servers: "D U D OK", attempts: 4, policy: ownSlot, byCount: "0/1/0/1", next: "0/1/0/1"},
		{name: "nothing is passed over, past the end", servers: "D U", attempts: 4, policy: map[string]any{"skipClustersWithoutHosts": false, "overflow": "ROUND_ROBIN"}, byCount: "0/2", next: "0/2", code: codes.Unavailable},

		{name: "from a later attempt on", servers: "OK U OK", start: 2, byCount: "0/1/1", next: "0/1/1"},
		{name: "a failover from a later attempt on", servers: "OK D U OK", start: 2, byCount: "0/0/2/1", next: "0/0/1/1"},
		{name: "from past the end", servers: "OK OK", start: 3, byCount: "0/0", next: "0/0", code: codes.Unavailable, parts: []string{"attempt 3", "past the end"}},
		{name: "from past the end, from the start", servers: "U D OK", start: 4, policy: again, byCount: "1/0/1", next: "1/0/1"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			backends, clusters := startTiers(t, tc.servers)
			if tc.list != "" {
				clusters = relist(clusters, tc.list)
			}
			for _, mode := range []struct{ progression, counts string }{
				{"ATTEMPT_COUNT", tc.byCount}, {"NEXT_CLUSTER", tc.next},
			} {
				policy := map[string]any{"progression": mode.progression}
				for k, v := range tc.policy {
					policy[k] = v
				}
				attempts := 3
				if tc.attempts > 0 {
					attempts = tc.attempts
				}
				cc := dial(t, testkit.Service{Clusters: clusters, Attempts: attempts, More: policy})
				for _, kind := range rpcKinds {
					for i, b := range backends {
						if b.Script(testkit.U); wordAt(tc.servers, i) == "OK" {
							b.Script(testkit.OK)
						}
					}
					ctx := testkit.Context(t)
					if tc.start > 0 {
						ctx = composite.WithAttempt(ctx, tc.start)
					}
					err := kind.call(ctx, cc)
					code := tc.code
					checkError(t, err, code, tc.parts...)
					if got := testkit.Counts(backends...); got != mode.counts {
						t.Errorf("%s, %s: calls %s (%v), want %s", mode.progression, kind.name, got, err, mode.counts)
					}
				}
			}
		})
	}
}

// TestProgressionFarPastTheEnd starts at attempts that only a loop of the caller's
// own comes to.
func TestProgressionFarPastTheEnd(t *testing.T) {
	for _, start := range []int{1000, math.MaxInt32 - 1} {
		backends := startScripted(t, "U U OK")
		cc := dial(t, testkit.Service{Clusters: testkit.Clusters(backends...), Attempts: 3, More: map[string]any{"progression": "NEXT_CLUSTER", "overflow": "ROUND_ROBIN"}})
		if got, err := testkit.Unary(composite.WithAttempt(testkit.Context(t), start), cc); got != "c" {
			t.Errorf("from attempt %d: answer from %q (%v), want c", start, got, err)
		}
	}
}

// TestProgressionAndTransparentRetries has a server refuse streams: the attempt
// starts where it did before.
func TestProgressionAndTransparentRetries(t *testing.T) {
	for _, tc := range []struct {
		name    string
		raw     []testkit.RawReply
		servers string // that follow
		streams int
		counts  string
	}{
		{"one stream refused", []testkit.RawReply{testkit.RawRefuse, testkit.RawOK}, "OK OK", 2, "0/0"},
		{"every stream refused", []testkit.RawReply{testkit.RawRefuse}, "U OK", 2, "1/1"},
		{"every stream refused, and a failover", []testkit.RawReply{testkit.RawRefuse}, "D OK", 2, "0/1"},
		{"left out by a GOAWAY", []testkit.RawReply{testkit.RawGoAway}, "U OK", 2, "1/1"},
	} {
		for _, kind := range rpcKinds {
			t.Run(tc.name+"/"+kind.name, func(t *testing.T) {
				t.Parallel()
				raw := testkit.StartRaw(t, "raw", tc.raw...)
				backends, clusters := startTiers(t, tc.servers)
				first := testkit.Cluster{Name: "raw", Target: raw.Target()}
				cc := dial(t, testkit.Service{Clusters: append([]testkit.Cluster{first}, clusters...), Attempts: 4, More: map[string]any{"progression": "NEXT_CLUSTER"}})
				_ = kind.call(testkit.Context(t), cc)
				if got := testkit.Counts(backends...); raw.Streams() != tc.streams || got != tc.counts {
					t.Errorf("%d streams, calls %s: want %d and %s", raw.Streams(), got, tc.streams, tc.counts)
				}
			})
		}
	}
}

// TestProgressionAndRepeatedPicks has an attempt picked for twice: the first pick
// goes to p, over a, the second one to a, as a is back. What the first one used does
// not count.
func TestProgressionAndRepeatedPicks(t *testing.T) {
	for _, kind := range trailKinds {
		t.Run(kind.name, func(t *testing.T) {
			t.Parallel()
			p, picker, policy := unreadyCluster(t, "p")
			backends := startAnswering(t, "U OK")
			a := backends[0]
			a.Stop()
			clusters := testkit.Clusters(backends...)
			cc := dial(t, testkit.Service{
				Clusters: []testkit.Cluster{clusters[0], p, clusters[1]},
				Attempts: 2,
				More:     map[string]any{"progression": "NEXT_CLUSTER"},
			})
			a.Respond(func(int, testkit.Call) testkit.Reply {
				policy.Child(t, 0).Report(connectivity.TransientFailure, errors.New("down"))
				return testkit.U
			})
			over := make(chan struct{})
			go func() {
				defer close(over)
				testkit.Eventually(t, "a pick", func() bool { return picker.picks.Load() > 0 })
				a.Restart(t)
			}()
			trail, err := record(testkit.Context(t), t, cc, kind.call)
			<-over
			checkError(t, err, codes.OK)
			checkStory(t, trail, "1 a Unavailable; 2 b OK committed past p:transient_failure", backends...)
		})
	}
}

// TestProgressionOfNestedPolicies has [a, N] with N = [c, d].
func TestProgressionOfNestedPolicies(t *testing.T) {
	next := map[string]any{"progression": "NEXT_CLUSTER"}
	for _, tc := range []struct {
		name     string
		servers  string // of a, b, c, d, of which c and d are in N
		outer    string
		policy   map[string]any // of the outer one
		inner    map[string]any
		attempts int
		counts   string
		code     codes.Code
	}{
		{name: "the outer one", servers: "D OK U U", outer: "a N b", policy: next, attempts: 3, counts: "0/1/1/0"},
		{name: "neither", servers: "D OK U U", outer: "a N b", attempts: 3, counts: "0/1/1/1"},
		{name: "the inner one begins with its own list", servers: "U OK U OK", outer: "a N N", inner: next, attempts: 3, counts: "1/0/1/1"},
		{name: "while one that counts attempts does not", servers: "U OK U OK", outer: "a N N", attempts: 3, counts: "1/0/0/1"},
		{name: "both", servers: "D OK D U", outer: "a N N b", policy: next, inner: next, attempts: 4, counts: "0/1/0/1"},
		{name: "the inner one's failover", servers: "OK U D U", outer: "N N b a", inner: next, attempts: 4, counts: "1/2/0/1"},
		{name: "the inner one passes over nothing", servers: "U U D OK", outer: "N N", inner: map[string]any{"progression": "NEXT_CLUSTER", "skipClustersWithoutHosts": false}, attempts: 2, counts: "0/0/0/1"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			backends, clusters := startTiers(t, tc.servers)
			n := nested("N", testkit.Service{Clusters: clusters[2:], More: tc.inner})
			n.More["connectTimeout"] = "20s"
			list := relist([]testkit.Cluster{clusters[0], clusters[1], n}, tc.outer)
			cc := dial(t, testkit.Service{Clusters: list, Attempts: tc.attempts, More: tc.policy})
			_, err := testkit.Unary(testkit.Context(t), cc)
			checkError(t, err, tc.code)
			if got := testkit.Counts(backends...); got != tc.counts {
				t.Errorf("calls %s (%v): want %s", got, err, tc.counts)
			}
		})
	}
}

// TestProgressionOfRetriesByAnInterceptor has attempts that are streams of their
// own.
func TestProgressionOfRetriesByAnInterceptor(t *testing.T) {
	t.Parallel()
	backends, clusters := startTiers(t, "D U OK")
	cc := dial(t, testkit.Service{Clusters: clusters, More: map[string]any{"progression": "NEXT_CLUSTER"}}, grpc.WithChainUnaryInterceptor(retrying(3)))
	if got := call(t, cc); got != "c" {
		t.Errorf("answer from %s: want c", got)
	}
	if got := testkit.Counts(backends...); got != "0/1/1" {
		t.Errorf("calls %s: want 0/1/1", got)
	}
}

// TestStartBeyondAll has an RPC start at the greatest number that there is.
func TestStartBeyondAll(t *testing.T) {
	for _, overflow := range []string{"FAIL", "USE_LAST_CLUSTER", "ROUND_ROBIN"} {
		for _, progression := range []string{"ATTEMPT_COUNT", "NEXT_CLUSTER"} {
			t.Run(overflow+"/"+progression, func(t *testing.T) {
				t.Parallel()
				backends := startScripted(t, "U U U")
				cc := dial(t, testkit.Service{Clusters: patient(backends), Attempts: 4, More: map[string]any{"progression": progression, "overflow": overflow}})
				checkError(t, unaryRPC(composite.WithAttempt(testkit.Context(t), math.MaxInt), cc), codes.Unavailable)
			})
		}
	}
}
