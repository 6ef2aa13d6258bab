package composite

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"google.golang.org/grpc/balancer"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/grpc-composite/grpc-composite/internal/attempt"
	"github.com/grpc-composite/grpc-composite/internal/plan"
)

// pickerOf makes a picker over clusters a, b, c and so on, by a letter each:
//
//	H  has a host
//	n  has none
//	c  is connecting, and its child waits
//	C  is connecting, and its child picks all the same
//	x  is connecting, and its child has not reported
//	X  is connecting, and its child fails
//	z  is connecting, and not waited for
//	w  has a host, and its child waits
//	e  has a host, and its child fails
//	s  has a host, and its child ends the RPC
//	f  has a host, and is full
//	r  has a host, and is at rest
//	R  is at rest, and full
//	y  has a host, and not for long enough
//	Y  is that, and its child fails
//	W  is that, and its child waits
//	S  is that, and its child ends the RPC
func pickerOf(t *testing.T, letters string, config lbConfig, skip bool) *picker {
	t.Helper()
	p := &picker{config: &config, policy: &compositeBalancer{}}
	var usable []bool
	for i, letter := range letters {
		name := fmt.Sprintf("%c", 'a'+i)
		sc := &subConn{SubConn: namedSubConn{name: name}}
		child := &answer{result: balancer.PickResult{SubConn: sc}}
		c := pickCluster{
			cluster: &cluster{name: name, parent: p.policy}, config: &clusterConfig{}, identity: attempt.Cluster{Name: name},
			condition: plan.HasHost, picker: child,
		}
		c.cluster.guard = newGuard(c.cluster)
		switch letter {
		case 'n':
			c.condition, c.reason, c.picker = plan.NoHost, plan.TransientFailure, nil
		case 'c', 'z', 'w', 'W':
			child.err = balancer.ErrNoSubConnAvailable
		case 'e', 'Y', 'X':
			child.err = errors.New("child of " + name)
		case 's', 'S':
			child.err = status.Error(codes.ResourceExhausted, "drop by "+name)
		case 'x':
			c.picker = nil
		}
		switch letter {
		case 'c', 'C', 'x', 'X', 'z':
			c.condition, c.passOn = plan.Connecting, letter == 'z'
		case 'y', 'Y', 'W', 'S':
			c.early = true
		case 'f', 'r', 'R':
			c.guarded = true
			rest(t, &c, letter)
		}
		usable = append(usable, c.condition != plan.NoHost)
		p.clusters = append(p.clusters, c)
	}
	p.config.slots = plan.NewSlots(entriesOf(len(letters)), plan.Fail, skip)
	p.setTable(plan.NewTable(p.config.slots, usable))
	return p
}

// rest has a cluster be full or at rest.
func rest(t *testing.T, c *pickCluster, letter rune) {
	t.Helper()
	g := c.cluster.guard
	if letter != 'r' {
		c.config.maxRequests = 1
		g.inFlight.Store(1)
	}
	if letter != 'f' {
		c.config.cooldown = hourOfRest()
		g.breaker.Configure(c.config.cooldown)
		token, _ := g.breaker.Allow()
		g.breaker.Settle(token, codes.Unavailable)
		t.Cleanup(g.breaker.Close)
	}
}

// answer is a child's picker that always returns the same.
type answer struct {
	result balancer.PickResult
	err    error
	asked  int
}

func (a *answer) Pick(balancer.PickInfo) (balancer.PickResult, error) {
	if a.asked++; a.err != nil {
		return balancer.PickResult{}, a.err
	}
	return a.result, nil
}

// describePick tells what became of a pick: "b after 0-1 full 1" is a connection of
// cluster b, after slots from 0 to before 1, of which those in the set 1 are full.
func describePick(ctx context.Context, result balancer.PickResult, err error) string {
	var text string
	switch s, ends := status.FromError(err); {
	case err == balancer.ErrNoSubConnAvailable:
		text = "wait"
	case err != nil && ends:
		text = s.Code().String()
	case err != nil:
		text = "no host"
	default:
		text = result.SubConn.(namedSubConn).name
	}
	a := attempt.FromContext(ctx)
	if c := a.Cluster(); c != nil && err == balancer.ErrNoSubConnAvailable {
		text += " for " + c.Name
	}
	r := a.Route()
	text += fmt.Sprintf(" after %d-%d", r.Start, r.End)
	for _, held := range []struct {
		name string
		set  uint64
	}{{"full", r.Held.Full}, {"resting", r.Held.Resting}, {"early", r.Held.Early}} {
		if held.set != 0 {
			text += fmt.Sprintf(" %s %b", held.name, held.set)
		}
	}
	if errs, _ := r.Held.Errs.(*pickErrors); errs != nil {
		text += " errors"
	}
	if (err == nil) == r.None && r.End < len(r.Picker.(*picker).clusters) {
		text += ", but None is wrong"
	}
	return text
}

