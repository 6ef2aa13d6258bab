package composite

import (
	"fmt"
	"time"

	"google.golang.org/grpc/connectivity"

	"github.com/grpc-composite/grpc-composite/internal/inspect"
	"github.com/grpc-composite/grpc-composite/internal/plan"
)

// A cluster that flaps must not flood the log. So many lines about its changes are
// written within this time; further ones are counted, and told in one line, with
// the condition by then, when the time is over.
const (
	logLines  = 5
	logWindow = 10 * time.Second
)

// conditionLog limits the lines about one cluster. It is guarded by the balancer's
// mu.
type conditionLog struct {
	begin time.Time // of the time in which lines are counted
	lines int
	more  int         // changes that have no line
	timer *time.Timer // set while there are any
}

// logLine is a line about a cluster's condition, which is put into words, and
// written, when no lock that picks or children need is held.
type logLine struct {
	cluster        *cluster
	before, now    plan.Condition
	cause          conditionCause
	removed        bool
	more           int // changes that had no line
	fromChild      error
	fromResolver   error
	connectTimeout time.Duration
}

// conditionCause is why a cluster is in its condition, besides errors.
type conditionCause struct {
	reason plan.Reason // of NoHost
	asleep bool
	early  time.Duration // failbackDelay, if that holds the cluster back
	child  bool          // there is one
	state  connectivity.State
}

// logLocked logs a change of the cluster's condition, or of the cause, or counts it.
// The caller holds parent.mu, and publishes afterwards.
func (c *cluster) logLocked(before plan.Condition) {
	l, now := &c.log, time.Now()
	if l.timer == nil && now.Sub(l.begin) >= logWindow {
		l.begin, l.lines = now, 0
	}
	if l.lines < logLines {
		l.lines++
		c.parent.lines = append(c.parent.lines, c.lineLocked(before))
		return
	}
	l.more++
	if l.timer == nil {
		l.timer = time.AfterFunc(l.begin.Add(logWindow).Sub(now), c.logMore)
	}
}

// logMore tells of the changes that had no line.
func (c *cluster) logMore() {
	b := c.parent
	b.mu.Lock()
	if !c.closed {
		line := c.lineLocked(c.view.condition)
		line.more = c.log.more
		b.lines = append(b.lines, line)
	}
	c.log = conditionLog{}
	b.mu.Unlock()
	b.publish()
}

// logRemovedLocked tells that the config no longer has the cluster. The caller
// holds parent.mu, and publishes afterwards.
func (c *cluster) logRemovedLocked() {
	line := c.lineLocked(c.view.condition)
	line.removed, line.more = true, c.log.more
	c.parent.lines = append(c.parent.lines, line)
}

func (c *cluster) lineLocked(before plan.Condition) logLine {
	line := logLine{cluster: c, before: before, now: c.view.condition, connectTimeout: c.connectTimeout}
	line.fromChild, line.fromResolver = c.errorsLocked()
	line.cause = conditionCause{reason: c.view.reason, asleep: c.asleep, child: c.current != nil, state: c.state}
	if c.view.early {
		line.cause.early = c.failbackDelay
	}
	return line
}

func (l logLine) String() string {
	text := fmt.Sprintf("channel %q: cluster %s: ", l.cluster.parent.channelTarget(), l.cluster.place())
	switch {
	case l.removed:
		text += "removed from the config"
	case l.before != l.now:
		text += fmt.Sprintf("%v -> %v: %s", l.before, l.now, l.why())
	default:
		text += fmt.Sprintf("%v: %s", l.now, l.why())
	}
	if l.more > 0 {
		text += fmt.Sprintf(" ... and %d more changes in the last %v", l.more, logWindow)
	}
	return text
}

// why is the cause of the condition.
func (l logLine) why() string {
	switch cause := l.cause; {
	case l.now == plan.NoHost:
		return explain(cause.reason, l.connectTimeout, l.fromChild, l.fromResolver)
	case cause.early > 0:
		return fmt.Sprintf("%v, and passed over until it has had a host for %v", cause.state, cause.early)
	case cause.asleep && l.now == plan.Idle:
		return "no attempt needs it"
	case cause.asleep:
		return "an attempt needs it, or Connect was called"
	case !cause.child:
		return "waiting for endpoints"
	default:
		return cause.state.String()
	}
}

// place is the cluster's name, and those of the clusters that it is in.
func (c *cluster) place() string {
	names := c.names()
	text := fmt.Sprintf("%q", names[0])
	for _, outer := range names[1:] {
		text += fmt.Sprintf(" in %q", outer)
	}
	return text
}

// channelTarget is the target of the channel, without user info, also for a policy
// inside another.
func (b *compositeBalancer) channelTarget() string {
	if b.outer != nil {
		return b.outer.cluster.parent.channelTarget()
	}
	return inspect.WithoutUserInfo(b.opts.Target.String())
}

// writeLog writes the lines that have come together. The caller holds publishMu,
// so that they are written in order.
func (b *compositeBalancer) writeLog() {
	b.mu.Lock()
	lines := b.lines
	b.lines = nil
	b.mu.Unlock()
	for _, line := range lines {
		logger.Info(line)
	}
}
