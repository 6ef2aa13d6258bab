package attempt

import (
	"context"
	"slices"
	"sync"
	"testing"
)

// TestSlots has attempts use slots, and asks where the next one starts.
func TestSlots(t *testing.T) {
	for _, tc := range []struct {
		name  string
		start int
		trace func(tr *trace)
		want  int
	}{
		{"none used", 1, func(tr *trace) { tr.run("tag s1; begin; pick; end UNAVAILABLE") }, 0},
		{"none used, by one that starts later", 5, func(tr *trace) { tr.run("tag s1; begin; pick; end UNAVAILABLE") }, 4},
		{"one used", 1, func(tr *trace) { tr.use("tag s1; begin; pick", 2, "end UNAVAILABLE") }, 3},
		{"the last of two", 1, func(tr *trace) {
			tr.use("tag s1; begin; pick", 0, "end UNAVAILABLE")
			tr.use("tag s1; begin; pick", 2, "end UNAVAILABLE")
		}, 3},
		{"the one before one that used none", 1, func(tr *trace) {
			tr.use("tag s1; begin; pick", 0, "end UNAVAILABLE")
			tr.run("tag s1; begin; pick; end UNAVAILABLE")
		}, 1},
		{"of a pick that was not the last", 1, func(tr *trace) {
			tr.use("tag s1; begin; pick", 2, "pick")
			tr.use("pick", 0, "end UNAVAILABLE")
		}, 1},
		{"of a pick that was not the last, which used none", 1, func(tr *trace) { tr.use("tag s1; begin; pick", 2, "pick; end UNAVAILABLE") }, 0},
		{"of one that no server has seen", 1, func(tr *trace) {
			tr.use("tag s1; begin; pick", 2, "end UNAVAILABLE")
			tr.use("tag s1; begin transparent; pick", 0, "end UNAVAILABLE")
		}, 1},
		{"of one that no server has seen, and of the pair that follows", 1, func(tr *trace) {
			tr.use("tag s1; begin; pick", 2, "end UNAVAILABLE")
			tr.use("tag s1; begin transparent; tag s1; begin; pick", 0, "end UNAVAILABLE")
		}, 1},
		{"of another stream, which is over", 1, func(tr *trace) { tr.use("tag s2; begin; pick", 1, "end UNAVAILABLE; close") }, 2},
		{"of another stream, which is not", 1, func(tr *trace) { tr.use("tag s2; begin; pick", 1, "on s2") }, 2},
		{"far on", 1 << 40, func(tr *trace) { tr.use("tag s1; begin; pick", 1<<40, "end UNAVAILABLE") }, 1<<40 + 1},
		{"of a policy inside another one", 1, func(tr *trace) {
			tr.run("tag s1; begin; pick")
			tr.useNested(1)
			FromContext(tr.current.attempt).UseSlot("outer", 3)
			tr.run("end UNAVAILABLE")
		}, 2},
		{"of a policy inside another one, which discards its pick", 1, func(tr *trace) {
			tr.run("tag s1; begin; pick")
			tr.useNested(1)
			FromContext(tr.current.attempt).Discard()
			tr.useNested(0)
			FromContext(tr.current.attempt).UseSlot("outer", 3)
			tr.run("end UNAVAILABLE")
		}, 1},
		{"beside a host", 1, func(tr *trace) {
			h := "h"
			tr.use("tag s1; begin; pick", 2, "on s1")
			tr.useHost("on s1", &h, "end UNAVAILABLE")
		}, 3},
		{"of the policy around", 1, func(tr *trace) {
			tr.run("tag s1; begin; pick")
			FromContext(tr.current.attempt).UseSlot("outer", 3)
			tr.run("end UNAVAILABLE")
		}, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			rpc, _, _ := open(WithStart(context.Background(), tc.start), channel(t, "UNAVAILABLE"), method, opener)
			tr := newTrace(rpc, t)
			tc.trace(tr)
			tr.run("tag s1; begin; pick")
			if got := FromContext(tr.current.attempt).NextSlot("p"); got != tc.want {
				t.Errorf("the next attempt starts at %d: want %d", got, tc.want)
			}
		})
	}
}

// use has the attempt use a slot between steps.
func (tr *trace) use(before string, slot int, after string) {
	tr.t.Helper()
	tr.run(before)
	FromContext(tr.current.attempt).UseSlot("p", slot)
	tr.run(after)
}

// useNested has a policy inside another one use a slot.
func (tr *trace) useNested(slot int) {
	a := FromContext(tr.current.attempt)
	a.EnterNested()
	a.UseSlot("p", slot)
	a.LeaveNested()
}

