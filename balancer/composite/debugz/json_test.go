package debugz_test

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/grpc-composite/grpc-composite/balancer/composite"
	"github.com/grpc-composite/grpc-composite/balancer/composite/debugz"
	"github.com/grpc-composite/grpc-composite/internal/inspect"
	"github.com/grpc-composite/grpc-composite/internal/testkit"
)

// counted tells picks and skips of each cluster.
func counted(c inspect.Channel) string {
	var list []string
	for _, cluster := range c.Clusters {
		text := cluster.Name
		for _, p := range cluster.Picks {
			text += fmt.Sprintf(" %d:%d", p.Attempt, p.Count)
		}
		for _, s := range cluster.Skips {
			text += fmt.Sprintf(" %s:%d", s.Reason, s.Count)
		}
		list = append(list, text)
	}
	for _, e := range c.Exhausted {
		list = append(list, fmt.Sprintf("%s:%d", e.Reason, e.Count))
	}
	return strings.Join(list, ", ")
}

// told tells the trails, the first first.
func told(c inspect.Channel) string {
	var list []string
	for i := range c.Trails {
		t := c.Trails[len(c.Trails)-1-i]
		text := t.Code + ":"
		for _, a := range t.Attempts {
			for _, s := range a.Skipped {
				text += fmt.Sprintf(" (%s %s)", s.Cluster, s.Reason)
			}
			text += fmt.Sprintf(" %d %s %s", a.Number, a.Cluster, a.Code)
		}
		list = append(list, text)
	}
	return strings.Join(list, "; ")
}

func expect(t *testing.T, what, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("%s: %q, want %q", what, got, want)
	}
}

// TestScript follows a channel through a scripted run.
func TestScript(t *testing.T) {
	t.Parallel()
	h := debugz.Handler()
	a, b, c := testkit.Start(t, "a"), testkit.Start(t, "b"), testkit.Start(t, "c")
	s := testkit.Service{Attempts: 5, Clusters: testkit.Clusters(a, b, c)}
	s.Clusters[1].More = map[string]any{"attemptTimeout": "60s", "lazy": true}
	cc, target := dial(t, s)
	channel := await(t, target, "a and c connect", func(c inspect.Channel) bool {
		return conditions(c) == "has a host, idle, has a host"
	})
	expect(t, "ways", ways(channel), "a>a, b>b?, c>c")
	expect(t, "state", channel.State, "READY")
	expect(t, "counts", counted(channel), "a, b, c")
	expect(t, "config", fmt.Sprint(channel.Progression, channel.Overflow, channel.SkipClustersWithoutHosts, channel.NoHost), "ATTEMPT_COUNTFAILtrueFAIL_ATTEMPT")

	call := func(wantFrom string) {
		t.Helper()
		got, err := testkit.Unary(testkit.Context(t), cc)
		if got != wantFrom {
			t.Fatalf("%q answers, %v: want %q", got, err, wantFrom)
		}
	}
	call("a")
	a.Script(testkit.U, testkit.OK)
	call("b")
	call("a")
	a.Script(testkit.U)
	b.Script(testkit.U)
	c.Script(testkit.U)
	call("") // past the end
	a.Stop()
	await(t, target, "a is gone", func(c inspect.Channel) bool {
		return conditions(c) == "no host (transient_failure), has a host, has a host"
	})
	b.Script(testkit.OK)
	call("b")
	b.Script(testkit.U)
	c.Script(testkit.OK)
	call("c")

	channel, _ = find(process(t, h), target)
	expect(t, "ways", ways(channel), "a>b, b>b, c>c")
	expect(t, "counts", counted(channel), "a 1:4 transient_failure:2, b 1:2 2:3, c 3:2, overflow:1")
	expect(t, "trails", told(channel), "OK: 1 a UNAVAILABLE 2 b OK; "+
		"UNAVAILABLE: 1 a UNAVAILABLE 2 b UNAVAILABLE 3 c UNAVAILABLE 4  UNAVAILABLE; "+
		"OK: (a transient_failure) 1 b UNAVAILABLE 2 b UNAVAILABLE 3 c OK")
	trail := channel.Trails[0]
	if trail.Method != "/grpc.testing.TestService/UnaryCall" || trail.Attempts[0].Peer != b.Addr || trail.Duration <= 0 || trail.Start.IsZero() {
		t.Errorf("the latest trail is %+v", trail)
	}
	primary := channel.Clusters[0]
	if !strings.Contains(primary.Cause, "refused") && !strings.Contains(primary.Cause, "error") {
		t.Errorf("a has no host because of %q", primary.Cause)
	}
	if primary.Since.Before(channel.Created) || primary.Target != a.Target() || primary.Policy != "round_robin" {
		t.Errorf("a is %+v", primary)
	}
	if s := channel.Clusters[1]; s.AttemptTimeout != 60 || !s.Lazy || s.ConnectTimeout != 20 {
		t.Errorf("b is %+v", s)
	}
	if e := channel.Clusters[2].Endpoints; len(e) != 1 || e[0].Addresses[0] != c.Addr || e[0].State != "READY" || e[0].Since == nil {
		t.Errorf("the endpoints of c are %+v", e)
	}

	_ = cc.Close()
	if _, ok := find(process(t, h), target); ok {
		t.Error("the channel is still there when it is closed")
	}
}

