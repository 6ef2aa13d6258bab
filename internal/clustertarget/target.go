// Package clustertarget reads the targets of clusters: gRPC target URIs, as
// grpc.NewClient reads a channel's.
package clustertarget

import (
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"strings"

	"google.golang.org/grpc/resolver"
)

// Target is where a cluster's endpoints come from: a parsed target and the
// resolver builder for its scheme. It is immutable.
type Target struct {
	Text      string // as written in the config
	Parsed    resolver.Target
	Builder   resolver.Builder
	Authority string // what the cluster's servers are called in TLS and :authority
}

// schemeWithSlash matches targets that can only be meant as a URI.
var schemeWithSlash = regexp.MustCompile(`^([a-zA-Z][a-zA-Z0-9+.-]*):/`)

// refusedSchemes are those whose resolvers deliver a service config and nothing
// that a cluster could use, with what to do instead.
var refusedSchemes = map[string]string{
	"xds":           `must not be an "xds:" target, whose state is a service config, which a cluster cannot use: make "composite-xds:///NAME?clusters=..." the channel's target (package resolver/xds), or name the cluster's endpoints by another scheme, such as "dns:///host:port"`,
	"google-c2p":    `must not be a "google-c2p:" target, whose state is a service config, which a cluster cannot use: name the cluster's endpoints by another scheme, such as "dns:///host:port"`,
	"composite-xds": `must not be a "composite-xds:" target, whose state is a service config, which a cluster cannot use: make it the channel's target, with this list in its query: composite-xds:///NAME?config=...`,
	"composite":     `must not be a "composite:" target, whose state is a service config, which a cluster cannot use: list its clusters here, or nest them with "childPolicy": [{"composite": {...}}]`,
}

// Parse reads a cluster's target as grpc.NewClient reads a channel's: a
// registered scheme wins, and everything else is a name for dns. What can only
// be meant as a URI is not taken for such a name, though, and neither is white
// space around it. The error says what the target must be.
func Parse(text string) (*Target, error) {
	if strings.TrimSpace(text) != text {
		return nil, errors.New("must not begin or end with white space")
	}
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

func newTarget(text string, parsed *url.URL, builder resolver.Builder) *Target {
	t := &Target{Text: text, Parsed: resolver.Target{URL: *parsed}, Builder: builder}
	endpoint := t.Parsed.Endpoint()
	switch o, ok := builder.(resolver.AuthorityOverrider); {
	case ok:
		t.Authority = o.OverrideAuthority(t.Parsed)
	case strings.HasPrefix(endpoint, ":"):
		t.Authority = "localhost" + encodeAuthority(endpoint)
	default:
		t.Authority = encodeAuthority(endpoint)
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
