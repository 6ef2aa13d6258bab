package composite_test

import (
	"context"
	"net/url"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"

	"github.com/grpc-composite/grpc-composite/balancer/composite"
	"github.com/grpc-composite/grpc-composite/internal/testkit"
)

// dialInline opens a channel that has its target and DialOptions and nothing
// else.
func dialInline(t testing.TB, target string, opts ...grpc.DialOption) *grpc.ClientConn {
	t.Helper()
	return testkit.Dial(t, target, append(composite.DialOptions(), opts...)...)
}

// fill puts the addresses of servers into a target: {a} is that of the server a,
// {hole} that of a listener that never says a word, and {closed} one on which
// nothing listens. Unless the target says otherwise, clusters may take their time
// to connect.
func fill(t testing.TB, target string, backends ...*testkit.Backend) string {
	t.Helper()
	pairs := []string{"{closed}", testkit.ClosedPort}
	for _, b := range backends {
		pairs = append(pairs, "{"+b.Name+"}", b.Addr)
	}
	if strings.Contains(target, "{hole}") {
		addr, _ := testkit.BlackHole(t)
		pairs = append(pairs, "{hole}", addr)
	}
	switch {
	case strings.Contains(target, "connectTimeout"):
	case strings.Contains(target, "?"):
		target += "&connectTimeout=20s"
	default:
		target += "?connectTimeout=20s"
	}
	return strings.NewReplacer(pairs...).Replace(target)
}

func TestInlineTarget(t *testing.T) {
	exhausted := testkit.Reply{Code: codes.ResourceExhausted, Message: "scripted"}
	timedOut := testkit.Reply{Code: codes.DeadlineExceeded, Message: "scripted"}
	for _, tc := range []struct {
		name, target string
		a            []testkit.Reply // the script of server a; b answers OK
		attempt      int             // the first one's number, if it is not 1
		code         codes.Code
		text         []string // in the error
		counts       string   // of a, b
	}{
		{name: "two servers", target: "composite:///{a},{b}", counts: "1/0"},
		{name: "failover", target: "composite:///{a},{b}", a: []testkit.Reply{testkit.U}, counts: "1/1"},
		{name: "failover of named clusters", target: "composite:///first=passthrough:///{a},second=dns:///{b}", a: []testkit.Reply{testkit.U}, counts: "1/1"},
		{name: "nothing listens", target: "composite:///{closed},{b}", counts: "0/1"},
		{name: "nothing listens anywhere", target: "composite:///first={closed},second={closed}", code: codes.Unavailable, text: []string{"attempt 2", "second skipped", "connection refused"}, counts: "0/0"},
		{name: "one server", target: "composite:///{a}", a: []testkit.Reply{testkit.U}, code: codes.Unavailable, text: []string{"scripted"}, counts: "1/0"},
		{name: "a name again", target: "composite:///x={a},y={closed},x={a}", a: []testkit.Reply{testkit.U, testkit.OK}, counts: "2/0"},

		{name: "other codes end the RPC", target: "composite:///{a},{b}", a: []testkit.Reply{exhausted}, code: codes.ResourceExhausted, counts: "1/0"},
		{name: "retryOn", target: "composite:///{a},{b}?retryOn=UNAVAILABLE,RESOURCE_EXHAUSTED", a: []testkit.Reply{exhausted}, counts: "1/1"},
		{name: "retryOn without the default", target: "composite:///{a},{b}?retryOn=RESOURCE_EXHAUSTED", a: []testkit.Reply{testkit.U}, code: codes.Unavailable, counts: "1/0"},
		{name: "an attemptTimeout has its code retried", target: "composite:///{a},{b}?attemptTimeout=20s", a: []testkit.Reply{timedOut}, counts: "1/1"},
		{name: "without one it is not", target: "composite:///{a},{b}", a: []testkit.Reply{timedOut}, code: codes.DeadlineExceeded, counts: "1/0"},

		{name: "attempts", target: "composite:///{a},{b}?attempts=2", a: []testkit.Reply{testkit.U}, counts: "2/1"},
		{name: "attempts of one server", target: "composite:///{a}?attempts=3", a: []testkit.Reply{testkit.U, testkit.U, testkit.OK}, counts: "3/0"},

		{name: "connectTimeout", target: "composite:///x={hole}?connectTimeout=100ms", code: codes.Unavailable, text: []string{"x skipped: connect timeout after 100ms"}, counts: "0/0"},
		{name: "connectTimeout of nothing", target: "composite:///x={hole}?connectTimeout=0s", code: codes.Unavailable, text: []string{"x skipped: connect timeout after 0s"}, counts: "0/0"},
		{name: "after the connectTimeout the next cluster", target: "composite:///{hole},{b}?connectTimeout=1s", counts: "0/1"},

		{name: "overflow", target: "composite:///{a},{b}", attempt: 3, code: codes.Unavailable, text: []string{"past the end of the list of 2"}, counts: "0/0"},
		{name: "overflow=FAIL", target: "composite:///{a},{b}?overflow=FAIL", attempt: 3, code: codes.Unavailable, text: []string{"past the end of the list of 2"}, counts: "0/0"},
		{name: "overflow=USE_LAST_CLUSTER", target: "composite:///{a},{b}?overflow=USE_LAST_CLUSTER", attempt: 3, counts: "0/1"},
		{name: "overflow=ROUND_ROBIN", target: "composite:///{a},{b}?overflow=ROUND_ROBIN", attempt: 3, counts: "1/0"},
	} {
		for _, kind := range rpcKinds {
			t.Run(tc.name+"/"+kind.name, func(t *testing.T) {
				t.Parallel()
				backends := startAll(t, "a", "b")
				if tc.a != nil {
					backends[0].Script(tc.a...)
				}
				cc := dialInline(t, fill(t, tc.target, backends...))
				ctx := testkit.Context(t)
				if tc.attempt > 0 {
					ctx = composite.WithAttempt(ctx, tc.attempt)
				}
				checkError(t, kind.call(ctx, cc), tc.code, tc.text...)
				if got := testkit.Counts(backends...); got != tc.counts {
					t.Errorf("calls %s: want %s", got, tc.counts)
				}
			})
		}
	}
}