// TestHosts has attempts use hosts, and asks whether the next one is told of them.
func TestHosts(t *testing.T) {
	h, other := "h", "other"
	for _, tc := range []struct {
		name  string
		trace func(tr *trace)
		want  bool
	}{
		{"the first attempt", func(*trace) {}, false},
		{"none used", func(tr *trace) { tr.run("tag s1; begin; pick; end UNAVAILABLE") }, false},
		{"one used", func(tr *trace) { tr.useHost("tag s1; begin; pick", &h, "end UNAVAILABLE") }, true},
		{"another one used", func(tr *trace) { tr.useHost("tag s1; begin; pick", &other, "end UNAVAILABLE") }, false},
		{"one that is not known", func(tr *trace) {
			tr.useHost("tag s1; begin; pick", &h, "pick")
			tr.useHost("pick", nil, "end UNAVAILABLE")
		}, false},
		{"the first of two", func(tr *trace) {
			tr.useHost("tag s1; begin; pick", &h, "end UNAVAILABLE")
			tr.useHost("tag s1; begin; pick", &other, "end UNAVAILABLE")
		}, true},
		{"by a pick that was not the last", func(tr *trace) { tr.useHost("tag s1; begin; pick", &h, "pick; end UNAVAILABLE") }, false},
		{"by another stream, which is over", func(tr *trace) { tr.useHost("tag s2; begin; pick", &h, "end UNAVAILABLE; close") }, true},
		{"by another stream, which is not", func(tr *trace) { tr.useHost("tag s2; begin; pick", &h, "on s2") }, true},
		{"beside a slot", func(tr *trace) {
			tr.useHost("tag s1; begin; pick", &h, "on s1")
			tr.use("on s1", 2, "end UNAVAILABLE")
		}, true},
		{"by a policy inside another one, which discards its pick", func(tr *trace) {
			tr.run("tag s1; begin; pick")
			a := FromContext(tr.current.attempt)
			a.EnterNested()
			a.UseHost(&h)
			a.LeaveNested()
			a.Discard()
			tr.run("end UNAVAILABLE")
		}, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			rpc, _, _ := open(context.Background(), channel(t, "UNAVAILABLE"), method, opener)
			tr := newTrace(rpc, t)
			tc.trace(tr)
			tr.run("tag s1; begin; pick")
			a := FromContext(tr.current.attempt)
			if got := a.HostUsed(&h); got != tc.want {
				t.Errorf("used: %v, want %v", got, tc.want)
			}
			if a.HostUsed(nil) {
				t.Error("one that is not known is used")
			}
		})
	}
}

// useHost has the attempt use a host between steps.
func (tr *trace) useHost(before string, host *string, after string) {
	tr.t.Helper()
	tr.run(before)
	FromContext(tr.current.attempt).UseHost(host)
	tr.run(after)
}

// TestProgressBesideAnotherStream has an attempt picked for while another stream of
// its RPC begins, as streams at once do. The race detector watches.
func TestProgressBesideAnotherStream(t *testing.T) {
	rpc, _, _ := open(context.Background(), nil, method, opener)
	tr, h := newTrace(rpc, t), "h"
	tr.run("tag s; begin; pick")
	a := FromContext(tr.current.attempt)
	var wg sync.WaitGroup
	wg.Go(func() {
		a.UseSlot("p", 0)
		a.UseHost(&h)
		a.Pick()
	})
	tr.run("tag u; begin; pick; end; tag v; begin")
	wg.Wait()
	if next := FromContext(tr.current.attempt).NextSlot("p"); next > 1 {
		t.Errorf("the next attempt starts at %d: want 0 or 1", next)
	}
}

// TestHostsAreKeptOnce has an interceptor retry for long: what is kept of the hosts
// does not grow with the attempts.
func TestHostsAreKeptOnce(t *testing.T) {
	rpc, l, _ := open(context.Background(), nil, method, opener)
	tr, hosts := newTrace(rpc, t), []string{"a", "b"}
	for i := range 100 {
		tr.run("tag s; begin; pick")
		FromContext(tr.current.attempt).UseHost(&hosts[i%len(hosts)])
		tr.run("end UNAVAILABLE; close")
		delete(tr.streams, "s")
	}
	if got := l.rare.used.hosts; !slices.Equal(got, hosts) {
		t.Errorf("%d hosts are kept, %q: want %q", len(got), got, hosts)
	}
}
