package explain

import (
	"time"

	"github.com/grpc-composite/grpc-composite/internal/svcconfig"
)

// longest returns what takes attempt a longest if it comes to the slots from first to
// before end, under the attemptTimeout of what is around the policy, 0 for none, and
// how long it may wait there before it passes on to what comes after the policy.
func (p *policy) longest(a, first, end int, limit time.Duration) (longest latency, passes time.Duration) {
	var unlimited []string
	waits := time.Duration(0) // before it comes to the cluster
	for _, c := range p.between(first, end) {
		if !p.slots.Skip() {
			waits = 0 // it starts here
		}
		l, more := c.longest(a, limit)
		unlimited = append(unlimited, l.unlimited...)
		if l.connecting = svcconfig.Add(waits, l.connecting); l.total() >= longest.total() {
			longest = l
		}
		waits = svcconfig.Add(waits, more)
		passes = max(passes, waits)
	}
	longest.unlimited = unlimited
	return longest, passes
}

// longest is the same for one cluster.
func (c *cluster) longest(a int, limit time.Duration) (longest latency, passes time.Duration) {
	limit = c.limit(limit)
	if c.inside == nil {
		return c.sent(limit), c.connectTimeout
	}
	first, end := c.inside.slots.Reach(a, c.inside.nextCluster)
	longest, passes = c.inside.longest(a, first, end, limit)
	longest.connecting = svcconfig.Add(c.connectTimeout, longest.connecting)
	longest.unlimited = c.around(longest.unlimited)
	return longest, svcconfig.Add(c.connectTimeout, passes)
}

// connected returns what attempt a takes at the longest while every cluster has a
// host: on the first one, from its slot on, that has a slot for it inside. There may
// be none.
func (p *policy) connected(a int, limit time.Duration) (latency, bool) {
	for _, c := range p.between(p.slots.Reach(a, false)) {
		if l, ok := c.connected(a, limit); ok {
			return l, true
		}
	}
	return latency{}, false
}

// connected is the same for one cluster. Inside it progression NEXT_CLUSTER has the
// attempt start anywhere up to its own slot, by how many came there before.
func (c *cluster) connected(a int, limit time.Duration) (longest latency, ok bool) {
	limit = c.limit(limit)
	switch {
	case c.inside == nil:
		longest, ok = c.sent(limit), true
		longest.connecting = 0
		return longest, ok
	case !c.inside.nextCluster:
		longest, ok = c.inside.connected(a, limit)
	default:
		var unlimited []string
		for _, inner := range c.inside.between(0, min(a, c.inside.slots.Len())) {
			l, has := inner.connected(a, limit)
			unlimited = append(unlimited, l.unlimited...)
			if ok = ok || has; l.total() >= longest.total() {
				longest = l
			}
		}
		longest.unlimited = unlimited
	}
	longest.unlimited = c.around(longest.unlimited)
	return longest, ok
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
