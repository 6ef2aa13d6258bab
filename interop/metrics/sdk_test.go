package metrics

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"google.golang.org/grpc"
	"google.golang.org/grpc/balancer"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/stats"

	"github.com/grpc-composite/grpc-composite/balancer/composite"
	"github.com/grpc-composite/grpc-composite/internal/testkit"
)

// read returns all series of composite.*, as "composite.picks{labels} 1", in order.
// It checks what holds for all of them.
func read(t *testing.T, reader *metric.ManualReader) []string {
	t.Helper()
	var all metricdata.ResourceMetrics
	if err := reader.Collect(testkit.Context(t), &all); err != nil {
		t.Fatal(err)
	}
	var series []string
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			if !strings.HasPrefix(m.Name, "composite.") {
				continue
			}
			sum, ok := m.Data.(metricdata.Sum[int64])
			if !ok || !sum.IsMonotonic || sum.Temporality != metricdata.CumulativeTemporality {
				t.Errorf("%s is %+v: want a counter", m.Name, m.Data)
			}
			if m.Unit != units[m.Name] || m.Description == "" {
				t.Errorf("%s has the unit %q and the description %q: want %q and some", m.Name, m.Unit, m.Description, units[m.Name])
			}
			for _, p := range sum.DataPoints {
				series = append(series, fmt.Sprintf("%s{%s} %d", m.Name, p.Attributes.Encoded(attribute.DefaultEncoder()), p.Value))
			}
		}
	}
	slices.Sort(series)
	return series
}

var units = map[string]string{
	"composite.picks": "{pick}", "composite.skips": "{skip}",
	"composite.exhausted": "{attempt}", "composite.attempt_timeouts": "{attempt}",
}

// The series, without the target.

func picks(cluster, attempt string, n int) string {
	return fmt.Sprintf("composite.picks{composite.attempt=%s,composite.cluster=%s,grpc.target=TARGET} %d", attempt, cluster, n)
}

func skips(cluster, reason string, n int) string {
	return fmt.Sprintf("composite.skips{composite.cluster=%s,composite.reason=%s,grpc.target=TARGET} %d", cluster, reason, n)
}

func exhausted(reason string, n int) string {
	return fmt.Sprintf("composite.exhausted{composite.reason=%s,grpc.target=TARGET} %d", reason, n)
}

func timeouts(cluster string, n int) string {
	return fmt.Sprintf("composite.attempt_timeouts{composite.cluster=%s,grpc.target=TARGET} %d", cluster, n)
}

// run is a service and what is done with a channel to it.
type run struct {
	service testkit.Service
	target  string // default composite:///
	play    func(t *testing.T, cc *grpc.ClientConn)
	want    []string
}

// call makes an RPC, whose result does not matter.
func call(t *testing.T, cc *grpc.ClientConn) {
	t.Helper()
	_, _ = testkit.Unary(testkit.Context(t), cc)
}

// calls makes n of them, one after another.
func calls(n int) func(t *testing.T, cc *grpc.ClientConn) {
	return func(t *testing.T, cc *grpc.ClientConn) {
		t.Helper()
		for range n {
			call(t, cc)
		}
	}
}

// driven is a cluster a whose child a test drives.
func driven(t *testing.T, more map[string]any) (testkit.Cluster, *testkit.Policy) {
	t.Helper()
	policy := testkit.NewPolicy(t)
	c := closed("a")
	c.More = map[string]any{"childPolicy": policy.Config()}
	for k, v := range more {
		c.More[k] = v
	}
	return c, policy
}

// afterA is a cluster a, before a healthy b.
func afterA(t *testing.T, a testkit.Cluster) testkit.Service {
	t.Helper()
	return testkit.Service{Clusters: []testkit.Cluster{a, scripted(t, testkit.OK, testkit.OK)[1]}}
}

