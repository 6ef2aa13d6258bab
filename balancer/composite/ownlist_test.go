package composite_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

	"github.com/grpc-composite/grpc-composite/balancer/composite"
	"github.com/grpc-composite/grpc-composite/internal/testkit"
)

// TestWithClusters has clusters a, b and c of servers that are up, answer
// UNAVAILABLE (U), or have no host (D).
func TestWithClusters(t *testing.T) {
	last, again := map[string]any{"overflow": "USE_LAST_CLUSTER"}, map[string]any{"overflow": "ROUND_ROBIN"}
	alone, next := map[string]any{"skipClustersWithoutHosts": false}, map[string]any{"progression": "NEXT_CLUSTER"}
	for _, tc := range []struct {
		name     string
		servers  string // of a, b, c
		list     string
		start    int // given to WithAttempt
		attempts int // default 3
		policy   map[string]any
		counts   string
		code     codes.Code
		parts    []string
	}{
		{name: "its own order", servers: "OK OK OK", list: "c a", counts: "0/0/1"},
		{name: "for all attempts", servers: "U U U", list: "c a b", counts: "1/1/1", code: codes.Unavailable},
		{name: "one cluster", servers: "OK U OK", list: "b", counts: "0/1/0", code: codes.Unavailable, parts: []string{"scripted", "past the end of the list of 1 (b)"}},
		{name: "one slot each", servers: "U OK OK", list: "a b", counts: "1/1/0"},
		{name: "a name twice", servers: "U U OK", list: "a a b", counts: "2/1/0", code: codes.Unavailable},
		{name: "over one without a host", servers: "OK OK D", list: "c b", counts: "0/1/0"},
		{name: "none has a host", servers: "OK D D", list: "c b", attempts: 1, counts: "0/0/0", code: codes.Unavailable, parts: []string{"c skipped: ", "; b skipped: "}},
		{name: "past its end", servers: "U U U", list: "c a", counts: "1/0/1", code: codes.Unavailable, parts: []string{"past the end of the list of 2 (c; a)"}},
		{name: "past its end, to its last", servers: "U U U", list: "c a", attempts: 5, policy: last, counts: "4/0/1", code: codes.Unavailable},
		{name: "past its end, from its start", servers: "U U U", list: "c a", attempts: 5, policy: again, counts: "2/0/3", code: codes.Unavailable},
		{name: "without skipping", servers: "OK OK D", list: "c a", attempts: 1, policy: alone, counts: "0/0/0", code: codes.Unavailable, parts: []string{"c skipped"}},
		{name: "without skipping, the next attempt", servers: "OK OK D", list: "c a", policy: alone, counts: "1/0/0"},
		{name: "a failover does not shift it", servers: "OK U D", list: "c b a", counts: "1/2/0"},
		{name: "unless the progression says so", servers: "OK U D", list: "c b a", policy: next, counts: "1/1/0"},
		{name: "from a later attempt on", servers: "U OK U", list: "c a b", start: 2, counts: "1/1/0"},
		{name: "from past its end", servers: "OK OK OK", list: "c a", start: 3, counts: "0/0/0", code: codes.Unavailable, parts: []string{"attempt 3", "past the end of the list of 2 (c; a)"}},
		{name: "all that at once", servers: "U D U", list: "b a c a", start: 2, attempts: 5, policy: map[string]any{"overflow": "ROUND_ROBIN", "progression": "NEXT_CLUSTER"}, counts: "3/0/2", code: codes.Unavailable},

		{name: "a name that the config does not have", servers: "OK OK OK", list: "a d", counts: "0/0/0", code: codes.Internal, parts: []string{`WithClusters: "d": must be the name of a cluster, and the config has a, b, c`}},
		{name: "no name", servers: "OK OK OK", list: "", counts: "0/0/0", code: codes.Internal, parts: []string{`WithClusters: 0 names: must be 1 to 64, and the config has a, b, c`}},
		{name: "64 names", servers: "OK OK OK", list: strings.Repeat("c ", 64), counts: "0/0/1"},
		{name: "65 names", servers: "OK OK OK", list: strings.Repeat("c ", 65), counts: "0/0/0", code: codes.Internal, parts: []string{`WithClusters: 65 names: must be 1 to 64, and the config has a, b, c`}},
	} {
		for _, kind := range rpcKinds {
			t.Run(tc.name+"/"+kind.name, func(t *testing.T) {
				t.Parallel()
				backends, clusters := startTiers(t, tc.servers)
				attempts := 3
				if tc.attempts > 0 {
					attempts = tc.attempts
				}
				cc := dial(t, testkit.Service{Clusters: clusters, Attempts: attempts, More: tc.policy})
				ctx := composite.WithClusters(testkit.Context(t), strings.Fields(tc.list)...)
				if tc.start > 0 {
					ctx = composite.WithAttempt(ctx, tc.start)
				}
				err := kind.call(ctx, cc)
				checkError(t, err, tc.code, tc.parts...)
				if got := testkit.Counts(backends...); got != tc.counts {
					t.Errorf("calls %s (%v): want %s", got, err, tc.counts)
				}
				// The next RPC has the config's list again.
				for _, b := range backends {
					b.Script(testkit.OK)
				}
				_, _ = testkit.Unary(testkit.Context(t), cc)
				if want := strings.Fields(tc.servers)[0]; (backends[0].Count() == 1) != (want != "D") {
					t.Errorf("the next RPC: calls %s", testkit.Counts(backends...))
				}
			})
		}
	}
}

