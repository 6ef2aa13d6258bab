package composite

import (
	"context"
	"slices"

	"google.golang.org/grpc/balancer"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/grpc-composite/grpc-composite/internal/attempt"
	"github.com/grpc-composite/grpc-composite/internal/plan"
)

// WithClusters returns a context that gives each RPC made with it its own list of
// clusters: those of the config with these names, in this order, one slot each.
// All that the config says besides its list holds for it too: overflow decides what
// becomes of an attempt past the end, which comes after a back-off if the retry policy
// has more attempts than there are names. Use it to route by model, to pin a session, or
// for a canary.
//
// It holds for all attempts of an RPC, on the first channel with [DialOptions]
// that the context enters, and no further. A name that the config does not have,
// no name at all, or more than 64 of them fail the RPC with INTERNAL. A cluster
// that a config update removes while the RPC is under way is passed over. The names are
// copied, and the context may be used for any number of RPCs at once.
func WithClusters(ctx context.Context, names ...string) context.Context {
	return attempt.WithList(ctx, slices.Clone(names))
}

// pickOwn picks by the RPC's own list.
func (p *picker) pickOwn(a *attempt.Attempt, info balancer.PickInfo, list *attempt.List) (balancer.PickResult, error) {
	if n := len(list.Names); n == 0 || n > plan.MaxSlots {
		return balancer.PickResult{}, status.Errorf(codes.Internal, "composite: WithClusters: %d names: must be 1 to %d, and the config has %s", n, plan.MaxSlots, listNames(p.config.ownNames()))
	}
	var own plan.Own
	for _, name := range list.Names {
		i, ok := p.config.index[name]
		switch {
		case ok:
			own.Add(i, p.clusters[i].condition != plan.NoHost || p.clusters[i].passOn)
		case list.Known():
			own.Add(plan.None, false)
		default:
			return balancer.PickResult{}, status.Errorf(codes.Internal, "composite: WithClusters: %q: must be the name of a cluster, and the config has %s", name, listNames(p.config.ownNames()))
		}
	}
	list.SetKnown()
	slots := own.Slots(p.config.slots)
	return p.pickFrom(a, info, own.Table(&slots))
}
