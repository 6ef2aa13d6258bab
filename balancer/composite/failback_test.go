package composite

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/balancer"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"

	"github.com/grpc-composite/grpc-composite/internal/attempt"
	"github.com/grpc-composite/grpc-composite/internal/testkit"
)

// tiers is a policy over clusters whose children a test drives by steps, which
// are words:
//
//	a=ready    the child of the cluster a reports a state: ready, connecting,
//	           failing or idle
//	>a         an attempt goes to the cluster a
//	>a!        and fails
//	>wait      an attempt waits
//	>none      an attempt finds no host
//	+29s       time passes
//	config=N   the N-th config is delivered
type tiers struct {
	t        *testing.T
	channel  *fakeChannel
	b        balancer.Balancer
	policies map[string]*testkit.Policy
	targets  map[string]string
	configs  []map[string]tierSettings // by cluster
}

type tierSettings = map[string]any

// namedSubConn stands for a connection of a cluster.
type namedSubConn struct {
	balancer.SubConn
	name string
}

// newTiers makes a policy over clusters in the order of names, with the first of
// the configs.
func newTiers(t *testing.T, names string, configs ...map[string]tierSettings) *tiers {
	t.Helper()
	s := &tiers{t: t, channel: &fakeChannel{}, policies: make(map[string]*testkit.Policy), targets: make(map[string]string), configs: configs}
	for name := range strings.FieldsSeq(names) {
		s.policies[name] = testkit.NewPolicy(t)
		r := testkit.NewResolver(t)
		_ = r.UpdateAddrs("127.0.0.1:1")
		s.targets[name] = r.Target()
	}
	s.b = builder{}.Build(s.channel, balancer.BuildOptions{})
	t.Cleanup(s.b.Close)
	s.configure(names, 0)
	return s
}

func (s *tiers) configure(names string, n int) {
	s.t.Helper()
	var service testkit.Service
	for name := range strings.FieldsSeq(names) {
		more := map[string]any{"childPolicy": s.policies[name].Config(), "connectTimeout": "1s"}
		for k, v := range s.configs[n][name] {
			more[k] = v
		}
		service.Clusters = append(service.Clusters, testkit.Cluster{Name: name, Target: s.targets[name], More: more})
	}
	text, err := json.Marshal(service.Policy())
	if err != nil {
		s.t.Fatal(err)
	}
	cfg, err := builder{}.ParseConfig(text)
	if err != nil {
		s.t.Fatal(err)
	}
	if err := s.b.UpdateClientConnState(balancer.ClientConnState{BalancerConfig: cfg}); err != nil {
		s.t.Fatal(err)
	}
}

func (s *tiers) run(names, steps string) {
	s.t.Helper()
	for step := range strings.FieldsSeq(steps) {
		synctest.Wait()
		name, arg, _ := strings.Cut(step, "=")
		switch {
		case step[0] == '>':
			want, fails := strings.CutSuffix(step[1:], "!")
			if got := s.pick(fails); got != want {
				s.t.Fatalf("%s at %v: an attempt goes to %s", step, time.Now().Format("04:05.000"), got)
			}
		case step[0] == '+':
			d, err := time.ParseDuration(step[1:])
			if err != nil {
				s.t.Fatal(err)
			}
			time.Sleep(d)
		case name == "config":
			s.configure(names, int(arg[0]-'0'))
		default:
			s.report(name, arg)
		}
	}
}

func (s *tiers) report(name, state string) {
	s.t.Helper()
	child := s.policies[name].Child(s.t, 0)
	switch state {
	case "ready":
		sc := &subConn{SubConn: namedSubConn{name: name}}
		child.ReportPicker(ready, &stubPicker{result: balancer.PickResult{SubConn: sc}})
	case "connecting":
		child.Report(connecting, balancer.ErrNoSubConnAvailable)
	case "failing":
		child.Report(failure, errDown)
	case "idle":
		child.Report(idle, balancer.ErrNoSubConnAvailable)
	default:
		s.t.Fatalf("state %q", state)
	}
}

