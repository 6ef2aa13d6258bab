package composite

import (
	"fmt"
	"strings"
	"unicode"

	"google.golang.org/grpc/balancer"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/grpc-composite/grpc-composite/internal/attempt"
)

const (
	maxErrorLength = 1024 // bytes of an error's list of clusters
	maxCauseLength = 256  // bytes of one cause in it
)

// errUntracked is for an RPC that nobody counts the attempts of, a being nil, or
// that counts from below 1. A channel that could never fail over must not look
// healthy.
func errUntracked(a *attempt.Attempt) error {
	if a == nil {
		return status.Error(codes.Internal, "composite: the attempts of this RPC are not counted: pass composite.DialOptions() to grpc.NewClient, before any other interceptor")
	}
	return status.Errorf(codes.Internal, "composite: attempt %d: must be at least 1: check the number given to composite.WithAttempt", a.Number())
}

// exhausted is the error of an attempt that found no host. It is a plain error,
// so that gRPC's retry policy decides what follows, and has no Unwrap: a child's
// status error inside would end the RPC. Its text is made when somebody reads
// it, since an RPC that waits for ready throws most of them away.
type exhausted struct {
	picker *picker
	number int
	start  int
	last   *attempt.Failure // told if the RPC ends here, or nil
	info   balancer.PickInfo
	failed []pickFailure
}

// pickFailure is the error of a child's picker.
type pickFailure struct {
	cluster int
	err     error
}

func (e *exhausted) add(cluster int, err error) {
	e.failed = append(e.failed, pickFailure{cluster, err})
}

func (e *exhausted) Error() string {
	considered := e.picker.table.Considered(e.start)
	parts := make([]string, len(considered))
	for i, cluster := range considered {
		parts[i] = e.reason(cluster)
	}
	return fmt.Sprintf("composite: attempt %d: no host available (no_healthy_upstream): %s%s", e.number, joinShort(parts), quoteFailure(e.last))
}

// reason says why one cluster was passed over.
func (e *exhausted) reason(cluster int) string {
	c := &e.picker.clusters[cluster]
	for _, f := range e.failed {
		if f.cluster != cluster {
			continue
		}
		if f.err == balancer.ErrNoSubConnAvailable {
			return c.cluster.name + " skipped: connecting"
		}
		return fmt.Sprintf("%s skipped: pick error (%s)", c.cluster.name, quoteShort(f.err.Error()))
	}
	return c.cluster.name + " skipped: " + c.cluster.describe(c.reason, e.info)
}

// overflowError ends an RPC whose attempts have gone past the end of the list.
// Its status is the last attempt's own, or UNAVAILABLE if it has none to give.
type overflowError struct {
	picker *picker
	number int
	last   *attempt.Failure // nil if no attempt came before
	status *status.Status   // nil for UNAVAILABLE
}

// GRPCStatus is what status.FromError finds.
func (e *overflowError) GRPCStatus() *status.Status {
	if e.status != nil {
		return e.status
	}
	return status.New(codes.Unavailable, e.story())
}

func (e *overflowError) Error() string {
	if e.status != nil {
		return e.status.Err().Error() + "; " + e.story()
	}
	return status.Error(codes.Unavailable, e.story()).Error()
}

// story says what happened. It quotes the last attempt's own error unless that
// is the status.
func (e *overflowError) story() string {
	slots := e.picker.table.Slots
	names := make([]string, slots.Len())
	for i := range names {
		names[i] = e.picker.clusters[slots.Cluster(i)].cluster.name
	}
	text := fmt.Sprintf("composite: attempt %d: no host available (no_healthy_upstream): past the end of the list of %d (%s)", e.number, len(names), joinShort(names))
	if e.status != nil {
		return text
	}
	return text + quoteFailure(e.last)
}

// quoteFailure tells how an attempt failed whose status the RPC does not have.
func quoteFailure(f *attempt.Failure) string {
	if f == nil {
		return ""
	}
	s := f.Status()
	return fmt.Sprintf("; attempt %d: %s %s", f.Number, codeName(s.Code()), quoteShort(s.Message()))
}

// codeName is a code as service configs write it: RESOURCE_EXHAUSTED.
func codeName(c codes.Code) string {
	if c == codes.Canceled {
		return "CANCELLED"
	}
	var name strings.Builder
	previous := 'A'
	for _, r := range c.String() {
		if unicode.IsUpper(r) && unicode.IsLower(previous) {
			name.WriteByte('_')
		}
		name.WriteRune(unicode.ToUpper(r))
		previous = r
	}
	return name.String()
}

// plain hides the status of an error, which would end the RPC.
type plain struct{ err error }

func (p plain) Error() string { return p.err.Error() }

// pickerError is what a child's picker says about why it has no host, or nil. It
// is asked as a channel that has this child alone would ask it.
func pickerError(p balancer.Picker, info balancer.PickInfo) error {
	if p == nil {
		return nil
	}
	result, err := pickChild(p, attempt.FromContext(info.Ctx), info)
	if err == nil && result.Done != nil {
		result.Done(balancer.DoneInfo{}) // not used after all
	}
	if err == balancer.ErrNoSubConnAvailable {
		return nil
	}
	return err
}

// quoteShort quotes what others said, so that it stays on one line, and cuts it.
func quoteShort(s string) string {
	if len(s) > maxCauseLength {
		s = strings.ToValidUTF8(s[:maxCauseLength], "") + "..."
	}
	return fmt.Sprintf("%q", s)
}

// joinShort joins parts until they are too long for an error, and counts the
// rest.
func joinShort(parts []string) string {
	var text strings.Builder
	for i, part := range parts {
		if i > 0 && text.Len()+len(part) > maxErrorLength {
			fmt.Fprintf(&text, "; and %d more", len(parts)-i)
			break
		}
		if i > 0 {
			text.WriteString("; ")
		}
		text.WriteString(part)
	}
	return text.String()
}