// TestEndpoints: those that the child has no connection to are shown, too.
func TestEndpoints(t *testing.T) {
	t.Parallel()
	debugz.Handler()
	up := testkit.Start(t, "up")
	r := testkit.NewResolver(t)
	if err := r.UpdateAddrs(up.Addr, testkit.ClosedPort); err != nil {
		t.Fatal(err)
	}
	_, target := dial(t, testkit.Service{Clusters: []testkit.Cluster{
		{Name: "all", Target: r.Target()},
		{Name: "first", Target: r.Target(), More: map[string]any{"childPolicy": []any{map[string]any{"pick_first": map[string]any{}}}}},
		{Name: "none", Target: testkit.EmptyTarget},
	}})
	await(t, target, "the states of all endpoints", func(c inspect.Channel) bool {
		var states []string
		for _, cluster := range c.Clusters {
			for _, e := range cluster.Endpoints {
				states = append(states, e.State)
			}
		}
		// What cannot be connected to goes through IDLE and CONNECTING again.
		return len(states) == 4 && states[0] == "READY" && states[1] == "TRANSIENT_FAILURE" &&
			states[2] == "READY" && states[3] == "NO_CONNECTION" &&
			c.Clusters[0].Endpoints[1].Error != "" && conditions(c) == "has a host, has a host, no host (no_endpoints)"
	})
}

func TestHeldBack(t *testing.T) {
	t.Parallel()
	debugz.Handler()
	a, b := testkit.Start(t, "a"), testkit.Start(t, "b")
	s := testkit.Service{Attempts: 2, Clusters: testkit.Clusters(a, b)}
	s.Clusters[0].More = map[string]any{"cooldown": map[string]any{"consecutiveFailures": 1, "time": "300s"}}
	cc, target := dial(t, s)
	testkit.AwaitServer(t, cc, "a")
	a.Script(testkit.U)
	if got, err := testkit.Unary(testkit.Context(t), cc); got != "b" {
		t.Fatalf("%q answers: %v", got, err)
	}
	c := await(t, target, "a rests", func(c inspect.Channel) bool {
		return conditions(c) == "has a host [cooldown], has a host"
	})
	expect(t, "ways", ways(c), "a>b, b>b")
	if seconds := c.Clusters[0].Cooldown; seconds == nil || *seconds != 300 {
		t.Errorf("the cooldown is %v", seconds)
	}
	b.Stop()
	await(t, target, "a is used all the same", func(c inspect.Channel) bool {
		return ways(c) == "a>a, b>"
	})
}

