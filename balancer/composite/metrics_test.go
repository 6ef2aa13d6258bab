package composite_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/balancer"
	"google.golang.org/grpc/connectivity"
	testpb "google.golang.org/grpc/interop/grpc_testing"

	"github.com/grpc-composite/grpc-composite/balancer/composite"
	"github.com/grpc-composite/grpc-composite/internal/testkit"
)

// counted is what was counted on a channel.
func counted(cc *grpc.ClientConn) *testkit.Metrics {
	m, _ := metricsOf.Load(cc)
	return m.(*testkit.Metrics)
}

// TestMetrics checks all that is counted for one RPC, with all labels.
func TestMetrics(t *testing.T) {
	last, round := map[string]any{"overflow": "USE_LAST_CLUSTER"}, map[string]any{"overflow": "ROUND_ROBIN"}
	for _, tc := range []struct {
		name    string
		servers string // replies; a dash is a closed port
		service testkit.Service
		ctx     func(ctx context.Context) context.Context
		want    string
	}{
		{name: "one attempt", servers: "OK", want: "picks a 1: 1"},
		{name: "a retry", servers: "U OK", service: testkit.Service{Attempts: 2}, want: "picks a 1: 1, picks b 2: 1"},
		{name: "a retry that fails", servers: "U U", service: testkit.Service{Attempts: 2}, want: "picks a 1: 1, picks b 2: 1"},
		{name: "a skip", servers: "- OK", want: "picks b 1: 1, skips a transient_failure: 1"},
		{name: "a skip by each of two attempts", servers: "- - U OK", service: testkit.Service{Attempts: 4}, want: "picks c 1: 1, picks c 2: 1, picks c 3: 1, picks d 4: 1, skips a transient_failure: 1, skips b transient_failure: 2"},
		{name: "no host", servers: "- -", service: testkit.Service{Attempts: 2}, want: "exhausted no_host: 2, skips a transient_failure: 1, skips b transient_failure: 2"},
		{name: "no host, the way of Envoy", servers: "- -", service: testkit.Service{Attempts: 2, More: map[string]any{"noHost": "FAIL_REQUEST"}}, want: "exhausted no_host: 1, skips a transient_failure: 1, skips b transient_failure: 1"},
		{name: "no host in its own slot", servers: "- OK", service: testkit.Service{More: map[string]any{"skipClustersWithoutHosts": false}}, want: "exhausted no_host: 1, skips a transient_failure: 1"},
		{name: "past the end", servers: "U", service: testkit.Service{Attempts: 2}, want: "exhausted overflow: 1, picks a 1: 1"},
		{name: "past the end, at the last", servers: "U U", service: testkit.Service{Attempts: 4, More: last}, want: "picks a 1: 1, picks b 2: 1, picks b overflow: 2"},
		{name: "past the end, from the start", servers: "U U", service: testkit.Service{Attempts: 4, More: round}, want: "picks a 1: 1, picks a overflow: 1, picks b 2: 1, picks b overflow: 1"},
		{
			name: "a number that nobody bounds", servers: "OK", service: testkit.Service{More: last},
			ctx:  func(ctx context.Context) context.Context { return composite.WithAttempt(ctx, 1<<40) },
			want: "picks a overflow: 1",
		},
		{
			name: "a number below 1", servers: "OK",
			ctx:  func(ctx context.Context) context.Context { return composite.WithAttempt(ctx, 0) },
			want: "",
		},
		{
			name: "an own list, longer than the config's", servers: "U -", service: testkit.Service{Attempts: 4, More: last},
			ctx:  func(ctx context.Context) context.Context { return composite.WithClusters(ctx, "a", "b", "a") },
			want: "picks a 1: 1, picks a 2: 1, picks a 3: 1, picks a overflow: 1, skips b transient_failure: 1",
		},
		{
			name: "an own list with an unknown name", servers: "OK",
			ctx:  func(ctx context.Context) context.Context { return composite.WithClusters(ctx, "x") },
			want: "",
		},
	} {
		for _, kind := range trailKinds {
			t.Run(tc.name+"/"+kind.name, func(t *testing.T) {
				t.Parallel()
				s := tc.service
				for i, reply := range strings.Fields(tc.servers) {
					if name := string(rune('a' + i)); reply == "-" {
						s.Clusters = append(s.Clusters, closedCluster(name))
					} else {
						b := startScripted(t, reply)[0]
						s.Clusters = append(s.Clusters, testkit.Cluster{Name: name, Target: b.Target()})
					}
				}
				cc, ctx := dial(t, s), testkit.Context(t)
				if tc.ctx != nil {
					ctx = tc.ctx(ctx)
				}
				_ = kind.call(ctx, cc)
				if got := counted(cc).String(); got != tc.want {
					t.Errorf("counted %s: want %s", got, tc.want)
				}
				if got := counted(cc).Targets(); len(got) > 0 && !slices.Equal(got, []string{"composite:///"}) {
					t.Errorf("targets %q: want the channel's", got)
				}
			})
		}
	}
}