var runs = []struct {
	name string
	make func(t *testing.T) run
}{
	{"healthy", func(t *testing.T) run {
		t.Helper()
		return run{service: testkit.Service{Clusters: scripted(t, testkit.OK)}, play: calls(3), want: []string{picks("a", "1", 3)}}
	}},
	{"retries", func(t *testing.T) run {
		t.Helper()
		return run{
			service: testkit.Service{Clusters: scripted(t, testkit.U, testkit.U, testkit.OK), Attempts: 3}, play: calls(2),
			want: []string{picks("a", "1", 2), picks("b", "2", 2), picks("c", "3", 2)},
		}
	}},
	{"transient_failure", func(t *testing.T) run {
		t.Helper()
		return run{service: afterA(t, closed("a")), play: calls(5), want: []string{picks("b", "1", 5), skips("a", "transient_failure", 5)}}
	}},
	{"no_endpoints", func(t *testing.T) run {
		t.Helper()
		return run{service: afterA(t, cluster("a", testkit.EmptyTarget, nil)), play: calls(2), want: []string{picks("b", "1", 2), skips("a", "no_endpoints", 2)}}
	}},
	{"connect_timeout", func(t *testing.T) run {
		t.Helper()
		hole, _ := testkit.BlackHole(t)
		return run{
			service: afterA(t, cluster("a", "passthrough:///"+hole, map[string]any{"connectTimeout": "0.05s"})), play: calls(2),
			want: []string{picks("b", "1", 2), skips("a", "connect_timeout", 2)},
		}
	}},
	{"max_requests", maxRequests},
	{"cooldown", func(t *testing.T) run {
		t.Helper()
		s := testkit.Service{Clusters: scripted(t, testkit.U, testkit.OK)}
		s.Clusters[0].More = map[string]any{"cooldown": map[string]any{"consecutiveFailures": 1, "time": "60s"}}
		return run{
			service: s,
			play: func(t *testing.T, cc *grpc.ClientConn) {
				t.Helper()
				_, _ = testkit.Unary(composite.WithAttempt(testkit.Context(t), 2), cc) // b has a host
				calls(2)(t, cc)
			},
			want: []string{picks("a", "1", 1), picks("b", "1", 1), picks("b", "2", 1), skips("a", "cooldown", 1)},
		}
	}},
	{"failback_delay", func(t *testing.T) run {
		t.Helper()
		a, policy := driven(t, map[string]any{"failbackDelay": "60s"})
		return run{
			service: afterA(t, a),
			play: func(t *testing.T, cc *grpc.ClientConn) {
				t.Helper()
				cc.Connect()
				child := policy.Child(t, 0)
				child.Report(connectivity.Ready, nil)
				child.Report(connectivity.TransientFailure, errors.New("down"))
				child.Report(connectivity.Ready, nil)
				_, _ = testkit.Unary(composite.WithAttempt(testkit.Context(t), 2), cc) // b has a host
				call(t, cc)
			},
			want: []string{picks("b", "1", 1), picks("b", "2", 1), skips("a", "failback_delay", 1)},
		}
	}},
	{"pick_error", func(t *testing.T) run {
		t.Helper()
		a, policy := driven(t, nil)
		policy.OnUpdate = func(c *testkit.PolicyChild, _ balancer.ClientConnState) error {
			c.Report(connectivity.Ready, errors.New("cannot pick"))
			return nil
		}
		return run{service: afterA(t, a), play: calls(1), want: []string{picks("b", "1", 1), skips("a", "pick_error", 1)}}
	}},
	{"removed", removed},
	{"no_host", func(t *testing.T) run {
		t.Helper()
		return run{
			service: testkit.Service{Clusters: []testkit.Cluster{closed("a"), closed("b")}, Attempts: 2}, play: calls(1),
			want: []string{exhausted("no_host", 2), skips("a", "transient_failure", 1), skips("b", "transient_failure", 2)},
		}
	}},
	{"overflow", func(t *testing.T) run {
		t.Helper()
		return run{
			service: testkit.Service{Clusters: scripted(t, testkit.U), Attempts: 3}, play: calls(2),
			want: []string{exhausted("overflow", 2), picks("a", "1", 2)},
		}
	}},
	{"overflow, to the last cluster", func(t *testing.T) run {
		t.Helper()
		return run{
			service: testkit.Service{Clusters: scripted(t, testkit.U, testkit.U), Attempts: 4, More: map[string]any{"overflow": "USE_LAST_CLUSTER"}}, play: calls(1),
			want: []string{picks("a", "1", 1), picks("b", "2", 1), picks("b", "overflow", 2)},
		}
	}},
	{"attempt timeouts", func(t *testing.T) run {
		t.Helper()
		s := testkit.Service{Clusters: scripted(t, testkit.Reply{Hang: true}, testkit.OK), Attempts: 2, Retryable: []string{"DEADLINE_EXCEEDED"}}
		s.Clusters[0].More = map[string]any{"attemptTimeout": "0.05s"}
		return run{service: s, play: calls(2), want: []string{timeouts("a", 2), picks("a", "1", 2), picks("b", "2", 2)}}
	}},
}

