// Package dns tests composite channels whose clusters are names of a DNS server,
// as the headless services of Kubernetes are: with records that come and go, and
// with a DNS server that fails in each way it can.
package dns

import (
	"flag"
	"slices"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/resolver/dns"

	"github.com/grpc-composite/grpc-composite/balancer/composite"
	"github.com/grpc-composite/grpc-composite/internal/testkit"
)

func TestMain(m *testing.M) {
	// gRPC waits 30 s between questions, and as long for an answer.
	dns.SetMinResolutionInterval(10 * time.Millisecond)
	dns.SetResolvingTimeout(time.Second)
	// These tests wait more than they work.
	if err := flag.Set("test.parallel", "16"); err != nil {
		panic(err)
	}
	testkit.Main(m)
}

// client is a channel with the clusters "primary", which is a DNS name, and
// "fallback".
type client struct {
	cc       *grpc.ClientConn
	fallback *testkit.Backend
}

// dial opens the channel. More are fields of the first cluster.
func dial(t *testing.T, target string, more map[string]any) client {
	t.Helper()
	fallback := testkit.Start(t, "fallback")
	clusters := append([]testkit.Cluster{{Name: "primary", Target: target, More: more}}, testkit.Clusters(fallback)...)
	config := grpc.WithDefaultServiceConfig(testkit.Service{Clusters: clusters, Attempts: 2}.JSON())
	return client{testkit.Dial(t, "composite:///", append(composite.DialOptions(), config)...), fallback}
}

// call makes an RPC, which must succeed, and returns who answered it.
func (c client) call(t *testing.T, opts ...grpc.CallOption) string {
	t.Helper()
	got, err := testkit.Unary(testkit.Context(t), c.cc, opts...)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// await calls until all of names and nobody else answer for some time.
func (c client) await(t *testing.T, names ...string) {
	t.Helper()
	testkit.Eventually(t, "answers from "+names[0], func() bool {
		var seen []string
		for range 4 * len(names) {
			got := c.call(t)
			if !slices.Contains(names, got) {
				return false
			}
			if !slices.Contains(seen, got) {
				seen = append(seen, got)
			}
		}
		return len(seen) == len(names)
	})
}

// awaitSkip calls until primary is passed over for a reason, and fallback answers
// the first attempt.
func (c client) awaitSkip(t *testing.T, reason string) {
	t.Helper()
	var trail composite.Trail
	testkit.Eventually(t, "primary is passed over: "+reason, func() bool {
		c.call(t, composite.RecordTrail(&trail))
		last := trail.Attempts[len(trail.Attempts)-1]
		return last.Number == 1 && last.Cluster == "fallback" && len(last.Skipped) == 1 && last.Skipped[0].Reason == reason
	})
}

// stopFallback stops the other cluster, and waits until RPCs fail.
func (c client) stopFallback(t *testing.T) {
	t.Helper()
	c.fallback.Stop()
	testkit.Eventually(t, "an RPC fails", func() bool {
		_, err := testkit.Unary(testkit.Context(t), c.cc)
		return err != nil
	})
}

var policies = map[string]map[string]any{
	"round_robin": nil,
	"pick_first":  {"childPolicy": []any{map[string]any{"pick_first": map[string]any{}}}},
}
