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
	"google.golang.org/grpc/credentials/insecure"
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
// A server is verified by the name that [google.golang.org/grpc.WithAuthority] gives,
// also before that of an entry; or else by the name that its own cluster's credentials
// have for it (tls.Config.ServerName); or else by that of the cluster's target. The
// credentials may be used for any number of channels at once. An entry that is nil counts
// as none, and later changes of byCluster have no effect.
func NewTransportCredentials(byCluster map[string]credentials.TransportCredentials, fallback credentials.TransportCredentials) credentials.TransportCredentials {
	entries := maps.Clone(byCluster)
	maps.DeleteFunc(entries, func(_ string, creds credentials.TransportCredentials) bool { return creds == nil })
	return &transportCredentials{byCluster: entries, fallback: fallback, unknown: new(unknownNames)}
}

type transportCredentials struct {
	byCluster map[string]credentials.TransportCredentials // none is nil
	fallback  credentials.TransportCredentials            // may be nil
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

// Info is about connections that no cluster makes: gRPC-Go takes a request's
// :scheme from it. It never says "insecure", since NewClient would refuse call
// credentials that require security, which clusters may have. It never says a
// server's name, since that would become the name of all servers.
func (c *transportCredentials) Info() credentials.ProtocolInfo {
	info := credentials.ProtocolInfo{SecurityProtocol: Name}
	if c.fallback == nil {
		return info
	}
	if protocol := c.fallback.Info().SecurityProtocol; protocol != insecure.NewCredentials().Info().SecurityProtocol {
		info.SecurityProtocol = protocol
	}
	return info
}

// UsesXDS tells gRPC's xDS policies to hand on what the control plane says of TLS,
// if any entry has a use for that. The others never look at it.
func (c *transportCredentials) UsesXDS() bool {
	uses := func(creds credentials.TransportCredentials) bool {
		x, ok := creds.(interface{ UsesXDS() bool })
		return ok && x.UsesXDS()
	}
	return uses(c.fallback) || slices.ContainsFunc(slices.Collect(maps.Values(c.byCluster)), uses)
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
		if creds, ok := c.byCluster[name]; ok {
			return creds
		}
	}
	if c.fallback != nil {
		return c.fallback
	}
	return missingCredentials{c, names}
}

// serverName is what credentials that are for names, as in forCluster, have
// been told to call a server, or "". In gRPC-Go the channel's authority comes
// from it, and the name that TLS verifies from the authority.
func serverName(dialCreds credentials.TransportCredentials, names []string) string {
	if all, ok := dialCreds.(*transportCredentials); ok {
		dialCreds = all.forCluster(names)
	}
	if dialCreds == nil {
		return ""
	}
	return dialCreds.Info().ServerName //nolint:staticcheck // deprecated, and still what tls.Config.ServerName becomes
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

// missingCredentials is what a cluster has for credentials if there are none. Its
// error does not quote names, since what it ends up in quotes it, twice.
type missingCredentials struct {
	all   *transportCredentials
	names []string
}

func (m missingCredentials) ClientHandshake(context.Context, string, net.Conn) (net.Conn, credentials.AuthInfo, error) {
	if len(m.names) == 0 {
		return nil, nil, errors.New("composite: there are no transport credentials for connections outside clusters: give NewTransportCredentials a fallback")
	}
	return nil, nil, fmt.Errorf("composite: cluster %s has no transport credentials and there is no fallback: NewTransportCredentials has entries for %s", m.names[0], listNames(slices.Sorted(maps.Keys(m.all.byCluster))))
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
		logger.Warningf("%s has an entry for the cluster %q, and the config has no cluster of that name: it has %s", what, name, listNames(known))
	}
}

func listNames(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}