// TestNested: a composite policy in a cluster is shown within the cluster.
func TestNested(t *testing.T) {
	t.Parallel()
	debugz.Handler()
	a, b, c := testkit.Start(t, "a"), testkit.Start(t, "b"), testkit.Start(t, "c")
	inner := testkit.Service{Clusters: testkit.Clusters(b, c)}
	cc, target := dial(t, testkit.Service{Attempts: 2, Clusters: []testkit.Cluster{
		{Name: "a", Target: a.Target()},
		{Name: "N", More: map[string]any{"childPolicy": []any{map[string]any{"composite": inner.Policy()}}}},
	}})
	if got, err := testkit.Unary(testkit.Context(t), cc); got != "a" {
		t.Fatalf("%q answers: %v", got, err)
	}
	await(t, target, "N connects", func(c inspect.Channel) bool {
		in := c.Clusters[1].Nested
		return in != nil && conditions(*in) == "has a host, has a host"
	})
	before, _ := find(process(t, debugz.Handler()), target)
	a.Script(testkit.U)
	if got, err := testkit.Unary(testkit.Context(t), cc); got != "c" {
		t.Fatalf("%q answers: %v", got, err)
	}
	p := process(t, debugz.Handler())
	after, _ := find(p, target)
	if got, was := after.Clusters[1].Nested, before.Clusters[1].Nested; counted(*was) != "b, c" || counted(*got) != "b, c" || counted(after) != "a 1:2, N 2:1" || got.ID != 0 {
		t.Errorf("inside: %s, before that %s; outside: %s", counted(*got), counted(*was), counted(after))
	}
	for _, c := range p.Channels {
		if len(c.Clusters) == 2 && c.Clusters[0].Name == "b" && c.Clusters[1].Name == "c" {
			t.Errorf("the policy inside is also shown as a channel: %+v", c)
		}
	}
}

// TestOwnList: picks by an RPC's own list count for its clusters.
func TestOwnList(t *testing.T) {
	t.Parallel()
	debugz.Handler()
	a, b := testkit.Start(t, "a"), testkit.Start(t, "b")
	cc, target := dial(t, testkit.Service{Attempts: 2, Clusters: testkit.Clusters(a, b)})
	await(t, target, "both connect", func(c inspect.Channel) bool { return conditions(c) == "has a host, has a host" })
	b.Script(testkit.U)
	if got, err := testkit.Unary(composite.WithClusters(testkit.Context(t), "b", "a"), cc); got != "a" {
		t.Fatalf("%q answers: %v", got, err)
	}
	c := await(t, target, "the trail", func(c inspect.Channel) bool { return len(c.Trails) == 1 })
	expect(t, "counts", counted(c), "a 2:1, b 1:1")
	expect(t, "trails", told(c), "OK: 1 b UNAVAILABLE 2 a OK")
}

// TestBusyChild: whoever looks does not wait for a child policy that is busy.
func TestBusyChild(t *testing.T) {
	t.Parallel()
	policy, entered, release := testkit.NewPolicy(t), make(chan struct{}), make(chan struct{})
	policy.OnEvent = func(_ *testkit.PolicyChild, method string) {
		if method == "ResolverError" {
			close(entered)
			<-release
		}
	}
	r := testkit.NewResolver(t)
	if err := r.UpdateAddrs(testkit.ClosedPort); err != nil {
		t.Fatal(err)
	}
	_, target := dial(t, testkit.Service{Clusters: []testkit.Cluster{{Name: "a", Target: r.Target(), More: map[string]any{"childPolicy": policy.Config()}}}})
	policy.Child(t, 0) // so that the resolver is built, too
	await(t, target, "the config holds", func(inspect.Channel) bool { return true })
	done := make(chan struct{})
	go func() {
		defer close(done)
		r.Fail(fmt.Errorf("busy"))
	}()
	<-entered
	seen := make(chan bool, 1)
	go func() {
		_, ok := find(inspect.Now(), target)
		seen <- ok
	}()
	select {
	case ok := <-seen:
		if !ok {
			t.Error("the channel is not there")
		}
	case <-testkit.Context(t).Done():
		t.Error("it waits for the child")
	}
	close(release)
	<-done
}

// TestDocHasEachField keeps the documentation of the JSON complete.
func TestDocHasEachField(t *testing.T) {
	t.Parallel()
	doc := readFile(t, "doc.go")
	check := func(typ reflect.Type) {
		for i := range typ.NumField() {
			field := typ.Field(i)
			name, options, _ := strings.Cut(field.Tag.Get("json"), ",")
			if name == "-" {
				continue
			}
			if options == "omitempty" {
				name += "*"
			}
			if !strings.Contains(doc, name) {
				t.Errorf("doc.go does not explain %q of %s", name, typ)
			}
		}
	}
	for _, v := range []any{inspect.Process{}, inspect.Channel{}, inspect.Slot{}, inspect.Cluster{}, inspect.Endpoint{}, inspect.Pick{}, inspect.Count{}, inspect.Trail{}, inspect.Attempt{}, inspect.Skip{}} {
		check(reflect.TypeOf(v))
	}
}
