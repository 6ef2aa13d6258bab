package fromenvoy

import (
	"slices"
	"time"
)

// coversTimeouts are the conditions of retry_on under which Envoy retries a try that
// timed out.
var coversTimeouts = []string{"5xx", "gateway-error", "reset"}

// tryTimeout is the per_try_timeout of a route; zero is none.
type tryTimeout struct {
	line int
	time time.Duration
}

func (t tryTimeout) longer(than tryTimeout) bool {
	return t.time == 0 && than.time > 0 || t.time > than.time && than.time > 0
}

// perTry returns the timeout of a route's tries.
func (c *converter) perTry(r route) tryTimeout {
	n := r.retry.get("per_try_timeout")
	d, ok := n.duration()
	if n != nil && (!ok || d < 0) {
		c.notef(n.line, "per_try_timeout: not carried over: %s is not a duration", shown(n.scalar))
		d = 0
	}
	return tryTimeout{n.at(r.line), d}
}

// longestTry returns the longest timeout of the routes' tries. Envoy has one for each
// route, and here there is one for each cluster: no attempt is to end that Envoy would
// have let be.
func (c *converter) longestTry(routes []route) tryTimeout {
	longest := c.perTry(routes[0])
	all := []tryTimeout{longest}
	for _, r := range routes[1:] {
		t := c.perTry(r)
		if all = append(all, t); t.longer(longest) {
			longest = t
		}
	}
	for _, t := range all {
		switch {
		case t.time == longest.time:
		case longest.time == 0:
			c.notef(t.line, "per_try_timeout: not carried over: attemptTimeout is of a cluster, and holds for all methods, and the route at line %d has no per_try_timeout", longest.line)
		default:
			c.notef(t.line, "per_try_timeout: %v is carried over as %v: attemptTimeout is of a cluster, and holds for all methods, and the route at line %d has that", t.time, longest.time, longest.line)
		}
	}
	return longest
}

// retriedTry tells whether a policy that retries these codes has to retry attempts
// that time out as well.
func (c *converter) retriedTry(r route, codes []string) bool {
	line := r.retry.get("per_try_timeout").at(0)
	if c.tryTimeout.time == 0 || line == 0 {
		return false
	}
	const carried = "per_try_timeout: carried over as attemptTimeout of each cluster, which is DEADLINE_EXCEEDED here"
	covered := slices.ContainsFunc(conditions(r.retry), func(s string) bool { return slices.Contains(coversTimeouts, s) })
	switch {
	case covered:
		c.notef(line, carried+", so that code is retried; a server's own DEADLINE_EXCEEDED is, too")
	case slices.Contains(codes, "DEADLINE_EXCEEDED"):
		c.notef(line, carried+", so that it is retried; in Envoy it was not, for want of 5xx, gateway-error or reset in retry_on")
	default:
		c.notef(line, carried+", and ends the RPC, as in Envoy, for want of 5xx, gateway-error or reset in retry_on; add DEADLINE_EXCEEDED to retryableStatusCodes to have it go on to the next cluster")
	}
	return covered
}
