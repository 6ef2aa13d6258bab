package composite_test

import (
	"sync"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/balancer"
	"google.golang.org/grpc/metadata"

	"github.com/grpc-composite/grpc-composite/internal/testkit"
)

type md = map[string]string

// tagged is a cluster that sends metadata with each attempt.
func tagged(name, target string, tags md) testkit.Cluster {
	c := patientCluster(name, target)
	if tags != nil {
		c.More["metadata"] = tags
	}
	return c
}

func TestMetadataReachesItsOwnCluster(t *testing.T) {
	for _, kind := range rpcKinds {
		t.Run(kind.name, func(t *testing.T) {
			t.Parallel()
			backends := startAll(t, "a", "b", "c")
			for _, b := range backends[:2] {
				b.Script(testkit.U)
			}
			const binary = "\x00\n\u00e9"
			cc := dial(t, testkit.Service{Attempts: 3, Clusters: []testkit.Cluster{
				tagged("a", backends[0].Target(), md{"x-tag": "a", "x-raw-bin": binary}),
				tagged("b", backends[1].Target(), md{"x-tag": "b", "x-empty": ""}),
				patientCluster("c", backends[2].Target()),
			}})
			ctx := metadata.AppendToOutgoingContext(testkit.Context(t), "x-tag", "mine", "x-mine", "1")
			if err := kind.call(ctx, cc); err != nil {
				t.Error(err)
			}
			wantSeen(t, "x-tag", backends, "[mine a]", "[mine b]", "[mine]")
			wantSeen(t, "x-mine", backends, "[1]", "[1]", "[1]")
			wantSeen(t, "x-raw-bin", backends, "["+binary+"]", "[]", "[]")
			if got := backends[1].Calls()[0].Metadata["x-empty"]; len(got) != 1 || got[0] != "" {
				t.Errorf("x-empty is %q: want one empty value", got)
			}
		})
	}
}

func TestMetadataIsNotDoubledByARetry(t *testing.T) {
	t.Parallel()
	a := testkit.Start(t, "a")
	a.Script(testkit.U, testkit.U, testkit.OK)
	c := tagged("a", a.Target(), md{"x-tag": "a"})
	c.More["attempts"] = 3
	cc := dial(t, testkit.Service{Attempts: 3, Clusters: []testkit.Cluster{c}})
	call(t, cc)
	wantSeen(t, "x-tag", []*testkit.Backend{a}, "[a] [a] [a]")
}

// TestMetadataIsNotDoubledByATransparentRetry has a cluster of two hosts, one of
// which refuses every stream.
func TestMetadataIsNotDoubledByATransparentRetry(t *testing.T) {
	t.Parallel()
	raw, a := testkit.StartRaw(t, "raw", testkit.RawRefuse), testkit.Start(t, "a")
	r := testkit.NewResolver(t)
	_ = r.UpdateAddrs(raw.Addr, a.Addr)
	cc := dial(t, testkit.Service{Clusters: []testkit.Cluster{tagged("a", r.Target(), md{"x-tag": "a"})}})
	ctx := testkit.Context(t)
	testkit.Eventually(t, "a call that one host refuses and the other answers", func() bool {
		before := raw.Streams()
		err := unaryRPC(ctx, cc)
		return err == nil && raw.Streams() > before
	})
	for _, call := range a.Calls() {
		if got := call.Metadata["x-tag"]; len(got) != 1 {
			t.Fatalf("x-tag is %q: want it once", got)
		}
	}
}

// taggingChannel has a child policy's picks carry metadata of their own. All of
// them share it, as a policy may do that never changes it.
type taggingChannel struct {
	balancer.ClientConn
	tags metadata.MD
}

func (c taggingChannel) UpdateState(s balancer.State) {
	s.Picker = taggingPicker{s.Picker, c.tags}
	c.ClientConn.UpdateState(s)
}

type taggingPicker struct {
	balancer.Picker
	tags metadata.MD
}

func (p taggingPicker) Pick(info balancer.PickInfo) (balancer.PickResult, error) {
	result, err := p.Picker.Pick(info)
	result.Metadata = p.tags
	return result, err
}

// TestMetadataJoinsTheChilds has a child policy send metadata of its own: alone,
// and with its cluster's.
func TestMetadataJoinsTheChilds(t *testing.T) {
	for _, tc := range []struct {
		name             string
		cluster          md
		xTag, xOwn, xKid string
	}{
		{"alone", nil, "[kid]", "[]", "[1]"},
		{"with the cluster's", md{"x-tag": "cluster", "x-own": "2"}, "[kid cluster]", "[2]", "[1]"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			a := testkit.Start(t, "a")
			policy := testkit.NewPolicy(t)
			kids := metadata.Pairs("x-tag", "kid", "x-kid", "1")
			policy.OnUpdate = func(c *testkit.PolicyChild, s balancer.ClientConnState) error {
				c.CC = taggingChannel{c.CC, kids}
				return c.Connect(s)
			}
			c := tagged("a", a.Target(), tc.cluster)
			c.More["childPolicy"] = policy.Config()
			cc := dial(t, testkit.Service{Clusters: []testkit.Cluster{c}})
			call(t, cc)
			backends := []*testkit.Backend{a}
			wantSeen(t, "x-tag", backends, tc.xTag)
			wantSeen(t, "x-own", backends, tc.xOwn)
			wantSeen(t, "x-kid", backends, tc.xKid)
			var wg sync.WaitGroup
			for range 8 {
				wg.Go(func() { call(t, cc) })
			}
			wg.Wait()
			for _, call := range a.Calls() {
				if got := len(call.Metadata["x-tag"]); got != len(a.Calls()[0].Metadata["x-tag"]) {
					t.Errorf("x-tag is %q: want it as in the first call", call.Metadata["x-tag"])
				}
			}
		})
	}
}

func TestMetadataOfNestedClusters(t *testing.T) {
	t.Parallel()
	backends := startAll(t, "c", "d", "b")
	for _, b := range backends[:2] {
		b.Script(testkit.U)
	}
	n := nestedPatiently("N", testkit.Service{Clusters: []testkit.Cluster{
		tagged("c", backends[0].Target(), md{"x-tag": "inner"}),
		patientCluster("d", backends[1].Target()),
	}})
	n.More["metadata"] = md{"x-tag": "outer"}
	cc := dial(t, testkit.Service{Attempts: 3, Clusters: []testkit.Cluster{n, relisted("N"), patientCluster("b", backends[2].Target())}})
	call(t, cc)
	wantSeen(t, "x-tag", backends, "[inner outer]", "[outer]", "[]")
}

// TestMetadataChangesWithTheConfig keeps the connection.
func TestMetadataChangesWithTheConfig(t *testing.T) {
	t.Parallel()
	var conns atomic.Int32
	a := testkit.Start(t, "a", grpc.StatsHandler(connHandler(func() { conns.Add(1) })))
	service := func(tags md) testkit.Service {
		return testkit.Service{Clusters: []testkit.Cluster{tagged("a", a.Target(), tags)}}
	}
	live := dialLive(t, service(md{"x-tag": "1"}))
	for _, tags := range []md{{"x-tag": "1"}, {"x-tag": "2"}, nil, {"x-tag": "3", "x-other": "o"}} {
		live.set(t, service(tags))
		call(t, live.cc)
	}
	wantSeen(t, "x-tag", []*testkit.Backend{a}, "[1] [2] [] [3]")
	wantSeen(t, "x-other", []*testkit.Backend{a}, "[] [] [] [o]")
	if got := conns.Load(); got != 1 {
		t.Errorf("%d connections: want 1", got)
	}
}