// pick makes a first attempt, which may end with UNAVAILABLE, and returns where
// it goes.
func (s *tiers) pick(fails bool) string {
	s.t.Helper()
	rpc, cancel := context.WithCancel(context.Background())
	defer cancel()
	ctx := attemptIn(rpc, s.t)
	result, err := s.channel.latest().Picker.Pick(balancer.PickInfo{Ctx: ctx})
	switch {
	case err == balancer.ErrNoSubConnAvailable:
		return "wait"
	case err != nil:
		return "none"
	}
	if result.Done != nil {
		result.Done(balancer.DoneInfo{BytesSent: true})
	}
	if fails {
		cancel() // the RPC is over
		endAttempt(ctx, codes.Unavailable)
	}
	return result.SubConn.(namedSubConn).name
}

// endAttempt has an attempt end, as gRPC reports it.
func endAttempt(ctx context.Context, code codes.Code) {
	attempt.StatsHandler().HandleRPC(ctx, &stats.End{Client: true, Error: status.Error(code, "scripted")})
}

func TestFailbackDelay(t *testing.T) {
	const delay = "failbackDelay"
	half := map[string]tierSettings{"a": {delay: "30s"}}
	lazy := map[string]tierSettings{"a": {delay: "30s", "lazy": true}}
	for _, tc := range []struct {
		name     string
		clusters string                    // default: a b
		configs  []map[string]tierSettings // default: a delay of 30 s for a
		steps    string
	}{
		{name: "not at the first connect", steps: "b=ready a=ready >a"},
		{name: "nor at one that took too long", steps: "b=ready +2s >b a=ready >a"},
		{name: "nor at one that failed before", steps: "b=ready a=failing >b a=ready >a"},
		{name: "after having had no host", steps: "a=ready b=ready >a a=failing >b a=ready >b +29.999s >b +1ms >a"},
		{name: "each time", steps: "a=ready b=ready a=failing a=ready +30s >a a=failing >b a=ready +29.999s >b +1ms >a"},
		{name: "from the host on, not from the failure", steps: "a=ready b=ready a=failing +1h a=ready >b +29.999s >b +1ms >a"},
		{name: "a failure starts it again", steps: "a=ready b=ready a=failing a=ready +20s a=failing a=ready +29.999s >b +1ms >a"},
		{name: "so does a lost connection", steps: "a=ready b=ready a=failing a=ready +20s a=connecting a=ready +29.999s >b +1ms >a"},
		{name: "which nobody waits for", steps: "a=ready b=ready a=failing a=ready +20s a=connecting >b +0.5s >b a=ready >b"},
		{name: "nor for one that does not come back", steps: "a=ready b=ready a=failing a=ready +20s a=connecting +2s >b a=connecting >b a=ready +29s >b +1s >a"},
		{name: "a new picker of the child does not", steps: "a=ready b=ready a=failing a=ready +20s a=ready +9.999s >b +1ms >a"},
		{name: "a connection that is lost and made again in time is no loss", steps: "a=ready b=ready a=connecting >wait a=ready >a"},
		{name: "one that is not is", steps: "a=ready b=ready a=connecting +1s >b a=ready >b +30s >a"},

		{name: "nothing else has a host", steps: "a=ready a=failing b=failing >none a=ready >a"},
		{name: "nothing else has one any more", steps: "a=ready b=ready a=failing a=ready >b b=failing >a b=ready >b"},
		{name: "the others are connecting", steps: "a=ready a=failing >wait a=ready >a"},
		{name: "it is connecting itself and nothing else is there", steps: "a=ready b=failing a=failing a=ready a=connecting >wait"},
		{name: "the first of two", clusters: "a b c", configs: []map[string]tierSettings{{"a": {delay: "30s"}, "b": {delay: "20s"}}}, steps: "a=ready b=ready c=ready a=failing b=failing >c a=ready b=ready >c c=failing >a +20s >b +10s >a"},
		{name: "before one that rests", configs: []map[string]tierSettings{{"a": {"cooldown": map[string]any{"consecutiveFailures": 1}}, "b": {delay: "30s"}}}, steps: "a=ready b=ready b=failing >a! b=ready >b +10s >a"},
		{name: "before one that rests, though it comes first", configs: []map[string]tierSettings{{"b": {"cooldown": map[string]any{"consecutiveFailures": 1}}, "a": {delay: "30s"}}}, steps: "b=ready a=ready a=failing >b! a=ready >a +10s >b! >a a=failing >b"},
		{name: "rather wait for no cluster than for it", configs: []map[string]tierSettings{{"a": {delay: "30s"}, "b": {"cooldown": map[string]any{"consecutiveFailures": 1}}}}, steps: "a=ready b=ready a=failing >b! a=ready >a a=connecting >b"},

		{name: "a shorter delay while it runs", configs: []map[string]tierSettings{half, {"a": {delay: "10s"}}}, steps: "a=ready b=ready a=failing a=ready +5s >b config=1 >b +4.999s >b +1ms >a"},
		{name: "one that is over by then", configs: []map[string]tierSettings{half, {"a": {delay: "10s"}}}, steps: "a=ready b=ready a=failing a=ready +15s >b config=1 >a"},
		{name: "a longer delay while it runs", configs: []map[string]tierSettings{half, {"a": {delay: "60s"}}}, steps: "a=ready b=ready a=failing a=ready +20s config=1 +39.999s >b +1ms >a"},
		{name: "a longer delay when it is over", configs: []map[string]tierSettings{half, {"a": {delay: "60s"}}}, steps: "a=ready b=ready a=failing a=ready +30s >a config=1 >a"},
		{name: "no delay any more", configs: []map[string]tierSettings{half, {}}, steps: "a=ready b=ready a=failing a=ready >b config=1 >a"},
		{name: "no delay any more while it connects", configs: []map[string]tierSettings{half, {}}, steps: "a=ready b=ready a=failing a=ready a=connecting >b config=1 >wait"},
		{name: "a first delay while it has no host", configs: []map[string]tierSettings{{}, half}, steps: "a=ready b=ready a=failing config=1 a=ready >b +30s >a"},
		{name: "a first delay while it has one", configs: []map[string]tierSettings{{}, half}, steps: "a=ready b=ready a=failing a=ready >a config=1 >a"},

		{name: "a lazy cluster's first connect", configs: []map[string]tierSettings{lazy}, steps: "b=ready >wait a=ready >a"},
		{name: "a lazy cluster that had no host", configs: []map[string]tierSettings{lazy}, steps: "b=ready >wait a=ready >a a=failing >b a=ready >b +30s >a"},
		{name: "a lazy cluster that is idle is asked, and passed over while it connects", configs: []map[string]tierSettings{lazy}, steps: "b=ready >wait a=ready a=failing a=ready >b a=idle >wait >b a=ready >b +30s >a"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				if tc.clusters == "" {
					tc.clusters = "a b"
				}
				if tc.configs == nil {
					tc.configs = []map[string]tierSettings{half}
				}
				newTiers(t, tc.clusters, tc.configs...).run(tc.clusters, tc.steps)
			})
		})
	}
}

