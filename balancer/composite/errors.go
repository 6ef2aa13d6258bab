package composite

import (
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"
	"unicode"

	"google.golang.org/grpc/balancer"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/status"

	"github.com/grpc-composite/grpc-composite/internal/attempt"
	"github.com/grpc-composite/grpc-composite/internal/clustertarget"
	"github.com/grpc-composite/grpc-composite/internal/inspect"
	"github.com/grpc-composite/grpc-composite/internal/plan"
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
	picker  *picker
	attempt *attempt.Attempt
	table   plan.Table
	start   int
	last    *attempt.Failure // told if the RPC ends here, or nil
	info    balancer.PickInfo
	skips   skips
}

// pickErrors are the errors of children's pickers, by slot.
type pickErrors struct {
	slot int
	err  error
	next *pickErrors
}

func (e *pickErrors) add(slot int, err error) *pickErrors { return &pickErrors{slot, err, e} }

func (e *pickErrors) at(slot int) error {
	for ; e != nil; e = e.next {
		if e.slot == slot {
			return e.err
		}
	}
	return nil
}

// awaitPlaces does what that of a picker does, in policies inside that have found
// their clusters full.
func (e *pickErrors) awaitPlaces() bool {
	for ; e != nil; e = e.next {
		if inner, ok := e.err.(*exhausted); ok && (!inner.picker.awaitPlaces(inner.table, inner.skips.full) || !inner.skips.errs.awaitPlaces()) { //nolint:errorlint // what a picker returns is bare
			return false
		}
	}
	return true
}

func (e *exhausted) Error() string {
	considered := e.table.Considered(e.start)
	skipped := func(yield func(string) bool) {
		for slot := range considered.All() {
			if !yield(e.picker.name(e.attempt, &e.table, slot) + " skipped: " + e.reason(slot)) {
				return
			}
		}
	}
	return fmt.Sprintf("composite: attempt %d: no host available (no_healthy_upstream): %s%s", e.attempt.Number(), joinFirst(considered.Len(), skipped), quoteFailure(e.last))
}

// reason says why the cluster of a slot was passed over.
func (e *exhausted) reason(slot int) string {
	cluster := e.table.Cluster(slot)
	if cluster == plan.None {
		return "removed"
	}
	c := &e.picker.clusters[cluster]
	switch err := e.skips.errs.at(slot); {
	case err == balancer.ErrNoSubConnAvailable && c.condition != plan.NoHost:
		return "connecting"
	case err == balancer.ErrNoSubConnAvailable: // asked, and passed over all the same
	case err != nil:
		return fmt.Sprintf("pick error (%s)", quoteCause(err))
	case e.skips.full.Has(slot):
		return fmt.Sprintf("max requests (%d)", c.config.maxRequests)
	}
	return c.cluster.describe(c.reason, e.attempt, e.info)
}

// name is the name of a slot's cluster, which the config may no longer have.
func (p *picker) name(a *attempt.Attempt, table *plan.Table, slot int) string {
	if cluster := table.Cluster(slot); cluster != plan.None {
		return p.clusters[cluster].cluster.name
	}
	return a.List().Names[slot]
}

// names are those of all slots.
func (p *picker) names(a *attempt.Attempt, table *plan.Table) []string {
	names := make([]string, table.Len())
	for slot := range names {
		names[slot] = p.name(a, table, slot)
	}
	return names
}

// describe says why the cluster has no host: what its child says, and what its
// resolver said last, if that is a failure.
func (c *cluster) describe(reason plan.Reason, a *attempt.Attempt, info balancer.PickInfo) string {
	c.parent.mu.Lock()
	fromChild, fromResolver := c.errorsLocked()
	timeout := c.connectTimeout
	var picker balancer.Picker
	if ch := c.current; ch != nil && ch.state.ConnectivityState == connectivity.TransientFailure {
		picker = ch.state.Picker
	}
	emptyHanded := c.emptyHandedLocked()
	c.parent.mu.Unlock()
	switch err := pickerError(picker, a, info); {
	case err != nil && emptyHanded:
		fromChild = fmt.Errorf("%w: %w", fromChild, err)
	case err != nil:
		fromChild = err
	}
	return explain(reason, timeout, fromChild, fromResolver)
}

