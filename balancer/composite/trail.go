package composite

import (
	"context"
	"errors"
	"slices"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/grpc-composite/grpc-composite/internal/attempt"
	"github.com/grpc-composite/grpc-composite/internal/inspect"
)

// Trail tells what an RPC went through: its attempts, in the order in which they
// began. Of more than 257 attempts it has the first and the last 256. It is a plain
// value, with all that it has: any number of goroutines may read it.
type Trail struct{ Attempts []Attempt }

// Attempt is one attempt of an RPC.
type Attempt struct {
	// Number counts from 1. A transparent retry has the number of the attempt
	// that it repeats.
	Number int
	// Cluster is the name of the cluster that the attempt was sent to, or that
	// it waited for to the end, or "" if it found none. Peer is the address of
	// the server, or "" if no stream was opened.
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
	// Code and Message are how the attempt ended. Of a failure that gRPC-Go
	// noticed while it sent a message it does not report the code: then it is
	// the only one that the retry policy goes on from, or else UNKNOWN. An
	// attempt that was not over when the RPC ended is CANCELLED. One that ends the
	// RPC past the end of the list has those of the attempt before it, as the RPC has.
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
	Cluster string // "" until the attempt has been picked for, and if it found none
}

// AttemptFromContext returns the attempt that ctx belongs to, for what gRPC calls
// within one: call credentials, stats handlers, child policies' pickers. It
// returns false outside an attempt, before the attempt has begun (in a stats
// handler's TagRPC), and if the channel lacks [DialOptions].
func AttemptFromContext(ctx context.Context) (AttemptInfo, bool) {
	a := attempt.FromContext(ctx)
	if a == nil || a.Number() < 1 {
		return AttemptInfo{}, false
	}
	info := AttemptInfo{Number: a.Number()}
	if c := a.Cluster(); c != nil && !foundNone(a, a.Route()) {
		info.Cluster = c.Name
	}
	return info, true
}

// RecordTrail has the RPC's trail written to t when the RPC has ended, whether or
// not it has failed. Read t after the call has returned; for a stream, after
// receiving has returned an error, io.EOF included, or the only response; or else
// in a [google.golang.org/grpc.OnFinish], unless an interceptor runs several streams of
// the RPC at once: the end of each writes the trail.
//
// The option is for the caller, and for interceptors before [DialOptions] (the first
// ones, if a channel gets those of two calls). Nothing is written on channels without
// them or with another policy, if the RPC ended before its first attempt, or if t is nil.
// t must not be used by two RPCs at once.
func RecordTrail(t *Trail) grpc.CallOption { return recordTrail{trail: t} }

type recordTrail struct {
	grpc.EmptyCallOption

	trail *Trail
}

// startTrail has the trail written for those who want it, before any other
// option is told that the RPC has ended.
func startTrail(l *attempt.Ledger, opts []grpc.CallOption) ([]grpc.CallOption, error) {
	var trails []*Trail
	watching := inspect.Watching()
	for _, opt := range opts {
		if r, ok := opt.(recordTrail); ok && r.trail != nil {
			trails = append(trails, r.trail)
		}
	}
	if trails == nil && !watching {
		return opts, nil
	}
	var kept keptTrail
	write := func(err error, complete bool) {
		if !l.Composite() {
			return
		}
		if watching {
			kept.keep(l, err)
		}
		if complete {
			return
		}
		for _, t := range trails {
			*t = newTrail(l, err)
		}
	}
	if trails == nil {
		return append([]grpc.CallOption{l.WriteRecords(write)}, opts...), nil
	}
	// Without the options that are served: RPCs that an interceptor makes on the way with
	// the same options would write to them, too.
	rest := slices.DeleteFunc(slices.Clone(opts), func(opt grpc.CallOption) bool {
		_, ok := opt.(recordTrail)
		return ok
	})
	return append([]grpc.CallOption{l.WriteRecords(write)}, rest...), nil
}

// TrailFromError returns the trail of a failed RPC. It returns false if err does
// not come from an attempt on a channel with the policy "composite", or if an
// interceptor after [DialOptions] made an error of it that is no gRPC status.
func TrailFromError(err error) (Trail, bool) {
	var e *trailError
	if !errors.As(err, &e) {
		return Trail{}, false
	}
	return Trail{Attempts: slices.Clone(e.trail.Attempts)}, true
}

// trailError is the error of a failed RPC. It is that of gRPC, with the trail in
// its text, which is made when somebody reads it.
type trailError struct {
	err    error
	ledger *attempt.Ledger
	trail  Trail
}

// withTrail adds the trail to an RPC's error, once. An error that is no status
// stays as it is: its text is its message.
func withTrail(l *attempt.Ledger, err error) error {
	var e *trailError
	if errors.As(err, &e) && e.ledger == l {
		return err
	}
	if _, ok := status.FromError(err); !ok {
		return err
	}
	return &trailError{err, l, newTrail(l, err)}
}

// GRPCStatus is the status of the error itself.
func (e *trailError) GRPCStatus() *status.Status { return status.Convert(e.err) }

// Unwrap returns the error itself.
func (e *trailError) Unwrap() error { return e.err }

// Error leaves the trail out if it tells no more than the error of the only
// attempt, which found no cluster.
func (e *trailError) Error() string {
	if a := e.trail.Attempts; len(a) == 0 || len(a) == 1 && a[0].Cluster == "" {
		return e.err.Error()
	}
	return e.err.Error() + "; " + e.trail.String()
}

// newTrail makes the trail of an RPC that has ended with err, or of which a stream
// has. It is made then and not when it is read: by that time clusters and channel
// may be gone, and know no more why they were passed over.
func newTrail(l *attempt.Ledger, err error) Trail {
	records, _ := l.Records(err)
	return trailOf(records)
}

func trailOf(records []attempt.Record) Trail {
	var t Trail
	for _, r := range records {
		a := Attempt{
			Number: r.Number(), Cluster: r.Cluster, Transparent: r.Transparent(), Committed: r.Committed,
			Skipped: skipped(r.Attempt, r.Route),
			Start:   r.Start, Duration: r.Duration, Code: r.Status.Code(), Message: r.Status.Message(),
		}
		if r.Peer != nil {
			a.Peer = r.Peer.String()
		}
		if foundNone(r.Attempt, r.Route) {
			a.Cluster = ""
		}
		t.Attempts = append(t.Attempts, a)
	}
	return t
}
