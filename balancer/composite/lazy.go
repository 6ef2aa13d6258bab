package composite

import (
	"time"

	"github.com/grpc-composite/grpc-composite/internal/plan"
)

const (
	// lazyIdleTimeout is how long a lazy cluster stays connected without an
	// attempt. It is the default of grpc.WithIdleTimeout.
	lazyIdleTimeout = 30 * time.Minute
	// lazyCheckInterval is how often a lazy cluster that is connected is looked
	// at. A pick only sets a flag, so that it is no slower for it.
	lazyCheckInterval = time.Minute
)

// ask is called by a pick that comes to an idle cluster. It takes no lock of
// its own: the first of any number of picks has it done.
func (c *cluster) ask() {
	if c.asking.CompareAndSwap(false, true) {
		go c.connect(byPick)
	}
}

// use is called by each pick from a lazy cluster.
func (c *cluster) use() {
	if !c.used.Load() {
		c.used.Store(true)
	}
}

// asker is who asks a cluster to connect.
type asker uint8

const (
	byNobody  asker = iota // it is of the kind that connects by itself
	byPick                 // an attempt, which asks the child's picker as well
	byChannel              // ClientConn.Connect
)

// connect asks the cluster to connect, and the clock of its connect timeout to
// start.
func (c *cluster) connect(by asker) {
	b := c.parent
	b.mu.Lock()
	if c.closed {
		b.mu.Unlock()
		return
	}
	c.asked = by
	if c.since.IsZero() {
		c.since = time.Now()
	}
	c.settleLocked()
	b.mu.Unlock()
	b.publish()
	c.exitIdle(by)
	b.mu.Lock()
	defer b.mu.Unlock()
	if c.view.condition == plan.Idle || c.view.asks {
		c.asking.Store(false) // it takes another attempt
	}
}

// exitIdle asks the child to connect, after building it if the cluster is asleep.
func (c *cluster) exitIdle(by asker) {
	c.childMu.Lock()
	defer c.childMu.Unlock()
	_ = c.heldBack(func() error {
		c.parent.mu.Lock()
		asleep, closed := c.asleep, c.closed
		c.parent.mu.Unlock()
		switch {
		case closed:
		case asleep:
			return c.wake()
		default:
			c.exitLatest(by)
		}
		return nil
	})
}

// wake begins to resolve the target and, if there are endpoints already, to
// connect. The caller holds childMu, and holds the cluster back.
func (c *cluster) wake() error {
	c.parent.mu.Lock()
	c.asleep = false
	if c.since.IsZero() {
		c.since = time.Now()
	}
	c.parent.mu.Unlock()
	if c.config.lazy {
		c.watchUse()
	}
	if target := c.target.Load(); target != nil {
		c.replaceResolver(target)
	}
	if !c.resolved {
		return nil
	}
	return c.push()
}

// watchUse puts a lazy cluster back to sleep when it has not been used for long
// enough.
func (c *cluster) watchUse() {
	b := c.parent
	b.mu.Lock()
	defer b.mu.Unlock()
	c.used.Store(false)
	c.lastUsed = time.Now()
	c.scheduleCheckLocked()
}

func (c *cluster) scheduleCheckLocked() {
	if c.bedtime != nil {
		c.bedtime.Stop()
	}
	c.bedtime = time.AfterFunc(lazyCheckInterval, c.checkUse)
}

func (c *cluster) checkUse() {
	b := c.parent
	c.childMu.Lock()
	defer c.childMu.Unlock()
	b.mu.Lock()
	if c.closed || c.asleep || !c.lazy {
		b.mu.Unlock()
		return
	}
	if c.used.Swap(false) {
		c.lastUsed = time.Now()
	}
	if time.Since(c.lastUsed) < lazyIdleTimeout {
		c.scheduleCheckLocked()
		b.mu.Unlock()
		return
	}
	b.mu.Unlock()
	c.sleep()
}

// sleep gives up the cluster's resolver, child and connections until an attempt
// comes. RPCs in flight go on to their end. The caller holds childMu.
func (c *cluster) sleep() {
	b := c.parent
	b.mu.Lock()
	c.asleep = true
	c.since, c.asked = time.Time{}, byNobody
	if c.config.target != nil {
		// What it resolves to may be another when it wakes.
		c.resolved, c.unresolved, c.empty = false, false, nil
		c.setResolveErrLocked(nil)
	}
	children := c.dismissLocked()
	c.settleLocked()
	b.mu.Unlock()
	b.publish() // before the connections end
	c.replaceResolver(nil)
	for _, ch := range children {
		ch.close()
	}
}
