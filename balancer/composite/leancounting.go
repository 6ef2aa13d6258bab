package composite

import (
	"google.golang.org/grpc"
	"google.golang.org/grpc/balancer"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/grpc-composite/grpc-composite/internal/attempt"
)

// LeanCounting has attempts counted without a stats handler, which costs every RPC
// more than all else that [DialOptions] does: gRPC-Go makes an event of each step as
// soon as a channel has any. It is for channels without another stats handler whose
// RPCs are so many that this shows.
//
// Attempts are then told apart by the contexts that gRPC-Go makes for them, and so a
// transparent retry counts as an attempt, as a refused stream does in Envoy. What
// needs the handler is refused with INTERNAL, in words that say so: every RPC where a
// cluster of the config has an attemptTimeout, if only one that the RPC does not use;
// every RPC of a channel with [NewPerRPCCredentials]; and [RecordTrail], on channels with
// other policies, too. [AttemptFromContext] and [TrailFromError] return false, errors
// have no trail, and the debug page shows no RPCs. Whether an RPC waits for ready is
// known by its options, as they reach the interceptors of [DialOptions], and by its
// method's config, but not by what a later interceptor adds. A policy around this one
// must hand on the context of a pick as it got it, and an interceptor that hands RPCs to
// another channel must choose one of the same target.
func LeanCounting() Option { return leanCounting{} }

type leanCounting struct{}

func (leanCounting) apply(i *attempt.Interceptors) {
	*i = attempt.Interceptors{Lean: true, Started: refuseTrails}
}

func errLean(what string) error {
	return status.Errorf(codes.Internal, "composite: %s needs composite.DialOptions() without LeanCounting", what)
}

// refuseTrails ends RPCs that want what is not recorded.
func refuseTrails(_ *attempt.Ledger, opts []grpc.CallOption) ([]grpc.CallOption, error) {
	for _, opt := range opts {
		if _, ok := opt.(recordTrail); ok {
			return nil, errLean("composite.RecordTrail")
		}
	}
	return opts, nil
}

// pickLean picks for an attempt that no stats handler has seen.
func (p *picker) pickLean(a *attempt.Attempt, info balancer.PickInfo) (balancer.PickResult, error) {
	var result balancer.PickResult
	var err error
	if p.config.attemptTimeouts {
		err = errLean("attemptTimeout")
	} else {
		result, err = p.pick(a, info)
	}
	if a.Nested() {
		return result, err
	}
	return a.Picked(result, err)
}