// startTiers starts a server for each of the words OK, U (unavailable) and D, which
// has no host, and returns clusters a, b and so on of them.
func startTiers(t testing.TB, words string) (backends []*testkit.Backend, clusters []testkit.Cluster) {
	t.Helper()
	backends = startScripted(t, words)
	clusters = testkit.Clusters(backends...)
	for i, word := range strings.Fields(words) {
		if word == "D" {
			clusters[i].Target = testkit.EmptyTarget
			clusters[i].More = map[string]any{"connectTimeout": "0s"}
		}
	}
	return backends, clusters
}

func TestWithClustersIsAboutOneRPC(t *testing.T) {
	t.Parallel()
	backends := startAll(t, "a", "b", "c")
	cc := dial(t, testkit.Service{Clusters: testkit.Clusters(backends...)})
	names := []string{"c", "b"}
	ctx := composite.WithClusters(testkit.Context(t), names...)
	names[0] = "a" // the caller's own
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 20 {
				if got, err := testkit.Unary(ctx, cc); got != "c" {
					t.Errorf("answer from %q (%v): want c", got, err)
				}
				if got, err := testkit.Unary(composite.WithClusters(ctx, "b"), cc); got != "b" {
					t.Errorf("with another list: answer from %q (%v), want b", got, err)
				}
				if got, err := testkit.Unary(testkit.Context(t), cc); got != "a" {
					t.Errorf("without a list: answer from %q (%v), want a", got, err)
				}
			}
		})
	}
	wg.Wait()
}

// TestWithClustersAndNestedCalls makes an RPC on another channel on the way of one
// that has a list, and one in a policy inside another.
func TestWithClustersAndNestedCalls(t *testing.T) {
	t.Parallel()
	backends := startAll(t, "a", "b")
	other := dial(t, testkit.Service{Clusters: testkit.Clusters(backends...)})
	var others []string
	noting := func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoker grpc.UnaryInvoker, opts ...grpc.CallOption) error {
		name, err := testkit.Unary(ctx, other)
		if err != nil {
			return err
		}
		others = append(others, name)
		return invoker(ctx, method, req, reply, cc, opts...)
	}
	cc := dial(t, testkit.Service{Clusters: testkit.Clusters(backends...)}, grpc.WithChainUnaryInterceptor(noting))
	if got, err := testkit.Unary(composite.WithClusters(testkit.Context(t), "b"), cc); got != "b" {
		t.Errorf("answer from %q (%v): want b", got, err)
	}
	if !slices.Equal(others, []string{"a"}) {
		t.Errorf("on the other channel: answers from %v, want a", others)
	}

	inner := testkit.Service{Clusters: testkit.Clusters(startAll(t, "c", "d")...)}
	outer := dial(t, testkit.Service{Clusters: append(testkit.Clusters(backends[0]), nested("N", inner))})
	if got, err := testkit.Unary(composite.WithClusters(testkit.Context(t), "N"), outer); got != "c" {
		t.Errorf("in the nested policy: answer from %q (%v), want c", got, err)
	}
	_, err := testkit.Unary(composite.WithClusters(testkit.Context(t), "d"), outer)
	checkError(t, err, codes.Internal, `WithClusters: "d": must be the name of a cluster, and the config has a, N`)
}