// TestMetricsOfTimeouts checks that an attempt is counted as too slow if it is, and
// not if the RPC's own time is over.
func TestMetricsOfTimeouts(t *testing.T) {
	for _, tc := range []struct {
		name  string
		limit time.Duration
		rpc   time.Duration
		want  string
	}{
		{"the attempt's", cutAfter, time.Minute, "attempt_timeouts a: 1, picks a 1: 1, picks b 2: 1"},
		{"the RPC's", time.Minute, cutAfter, "picks a 1: 1"},
	} {
		for _, kind := range trailKinds {
			t.Run(tc.name+"/"+kind.name, func(t *testing.T) {
				t.Parallel()
				backends := startAnswering(t, "OK OK")
				backends[0].Script(hang)
				clusters := testkit.Clusters(backends...)
				cc := dial(t, goingOn(append(timed(tc.limit, clusters[0]), clusters[1])...))
				cc.Connect() // else the RPC's time may be over before it is picked for
				testkit.AwaitState(t, cc, connectivity.Ready)
				ctx, cancel := context.WithTimeout(testkit.Context(t), tc.rpc)
				defer cancel()
				_ = kind.call(ctx, cc)
				testkit.Eventually(t, tc.want, func() bool { return counted(cc).String() == tc.want })
			})
		}
	}
}

// TestMetricsOfTransparentRetries checks that what gRPC repeats is counted once.
func TestMetricsOfTransparentRetries(t *testing.T) {
	for _, tc := range []struct {
		name   string
		script []testkit.RawReply
		want   string
	}{
		{"refused once", []testkit.RawReply{testkit.RawRefuse, testkit.RawOK}, "picks a 1: 1"},
		{"refused twice", []testkit.RawReply{testkit.RawRefuse}, "picks a 1: 1, picks b 2: 1"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			a, b := testkit.StartRaw(t, "a", tc.script...), testkit.Start(t, "b")
			cc := dial(t, testkit.Service{Attempts: 2, Clusters: []testkit.Cluster{{Name: "a", Target: a.Target()}, {Name: "b", Target: b.Target()}}})
			_ = unaryRPC(testkit.Context(t), cc)
			if a.Streams() != 2 {
				t.Errorf("%d streams: want 2", a.Streams())
			}
			if got := counted(cc).String(); got != tc.want {
				t.Errorf("counted %s: want %s", got, tc.want)
			}
		})
	}
}

