package composite

import (
	"strconv"

	"github.com/grpc-composite/grpc-composite/internal/inspect"
)

// hopeless finds a target that gRPC-Go's own resolvers refuse, or whose address it
// cannot connect to.
func (l *linter) hopeless(path string, c *clusterConfig) {
	if c.target == nil {
		return
	}
	u := c.target.Parsed.URL
	text := inspect.WithoutUserInfo(strconv.Quote(c.target.Text))
	const noHost = "the cluster can have no host"
	switch u.Scheme {
	case "dns":
		if c.target.Parsed.Endpoint() == "" {
			l.warnf(path, `write a name, as in "dns:///host:port"`, "%s has no name to resolve: %s", text, noHost)
		}
	case "passthrough":
		if c.target.Parsed.Endpoint() == "" {
			l.warnf(path, `write an address, as in "passthrough:///host:port"`, "%s has no address: %s, unless the channel has a dialer of its own", text, noHost)
		}
	case "unix", "unix-abstract":
		like := strconv.Quote(u.Scheme + ":///path")
		switch {
		case u.Host != "":
			l.warnf(path, "write three slashes, as in "+like, "%s has the authority %q, and gRPC-Go refuses one: %s", text, u.Host, noHost)
		case u.Path+u.Opaque == "" && len(l.nested.policies(c)) == 0: // those need no address
			l.warnf(path, "write a path, as in "+like, "%s has no path: %s", text, noHost)
		}
	}
}