// TestFailbackOfALazyClusterThatHasSlept has a cluster that had no host before it
// went to sleep: waking it is a first connect.
func TestFailbackOfALazyClusterThatHasSlept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTiers(t, "a b", map[string]tierSettings{"a": {"failbackDelay": "30s", "lazy": true}})
		s.run("a b", "b=ready >wait a=ready >a a=failing >b +32m")
		s.run("a b", ">wait")
		sc := &subConn{SubConn: namedSubConn{name: "a"}}
		s.policies["a"].Child(t, 1).ReportPicker(ready, &stubPicker{result: balancer.PickResult{SubConn: sc}})
		s.run("a b", ">a")
	})
}

// TestFailbackDelayIsNoneOfTheChannelsState checks that the delay acts at picks
// alone.
func TestFailbackDelayIsNoneOfTheChannelsState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTiers(t, "a b", map[string]tierSettings{"a": {"failbackDelay": "30s"}})
		s.run("a b", "a=ready b=failing a=failing a=ready >a")
		if got := s.channel.latest().ConnectivityState; got != connectivity.Ready {
			t.Errorf("the channel is %v: want READY", got)
		}
		before := s.channel.count()
		s.run("a b", "+29s")
		if got := s.channel.count(); got != before {
			t.Errorf("%d pickers in the delay: want none", got-before)
		}
		s.run("a b", "+1s >a")
		if got := s.channel.count(); got != before+1 {
			t.Errorf("%d pickers at its end: want one", got-before)
		}
	})
}
