package composite

import (
	"google.golang.org/grpc/balancer"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/grpc-composite/grpc-composite/internal/attempt"
	"github.com/grpc-composite/grpc-composite/internal/plan"
)

// picker sends an attempt to its cluster. It is immutable: a change of any
// cluster makes another one. A pick takes no lock and, if the child's pick is
// used, allocates nothing.
type picker struct {
	table       plan.Table
	failRequest bool
	clusters    []pickCluster // by cluster
}

// pickCluster is a cluster as it was when the picker was made.
type pickCluster struct {
	cluster   *cluster
	identity  attempt.Cluster
	metadata  metadata.MD // nil if there is none
	condition plan.Condition
	reason    plan.Reason     // of NoHost
	picker    balancer.Picker // nil if the child has not reported
	passOn    bool            // is asked to connect, and not waited for
	lazy      bool
}

// Pick follows the attempt's slots to the first cluster that has a host, or that
// the attempt has to wait for.
func (p *picker) Pick(info balancer.PickInfo) (balancer.PickResult, error) {
	a := attempt.FromContext(info.Ctx)
	if a == nil || a.Number() < 1 {
		return balancer.PickResult{}, errUntracked(a)
	}
	a.Pick()
	start, ok := p.table.Start(a.Number())
	if !ok {
		return balancer.PickResult{}, p.overflow(a)
	}
	var failed *exhausted
	for set := p.table.From(start); ; {
		slot, ok := set.First()
		if !ok {
			return balancer.PickResult{}, p.noHost(a, start, info, failed)
		}
		c := &p.clusters[p.table.Cluster(slot)]
		result, err := c.pick(a, info)
		switch {
		case err == nil:
			result.SubConn = unwrap(result.SubConn)
			switch {
			case c.metadata == nil:
			case result.Metadata == nil:
				result.Metadata = c.metadata
			default:
				result.Metadata = metadata.Join(result.Metadata, c.metadata)
			}
			return result, nil
		case err == balancer.ErrNoSubConnAvailable && !c.passOn:
			return balancer.PickResult{}, err
		case err != balancer.ErrNoSubConnAvailable && isStatus(err):
			return balancer.PickResult{}, err
		}
		if failed == nil {
			failed = &exhausted{}
		}
		failed.add(p.table.Cluster(slot), err)
		set = p.table.Without(set, slot)
	}
}

// pick asks the child's picker. A child that is connecting is asked as well,
// since some policies connect only when they are.
func (c *pickCluster) pick(a *attempt.Attempt, info balancer.PickInfo) (balancer.PickResult, error) {
	a.Choose(&c.identity)
	if c.condition == plan.Idle {
		c.cluster.ask()
	}
	if c.lazy {
		c.cluster.use()
	}
	if c.picker == nil {
		return balancer.PickResult{}, balancer.ErrNoSubConnAvailable
	}
	return pickChild(c.picker, a, info)
}

// pickChild calls a child's picker. A composite policy among the children learns
// that it is one: what ends an RPC on its own is a cluster without a host here.
func pickChild(p balancer.Picker, a *attempt.Attempt, info balancer.PickInfo) (balancer.PickResult, error) {
	a.EnterNested()
	result, err := p.Pick(info)
	a.LeaveNested()
	return result, err
}

// isStatus tells whether a picker's error ends the RPC, as gRPC defines.
func isStatus(err error) bool {
	_, ok := status.FromError(err)
	return ok
}

// overflow is the error for an attempt past the end of the list.
func (p *picker) overflow(a *attempt.Attempt) error {
	err := &overflowError{picker: p, number: a.Number(), last: a.LastFailure()}
	if a.Nested() {
		return plain{err} // the outer policy goes on with its next cluster
	}
	if err.last != nil && !p.failRequest {
		err.status = err.last.Status()
		a.EndRPC(err)
	}
	return err
}

// noHost is the error for an attempt that no cluster could take.
func (p *picker) noHost(a *attempt.Attempt, start int, info balancer.PickInfo, e *exhausted) error {
	if e == nil {
		e = &exhausted{}
	}
	e.picker, e.number, e.start, e.info = p, a.Number(), start, info
	if p.failRequest && a.FailFast() && !a.Nested() {
		e.last = a.LastFailure()
		return status.Error(codes.Unavailable, e.Error())
	}
	return e
}