// TestPick checks which cluster a pick uses, and what it notes of those that it passes
// over.
func TestPick(t *testing.T) {
	request := lbConfig{failRequest: true}
	for _, tc := range []struct {
		clusters string
		number   int // default 1
		wait     bool
		alone    bool // do not skip
		nested   bool
		config   lbConfig
		want     string
	}{
		{clusters: "HH", want: "a after 0-0"},
		{clusters: "HHH", number: 2, want: "b after 1-1"},
		{clusters: "nH", want: "b after 0-1"},
		{clusters: "HnH", number: 2, want: "c after 1-2"},
		{clusters: "nn", want: "no host after 0-2"},
		{clusters: "Hn", number: 2, want: "no host after 1-2"},
		{clusters: "nn", wait: true, want: "no host after 0-2"},
		{clusters: "nn", config: request, want: "Unavailable after 0-2"},
		{clusters: "nn", config: request, wait: true, want: "no host after 0-2"},
		{clusters: "nn", config: request, nested: true, want: "no host after 0-0"},
		{clusters: "HH", number: 3, want: "Unavailable after 2-2"},
		{clusters: "HH", number: 3, wait: true, want: "Unavailable after 2-2"},
		{clusters: "HH", number: 3, nested: true, want: "no host after 0-0"},
		{clusters: "nH", alone: true, want: "no host after 0-2"},
		{clusters: "nH", alone: true, number: 2, want: "b after 1-1"},

		{clusters: "cH", want: "wait for a after 0-0"},
		{clusters: "xH", want: "wait for a after 0-0"},
		{clusters: "ncH", want: "wait for b after 0-1"},
		{clusters: "CH", want: "a after 0-0"},
		{clusters: "XH", want: "b after 0-1 errors"},
		{clusters: "XX", want: "no host after 0-2 errors"},
		{clusters: "zH", want: "b after 0-1 errors"},
		{clusters: "zz", want: "no host after 0-2 errors"},
		{clusters: "wH", want: "wait for a after 0-0"},
		{clusters: "nwH", want: "wait for b after 0-1"},

		{clusters: "eH", want: "b after 0-1 errors"},
		{clusters: "ee", want: "no host after 0-2 errors"},
		{clusters: "ec", want: "wait for b after 0-1 errors"},
		{clusters: "ew", want: "wait for b after 0-1 errors"},
		{clusters: "sH", want: "ResourceExhausted after 0-0"},
		{clusters: "esH", want: "ResourceExhausted after 0-1 errors"},
		{clusters: "HeH", number: 2, want: "c after 1-2 errors"},

		{clusters: "fH", want: "b after 0-1 full 1"},
		{clusters: "fc", want: "wait for b after 0-1 full 1"},
		{clusters: "ff", want: "no host after 0-2 full 11"},
		{clusters: "rH", want: "b after 0-1 resting 1"},
		{clusters: "rn", want: "a after 0-0 resting 1"},
		{clusters: "nr", want: "b after 0-1 resting 10"},
		{clusters: "rrn", want: "a after 0-0 resting 11"},
		{clusters: "Rr", want: "b after 0-1 full 1 resting 11"},
		{clusters: "Rn", want: "no host after 0-2 full 1 resting 1"},
		{clusters: "yH", want: "b after 0-1 early 1"},
		{clusters: "yn", want: "a after 0-0 early 1"},
		{clusters: "yy", want: "a after 0-0 early 11"},
		{clusters: "ry", want: "b after 0-1 resting 1 early 10"},
		{clusters: "yc", want: "a after 0-0 early 1"},
		{clusters: "rc", want: "a after 0-0 resting 1"},
		{clusters: "rx", want: "a after 0-0 resting 1"},
		{clusters: "fr", want: "b after 0-1 full 1 resting 10"},
		{clusters: "Yn", want: "no host after 0-2 early 1 errors"},
		{clusters: "Yy", want: "b after 0-1 early 11 errors"},
		{clusters: "Yr", want: "b after 0-1 resting 10 early 1 errors"},
		{clusters: "Wn", want: "wait for a after 0-0 early 1"},
		{clusters: "Wr", want: "b after 0-1 resting 10 early 1"},
		{clusters: "WW", want: "wait for a after 0-0 early 11"},
		{clusters: "Wc", want: "wait for b after 0-1 early 1"},
		{clusters: "Sn", want: "ResourceExhausted after 0-0 early 1"},
		{clusters: "Sy", want: "ResourceExhausted after 0-0 early 11"},
		{clusters: "Hrn", number: 2, want: "b after 1-1 resting 10"},
	} {
		for _, plain := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s/%+v/%v", tc.clusters, tc.number, plain), func(t *testing.T) {
				p := pickerOf(t, tc.clusters, tc.config, !tc.alone)
				for i := range p.clusters {
					// Then picks go the way of those that have more to do.
					p.clusters[i].lazy = !plain
				}
				p.setTable(p.table)
				ctx := attemptOf(t, max(tc.number, 1), tc.wait)
				a := attempt.FromContext(ctx)
				if tc.nested {
					a.EnterNested()
					defer a.LeaveNested()
				}
				result, err := p.Pick(balancer.PickInfo{Ctx: ctx})
				if tc.nested {
					// What a policy inside notes of its way is not the RPC's.
					a.LeaveNested()
					a.PassOver(p, 0, 0)
					a.PickNone()
					a.EnterNested()
				}
				if got := describePick(ctx, result, err); got != tc.want {
					t.Errorf("%s: want %s", got, tc.want)
				}
				for i, letter := range tc.clusters {
					connects := strings.ContainsRune("cCXz", letter) && p.clusters[i].picker.(*answer).asked > 0
					if p.clusters[i].cluster.tried.Load() != connects {
						t.Errorf("cluster %c, that its child was asked to connect is noted: want %v", 'a'+i, connects)
					}
				}
			})
		}
	}
}

