package composite

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc/balancer"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"

	"github.com/grpc-composite/grpc-composite/internal/attempt"
	"github.com/grpc-composite/grpc-composite/internal/breaker"
	"github.com/grpc-composite/grpc-composite/internal/plan"
	"github.com/grpc-composite/grpc-composite/internal/testkit"
)

// TestMetadataOfPicks checks that a cluster's metadata is added to its child's.
func TestMetadataOfPicks(t *testing.T) {
	cluster, child := metadata.Pairs("k", "cluster"), metadata.Pairs("k", "child")
	for _, tc := range []struct {
		name           string
		cluster, child metadata.MD
		want           []string
	}{
		{"none", nil, nil, nil},
		{"the cluster's", cluster, nil, []string{"cluster"}},
		{"the child's", nil, child, []string{"child"}},
		{"both", cluster, child, []string{"child", "cluster"}},
	} {
		p := pickerOf(t, "H", lbConfig{}, true)
		c := &p.clusters[0]
		c.config.metadata = tc.cluster
		c.picker.(*answer).result.Metadata = tc.child
		p.setTable(p.table)
		result, err := p.Pick(balancer.PickInfo{Ctx: attemptOf(t, 1, false)})
		if err != nil {
			t.Fatal(err)
		}
		if got := result.Metadata.Get("k"); !slices.Equal(got, tc.want) {
			t.Errorf("%s: metadata %q: want %q", tc.name, got, tc.want)
		}
	}
}

// TestHostsThatPicksAvoid checks how often a child is asked for a host that no earlier
// attempt used, and that what is not used is given back.
func TestHostsThatPicksAvoid(t *testing.T) {
	for _, tc := range []struct {
		name   string
		avoid  int
		first  string // that the child picks for the first attempt, default h
		hosts  string // and for the second one, in turn
		asked  int
		host   string
		failed bool
	}{
		{name: "not at all", avoid: 0, hosts: "h i", asked: 1, host: "h"},
		{name: "another one at once", avoid: 2, hosts: "i h", asked: 1, host: "i"},
		{name: "another one later", avoid: 2, hosts: "h h i", asked: 3, host: "i"},
		{name: "the last counts whatever it is", avoid: 2, hosts: "h h h i", asked: 3, host: "h"},
		{name: "one that is not known", avoid: 2, hosts: "h ? i", asked: 2, host: ""},
		{name: "one after another that are not known", avoid: 2, first: "?", hosts: "? i", asked: 1, host: ""},
		{name: "a connection of somebody else's", avoid: 2, first: "foreign", hosts: "foreign i", asked: 1, host: "foreign"},
		{name: "the child fails", avoid: 3, hosts: "h ! i", asked: 2, failed: true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p := pickerOf(t, "H", lbConfig{noteHosts: tc.avoid > 0}, true)
			p.config.slots = plan.NewSlots([]plan.Entry{{Cluster: 0, Attempts: 2}}, plan.Fail, true)
			c := &p.clusters[0]
			c.config.avoidPreviousHosts, c.guarded = tc.avoid, tc.avoid > 0
			hosts, asked, discarded, used := []string{cmp.Or(tc.first, "h")}, 0, 0, ""
			c.picker = childFunc(func(balancer.PickInfo) (balancer.PickResult, error) {
				host := hosts[asked]
				asked++
				switch host {
				case "!":
					return balancer.PickResult{}, errDown
				case "?":
					host = ""
				}
				used = host
				result := balancer.PickResult{SubConn: namedSubConn{name: "a"}, Done: func(balancer.DoneInfo) { discarded++ }}
				if host != "foreign" {
					result.SubConn = &subConn{SubConn: result.SubConn, host: host}
				}
				return result, nil
			})
			p.setTable(plan.NewTable(p.config.slots, []bool{true}))
			r := newPickedRPC(context.Background(), t, p)
			_ = r.clusters(1)
			hosts, asked = strings.Fields(tc.hosts), 0
			_, err := r.next()
			if (err != nil) != tc.failed || asked != tc.asked || discarded != tc.asked-1 || !tc.failed && used != tc.host {
				t.Errorf("the child is asked %d times, %d given back, host %q, error %v: want %d, the last one used, %q", asked, discarded, used, err, tc.asked, tc.host)
			}
		})
	}
}

var errOther = errors.New("other")