// TestInlinePolicy tells child policies apart by the servers that they use.
func TestInlinePolicy(t *testing.T) {
	for _, tc := range []struct {
		name, query string
		both        bool
	}{
		{"the default", "", true},
		{"round_robin", "?policy=round_robin", true},
		{"pick_first", "?policy=pick_first", false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			backends := startAll(t, "a", "b")
			r := testkit.NewResolver(t)
			_ = r.Update(backends...)
			cc := dialInline(t, fill(t, "composite:///x="+r.Target()+tc.query))
			if tc.both {
				testkit.AwaitServer(t, cc, "a")
				testkit.AwaitServer(t, cc, "b")
				return
			}
			first := call(t, cc)
			for range 100 {
				if got := call(t, cc); got != first {
					t.Fatalf("answers from %s and %s: want one of them", first, got)
				}
			}
		})
	}
}

// TestInlineTargetSurvivesIdleness has the channel close all and build it again.
func TestInlineTargetSurvivesIdleness(t *testing.T) {
	t.Parallel()
	backends := startScripted(t, "U OK")
	cc := dialInline(t, fill(t, "composite:///{a},{b}", backends...), grpc.WithIdleTimeout(50*time.Millisecond))
	for range 3 {
		if got := call(t, cc); got != "b" {
			t.Errorf("answer from %s: want b", got)
		}
		testkit.AwaitState(t, cc, connectivity.Idle)
	}
	if got := testkit.Counts(backends...); got != "3/3" {
		t.Errorf("calls %s: want 3/3", got)
	}
}

// inlineKinds are RPCs that must learn of an error in the target alike, at once.
var inlineKinds = []struct {
	name string
	call rpc
	wait bool
}{
	{"unary", unaryRPC, false},
	{"unary, waits for ready", unaryRPC, true},
	{"stream", download, false},
	{"stream, waits for ready", download, true},
}

func TestWrongInlineTarget(t *testing.T) {
	for _, tc := range []struct{ name, target, want string }{
		{"two slashes", "composite://a:443,b:443", `"a:443,b:443": must come after three slashes`},
		{"no slashes", "composite:a,b", `"a,b": must come after three slashes`},
		{"fragment", "composite:///a,b#c", `fragment "c": must not be there`},
		{"empty cluster", "composite:///a,,b", `cluster 2: "": must have a target`},
		{"unknown scheme", "composite:///a,b=nowhere:///x", `cluster 2: "b=nowhere:///x": must have a scheme that a resolver is registered for`},
		{"xds", "composite:///xds:///a", `must not be an "xds:" target`},
		{"unknown key", "composite:///a,b?retries=2", `query "retries=2": must be one of retryOn, attempts`},
		{"unknown policy", "composite:///a,b?policy=fastest", `query "policy=fastest": must name a policy that is registered`},
		{"too many attempts", "composite:///a,b?attempts=33", `66 attempts, for 2 clusters: must be at most 64 in all`},
	} {
		for _, kind := range inlineKinds {
			t.Run(tc.name+"/"+kind.name, func(t *testing.T) {
				t.Parallel()
				// The default service config does not help.
				cc := dialInline(t, tc.target, grpc.WithDefaultServiceConfig(`{"loadBalancingConfig":[{"pick_first":{}}]}`))
				for range 2 {
					err := kind.call(testkit.Context(t), cc, grpc.WaitForReady(kind.wait))
					checkError(t, err, codes.Unavailable, "composite: target: ", tc.want, `a target looks like "composite:///primary=dns:///a.example:443,`)
				}
			})
		}
	}
}

// TestInlineTargetThatIsNoURL is what gRPC makes of targets that never get to the
// resolver.
func TestInlineTargetThatIsNoURL(t *testing.T) {
	t.Parallel()
	for _, target := range []string{"composite:///a%zz,b", "composite:///a\n,b"} {
		_, err := grpc.NewClient(target, composite.DialOptions()...)
		testkit.Contains(t, err, `parse "dns:///composite:///a`)
	}
	cc := dialInline(t, "composite://[::1]:443,[::2]:443")
	checkError(t, unaryRPC(testkit.Context(t), cc), codes.Unavailable, "too many colons in address")
}