// TestWaitsForAPlace checks which picks say that they wait for a place in a full
// cluster, be it one of a policy inside.
func TestWaitsForAPlace(t *testing.T) {
	for _, tc := range []struct {
		clusters string
		wait     bool
		want     bool
	}{
		{"f", true, true},
		{"f", false, false}, // it fails
		{"fH", true, false},
		{"fe", true, true},
		{"fc", false, true},
		{"fc", true, true},
		{"nf", true, true},
		{"fr", true, false},
	} {
		picks := strings.ContainsAny(tc.clusters, "Hr")
		for _, inner := range []bool{false, true} {
			if inner && picks {
				continue // the policy inside does not know
			}
			t.Run(fmt.Sprintf("%s/wait %v/inside %v", tc.clusters, tc.wait, inner), func(t *testing.T) {
				p := pickerOf(t, tc.clusters, lbConfig{}, true)
				full := strings.IndexByte(tc.clusters, 'f')
				g := p.clusters[full].cluster.guard
				if inner {
					// The full cluster is one of a policy inside.
					inside := pickerOf(t, "f", lbConfig{}, true)
					c := &p.clusters[full]
					c.guarded, c.picker = false, inside
					p.setTable(p.table)
					g = inside.clusters[0].cluster.guard
				}
				ctx := attemptOf(t, 1, tc.wait)
				if _, err := p.Pick(balancer.PickInfo{Ctx: ctx}); (err == nil) != picks {
					t.Errorf("pick: %v", err)
				}
				if got := g.waited.Load(); got != tc.want {
					t.Errorf("it waits for a place: %v, want %v", got, tc.want)
				}
			})
		}
	}
}

// TestPlaceIsGivenBackMeanwhile has the place of a full cluster, or of one inside it,
// become free while the pick passes on: nobody is going to wake the RPC for it any more.
func TestPlaceIsGivenBackMeanwhile(t *testing.T) {
	for _, inner := range []bool{false, true} {
		p := pickerOf(t, "fe", lbConfig{}, true)
		g, want := p.clusters[0].cluster.guard, "a"
		if inner {
			inside := pickerOf(t, "f", lbConfig{}, true)
			c := &p.clusters[0]
			c.guarded, c.picker = false, inside
			g = inside.clusters[0].cluster.guard
		}
		p.clusters[1].picker = childFunc(func(balancer.PickInfo) (balancer.PickResult, error) {
			g.inFlight.Store(0)
			return balancer.PickResult{}, errDown
		})
		p.setTable(p.table)
		ctx := attemptOf(t, 1, true)
		result, err := p.Pick(balancer.PickInfo{Ctx: ctx})
		if err != nil {
			t.Errorf("inside %v: pick: %v", inner, err)
			continue
		}
		if got := result.SubConn.(namedSubConn).name; got != want {
			t.Errorf("inside %v: picked %s, want %s", inner, got, want)
		}
	}
}
