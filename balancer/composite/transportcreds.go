package composite

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"

	"google.golang.org/grpc/credentials"
)

// NewTransportCredentials returns credentials that give each cluster its own:
// those in byCluster under its name, or else fallback, which may be nil. A
// cluster that has neither cannot connect, and the error of its connections, and
// of the RPCs that need them, names it. An entry for a name that the config does
// not have is reported once, in a warning of the log component "composite".
//
// Pass the result to [google.golang.org/grpc.WithTransportCredentials], as it is:
// the policy recognises it. Clusters of a composite policy inside another have
// their own entries, or else that of the cluster they are in. On a channel with
// another policy fallback is used.
//
// A server is verified by the name of its own cluster's target. The credentials
// may be used for any number of channels at once. byCluster must not change any
// more.
func NewTransportCredentials(byCluster map[string]credentials.TransportCredentials, fallback credentials.TransportCredentials) credentials.TransportCredentials {
	return &transportCredentials{byCluster: byCluster, fallback: fallback, unknown: new(unknownNames)}
}

type transportCredentials struct {
	byCluster map[string]credentials.TransportCredentials
	fallback  credentials.TransportCredentials // may be nil
	unknown   *unknownNames
}

// ClientHandshake is called for connections that no cluster makes.
func (c *transportCredentials) ClientHandshake(ctx context.Context, authority string, conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return c.forCluster(nil).ClientHandshake(ctx, authority, conn)
}

// ServerHandshake is not for clients.
func (c *transportCredentials) ServerHandshake(net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return nil, nil, errors.New("composite: transport credentials of clusters are for clients")
}

// Info says nothing about security, which differs from cluster to cluster. Each
// connection has its own credentials' Info.
func (c *transportCredentials) Info() credentials.ProtocolInfo {
	return credentials.ProtocolInfo{SecurityProtocol: Name}
}

// Clone returns credentials with clones of all entries.
func (c *transportCredentials) Clone() credentials.TransportCredentials {
	clone := &transportCredentials{byCluster: make(map[string]credentials.TransportCredentials, len(c.byCluster)), unknown: c.unknown}
	for name, creds := range c.byCluster {
		clone.byCluster[name] = creds.Clone()
	}
	if c.fallback != nil {
		clone.fallback = c.fallback.Clone()
	}
	return clone
}

// OverrideServerName is deprecated in gRPC.
func (c *transportCredentials) OverrideServerName(string) error {
	return errors.New("composite: transport credentials of clusters have no one server name: use grpc.WithAuthority")
}

// forCluster returns the credentials of the first of names that has any, the
// innermost cluster's coming first.
func (c *transportCredentials) forCluster(names []string) credentials.TransportCredentials {
	for _, name := range names {
		if creds, ok := c.byCluster[name]; ok && creds != nil {
			return creds
		}
	}
	if c.fallback != nil {
		return c.fallback
	}
	return missingCredentials{c, names}
}

// clusterBundle carries a cluster's credentials to its connections. It is the
// one way that gives a connection's own credentials to gRPC-Go whole: their Info
// decides on the request's :scheme, for one. (credentials.ClientHandshakeInfo
// would reach the handshake alone.)
type clusterBundle struct {
	all   *transportCredentials
	names []string // the innermost cluster first
}

func (b *clusterBundle) TransportCredentials() credentials.TransportCredentials {
	return b.all.forCluster(b.names)
}

func (b *clusterBundle) PerRPCCredentials() credentials.PerRPCCredentials { return nil }

func (b *clusterBundle) NewWithMode(mode string) (credentials.Bundle, error) {
	return nil, fmt.Errorf("composite: credentials of clusters have no mode %q", mode)
}

// bundleFor returns what a cluster's connections get for credentials. Inner is
// what a composite policy inside the cluster, or any other, has set already.
func bundleFor(dialCreds credentials.TransportCredentials, inner credentials.Bundle, name string) credentials.Bundle {
	all, ok := dialCreds.(*transportCredentials)
	if !ok {
		return inner
	}
	switch inner := inner.(type) {
	case nil:
		return &clusterBundle{all, []string{name}}
	case *clusterBundle:
		return &clusterBundle{all, append(slices.Clone(inner.names), name)}
	default:
		return inner
	}
}

// missingCredentials is what a cluster has for credentials if there are none.
type missingCredentials struct {
	all   *transportCredentials
	names []string
}

func (m missingCredentials) ClientHandshake(context.Context, string, net.Conn) (net.Conn, credentials.AuthInfo, error) {
	if len(m.names) == 0 {
		return nil, nil, errors.New("composite: there are no transport credentials for connections outside clusters: give NewTransportCredentials a fallback")
	}
	return nil, nil, fmt.Errorf("composite: cluster %q has no transport credentials and there is no fallback: NewTransportCredentials has entries for %s", m.names[0], quoteNames(slices.Sorted(maps.Keys(m.all.byCluster))))
}

func (m missingCredentials) ServerHandshake(conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return m.all.ServerHandshake(conn)
}

func (m missingCredentials) Info() credentials.ProtocolInfo { return m.all.Info() }

func (m missingCredentials) Clone() credentials.TransportCredentials { return m }

func (m missingCredentials) OverrideServerName(name string) error {
	return m.all.OverrideServerName(name)
}

// unknownNames warns about names that no cluster has, each once.
type unknownNames struct{ warned sync.Map }

func (u *unknownNames) check(what string, name string, known []string) {
	if slices.Contains(known, name) {
		return
	}
	if _, before := u.warned.LoadOrStore(name, true); !before {
		logger.Warningf("%s has an entry for the cluster %q, and the config has no cluster of that name: it has %s", what, name, quoteNames(known))
	}
}

func quoteNames(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	quoted := make([]string, len(names))
	for i, name := range names {
		quoted[i] = fmt.Sprintf("%q", name)
	}
	return strings.Join(quoted, ", ")
}
