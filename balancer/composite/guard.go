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
}

// Settle tells the breaker how an attempt ended.
func (g *guard) Settle(token uint64, code codes.Code) {
	g.breaker.Settle(breaker.Token(token), code)
}

// enter takes a place for an attempt, and returns false if there is none.
func (g *guard) enter(limit int64) bool {
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

// pickGuarded is pick for a cluster whose config has more to it. It returns the
// reason if the cluster is not to be used for this pick. Anyway has a cluster
// used that rests.
func (c *pickCluster) pickGuarded(a *attempt.Attempt, info balancer.PickInfo, anyway bool) (balancer.PickResult, plan.Reason, error) {
	g, cfg := c.cluster.guard, c.config
	var token breaker.Token
	if cfg.cooldown != nil {
		var ok bool
		if token, ok = g.breaker.Allow(); !ok && !anyway {
			return balancer.PickResult{}, plan.Cooldown, nil
		}
	}
	if cfg.maxRequests > 0 && !g.enter(cfg.maxRequests) {
		g.breaker.GiveBack(token)
		return balancer.PickResult{}, plan.MaxRequests, nil
	}
	result, err := c.pick(a, info)
	for i := 0; i < cfg.avoidPreviousHosts && err == nil && a.HostUsed(hostOf(result)); i++ {
		discard(result)
		result, err = c.pick(a, info)
	}
	if err != nil {
		g.breaker.GiveBack(token)
		if cfg.maxRequests > 0 {
			g.leave()
		}
		return result, "", err
	}
	if cfg.cooldown != nil {
		a.Observe(g, uint64(token))
	}
	if cfg.maxRequests > 0 {
		done := result.Done
		result.Done = func(info balancer.DoneInfo) {
			g.leave()
			if done != nil {
				done(info)
			}
		}
	}
	a.SetTimeout(cfg.attemptTimeout)
	return result, "", nil
}

// hostOf is the address of the host that was picked.
func hostOf(result balancer.PickResult) string {
	if sc, ok := result.SubConn.(*subConn); ok {
		return sc.host
	}
	return ""
}

// discard gives a pick back to the child, as gRPC-Go does with one whose
// connection is not ready any more.
func discard(result balancer.PickResult) {
	if result.Done != nil {
		result.Done(balancer.DoneInfo{})
	}
}
