package composite

import (
	"context"
	"strings"
	"testing"

	"google.golang.org/grpc/balancer"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/grpc-composite/grpc-composite/internal/attempt"
	"github.com/grpc-composite/grpc-composite/internal/plan"
)

// TestUntrackedPicks checks that no RPC goes out whose attempts are not counted from 1
// on.
func TestUntrackedPicks(t *testing.T) {
	p := pickerOf(t, "H", lbConfig{}, true)
	for want, ctx := range map[string]context.Context{
		"pass composite.DialOptions() to grpc.NewClient": context.Background(),
		"composite: attempt 0: must be at least 1":       attemptOf(t, 0, false),
		"composite: attempt -1: must be at least 1":      attemptOf(t, -1, false),
	} {
		_, err := p.Pick(balancer.PickInfo{Ctx: ctx})
		if status.Code(err) != codes.Internal || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v: want INTERNAL, %s", err, want)
		}
	}
}

// TestSharedErrors checks which picks share the error of an earlier one that found no
// host: those of which it says the same.
func TestSharedErrors(t *testing.T) {
	for _, tc := range []struct {
		name     string
		clusters string
		config   lbConfig
		change   func(p *picker, info *balancer.PickInfo) // before the second pick
		shared   bool
	}{
		{name: "the same", clusters: "nn", shared: true},
		{name: "another attempt", clusters: "nn", change: func(_ *picker, info *balancer.PickInfo) { info.Ctx = attemptOf(t, 2, false) }},
		{name: "another attempt at the same slot", clusters: "n", change: func(p *picker, info *balancer.PickInfo) {
			info.Ctx = attemptOf(t, 2, false)
			p.table.Slots = plan.NewSlots(entriesOf(1), plan.UseLastCluster, true)
		}},
		{name: "another slot of an attempt with that number", clusters: "nn", config: lbConfig{nextCluster: true}, change: func(p *picker, info *balancer.PickInfo) {
			info.Ctx = afterSlot(t, p, 0)
		}},
		{name: "another method", clusters: "nn", change: func(_ *picker, info *balancer.PickInfo) { info.FullMethodName = "/other/Method" }},
		{name: "other causes", clusters: "nn", change: func(p *picker, _ *balancer.PickInfo) { p.policy.causes.Add(1) }},
		{name: "a child's error", clusters: "ne"},
		{name: "a full cluster", clusters: "nf"},
		{name: "Envoy's way", clusters: "nn", config: lbConfig{failRequest: true}},
		{name: "an own list", clusters: "nn", change: func(p *picker, info *balancer.PickInfo) {
			p.indexByName()
			info.Ctx = attemptIn(WithClusters(context.Background(), "a", "b"), t)
		}},
		{name: "a policy inside", clusters: "nn", change: func(_ *picker, info *balancer.PickInfo) {
			info.Ctx = attemptOf(t, 1, false)
			attempt.FromContext(info.Ctx).EnterNested()
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p := pickerOf(t, tc.clusters, tc.config, true)
			info := balancer.PickInfo{FullMethodName: "/service/Method", Ctx: attemptOf(t, 1, false)}
			_, first := p.Pick(info)
			if tc.change != nil {
				tc.change(p, &info)
			}
			_, second := p.Pick(info)
			if first == nil || second == nil {
				t.Fatalf("errors %v and %v", first, second)
			}
			if got := first == second; got != tc.shared { //nolint:errorlint // the same, and not one like it
				t.Errorf("%v and %v are the same: %v, want %v", first, second, got, tc.shared)
			}
		})
	}
}

// afterSlot returns the context of an attempt 1 that comes after an attempt 0 in another
// stream, which has used a slot.
func afterSlot(t *testing.T, p *picker, slot int) context.Context {
	t.Helper()
	rpc := openRPC(WithAttempt(context.Background(), 0), t)
	stream, cancel := context.WithCancel(rpc)
	t.Cleanup(cancel)
	first := beginAttempt(stream, false)
	first.Pick()
	first.UseSlot(p.policy, slot)
	return beginAttempt(rpc, false)
}

// TestReasonsInErrors checks the words for what a pick has passed over.
func TestReasonsInErrors(t *testing.T) {
	for clusters, want := range map[string]string{
		"n":  "a skipped: transient failure",
		"e":  `a skipped: pick error ("child of a")`,
		"z":  "a skipped: connecting",
		"f":  "a skipped: max requests (1)",
		"ne": `a skipped: transient failure; b skipped: pick error ("child of b")`,
		"en": `a skipped: pick error ("child of a"); b skipped: transient failure`,
		"fz": "a skipped: max requests (1); b skipped: connecting",
	} {
		_, err := pickerOf(t, clusters, lbConfig{}, true).Pick(balancer.PickInfo{Ctx: attemptOf(t, 1, false)})
		if want = "composite: attempt 1: no host available (no_healthy_upstream): " + want; err == nil || err.Error() != want {
			t.Errorf("%s: error %v: want %s", clusters, err, want)
		}
	}
}

// TestEnvoyStyleErrorQuotesTheLast checks that an error which ends the RPC tells how
// the attempt before failed.
func TestEnvoyStyleErrorQuotesTheLast(t *testing.T) {
	r := newPickedRPC(context.Background(), t, pickerOf(t, "Hn", lbConfig{failRequest: true}, true))
	_ = r.clusters(1)
	_, err := r.next()
	const want = `composite: attempt 2: no host available (no_healthy_upstream): b skipped: transient failure; attempt 1: UNAVAILABLE "scripted"`
	if status.Code(err) != codes.Unavailable || status.Convert(err).Message() != want {
		t.Errorf("error %v: want UNAVAILABLE, %s", err, want)
	}
}
