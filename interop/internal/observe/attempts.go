package observe

import (
	"context"
	"fmt"
	"strings"
	"sync"

	"google.golang.org/grpc/stats"

	"github.com/grpc-composite/grpc-composite/balancer/composite"
)

// Attempts is a stats handler that notes the attempts of a channel, of all RPCs, as
// they end. It goes after DialOptions. It is safe for concurrent use.
type Attempts struct {
	mu    sync.Mutex
	ended []string
}

// TagRPC implements stats.Handler.
func (*Attempts) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context { return ctx }

// TagConn implements stats.Handler.
func (*Attempts) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }

// HandleConn implements stats.Handler.
func (*Attempts) HandleConn(context.Context, stats.ConnStats) {}

// HandleRPC implements stats.Handler.
func (a *Attempts) HandleRPC(ctx context.Context, s stats.RPCStats) {
	if _, ok := s.(*stats.End); !ok {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if info, ok := composite.AttemptFromContext(ctx); ok {
		a.ended = append(a.ended, fmt.Sprintf("%d %s", info.Number, info.Cluster))
	}
}

// String tells the attempts in short: "1 a, 2 b".
func (a *Attempts) String() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return strings.Join(a.ended, ", ")
}
