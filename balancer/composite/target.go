package composite

import (
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"strings"

	"google.golang.org/grpc/resolver"
)

// clusterTarget is where a cluster's endpoints come from: a parsed target and
// the resolver builder for its scheme.
type clusterTarget struct {
	text      string // as written in the config
	parsed    resolver.Target
	builder   resolver.Builder
	authority string // what the cluster's servers are called in TLS and :authority
}

// schemeWithSlash matches targets that can only be meant as a URI.
var schemeWithSlash = regexp.MustCompile(`^([a-zA-Z][a-zA-Z0-9+.-]*):/`)

// refusedSchemes are those whose resolvers deliver a service config and nothing
// that a cluster could use, with what to do instead.
var refusedSchemes = map[string]string{
	"xds":       `must not be an "xds:" target, whose state is a service config, which a cluster cannot use: name the cluster's endpoints by another scheme, such as "dns:///host:port"`,
	"composite": `must not be a "composite:" target, whose state is a service config, which a cluster cannot use: list its clusters here, or nest them with "childPolicy": [{"composite": {...}}]`,
}

// parseTarget reads a cluster's target as grpc.NewClient reads a channel's: a
// registered scheme wins, and everything else is a name for dns. What can only
// be meant as a URI is not taken for such a name, though. The error says what
// the target must be.
func parseTarget(text string) (*clusterTarget, error) {
	parsed, err := url.Parse(text)
	if err == nil {
		if remedy, ok := refusedSchemes[parsed.Scheme]; ok {
			return nil, errors.New(remedy)
		}
		if builder := resolver.Get(parsed.Scheme); builder != nil {
			return newTarget(text, parsed, builder), nil
		}
	}
	if m := schemeWithSlash.FindStringSubmatch(text); m != nil {
		if err != nil {
			return nil, unparsable(err)
		}
		return nil, fmt.Errorf("must have a scheme that a resolver is registered for, and none is for %q", m[1])
	}
	if parsed, err = url.Parse("dns:///" + text); err != nil {
		return nil, unparsable(err)
	}
	builder := resolver.Get("dns")
	if builder == nil {
		return nil, errors.New("must have a scheme: no resolver is registered for the default one, dns")
	}
	return newTarget(text, parsed, builder), nil
}

func unparsable(err error) error {
	var cause *url.Error
	if errors.As(err, &cause) {
		err = cause.Err // the rest repeats the target
	}
	return fmt.Errorf(`must be a target URI, such as "dns:///host:port": %w`, err)
}

func newTarget(text string, parsed *url.URL, builder resolver.Builder) *clusterTarget {
	t := &clusterTarget{text: text, parsed: resolver.Target{URL: *parsed}, builder: builder}
	endpoint := t.parsed.Endpoint()
	switch o, ok := builder.(resolver.AuthorityOverrider); {
	case ok:
		t.authority = o.OverrideAuthority(t.parsed)
	case strings.HasPrefix(endpoint, ":"):
		t.authority = "localhost" + encodeAuthority(endpoint)
	default:
		t.authority = encodeAuthority(endpoint)
	}
	return t
}

// encodeAuthority escapes what RFC 3986 section 3.2 does not allow in an
// authority, as grpc.NewClient does for a channel's.
func encodeAuthority(s string) string {
	const allowed = "-_.~!$&'()*+,;=:[]@"
	var b strings.Builder
	for i := range len(s) {
		c := s[i]
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', strings.IndexByte(allowed, c) >= 0:
			b.WriteByte(c)
		default:
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return b.String()
}