// TestEndsOfGuardedPicks checks what Done of a pick gives back.
func TestEndsOfGuardedPicks(t *testing.T) {
	for _, limited := range []bool{false, true} {
		for _, child := range []bool{false, true} {
			t.Run(fmt.Sprintf("limited %v, child's Done %v", limited, child), func(t *testing.T) {
				p := pickerOf(t, "H", lbConfig{}, true)
				c, told := &p.clusters[0], 0
				if c.guarded = true; limited {
					c.config.maxRequests = 2
				}
				p.setTable(p.table)
				if child {
					c.picker.(*answer).result.Done = func(balancer.DoneInfo) { told++ }
				}
				result, err := p.Pick(balancer.PickInfo{Ctx: attemptOf(t, 1, false)})
				if err != nil {
					t.Fatal(err)
				}
				g := c.cluster.guard
				if got := g.inFlight.Load() == 1; got != limited {
					t.Errorf("%d places are taken", g.inFlight.Load())
				}
				if done := result.Done != nil; done != (limited || child) {
					t.Fatalf("the pick has a Done: %v", done)
				}
				if result.Done == nil {
					return
				}
				result.Done(balancer.DoneInfo{Err: errOther})
				if got := g.inFlight.Load(); got != 0 {
					t.Errorf("%d places are taken after the attempt", got)
				}
				if got := told == 1; got != child {
					t.Errorf("the child's Done is called %d times", told)
				}
			})
		}
	}
}

// TestEndsOfProbes checks what the end of a pick does that is a probe: a pick that was
// discarded gives its turn back.
func TestEndsOfProbes(t *testing.T) {
	hour := hourOfRest()
	for _, tc := range []struct {
		name string
		info balancer.DoneInfo
		back bool
	}{
		{"discarded", balancer.DoneInfo{}, true},
		{"sent", balancer.DoneInfo{BytesSent: true}, false},
		{"failed", balancer.DoneInfo{Err: errOther}, false},
		{"sent, and failed", balancer.DoneInfo{Err: errOther, BytesSent: true}, false},
	} {
		for _, limit := range []int64{0, 5} {
			for _, child := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s/limit %d/child's Done %v", tc.name, limit, child), func(t *testing.T) {
					told := 0
					answers := &answer{result: balancer.PickResult{SubConn: &subConn{SubConn: stubSubConn{}}}}
					if child {
						answers.result.Done = func(balancer.DoneInfo) { told++ }
					}
					p, g := guardedTables(clusterConfig{cooldown: hour, maxRequests: limit}, answers)
					makeProbeDue(t, g, hour)
					defer g.breaker.Close()
					result, err := p.Pick(balancer.PickInfo{Ctx: firstAttempt(t)})
					if err != nil || answers.asked != 1 || g.breaker.Passes() {
						t.Fatalf("pick: %v; the child is asked %d times: want once, for a probe", err, answers.asked)
					}
					result.Done(tc.info)
					if got := g.breaker.Passes(); got != tc.back {
						t.Errorf("the turn is given back: %v, want %v", got, tc.back)
					}
					if got := g.inFlight.Load(); got != 0 {
						t.Errorf("%d places are taken", got)
					}
					if got := told == 1; got != child {
						t.Errorf("the child's Done is called %d times", told)
					}
				})
			}
		}
	}
}

// TestAttemptsTellTheBreaker checks that what attempts came to reaches the breaker of
// their cluster, and none that has no cooldown.
func TestAttemptsTellTheBreaker(t *testing.T) {
	hour := hourOfRest()
	for _, cooldown := range []*breaker.Config{nil, hour} {
		p, g := guardedTables(clusterConfig{cooldown: cooldown, maxRequests: 5}, &answer{result: balancer.PickResult{SubConn: &subConn{SubConn: stubSubConn{}}}})
		stream, cancel := context.WithCancel(openRPC(context.Background(), t))
		a := beginAttempt(stream, false)
		if _, err := p.Pick(balancer.PickInfo{Ctx: a}); err != nil {
			t.Fatal(err)
		}
		cancel() // so that the attempt's end is known to be the last
		endAttempt(a, codes.Unavailable)
		if got := g.breaker.Resting(); got != (cooldown != nil) {
			t.Errorf("after a failure the cluster rests: %v, with the cooldown %v", got, cooldown)
		}
		g.breaker.Close()
	}
}

