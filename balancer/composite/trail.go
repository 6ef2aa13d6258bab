package composite

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/balancer"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/grpc-composite/grpc-composite/internal/attempt"
	"github.com/grpc-composite/grpc-composite/internal/plan"
)

// Trail tells what an RPC went through: its attempts, in the order in which they
// began.
type Trail struct{ Attempts []Attempt }

// Attempt is one attempt of an RPC.
type Attempt struct {
	// Number counts from 1. A transparent retry has the number of the attempt
	// that it repeats.
	Number int
	// Cluster is the name of the cluster that the attempt was sent to, or ""
	// if it found none. Peer is the address of the server, or "" if no stream
	// was opened.
	Cluster, Peer string
	// Skipped are the clusters that were passed over within the attempt.
	Skipped []Skip
	// Transparent: the attempt repeats one that no server had seen.
	// Committed: a response header came, so that gRPC would not retry.
	Transparent, Committed bool
	// Start is when the attempt began, and Duration how long it took, the pick
	// and all waiting included.
	Start    time.Time
	Duration time.Duration
	// Code and Message are how the attempt ended. gRPC-Go does not report the
	// code of a failure that it noticed while it sent a message: then it is the
	// only one that the retry policy goes on from, or else UNKNOWN.
	Code    codes.Code
	Message string
}

// Skip is a cluster that an attempt passed over.
type Skip struct {
	Cluster string
	// Reason is one of transient_failure, no_endpoints, connect_timeout,
	// max_requests, cooldown, failback_delay, pick_error and removed.
	Reason string
	// Err is why, or nil if that says all.
	Err error
}

// AttemptInfo is which attempt of an RPC a context belongs to.
type AttemptInfo struct {
	Number  int    // from 1
	Cluster string // "" until the attempt has been picked for
}

// AttemptFromContext returns the attempt that ctx belongs to, for what gRPC calls
// within one: call credentials, stats handlers, child policies' pickers. It
// returns false outside an attempt, and if the channel lacks [DialOptions].
func AttemptFromContext(ctx context.Context) (AttemptInfo, bool) {
	a := attempt.FromContext(ctx)
	if a == nil {
		return AttemptInfo{}, false
	}
	return AttemptInfo{Number: a.Number(), Cluster: clusterOf(a)}, true
}

// clusterOf is the cluster of the outermost policy that an attempt went to.
func clusterOf(a *attempt.Attempt) string {
	if path := a.Path(); len(path) > 0 {
		return path[0].Name
	}
	return ""
}

// RecordTrail has the RPC's trail written to t when the RPC has ended: read it
// after the call has returned, or in a [google.golang.org/grpc.OnFinish] given
// after this option. It is not written on channels that lack [DialOptions]. t
// must not be used by two RPCs at once.
func RecordTrail(t *Trail) grpc.CallOption { return recordTrail{trail: t} }

type recordTrail struct {
	grpc.EmptyCallOption

	trail *Trail
}

// startTrail has the trail written for those who want it, before any other
// option is told that the RPC has ended.
func startTrail(l *attempt.Ledger, opts []grpc.CallOption) []grpc.CallOption {
	for _, opt := range opts {
		if r, ok := opt.(recordTrail); ok {
			write := grpc.OnFinish(func(err error) { *r.trail = newTrail(l, err) })
			return append([]grpc.CallOption{write}, opts...)
		}
	}
	return opts
}

// TrailFromError returns the trail of a failed RPC, and false if err does not
// come from a channel with the policy "composite".
func TrailFromError(err error) (Trail, bool) {
	var e *trailError
	if !errors.As(err, &e) {
		return Trail{}, false
	}
	return newTrail(e.ledger, e.err), true
}

// trailError is the error of a failed RPC. It is that of gRPC, with the trail in
// its text, which is made when somebody reads it.
type trailError struct {
	err    error
	ledger *attempt.Ledger
}

// withTrail adds the trail to an RPC's error, once.
func withTrail(l *attempt.Ledger, err error) error {
	var e *trailError
	if errors.As(err, &e) {
		return err
	}
	return &trailError{err, l}
}

// GRPCStatus is the status of the error itself.
func (e *trailError) GRPCStatus() *status.Status { return status.Convert(e.err) }

// Unwrap returns the error itself.
func (e *trailError) Unwrap() error { return e.err }

func (e *trailError) Error() string {
	trail := newTrail(e.ledger, e.err).String()
	if trail == "" {
		return e.err.Error()
	}
	return e.err.Error() + "; " + trail
}