// maxRequests has a cluster full while another RPC comes.
func maxRequests(t *testing.T) run {
	t.Helper()
	full := testkit.Start(t, "a")
	full.Script(testkit.Reply{Hang: true})
	return run{
		service: afterA(t, cluster("a", full.Target(), map[string]any{"maxRequests": 1})),
		play: func(t *testing.T, cc *grpc.ClientConn) {
			t.Helper()
			ctx, cancel := context.WithCancel(testkit.Context(t))
			over := make(chan struct{})
			go func() {
				defer close(over)
				_, _ = testkit.Unary(ctx, cc)
			}()
			testkit.Eventually(t, "a call of a", func() bool { return full.Count() == 1 })
			call(t, cc)
			cancel()
			<-over
		},
		want: []string{picks("a", "1", 1), picks("b", "1", 1), skips("a", "max_requests", 1)},
	}
}

// removed has a new config come while an RPC with its own list is under way.
func removed(t *testing.T) run {
	t.Helper()
	channel := testkit.NewResolver(t)
	_ = channel.UpdateState(resolver.State{})
	a := testkit.Start(t, "a")
	rest := scripted(t, testkit.OK, testkit.OK, testkit.OK)[1:]
	s := testkit.Service{Clusters: append([]testkit.Cluster{cluster("a", a.Target(), nil)}, rest...), Attempts: 3}
	less := s
	less.Clusters = []testkit.Cluster{s.Clusters[0], s.Clusters[2]}
	a.Respond(func(int, testkit.Call) testkit.Reply {
		_ = channel.UpdateState(resolver.State{ServiceConfig: channel.Parse(less.JSON())})
		return testkit.U
	})
	return run{
		service: s, target: channel.Target(),
		play: func(t *testing.T, cc *grpc.ClientConn) {
			t.Helper()
			_, _ = testkit.Unary(composite.WithClusters(testkit.Context(t), "a", "b", "c"), cc)
		},
		want: []string{picks("a", "1", 1), picks("c", "2", 1), skips("b", "removed", 1)},
	}
}

// TestSDK reads all metrics back through the OpenTelemetry SDK.
func TestSDK(t *testing.T) {
	for _, tc := range runs {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			r, reader := tc.make(t), metric.NewManualReader()
			if r.target == "" {
				r.target = "composite:///"
			}
			r.play(t, dial(t, r.target, r.service, plugin(t, reader, stats.NewMetricSet(all...))))
			for i, s := range r.want {
				r.want[i] = strings.Replace(s, "TARGET", r.target, 1)
			}
			if got := read(t, reader); !slices.Equal(got, r.want) {
				t.Errorf("series\n\t%s\nwant\n\t%s", strings.Join(got, "\n\t"), strings.Join(r.want, "\n\t"))
			}
		})
	}
}

// TestOffByDefault checks that a program which asks for gRPC's own metrics, or for
// one of this library's, gets no others.
func TestOffByDefault(t *testing.T) {
	for _, tc := range []struct {
		name  string
		names *stats.MetricSet
		want  []string
	}{
		{"the plugin's defaults", nil, nil},
		{"one", stats.NewMetricSet("composite.exhausted"), []string{"composite.exhausted{composite.reason=overflow,grpc.target=composite:///} 1"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			reader := metric.NewManualReader()
			cc := dial(t, "composite:///", testkit.Service{Clusters: scripted(t, testkit.U), Attempts: 2}, plugin(t, reader, tc.names))
			call(t, cc)
			if got := read(t, reader); !slices.Equal(got, tc.want) {
				t.Errorf("series %q: want %q", got, tc.want)
			}
		})
	}
}