// TestPlacesWakeThoseWhoWait checks that a place which is given back has all pick again
// who wait for one, once, and that nobody is woken otherwise.
func TestPlacesWakeThoseWhoWait(t *testing.T) {
	b := newBench(t)
	if err := b.update(map[string]any{"maxRequests": 1}); err != nil {
		t.Fatal(err)
	}
	child := b.policy.Child(t, 0)
	child.ReportPicker(ready, &answer{result: balancer.PickResult{SubConn: stubSubConn{}}})
	testkit.Eventually(t, "a picker that has a host", func() bool {
		return b.channel.count() > 0 && b.channel.latest().ConnectivityState == ready
	})
	g := guardOf(child)
	take := func() func(balancer.DoneInfo) {
		result, err := b.channel.latest().Picker.Pick(balancer.PickInfo{Ctx: firstAttempt(t)})
		if err != nil {
			t.Fatal(err)
		}
		return result.Done
	}
	published := b.channel.count()
	take()(balancer.DoneInfo{})
	done := take()
	if _, err := b.channel.latest().Picker.Pick(balancer.PickInfo{Ctx: attemptOf(t, 1, true)}); err == nil || !g.waited.Load() {
		t.Fatalf("a pick of a full cluster: %v; it waits for a place: %v", err, g.waited.Load())
	}
	if got := b.channel.count(); got != published {
		t.Errorf("%d pickers are published before a place is free", got-published)
	}
	done(balancer.DoneInfo{})
	testkit.Eventually(t, "another picker", func() bool { return b.channel.count() == published+1 })
	if g.waited.Load() || g.inFlight.Load() != 0 {
		t.Errorf("%d places are taken, and somebody waits: %v", g.inFlight.Load(), g.waited.Load())
	}
	take()(balancer.DoneInfo{})
	if got := b.channel.count(); got != published+1 {
		t.Errorf("%d pickers are published: want one", got-published)
	}
}

// TestIsPlain checks which clusters need no more than their child's pick.
func TestIsPlain(t *testing.T) {
	for _, tc := range []struct {
		name string
		set  func(c *pickCluster, cfg *lbConfig)
		want bool
	}{
		{"a host and no more", func(*pickCluster, *lbConfig) {}, true},
		{"no host", func(c *pickCluster, _ *lbConfig) { c.condition = plan.NoHost }, false},
		{"connecting", func(c *pickCluster, _ *lbConfig) { c.condition = plan.Connecting }, false},
		{"no picker", func(c *pickCluster, _ *lbConfig) { c.picker = nil }, false},
		{"metadata", func(c *pickCluster, _ *lbConfig) { c.config.metadata = metadata.Pairs("k", "v") }, false},
		{"lazy", func(c *pickCluster, _ *lbConfig) { c.lazy = true }, false},
		{"guarded", func(c *pickCluster, _ *lbConfig) { c.guarded = true }, false},
		{"failbackDelay", func(c *pickCluster, _ *lbConfig) { c.early = true }, false},
		{"NEXT_CLUSTER", func(_ *pickCluster, cfg *lbConfig) { cfg.nextCluster = true }, false},
		{"hosts are avoided", func(_ *pickCluster, cfg *lbConfig) { cfg.noteHosts = true }, false},
	} {
		p := pickerOf(t, "H", lbConfig{}, true)
		tc.set(&p.clusters[0], p.config)
		if got := p.clusters[0].isPlain(p.config); got != tc.want {
			t.Errorf("%s: plain %v, want %v", tc.name, got, tc.want)
		}
	}
}

// TestSlotsWithoutAHost has attempts go on after the last slot that one before them has
// used. One that finds no host has used its own if it looks at no other.
func TestSlotsWithoutAHost(t *testing.T) {
	for skip, want := range map[bool]int{true: 0, false: 1} {
		p := pickerOf(t, "nn", lbConfig{nextCluster: true}, skip)
		stream, cancel := context.WithCancel(openRPC(context.Background(), t))
		defer cancel()
		first := beginAttempt(stream, false)
		if _, err := p.Pick(balancer.PickInfo{Ctx: first}); err == nil {
			t.Fatal("the first attempt finds a host")
		}
		attempt.StatsHandler().HandleRPC(first, &stats.End{Client: true, Error: status.Error(codes.Unavailable, "no host")})
		if got := beginAttempt(stream, false).NextSlot(p.policy); got != want {
			t.Errorf("skip %v: the second attempt starts at slot %d, want %d", skip, got, want)
		}
	}
}

// TestLazyClusterNotesItsUse checks that picks keep a lazy cluster from its sleep.
func TestLazyClusterNotesItsUse(t *testing.T) {
	for _, lazy := range []bool{false, true} {
		p := pickerOf(t, "H", lbConfig{}, true)
		c := &p.clusters[0]
		c.lazy = lazy
		p.setTable(p.table)
		if _, err := p.Pick(balancer.PickInfo{Ctx: attemptOf(t, 1, false)}); err != nil || c.cluster.used.Load() != lazy {
			t.Errorf("pick: %v; used: %v, want %v", err, c.cluster.used.Load(), lazy)
		}
	}
}