// TestMetricsOfStreams checks when a stream is counted that is not over: when its
// response begins. One that has no response is counted when it is given up, though
// nobody receives that.
func TestMetricsOfStreams(t *testing.T) {
	t.Parallel()
	a := startAll(t, "a")[0]
	cc := dial(t, testkit.Service{Clusters: testkit.Clusters(a)})
	open := func(reply testkit.Reply) (cancel func()) {
		ctx, cancel := context.WithCancel(context.Background()) // no deadline, which would count it too
		t.Cleanup(cancel)
		a.Script(reply)
		if _, err := testpb.NewTestServiceClient(cc).FullDuplexCall(ctx); err != nil {
			t.Fatal(err)
		}
		testkit.Eventually(t, "a stream", func() bool { return a.Count() == 1 })
		return cancel
	}
	awaits := func(want string) {
		t.Helper()
		testkit.Eventually(t, want, func() bool { return counted(cc).String() == want })
	}
	open(answering)
	awaits("picks a 1: 1")
	cancel := open(hang)
	open(answering)
	awaits("picks a 1: 2")
	cancel()
	awaits("picks a 1: 3")
}

// TestMetricsOfWaits checks that an attempt that waits is no pick, and that what it
// has picked before it went on counts once.
func TestMetricsOfWaits(t *testing.T) {
	for _, kind := range trailKinds {
		t.Run(kind.name, func(t *testing.T) {
			t.Parallel()
			waits := &fixedPicker{err: balancer.ErrNoSubConnAvailable}
			p, policy := policyCluster(t, "p", waits)
			backends := startAnswering(t, "OK")
			cc := dial(t, testkit.Service{Clusters: append([]testkit.Cluster{closedCluster("c"), p}, testkit.Clusters(backends...)...)})
			testkit.Eventually(t, "c has no host", func() bool {
				_ = unaryRPC(composite.WithClusters(testkit.Context(t), "c"), cc)
				return counted(cc).Counts()["skips c transient_failure"] > 0
			})
			skips := counted(cc).Counts()["skips c transient_failure"]

			ctx, cancel := context.WithCancel(testkit.Context(t))
			over := make(chan error, 1)
			go func() { over <- kind.call(ctx, cc) }()
			testkit.Eventually(t, "a pick", func() bool { return waits.picks.Load() > 0 })
			cancel()
			if err := <-over; err == nil {
				t.Error("the RPC has succeeded")
			}
			testkit.Eventually(t, "the attempt is over", func() bool { return counted(cc).Counts()["skips c transient_failure"] == skips+1 })
			if got := counted(cc).Counts()["picks p 1"]; got != 0 {
				t.Errorf("%d picks of a cluster that was only waited for: want none", got)
			}

			seen := waits.picks.Load()
			go func() { over <- kind.call(testkit.Context(t), cc) }()
			testkit.Eventually(t, "a pick", func() bool { return waits.picks.Load() > seen })
			policy.Child(t, 0).Report(connectivity.TransientFailure, errors.New("down"))
			if err := <-over; err != nil {
				t.Fatal(err)
			}
			got := counted(cc).Counts()
			if got["skips c transient_failure"] != skips+2 || got["skips p transient_failure"] != 1 || got["picks a 1"] != 1 {
				t.Errorf("counted %s: want a pick of a, and a skip of p and one more of c", counted(cc))
			}
		})
	}
}

// TestMetricsOfNestedPolicies checks that attempts are counted by the outer policy's
// clusters, and once.
func TestMetricsOfNestedPolicies(t *testing.T) {
	t.Parallel()
	backends := startScripted(t, "U U OK")
	clusters := testkit.Clusters(backends...)
	inner := testkit.Service{Clusters: append([]testkit.Cluster{closedCluster("x")}, clusters[1:]...)}
	cc := dial(t, testkit.Service{Attempts: 3, Clusters: []testkit.Cluster{clusters[0], nested("N", inner), clusters[2]}})
	_ = unaryRPC(testkit.Context(t), cc)
	if got, want := counted(cc).String(), "picks N 2: 1, picks a 1: 1, picks c 3: 1"; got != want {
		t.Errorf("counted %s: want %s", got, want)
	}
}
