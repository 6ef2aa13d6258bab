package explain

import (
	"time"

	"github.com/grpc-composite/grpc-composite/internal/svcconfig"
)

// longest returns what takes attempt a longest if it comes to the slots from first to
// before end, under the attemptTimeout of what is around the policy, 0 for none, and
// how long it may wait there before it passes on to what comes after the policy.
func (p *policy) longest(a, first, end int, limit time.Duration) (longest latency, passes time.Duration) {
	waits := time.Duration(0) // before it comes to the cluster
	for _, c := range p.between(first, end) {
		if !p.slots.Skip() {
			waits = 0 // it starts here
		}
		l, more := c.longest(a, limit)
		l.connecting = svcconfig.Add(waits, l.connecting)
		longest.or(l)
		waits = svcconfig.Add(waits, more)
		passes = max(passes, waits)
	}
	return longest, passes
}

// longest is the same for one cluster: the longest of what the policies inside it may
// take.
func (c *cluster) longest(a int, limit time.Duration) (longest latency, passes time.Duration) {
	limit = c.limit(limit)
	if c.direct {
		longest, passes = c.sent(limit), c.connectTimeout
	}
	for _, p := range c.inside {
		first, end := p.slots.Reach(a, p.nextCluster)
		l, more := p.longest(a, first, end, limit)
		l.connecting = svcconfig.Add(c.connectTimeout, l.connecting)
		l.unlimited = c.around(l.unlimited)
		longest.or(l)
		passes = max(passes, svcconfig.Add(c.connectTimeout, more))
	}
	return longest, passes
}

// connected returns what attempt a takes at the longest while every cluster has a
// host: on the first one, from its slot on, that has a slot for it inside. Of several
// policies inside one cluster some may have none, and then it may come to the next
// cluster, too: it passes.
func (p *policy) connected(a int, limit time.Duration) (longest latency, passes bool) {
	for _, c := range p.between(p.slots.Reach(a, false)) {
		l, passes := c.connected(a, limit)
		longest.or(l)
		if !passes {
			return longest, false
		}
	}
	return longest, true
}

// connected is the same for one cluster.
func (c *cluster) connected(a int, limit time.Duration) (longest latency, passes bool) {
	limit = c.limit(limit)
	if c.direct {
		longest = c.sent(limit)
		longest.connecting = 0
	}
	for _, p := range c.inside {
		l, more := p.connectedInside(a, limit)
		l.unlimited = c.around(l.unlimited)
		longest.or(l)
		passes = passes || more
	}
	return longest, passes
}

// connectedInside is connected for a policy inside a cluster. There progression
// NEXT_CLUSTER has the attempt start anywhere up to its own slot, by how many came there
// before.
func (p *policy) connectedInside(a int, limit time.Duration) (longest latency, passes bool) {
	if !p.nextCluster {
		return p.connected(a, limit)
	}
	passes = true
	for _, c := range p.between(0, min(a, p.slots.Len())) {
		l, more := c.connected(a, limit)
		longest.or(l)
		passes = passes && more
	}
	return longest, passes
}

// between returns the clusters at the slots from first to before end, each once.
func (p *policy) between(first, end int) []*cluster {
	var clusters []*cluster
	seen := make(map[int]bool)
	for slot := first; slot < end; slot++ {
		if i := p.slots.Cluster(slot); !seen[i] {
			seen[i] = true
			clusters = append(clusters, &p.clusters[i])
		}
	}
	return clusters
}

// limit returns the shorter of a limit around the cluster and its own, of which 0 is
// none.
func (c *cluster) limit(around time.Duration) time.Duration {
	if around == 0 || c.attemptTimeout == 0 {
		return max(around, c.attemptTimeout)
	}
	return min(around, c.attemptTimeout)
}

// or makes it the longer of two, with what is unlimited in either.
func (l *latency) or(o latency) {
	l.unlimited = append(l.unlimited, o.unlimited...)
	if o.total() >= l.total() {
		l.connecting, l.attempts, l.backoffs = o.connecting, o.attempts, o.backoffs
	}
}

// sent is an attempt that is timed out by the cluster, after it was connecting.
func (c *cluster) sent(limit time.Duration) latency {
	l := latency{connecting: c.connectTimeout, attempts: limit}
	if limit == 0 {
		l.unlimited = []string{c.name}
	}
	return l
}

// around says of clusters inside that they are.
func (c *cluster) around(names []string) []string {
	inside := make([]string, len(names))
	for i, name := range names {
		inside[i] = name + " inside " + c.name
	}
	return inside
}