// newTrail makes the trail of an RPC that has ended with err.
func newTrail(l *attempt.Ledger, err error) Trail {
	var s *status.Status
	if err != nil && !errors.Is(err, io.EOF) {
		s = status.Convert(err)
	}
	records, _ := l.Records(s.Code(), s.Message())
	var t Trail
	for _, r := range records {
		a := Attempt{
			Number: r.Number(), Cluster: clusterOf(r.Attempt), Transparent: r.Transparent(), Committed: r.Committed,
			Start: r.Start, Duration: r.Duration, Code: r.Code, Message: r.Message,
		}
		if r.Peer != nil {
			a.Peer = r.Peer.String()
		}
		if p, ok := r.Route.Picker.(*picker); ok {
			a.Skipped = p.skipped(r.Attempt, r.Route)
			if r.Route.End >= p.slotsOf(r.Attempt) {
				a.Cluster = ""
			}
		}
		t.Attempts = append(t.Attempts, a)
	}
	return t
}

// slotsOf is how many slots the attempt's list has.
func (p *picker) slotsOf(a *attempt.Attempt) int {
	if list := a.List(); list != nil {
		return len(list.Names)
	}
	return p.table.Len()
}

// skipped puts a route into words.
func (p *picker) skipped(a *attempt.Attempt, r attempt.Route) []Skip {
	errs, _ := r.Held.Errs.(*pickErrors)
	full, resting, early := plan.Set(r.Held.Full), plan.Set(r.Held.Resting), plan.Set(r.Held.Early)
	var skips []Skip
	seen := make(map[string]bool)
	for slot := r.Start; slot < r.End; slot++ {
		name, index := p.slot(a, slot)
		if seen[name] {
			continue
		}
		seen[name] = true
		if index == plan.None {
			skips = append(skips, Skip{Cluster: name, Reason: string(plan.Removed)})
			continue
		}
		c := &p.clusters[index]
		skip := Skip{Cluster: name}
		switch err := errs.at(slot); {
		case err == balancer.ErrNoSubConnAvailable:
			skip.Reason = string(plan.ConnectTimeout)
		case err != nil:
			skip.Reason, skip.Err = string(plan.PickError), err
		case full.Has(slot):
			skip.Reason = string(plan.MaxRequests)
		case resting.Has(slot):
			skip.Reason = string(plan.Cooldown)
		case early.Has(slot):
			skip.Reason = string(plan.FailbackDelay)
		default:
			skip.Reason, skip.Err = string(c.reason), c.cluster.lastError()
		}
		skips = append(skips, skip)
	}
	return skips
}

// slot returns the name of a slot's cluster, and its index or None.
func (p *picker) slot(a *attempt.Attempt, slot int) (string, int) {
	list := a.List()
	if list == nil {
		index := p.table.Cluster(slot)
		return p.clusters[index].cluster.name, index
	}
	name := list.Names[slot]
	if index, ok := p.config.index[name]; ok {
		return name, index
	}
	return name, plan.None
}

// lastError is the latest error of the cluster's resolver, child or connections.
func (c *cluster) lastError() error {
	c.parent.mu.Lock()
	defer c.parent.mu.Unlock()
	switch ch := c.current; {
	case ch != nil && ch.rejected != nil:
		return ch.rejected
	case ch != nil && ch.connErr != nil:
		return ch.connErr
	default:
		return c.resolveErr
	}
}

// String writes the trail in one line of at most 1 KiB. It is empty if the trail
// tells no more than the error of its only attempt.
func (t Trail) String() string {
	if len(t.Attempts) == 1 && t.Attempts[0].Cluster == "" {
		return ""
	}
	told := make(map[string]bool)
	parts := make([]string, len(t.Attempts))
	for i, a := range t.Attempts {
		parts[i] = a.write(told)
	}
	return joinShort(parts)
}

// String writes the attempt in one line. What servers said is quoted.
func (a Attempt) String() string { return a.write(make(map[string]bool)) }

// write writes the attempt, without the causes of skips that were told before.
func (a Attempt) write(told map[string]bool) string {
	var text strings.Builder
	fmt.Fprintf(&text, "attempt %d", a.Number)
	for _, s := range a.Skipped {
		full := s.String()
		if told[full] {
			s.Err = nil
		}
		told[full] = true
		fmt.Fprintf(&text, " %s,", s)
	}
	if a.Cluster == "" {
		text.WriteString(" no host")
		return text.String()
	}
	text.WriteString(" " + a.Cluster)
	if a.Peer != "" {
		text.WriteString(" " + a.Peer)
	}
	fmt.Fprintf(&text, ": %s", codeName(a.Code))
	if a.Message != "" {
		text.WriteString(" " + quoteShort(a.Message))
	}
	if a.Committed {
		text.WriteString(" (committed)")
	}
	return text.String()
}

// String writes the skip in one line.
func (s Skip) String() string {
	text := s.Cluster + " skipped: " + s.Reason
	if s.Err != nil {
		text += " (" + quoteShort(s.Err.Error()) + ")"
	}
	return text
}
