package plan

import "google.golang.org/grpc/connectivity"

// Condition is what a cluster can do for an attempt.
type Condition uint8

const (
	// NoHost means that attempts pass the cluster over.
	NoHost Condition = iota
	// HasHost means that the cluster's child policy is READY.
	HasHost
	// Connecting means that attempts wait for the cluster.
	Connecting
	// Idle is like Connecting, but nothing happens until an attempt comes and
	// asks the cluster to connect.
	Idle
)

func (c Condition) String() string {
	switch c {
	case HasHost:
		return "has a host"
	case Connecting:
		return "connecting"
	case Idle:
		return "idle"
	default:
		return "no host"
	}
}

// Reason is why a cluster has no host, in the words of the metrics.
type Reason string

// The reasons for passing a cluster over.
const (
	TransientFailure Reason = "transient_failure"
	NoEndpoints      Reason = "no_endpoints"
	ConnectTimeout   Reason = "connect_timeout"
	PickError        Reason = "pick_error"
	MaxRequests      Reason = "max_requests"
	Cooldown         Reason = "cooldown"
	FailbackDelay    Reason = "failback_delay"
	Removed          Reason = "removed"
)

// Reasons are all of them.
var Reasons = [...]Reason{TransientFailure, NoEndpoints, ConnectTimeout, PickError, MaxRequests, Cooldown, FailbackDelay, Removed}

// Facts is what is known of a cluster.
type Facts struct {
	// State is what the child policy reported last: CONNECTING if it has not
	// reported.
	State connectivity.State
	// Failed: the child has been in TRANSIENT_FAILURE and not been READY since.
	// Only READY ends it (gRFC A62): a child that goes on trying must not make
	// attempts wait each time.
	Failed bool
	// Rejected: the child returned an error for its latest endpoints.
	Rejected bool
	// Unresolved: resolving failed and there never were any endpoints.
	Unresolved bool
	// Empty: the latest list of endpoints was empty.
	Empty bool
	// Asked: something asked the cluster to connect, or it is of the kind that
	// connects by itself, and so time runs.
	Asked bool
	// TimedOut: it has been connecting for longer than its connect timeout.
	TimedOut bool
}

// Evaluate returns the condition that follows from the facts, and the reason if
// it is NoHost.
func Evaluate(f Facts) (Condition, Reason) {
	failure := TransientFailure
	if f.Empty {
		failure = NoEndpoints
	}
	switch {
	case f.Rejected:
		return NoHost, failure
	case f.State == connectivity.Ready:
		return HasHost, ""
	case f.Unresolved, f.Failed, f.State == connectivity.TransientFailure, f.State == connectivity.Shutdown:
		return NoHost, failure
	case f.State == connectivity.Idle && !f.Asked:
		return Idle, ""
	case f.TimedOut:
		return NoHost, ConnectTimeout
	default:
		return Connecting, ""
	}
}

// ChannelState returns the channel's state for its clusters' conditions.
func ChannelState(conditions []Condition) connectivity.State {
	state := connectivity.TransientFailure
	for _, c := range conditions {
		switch {
		case c == HasHost:
			return connectivity.Ready
		case c == Connecting:
			state = connectivity.Connecting
		case c == Idle && state != connectivity.Connecting:
			state = connectivity.Idle
		}
	}
	return state
}
