package composite

import (
	"fmt"
	"slices"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/balancer"
	expstats "google.golang.org/grpc/experimental/stats"

	"github.com/grpc-composite/grpc-composite/internal/attempt"
	"github.com/grpc-composite/grpc-composite/internal/plan"
	"github.com/grpc-composite/grpc-composite/internal/testkit"
)

// recorderProbe is a policy that tells what recorderOf finds on its channel.
type recorderProbe struct{ found chan expstats.MetricsRecorder }

func (recorderProbe) Name() string { return "recorder_probe" }

func (p recorderProbe) Build(cc balancer.ClientConn, opts balancer.BuildOptions) balancer.Balancer {
	p.found <- recorderOf(cc)
	return balancer.Get("round_robin").Build(cc, opts)
}

var probe = recorderProbe{make(chan expstats.MetricsRecorder, 1)}

func init() { balancer.Register(probe) }

// TestRecorderOf checks that nothing is counted on a channel that nobody records
// on. It depends on how gRPC-Go keeps its recorders: if it fails, metrics are right
// all the same, and cost a little where there are none.
func TestRecorderOf(t *testing.T) {
	for _, tc := range []struct {
		name string
		opts []grpc.DialOption
		want bool
	}{
		{"a bare channel", nil, false},
		{"the options of this package", DialOptions(), false},
		{"a recorder", []grpc.DialOption{testkit.NewMetrics().DialOption()}, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			cc := testkit.Dial(t, "passthrough:///"+testkit.ClosedPort, append(slices.Clip(tc.opts), grpc.WithDefaultServiceConfig(`{"loadBalancingConfig": [{"recorder_probe": {}}]}`))...)
			cc.Connect()
			if got := <-probe.found; (got != nil) != tc.want {
				t.Errorf("recorder %v: want one: %v", got, tc.want)
			}
		})
	}
}

// oddList stands for a list of recorders as a later gRPC-Go may have it.
type oddList struct {
	expstats.UnimplementedMetricsRecorder

	recorders map[string]bool
}

// TestRecorderOfUnknownKind checks that metrics are recorded by what is not
// understood.
func TestRecorderOfUnknownKind(t *testing.T) {
	for _, recorder := range []expstats.MetricsRecorder{&oddList{}, oddList{recorders: map[string]bool{}}, testkit.NewMetrics()} {
		if got := recorderOf(&recordingChannel{recorder: recorder}); got == nil {
			t.Errorf("%T: counts for nothing", recorder)
		}
	}
}

type recordingChannel struct {
	fakeChannel

	recorder expstats.MetricsRecorder
}

func (c *recordingChannel) MetricsRecorder() expstats.MetricsRecorder { return c.recorder }

// sumRecorder adds up what is recorded.
type sumRecorder struct {
	expstats.UnimplementedMetricsRecorder

	sum int64
}

func (r *sumRecorder) RecordInt64Count(_ *expstats.Int64CountHandle, n int64, _ ...string) {
	r.sum += n
}

// withMetrics gives a picker over clusters 0, 1, ... metrics.
func withMetrics(p *picker, recorder expstats.MetricsRecorder) *picker {
	p.config.slots = p.table.Slots
	for i := range p.clusters {
		p.config.clusters = append(p.config.clusters, clusterConfig{name: fmt.Sprint(i)})
		if p.clusters[i].condition == plan.NoHost {
			p.clusters[i].reason = plan.TransientFailure
		}
	}
	p.metrics = newMetrics(recorder, "composite:///", p.config)
	return p
}

// BenchmarkMetrics is what the metrics add to an attempt when they are on, without
// what the recorder does.
func BenchmarkMetrics(b *testing.B) {
	var child balancer.Picker = &stubPicker{result: balancer.PickResult{SubConn: &subConn{SubConn: stubSubConn{}}}}
	for _, tc := range []struct{ clusters, down int }{{3, 0}, {3, 1}, {64, 63}, {3, 3}} {
		b.Run(fmt.Sprintf("clusters=%d,down=%d", tc.clusters, tc.down), func(b *testing.B) {
			p, a := withMetrics(tableOf(tc.clusters, tc.down, child), &sumRecorder{}), attempt.FromContext(firstAttempt(b))
			_, _ = p.Pick(balancer.PickInfo{Ctx: a})
			b.ReportAllocs()
			for b.Loop() {
				p.Count(a, false)
			}
		})
	}
}

// TestCountAllocatesNothing counts attempts that have passed over none, some and
// all clusters.
func TestCountAllocatesNothing(t *testing.T) {
	var child balancer.Picker = &stubPicker{result: balancer.PickResult{SubConn: &subConn{SubConn: stubSubConn{}}}}
	for _, tc := range []struct {
		clusters, down int
		want           int64 // for each attempt
	}{{3, 0, 1}, {3, 2, 3}, {64, 63, 64}, {64, 64, 65}} {
		recorder := &sumRecorder{}
		p, a := withMetrics(tableOf(tc.clusters, tc.down, child), recorder), attempt.FromContext(firstAttempt(t))
		_, _ = p.Pick(balancer.PickInfo{Ctx: a})
		if n := testing.AllocsPerRun(10, func() { p.Count(a, false) }); n != 0 {
			t.Errorf("%d of %d clusters down: %v allocations: want none", tc.down, tc.clusters, n)
		}
		if want := 11 * tc.want; recorder.sum != want { // AllocsPerRun runs it once more
			t.Errorf("%d of %d clusters down: counted %d: want %d", tc.down, tc.clusters, recorder.sum, want)
		}
	}
}