// TestListedClusterIsRemoved removes a cluster of an RPC's list, and then all of
// them, while the RPC is under way.
func TestListedClusterIsRemoved(t *testing.T) {
	for _, tc := range []struct {
		name   string
		list   string
		left   string // clusters of the new config
		counts string
		code   codes.Code
		parts  []string
	}{
		{name: "the next", list: "a b c", left: "a c d", counts: "1/0/1/0"},
		{name: "one in the middle", list: "a b d", left: "a d", counts: "1/0/0/1"},
		{name: "the one in use", list: "a b c", left: "b c", counts: "1/1/0/0"},
		{name: "the last", list: "a b", left: "a c", counts: "1/0/0/0", code: codes.Unavailable, parts: []string{"attempt 3: no host available", "past the end of the list of 2 (a; b)"}},
		{name: "all", list: "a b", left: "c", counts: "1/0/0/0", code: codes.Unavailable, parts: []string{"past the end of the list of 2 (a; b)", "attempt 2: no host available", "b skipped: removed"}},
		{name: "none, in another order", list: "a b", left: "d b a c", counts: "1/1/0/0"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			backends := startAll(t, "a", "b", "c", "d")
			service := testkit.Service{Clusters: testkit.Clusters(backends...), Attempts: 4}
			live := dialLive(t, service)
			for _, b := range backends {
				if got, err := testkit.Unary(composite.WithClusters(testkit.Context(t), b.Name), live.cc); got != b.Name {
					t.Fatalf("answer from %q (%v): want %s", got, err, b.Name)
				}
				b.Script(testkit.OK)
			}
			changed := make(chan struct{})
			backends[0].Respond(func(int, testkit.Call) testkit.Reply {
				<-changed
				return testkit.U
			})
			result := make(chan error, 1)
			go func() {
				result <- unaryRPC(composite.WithClusters(testkit.Context(t), strings.Fields(tc.list)...), live.cc)
			}()
			testkit.Eventually(t, "the first attempt", func() bool { return backends[0].Count() == 1 })
			service.Clusters = relist(service.Clusters, tc.left)
			live.set(t, service)
			close(changed)
			checkError(t, <-result, tc.code, tc.parts...)
			if got := testkit.Counts(backends...); got != tc.counts {
				t.Errorf("calls %s: want %s", got, tc.counts)
			}
		})
	}
}

// wordAt is the i-th word of a text.
func wordAt(words string, i int) string { return strings.Fields(words)[i] }

// TestListIsKnownToEachRPC uses one context for RPCs on channels of which one does
// not have a cluster of its list.
func TestListIsKnownToEachRPC(t *testing.T) {
	t.Parallel()
	backends := startAll(t, "a", "b")
	both := dial(t, testkit.Service{Clusters: testkit.Clusters(backends...)})
	one := dial(t, testkit.Service{Clusters: testkit.Clusters(backends[1])})
	ctx := composite.WithClusters(testkit.Context(t), "a", "b")
	if got, err := testkit.Unary(ctx, both); got != "a" {
		t.Errorf("answer from %q (%v): want a", got, err)
	}
	_, err := testkit.Unary(ctx, one)
	checkError(t, err, codes.Internal, `WithClusters: "a": must be the name of a cluster, and the config has b`)
}
