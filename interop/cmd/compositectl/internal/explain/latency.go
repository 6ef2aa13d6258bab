package explain

import (
	"time"

	"google.golang.org/grpc/codes"

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

// count returns how many attempts an RPC begins at the most if each finds a host, the
// one that has no slot included.
func count(p *policy, retry *svcconfig.RetryPolicy) int {
	if retry == nil {
		return 1
	}
	n := most(retry)
	if _, more := p.slots.Start(p.slots.Len() + 1); !more {
		n = min(n, p.slots.Len()+1)
	}
	return n
}

// most returns how many attempts the channel lets an RPC have.
func most(retry *svcconfig.RetryPolicy) int { return min(retry.MaxAttempts, plan.MaxSlots) }

// repeats tells whether an attempt of the entry can find no host, use no slot, and be
// followed by another that starts where it did.
func (p *policy) repeats(m *svcconfig.MethodConfig) bool {
	return p.nextCluster && p.slots.Skip() && !p.failRequest && !m.Waits() &&
		m.RetryPolicy != nil && m.RetryPolicy.Retryable(codes.Unavailable)
}

// worst adds up what an RPC of the entry can take, if each attempt does what takes it
// longest: waits for clusters that are connecting, one after another, and is then
// timed out by the one that it was sent to.
//
// With progression NEXT_CLUSTER an attempt may start at another slot than its own. At
// a later one it has less to wait for, unless the list starts over.
func worst(p *policy, m *svcconfig.MethodConfig) latency {
	n := count(p, m.RetryPolicy)
	repeats := p.repeats(m)
	if repeats {
		n = most(m.RetryPolicy)
	}
	wraps := p.nextCluster && p.slots.Skip() && p.slots.Overflow() == plan.RoundRobin
	return add(n, m, func(a int) latency {
		first, end := p.slots.Reach(a, a > 1 && (repeats || wraps))
		l, _ := p.longest(a, first, end, 0)
		return l
	})
}

// connected adds up what an RPC of the entry can take while every cluster has a host.
func connected(p *policy, m *svcconfig.MethodConfig) latency {
	return add(count(p, m.RetryPolicy), m, func(a int) latency {
		l, _ := p.connected(a, 0)
		return l
	})
}

// add adds up so many attempts of an RPC, and the back-offs.
func add(n int, m *svcconfig.MethodConfig, attempt func(a int) latency) latency {
	var sum latency
	seen := make(map[string]bool)
	for a := 1; a <= n; a++ {
		l := attempt(a)
		sum.connecting, sum.attempts = svcconfig.Add(sum.connecting, l.connecting), svcconfig.Add(sum.attempts, l.attempts)
		for _, name := range l.unlimited {
			if !seen[name] {
				seen[name] = true
				sum.unlimited = append(sum.unlimited, name)
			}
		}
	}
	if m.RetryPolicy != nil {
		_, sum.backoffs = m.RetryPolicy.Backoffs(n - 1)
	}
	return sum
}
