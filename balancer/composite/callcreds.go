package composite

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"

	"github.com/grpc-composite/grpc-composite/internal/attempt"
)

// NewPerRPCCredentials returns call credentials that give each attempt those of
// the cluster it goes to, and no others: one cluster's token is never sent to
// another, and a cluster without an entry gets none. An entry for a name that the
// config does not have is reported once, in a warning of the log component
// "composite".
//
// Pass the result to [google.golang.org/grpc.WithPerRPCCredentials], or to
// [google.golang.org/grpc.PerRPCCredentials] for one call. Clusters of a composite
// policy inside another have their own entries, or else that of the cluster they
// are in. On a channel with another policy no token is sent.
//
// Credentials that require transport security are refused on a connection that
// has none: that attempt fails with UNAUTHENTICATED. They may be used for any
// number of channels at once, and are called as gRPC calls them, by many
// goroutines. An entry that is nil counts as none, and later changes of byCluster
// have no effect.
func NewPerRPCCredentials(byCluster map[string]credentials.PerRPCCredentials) credentials.PerRPCCredentials {
	entries := maps.Clone(byCluster)
	maps.DeleteFunc(entries, func(_ string, creds credentials.PerRPCCredentials) bool { return creds == nil })
	return &callCredentials{byCluster: entries}
}

type callCredentials struct {
	byCluster map[string]credentials.PerRPCCredentials // none is nil
	unknown   unknownNames
	// checked is the list of names that the entries were checked against last.
	checked atomic.Pointer[string]
}

// RequireTransportSecurity is false, since gRPC's own check would keep every
// cluster without security from connecting. GetRequestMetadata has the check of
// each connection.
func (c *callCredentials) RequireTransportSecurity() bool { return false }

// GetRequestMetadata returns the token of the attempt's cluster.
func (c *callCredentials) GetRequestMetadata(ctx context.Context, uri ...string) (map[string]string, error) {
	a, lean := attempt.ForCredentials(ctx)
	if lean {
		return nil, errLean("composite.NewPerRPCCredentials")
	}
	if a == nil {
		return nil, nil // not an attempt: a health check, or another policy's
	}
	outermost := a.Cluster()
	if outermost == nil {
		return nil, nil
	}
	c.checkNames(outermost.Known)
	for cluster := range a.Clusters() {
		creds, ok := c.byCluster[cluster.Name]
		if !ok {
			continue
		}
		if creds.RequireTransportSecurity() {
			info, _ := credentials.RequestInfoFromContext(ctx)
			if err := credentials.CheckSecurityLevel(info.AuthInfo, credentials.PrivacyAndIntegrity); err != nil {
				// Without a status it would be INTERNAL for credentials of one call.
				return nil, status.Errorf(codes.Unauthenticated, "composite: cluster %q: its call credentials require transport security: %v", cluster.Name, err)
			}
		}
		token, err := creds.GetRequestMetadata(ctx, uri...)
		if err != nil {
			if over := ctx.Err(); over != nil {
				// Without a status it would be UNAUTHENTICATED, which is not retried.
				return nil, status.Errorf(status.FromContextError(over).Code(), "composite: cluster %q: its call credentials: %v", cluster.Name, err)
			}
			return nil, fmt.Errorf("composite: cluster %q: its call credentials: %w", cluster.Name, err)
		}
		return token, nil
	}
	return nil, nil
}

// checkNames warns about entries without a cluster, when the config is new.
func (c *callCredentials) checkNames(known []string) {
	if last := c.checked.Load(); last == &known[0] {
		return
	}
	c.checked.Store(&known[0])
	for _, name := range slices.Sorted(maps.Keys(c.byCluster)) {
		c.unknown.check("NewPerRPCCredentials", name, known)
	}
}
