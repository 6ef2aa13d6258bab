package composite

import (
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/grpc-composite/grpc-composite/internal/clustertarget"
	"github.com/grpc-composite/grpc-composite/internal/inspect"
	"github.com/grpc-composite/grpc-composite/internal/plan"
)

// maxNameLength is the most bytes that the policy allows a name.
const maxNameLength = 256

// spec is what a target with clusters in its path says.
type spec struct {
	clusters []specCluster
	query    specQuery
}

// specCluster is one cluster of the path. A name that was listed before, with the
// same target, is the same cluster again.
type specCluster struct {
	name   string
	target *clustertarget.Target
}

// example is what errors show.
const example = `"composite:///primary=dns:///a.example:443,fallback=dns:///b.example:443?retryOn=UNAVAILABLE"`

var (
	// named matches a cluster with a name before its target.
	named = regexp.MustCompile(`^([A-Za-z0-9_.-]+)=(.*)$`)
	// misnamed matches, of the others, those that have something else where the
	// name belongs.
	misnamed = regexp.MustCompile(`^[^:/=]*=`)
)

// parseSpec reads the path and query of a target. It is split at commas and at
// the "=" after a name before it is unescaped, so that escapes may stand for
// both in the clusters' targets. A spec without clusters is that of the bare
// target. Whatever it accepts, the policy accepts as its config.
func parseSpec(u url.URL) (*spec, error) {
	switch {
	case u.User != nil:
		return nil, wrong("user information", "must not be there")
	case u.Host != "":
		return nil, wrong(fmt.Sprintf("%q", u.Host), "must come after three slashes")
	case u.Opaque != "":
		return nil, wrong(fmt.Sprintf("%q", u.Opaque), "must come after three slashes")
	case u.Fragment != "":
		return nil, wrong(fmt.Sprintf("fragment %q", u.Fragment), `must not be there; write a "#" in a target as %23`)
	}
	s := new(spec)
	path := strings.TrimPrefix(writtenPath(u), "/")
	if path == "" {
		if u.RawQuery != "" {
			return nil, wrong(fmt.Sprintf("query %q", u.RawQuery), "must come after clusters")
		}
		return s, nil
	}
	query, err := parseQuery(u.RawQuery)
	if err != nil {
		return nil, err
	}
	s.query = query
	// Before the clusters are read, each of which is compared with those before.
	parts := strings.Split(path, ",")
	if n := query.slots(uint64(len(parts))); n > plan.MaxSlots {
		return nil, wrong(fmt.Sprintf("%d attempts, for %d clusters", n, len(parts)), fmt.Sprintf("must be at most %d in all", plan.MaxSlots))
	}
	for i, part := range parts {
		c, err := parseCluster(part)
		if err == nil {
			err = s.add(c)
		}
		if err != nil {
			return nil, wrong(fmt.Sprintf("cluster %d: %q", i+1, part), err.Error())
		}
	}
	return s, nil
}

// writtenPath is the path as it was written. URL.EscapedPath is not, if anything
// in the path ought to be escaped and is not, such as a space: then it has undone
// the escapes of commas.
func writtenPath(u url.URL) string {
	if u.RawPath != "" {
		return u.RawPath
	}
	return u.EscapedPath()
}

// parseCluster reads one cluster. Its errors say what the cluster must be.
func parseCluster(part string) (specCluster, error) {
	var c specCluster
	escaped := part
	switch m := named.FindStringSubmatch(part); {
	case m != nil:
		c.name, escaped = m[1], m[2]
	case misnamed.MatchString(part):
		return c, errors.New(`must have a name of letters, digits, "_", "." and "-" before the "="; write a "=" in a target as %3D`)
	}
	text, err := url.PathUnescape(escaped)
	switch {
	case err != nil:
		return c, fmt.Errorf("must be escaped as in a URL: %w", err)
	case text == "":
		return c, errors.New("must have a target")
	case !utf8.ValidString(text):
		return c, errors.New("must be valid UTF-8")
	}
	if c.target, err = clustertarget.Parse(text); err != nil {
		return c, err
	}
	if c.name == "" {
		c.name = c.target.Parsed.Endpoint()
	}
	if c.name == "" {
		c.name = inspect.WithoutUserInfo(text)
	}
	if len(c.name) > maxNameLength {
		return c, fmt.Errorf("must have a name of at most %d bytes, and has one of %d", maxNameLength, len(c.name))
	}
	return c, nil
}

// add appends a cluster. Its errors say what the cluster must be.
func (s *spec) add(c specCluster) error {
	for _, other := range s.clusters {
		if other.name == c.name && other.target.Text != c.target.Text {
			return fmt.Errorf("must have another name than %q, or the target %q that is called so above", c.name, other.target.Text)
		}
	}
	s.clusters = append(s.clusters, c)
	return nil
}

// wrong is the error for a part of a target. It does not show user info.
func wrong(part, want string) error {
	return fmt.Errorf("composite: target: %s: %s; a target looks like %s", inspect.WithoutUserInfo(part), inspect.WithoutUserInfo(want), example)
}
