package explain

import (
	"slices"
	"time"

	"github.com/grpc-composite/grpc-composite/internal/plan"
	"github.com/grpc-composite/grpc-composite/internal/svcconfig"
)

// latency is the longest time that an RPC may take, in its parts.
type latency struct {
	connecting, attempts, backoffs time.Duration
	unlimited                      []string // clusters without an attempt timeout: there is no longest time
}

func (l latency) total() time.Duration {
	return svcconfig.Add(l.connecting, svcconfig.Add(l.attempts, l.backoffs))
}

// count returns how many attempts an RPC begins at the most, the one that has no slot
// included.
func count(p *policy, retry *svcconfig.RetryPolicy) int {
	if retry == nil {
		return 1
	}
	n := min(retry.MaxAttempts, plan.MaxSlots)
	if _, more := p.slots.Start(p.slots.Len() + 1); !more {
		n = min(n, p.slots.Len()+1)
	}
	return n
}

// worst adds up what an RPC of the entry can take, if each attempt does what takes it
// longest: waits for clusters that are connecting, one after another, and is then
// timed out by the one that it was sent to.
//
// An attempt that starts at a later slot, which progression NEXT_CLUSTER may have it
// do, has less to wait for.
func worst(p *policy, m *svcconfig.MethodConfig) latency {
	return add(p, m, func(start int) latency {
		var longest, l latency
		end := start + 1
		if p.slots.Skip() {
			end = p.slots.Len()
		}
		seen := make(map[int]bool)
		for slot := start; slot < end; slot++ {
			i := p.slots.Cluster(slot)
			if seen[i] {
				continue
			}
			seen[i] = true
			l.connecting = svcconfig.Add(l.connecting, p.clusters[i].connectTimeout)
			l.try(p.clusters[i])
			if l.total() >= longest.total() {
				longest = l
			}
		}
		longest.unlimited = l.unlimited
		return longest
	})
}

// connected adds up what an RPC of the entry can take while every cluster has a host.
func connected(p *policy, m *svcconfig.MethodConfig) latency {
	return add(p, m, func(start int) latency {
		var l latency
		l.try(p.clusters[p.slots.Cluster(start)])
		return l
	})
}

// try has an attempt take as long as it may on a cluster.
func (l *latency) try(c cluster) {
	l.attempts = c.attemptTimeout
	if c.attemptTimeout == 0 {
		l.unlimited = append(l.unlimited, c.name)
	}
}

// add adds up the attempts of an RPC, by the slots where they start, and the
// back-offs.
func add(p *policy, m *svcconfig.MethodConfig, attempt func(start int) latency) latency {
	var sum latency
	n := count(p, m.RetryPolicy)
	for a := 1; a <= n; a++ {
		start, ok := p.slots.Start(a)
		if !ok {
			break
		}
		l := attempt(start)
		sum.connecting, sum.attempts = svcconfig.Add(sum.connecting, l.connecting), svcconfig.Add(sum.attempts, l.attempts)
		for _, name := range l.unlimited {
			if !slices.Contains(sum.unlimited, name) {
				sum.unlimited = append(sum.unlimited, name)
			}
		}
	}
	if m.RetryPolicy != nil {
		_, sum.backoffs = m.RetryPolicy.Backoffs(n - 1)
	}
	return sum
}