// errorsLocked are the latest errors of the cluster's child, or its connections, and
// of its resolver. The caller holds parent.mu.
func (c *cluster) errorsLocked() (fromChild, fromResolver error) {
	switch ch := c.current; {
	case c.emptyHandedLocked():
		fromChild = c.empty
	case ch != nil && ch.rejected != nil:
		fromChild = ch.rejected
	case ch != nil:
		fromChild = ch.connErr
	}
	return fromChild, c.resolveErr
}

// emptyHandedLocked tells whether the child refused an empty list of endpoints, for no
// other reason. The caller holds parent.mu.
func (c *cluster) emptyHandedLocked() bool {
	return c.empty != nil && c.current != nil && c.current.rejected == balancer.ErrBadResolverState
}

// errNoEndpoints says of a target, nil for the channel's own resolver, that there are
// none, which policies do not know: a name that DNS does not have comes to them as an
// empty list.
func errNoEndpoints(target *clustertarget.Target) error {
	if target != nil {
		return fmt.Errorf("%s resolved to none", inspect.WithoutUserInfo(target.Text))
	}
	return errors.New("it has no target, and the channel's resolver has none for it")
}

// explain puts into words why a cluster has no host.
func explain(reason plan.Reason, timeout time.Duration, fromChild, fromResolver error) string {
	text := strings.ReplaceAll(string(reason), "_", " ")
	if reason == plan.ConnectTimeout {
		text += fmt.Sprintf(" after %v", timeout)
	}
	switch {
	case fromChild == nil && fromResolver == nil:
		return text
	case fromResolver == nil, fromChild != nil && strings.Contains(fromChild.Error(), fromResolver.Error()):
		return fmt.Sprintf("%s (%s)", text, quoteCause(fromChild))
	case fromChild == nil:
		return fmt.Sprintf("%s (%s)", text, quoteCause(fromResolver))
	default:
		return fmt.Sprintf("%s (%s, and its resolver: %s)", text, quoteCause(fromChild), quoteCause(fromResolver))
	}
}

// overflowError ends an RPC whose attempts have gone past the end of the list.
// Its status is the last attempt's own, or UNAVAILABLE if it has none to give.
type overflowError struct {
	names  []string // of all slots
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
	text := fmt.Sprintf("composite: attempt %d: no host available (no_healthy_upstream): past the end of the list of %d (%s)", e.number, len(e.names), joinShort(e.names))
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
func pickerError(p balancer.Picker, a *attempt.Attempt, info balancer.PickInfo) error {
	if p == nil {
		return nil
	}
	result, err := pickChild(p, a, info)
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

// quoteCause quotes what a resolver or a policy says, which may have the target's user
// info in it.
func quoteCause(err error) string { return quoteShort(inspect.WithoutUserInfo(err.Error())) }

// joinShort joins parts until they are too long for an error, and counts the
// rest.
func joinShort(parts []string) string { return joinFirst(len(parts), slices.Values(parts)) }

// joinFirst is joinShort for n parts that are made as they are needed.
func joinFirst(n int, parts iter.Seq[string]) string {
	var text strings.Builder
	i := 0
	for part := range parts {
		if i > 0 && text.Len()+len(part) > maxErrorLength {
			fmt.Fprintf(&text, "; and %d more", n-i)
			break
		}
		if i > 0 {
			text.WriteString("; ")
		}
		text.WriteString(part)
		i++
	}
	return text.String()
}

// sharedError is what exhausted says, for all RPCs of which it is true. gRPC-Go
// reads the error of every pick, and RPCs that wait for ready ask each new picker.
type sharedError struct {
	number, start int
	method        string // a child's picker may answer each in its own way
	causes        int64  // as the policy had counted before the text was made
	text          string
}

func (e *sharedError) Error() string { return e.text }

// sharedNoHost is the error for an attempt that has passed over all clusters by their
// conditions alone.
func (p *picker) sharedNoHost(a *attempt.Attempt, start int, info balancer.PickInfo, s *skips) error {
	causes := p.policy.causes.Load()
	if e := p.noHostError.Load(); e != nil && e.number == a.Number() && e.start == start && e.causes == causes && e.method == info.FullMethodName {
		s.route(p, a, start, p.table.Len())
		return e
	}
	e := &sharedError{a.Number(), start, info.FullMethodName, causes, p.noHost(a, p.table, start, info, *s).Error()}
	p.noHostError.Store(e)
	return e
}
