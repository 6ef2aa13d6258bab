package composite

import (
	"reflect"
	"strconv"

	"google.golang.org/grpc/balancer"
	"google.golang.org/grpc/experimental/stats"

	"github.com/grpc-composite/grpc-composite/internal/plan"
)

// The metrics are in gRPC's own registry (gRFC A79), and so reach whatever records
// gRPC's. They are off until a program names them.
var (
	picksMetric = stats.RegisterInt64Count(stats.MetricDescriptor{
		Name:        "composite.picks",
		Description: "Number of attempts that were sent to a cluster.",
		Unit:        "{pick}",
		Labels:      []string{targetLabel, clusterLabel, attemptLabel},
	})
	skipsMetric = stats.RegisterInt64Count(stats.MetricDescriptor{
		Name:        "composite.skips",
		Description: "Number of times that an attempt passed over a cluster.",
		Unit:        "{skip}",
		Labels:      []string{targetLabel, clusterLabel, reasonLabel},
	})
	exhaustedMetric = stats.RegisterInt64Count(stats.MetricDescriptor{
		Name:        "composite.exhausted",
		Description: "Number of attempts that found no cluster.",
		Unit:        "{attempt}",
		Labels:      []string{targetLabel, reasonLabel},
	})
	attemptTimeoutsMetric = stats.RegisterInt64Count(stats.MetricDescriptor{
		Name:        "composite.attempt_timeouts",
		Description: "Number of attempts that took longer than their cluster's attemptTimeout.",
		Unit:        "{attempt}",
		Labels:      []string{targetLabel, clusterLabel},
	})
)

const (
	targetLabel  = "grpc.target"
	clusterLabel = "composite.cluster"
	attemptLabel = "composite.attempt"
	reasonLabel  = "composite.reason"

	// pastEnd is what has no slot: as the attempt of a pick, one whose number is
	// beyond the list; as a reason, that the list is over. Callers choose the
	// numbers of attempts, and each value of a label costs those who keep it.
	pastEnd = "overflow"
	noHost  = "no_host"
)

// recorderOf returns what records the metrics of a channel, or nil if nothing does.
//
// gRPC-Go gives policies a list of recorders, which is empty on a channel without
// any, and does not say so. Counting for nobody would cost each RPC a little, so
// this looks into the list. One that it does not understand counts as not empty.
func recorderOf(cc balancer.ClientConn) stats.MetricsRecorder {
	recorder := cc.MetricsRecorder()
	if list := reflect.Indirect(reflect.ValueOf(recorder)); list.Kind() == reflect.Struct {
		if recorders := list.FieldByName("metricsRecorders"); recorders.Kind() == reflect.Slice && recorders.Len() == 0 {
			return nil
		}
	}
	return recorder
}

// metrics records what pickers of one config do. It has all labels ready, so that
// to record allocates nothing.
type metrics struct {
	recorder stats.MetricsRecorder
	target   string
	// By cluster, and within that by what it is about.
	picks    [][][]string // the attempt's number; the last is pastEnd
	skips    []map[plan.Reason][]string
	timeouts [][]string

	noHost, overflow []string
}

// newMetrics returns nil if nothing records.
func newMetrics(recorder stats.MetricsRecorder, target string, cfg *lbConfig) *metrics {
	if recorder == nil {
		return nil
	}
	m := &metrics{
		recorder: recorder, target: target,
		noHost: []string{target, noHost}, overflow: []string{target, pastEnd},
	}
	for _, c := range cfg.clusters {
		picks := make([][]string, 0, cfg.slots.Len()+1)
		for number := range cfg.slots.Len() {
			picks = append(picks, []string{target, c.name, strconv.Itoa(number + 1)})
		}
		m.picks = append(m.picks, append(picks, []string{target, c.name, pastEnd}))
		skips := make(map[plan.Reason][]string, len(plan.Reasons))
		for _, reason := range plan.Reasons {
			skips[reason] = []string{target, c.name, string(reason)}
		}
		m.skips = append(m.skips, skips)
		m.timeouts = append(m.timeouts, []string{target, c.name})
	}
	return m
}

// The methods of metrics are those of a tally.

func (m *metrics) picked(index, number, slots int, timedOut bool) {
	picksMetric.Record(m.recorder, 1, m.pickLabels(index, number, slots)...)
	if timedOut {
		attemptTimeoutsMetric.Record(m.recorder, 1, m.timeouts[index]...)
	}
}

func (m *metrics) skipped(index int, name string, reason plan.Reason) {
	if index == plan.None {
		skipsMetric.Record(m.recorder, 1, m.target, name, string(reason))
		return
	}
	skipsMetric.Record(m.recorder, 1, m.skips[index][reason]...)
}

func (m *metrics) foundNone(pastEnd bool) {
	if pastEnd {
		exhaustedMetric.Record(m.recorder, 1, m.overflow...)
		return
	}
	exhaustedMetric.Record(m.recorder, 1, m.noHost...)
}

// pickLabels are for an attempt at a list of n slots: the config's, or an RPC's
// own, which may be longer.
func (m *metrics) pickLabels(index, number, n int) []string {
	picks := m.picks[index]
	switch last := len(picks) - 1; {
	case number > n:
		return picks[last]
	case number > last:
		return []string{m.target, picks[last][1], strconv.Itoa(number)}
	default:
		return picks[number-1]
	}
}
