package testkit

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"google.golang.org/grpc"
	expstats "google.golang.org/grpc/experimental/stats"
	"google.golang.org/grpc/stats"
)

// Metrics records the counts that policies make on channels with its DialOption.
// Its methods are safe for concurrent use.
type Metrics struct {
	expstats.UnimplementedMetricsRecorder

	mu      sync.Mutex
	counts  map[string]int64
	targets map[string]bool
}

// NewMetrics returns one that has recorded nothing.
func NewMetrics() *Metrics {
	return &Metrics{counts: make(map[string]int64), targets: make(map[string]bool)}
}

// DialOption has the counts of a channel recorded.
func (m *Metrics) DialOption() grpc.DialOption { return grpc.WithStatsHandler(m) }

// RecordInt64Count is called by policies.
func (m *Metrics) RecordInt64Count(h *expstats.Int64CountHandle, n int64, labels ...string) {
	name, ok := strings.CutPrefix(h.Descriptor().Name, "composite.")
	if !ok {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.targets[labels[0]] = true
	m.counts[strings.Join(append([]string{name}, labels[1:]...), " ")] += n
}

// Counts returns what was counted, by metric and labels without the target, as
// "picks a 1".
func (m *Metrics) Counts() map[string]int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return maps.Clone(m.counts)
}

// String lists the counts in order, as "picks a 1: 2, skips b max_requests: 1".
func (m *Metrics) String() string {
	var list []string
	for name, n := range m.Counts() {
		list = append(list, fmt.Sprintf("%s: %d", name, n))
	}
	slices.Sort(list)
	return strings.Join(list, ", ")
}

// Targets returns the targets that counts were for.
func (m *Metrics) Targets() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Sorted(maps.Keys(m.targets))
}

// TagRPC makes it a stats handler, among which a channel looks for recorders.
func (m *Metrics) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context { return ctx }

// HandleRPC does nothing.
func (m *Metrics) HandleRPC(context.Context, stats.RPCStats) {}

// TagConn does nothing.
func (m *Metrics) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }

// HandleConn does nothing.
func (m *Metrics) HandleConn(context.Context, stats.ConnStats) {}
