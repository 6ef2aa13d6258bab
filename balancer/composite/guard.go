package composite

import (
	"sync/atomic"

	"google.golang.org/grpc/balancer"
	"google.golang.org/grpc/codes"

	"github.com/grpc-composite/grpc-composite/internal/attempt"
	"github.com/grpc-composite/grpc-composite/internal/breaker"
	"github.com/grpc-composite/grpc-composite/internal/plan"
)

// guard is what decides at a pick whether a cluster that has a host may be used.
// It belongs to the cluster, and lives through config updates and pickers. It
// takes no lock at a pick.
type guard struct {
	cluster  *cluster
	breaker  breaker.Breaker
	inFlight atomic.Int64 // attempts, if their number is limited
	// waited is set when an RPC waits for a place.
	waited atomic.Bool
	// leaves is leave in the form of a pick's Done, made once for all picks.
	leaves func(balancer.DoneInfo)
}

func newGuard(c *cluster) *guard {
	g := &guard{cluster: c}
	g.leaves = func(balancer.DoneInfo) { g.leave() }
	return g
}

// Settle tells the breaker how an attempt ended.
func (g *guard) Settle(token uint64, oneOf []codes.Code) {
	g.breaker.Settle(breaker.Token(token), oneOf...)
}

// holds returns the reason for passing the cluster over, or "". Anyway has it
// used though it rests.
func (g *guard) holds(cfg *clusterConfig, anyway bool) plan.Reason {
	switch {
	case cfg.cooldown != nil && !anyway && !g.breaker.Passes():
		return plan.Cooldown
	case cfg.maxRequests > 0 && g.inFlight.Load() >= cfg.maxRequests:
		return plan.MaxRequests
	default:
		return ""
	}
}

// enter takes a place for an attempt, and the turn if it is to be a probe, or
// returns the reason for passing the cluster over.
func (g *guard) enter(cfg *clusterConfig, anyway bool) (breaker.Token, plan.Reason) {
	var token breaker.Token
	if cfg.cooldown != nil {
		var ok bool
		if token, ok = g.breaker.Allow(); !ok && !anyway {
			return 0, plan.Cooldown
		}
	}
	if cfg.maxRequests > 0 && !g.takePlace(cfg.maxRequests) {
		g.breaker.GiveBack(token)
		return 0, plan.MaxRequests
	}
	return token, ""
}

func (g *guard) takePlace(limit int64) bool {
	for {
		n := g.inFlight.Load()
		if n >= limit {
			return false
		}
		if g.inFlight.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

// leave gives a place back. If an RPC waits for one, all that wait pick again.
func (g *guard) leave() {
	g.inFlight.Add(-1)
	if g.waited.Load() && g.waited.CompareAndSwap(true, false) {
		// On a goroutine, since the RPC that ends holds locks of gRPC-Go.
		go g.cluster.parent.republish()
	}
}

// awaitPlace says that an RPC is going to wait for a place, and returns false if
// there is one by now.
func (g *guard) awaitPlace(limit int64) bool {
	g.waited.Store(true)
	return g.inFlight.Load() >= limit
}

// done returns a pick's Done that undoes enter, besides what next does.
func (g *guard) done(cfg *clusterConfig, token breaker.Token, next func(balancer.DoneInfo)) func(balancer.DoneInfo) {
	limited := cfg.maxRequests > 0
	switch {
	case token.IsProbe():
		return func(info balancer.DoneInfo) {
			if info.Err == nil && !info.BytesSent {
				// gRPC-Go, or a policy around this one, has discarded the
				// pick.
				g.breaker.GiveBack(token)
			}
			if limited {
				g.leave()
			}
			if next != nil {
				next(info)
			}
		}
	case !limited:
		return next
	case next == nil:
		return g.leaves
	default:
		return func(info balancer.DoneInfo) {
			g.leave()
			next(info)
		}
	}
}

// pickGuarded is pick for a cluster whose config has more to it. It returns the
// reason if the cluster is not to be used for this pick. Anyway has a cluster
// used that rests.
func (c *pickCluster) pickGuarded(a *attempt.Attempt, info balancer.PickInfo, anyway bool) (balancer.PickResult, plan.Reason, error) {
	g, cfg := c.cluster.guard, c.config
	if held := g.holds(cfg, anyway); held != "" {
		return balancer.PickResult{}, held, nil
	}
	result, err := c.pickHost(a, info)
	if err != nil {
		return result, "", err
	}
	// Only an attempt that has a connection takes a place. One that is going to
	// wait for its cluster must not make it look full to others.
	token, held := g.enter(cfg, anyway)
	if held != "" {
		discard(a, result)
		return balancer.PickResult{}, held, nil
	}
	if cfg.cooldown != nil {
		a.Observe(g, uint64(token))
	}
	if cfg.attemptTimeout != nil {
		a.SetTimeout(cfg.attemptTimeout)
	}
	result.Done = g.done(cfg, token, result.Done)
	return result, "", nil
}

// pickHost picks again while the host is one that an earlier attempt used, as
// often as avoidPreviousHosts says.
func (c *pickCluster) pickHost(a *attempt.Attempt, info balancer.PickInfo) (balancer.PickResult, error) {
	result, err := c.pick(a, info)
	for i := 0; i < c.config.avoidPreviousHosts && err == nil && a.HostUsed(hostOf(result)); i++ {
		discard(a, result)
		result, err = c.pick(a, info)
	}
	return result, err
}

// hostOf is the address of the host that was picked, nil if it is not known.
func hostOf(result balancer.PickResult) *string {
	if sc, ok := result.SubConn.(*subConn); ok && sc.host != "" {
		return &sc.host
	}
	return nil
}

// discard gives a pick back to the child, as gRPC-Go does with one whose
// connection is not ready any more.
func discard(a *attempt.Attempt, result balancer.PickResult) {
	a.Discard()
	if result.Done != nil {
		result.Done(balancer.DoneInfo{})
	}
}