func TestServiceConfigBesideTheTarget(t *testing.T) {
	for _, tc := range []struct {
		name, target string
		opts         []grpc.DialOption
		want         string
	}{
		{"clusters in the target are used, and not the default", "composite:///{a}", nil, "a"},
		{"the default is used for the target alone", "composite:///", nil, "b"},
		{"service configs from resolvers do not matter to the target alone", "composite:///", []grpc.DialOption{grpc.WithDisableServiceConfig()}, "b"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			backends := startAll(t, "a", "b")
			target := tc.target
			if target != "composite:///" {
				target = fill(t, target, backends...)
			}
			cc := dialTarget(t, target, testkit.Service{Clusters: []testkit.Cluster{patientCluster("b", backends[1].Target())}}, tc.opts...)
			if got := call(t, cc); got != tc.want {
				t.Errorf("answer from %s: want %s", got, tc.want)
			}
		})
	}
}

// TestTargetWithoutUse has targets that no RPC can succeed with, for reasons that
// only those RPCs hear of at once which do not wait.
func TestTargetWithoutUse(t *testing.T) {
	const disabled = "composite: target: with clusters in it, it is a service config, and grpc.WithDisableServiceConfig forbids those"
	const wrong = `composite: target: cluster 2: "": must have a target`
	const bare = "composite: target: without clusters in it, it has no endpoints"
	targetless := testkit.Service{Clusters: []testkit.Cluster{{Name: "a"}, {Name: "b", Target: testkit.EmptyTarget}}}
	for _, tc := range []struct {
		name, target string
		opts         []grpc.DialOption
		want, logged string
	}{
		{"clusters without service configs", "composite:///a:1,b:1", []grpc.DialOption{grpc.WithDisableServiceConfig()}, disabled, disabled},
		{"a wrong target without service configs", "composite:///a:1,", []grpc.DialOption{grpc.WithDisableServiceConfig()}, wrong, wrong},
		{"neither clusters nor a service config", "composite:///", nil, bare, bare},
		{"a service config with a cluster without a target", "composite:///", []grpc.DialOption{grpc.WithDefaultServiceConfig(targetless.JSON())}, "a skipped: no endpoints", bare},
	} {
		t.Run(tc.name, func(t *testing.T) {
			before := len(warnings.with(tc.logged)) // no other test runs meanwhile
			cc := dialInline(t, tc.target, tc.opts...)
			// The first RPC may be faster than the error's way to it.
			testkit.Eventually(t, "an error that has the cause", func() bool {
				err := unaryRPC(testkit.Context(t), cc)
				checkError(t, err, codes.Unavailable)
				return strings.Contains(err.Error(), tc.want)
			})
			ctx, cancel := context.WithTimeout(testkit.Context(t), 50*time.Millisecond)
			defer cancel()
			checkError(t, unaryRPC(ctx, cc, grpc.WaitForReady(true)), codes.DeadlineExceeded, tc.want)
			if got := warnings.with(tc.logged)[before:]; len(got) == 0 || !strings.Contains(got[0], "ERROR") {
				t.Errorf("the log says %q: want an error", got)
			}
		})
	}
}

func TestInlineAuthority(t *testing.T) {
	for _, tc := range []struct {
		name string
		opts []grpc.DialOption
		want []string
	}{
		{"each cluster's own", nil, []string{"[a.example]", "[b.example]"}},
		{"WithAuthority", []grpc.DialOption{grpc.WithAuthority("all.example")}, []string{"[all.example]", "[all.example]"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			backends := startScripted(t, "U OK")
			target := "composite:///first=" + named(backends[0], "a.example") + "," + named(backends[1], "b.example")
			call(t, dialInline(t, fill(t, target), tc.opts...))
			wantSeen(t, ":authority", backends, tc.want...)
		})
	}
}

func TestInlineSocket(t *testing.T) {
	t.Parallel()
	backends := startScripted(t, "OK")
	path := url.PathEscape(listenUnix(t, backends[0]))
	call(t, dialInline(t, fill(t, "composite:///{closed},socket=unix:"+path)))
	wantSeen(t, ":authority", backends, "[localhost]")
}

func TestInlineTargetWithoutDialOptions(t *testing.T) {
	for _, kind := range inlineKinds {
		t.Run(kind.name, func(t *testing.T) {
			t.Parallel()
			backends := startAll(t, "a", "b")
			cc := testkit.Dial(t, fill(t, "composite:///{a},{b}", backends...))
			err := kind.call(testkit.Context(t), cc, grpc.WaitForReady(kind.wait))
			checkError(t, err, codes.Internal, "composite.DialOptions()")
			if got := testkit.Counts(backends...); got != "0/0" {
				t.Errorf("calls %s: want none", got)
			}
		})
	}
}
