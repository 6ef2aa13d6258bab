package composite

import (
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
)

// spec is what a target with clusters in its path says.
type spec struct {
	clusters []specCluster
	query    specQuery
}

// specCluster is one cluster of the path. A name that was listed before, with the
// same target, is the same cluster again.
type specCluster struct {
	name, target string
}

// specQuery is the query; the zero value of each field means that it was left
// out.
type specQuery struct {
	retryOn        []string
	attempts       uint64
	policy         string
	connectTimeout *time.Duration
	attemptTimeout *time.Duration
	overflow       string
}

// example is what errors show.
const example = `"composite:///primary=dns:///a.example:443,fallback=dns:///b.example:443?retryOn=UNAVAILABLE"`

// named matches a cluster with a name before its target.
var named = regexp.MustCompile(`^([A-Za-z0-9_.-]+)=(.*)$`)

// parseSpec reads the path and query of a target. It is split at commas and at
// the "=" after a name before it is unescaped, so that escapes may stand for
// both in the clusters' targets. A spec without clusters is that of the bare
// target.
func parseSpec(u url.URL) (*spec, error) {
	switch {
	case u.Host != "" || u.User != nil:
		return nil, wrong(fmt.Sprintf("%q", u.Host), "must come after three slashes")
	case u.Opaque != "":
		return nil, wrong(fmt.Sprintf("%q", u.Opaque), "must come after three slashes")
	case u.Fragment != "" || u.RawFragment != "":
		return nil, wrong(fmt.Sprintf("fragment %q", u.Fragment), `must not be there; write a "#" in a target as %23`)
	}
	s := new(spec)
	path := strings.TrimPrefix(u.EscapedPath(), "/")
	if path == "" {
		if u.RawQuery != "" || u.ForceQuery {
			return nil, wrong(fmt.Sprintf("query %q", u.RawQuery), "must come after clusters")
		}
		return s, nil
	}
	for i, part := range strings.Split(path, ",") {
		c, err := parseCluster(part)
		if err != nil {
			return nil, wrong(fmt.Sprintf("cluster %d: %q", i+1, part), err.Error())
		}
		for _, other := range s.clusters {
			if other.name == c.name && other.target != c.target {
				return nil, wrong(fmt.Sprintf("cluster %d: %q", i+1, part), fmt.Sprintf("must have the target %q, since that is what %q has above", other.target, c.name))
			}
		}
		s.clusters = append(s.clusters, c)
	}
	query, err := parseQuery(u.RawQuery)
	if err != nil {
		return nil, err
	}
	s.query = query
	return s, nil
}

func parseCluster(part string) (specCluster, error) {
	var c specCluster
	escaped := part
	if m := named.FindStringSubmatch(part); m != nil {
		c.name, escaped = m[1], m[2]
	}
	text, err := url.PathUnescape(escaped)
	if err != nil {
		return c, fmt.Errorf("must be escaped as in a URL: %w", err)
	}
	if text == "" {
		return c, fmt.Errorf("must have a target")
	}
	c.target = text
	if c.name == "" {
		c.name = endpointText(text)
	}
	return c, nil
}

// endpointText is the name of a cluster that has none: its target without the
// scheme and authority.
func endpointText(target string) string {
	if u, err := url.Parse(target); err == nil && u.Scheme != "" {
		if endpoint := strings.TrimPrefix(u.Path, "/"); endpoint != "" {
			return endpoint
		}
	}
	return target
}

// parseQuery reads the query. Its keys are known ones, each given once.
func parseQuery(raw string) (specQuery, error) {
	var q specQuery
	if raw == "" {
		return q, nil
	}
	seen := make(map[string]bool)
	for _, pair := range strings.Split(raw, "&") {
		key, escaped, _ := strings.Cut(pair, "=")
		at := fmt.Sprintf("query %q", pair)
		if seen[key] {
			return q, wrong(at, "must be given once")
		}
		seen[key] = true
		value, err := url.QueryUnescape(escaped)
		if err != nil {
			return q, wrong(at, "must be escaped as in a URL")
		}
		if err := q.set(key, value); err != nil {
			return q, wrong(at, err.Error())
		}
	}
	return q, nil
}

// set takes one key of the query. What the policy's config checks is left to it.
func (q *specQuery) set(key, value string) error {
	if value == "" {
		return fmt.Errorf("must have a value")
	}
	switch key {
	case "retryOn":
		for _, name := range strings.Split(value, ",") {
			var code codes.Code
			if err := code.UnmarshalJSON([]byte(`"` + name + `"`)); err != nil || code == codes.OK {
				return fmt.Errorf("must list status codes such as UNAVAILABLE,RESOURCE_EXHAUSTED, and %q is none", name)
			}
			q.retryOn = append(q.retryOn, name)
		}
	case "attempts":
		n, err := strconv.ParseUint(value, 10, 32)
		if err != nil || n == 0 {
			return fmt.Errorf("must be a whole number, at least 1")
		}
		q.attempts = n
	case "policy":
		q.policy = value
	case "connectTimeout":
		return setDuration(&q.connectTimeout, value)
	case "attemptTimeout":
		return setDuration(&q.attemptTimeout, value)
	case "overflow":
		q.overflow = value
	default:
		return fmt.Errorf("must be one of retryOn, attempts, policy, connectTimeout, attemptTimeout, overflow")
	}
	return nil
}

func setDuration(d **time.Duration, value string) error {
	parsed, err := time.ParseDuration(value)
	if err != nil {
		return fmt.Errorf("must be a duration, such as 1.5s or 200ms")
	}
	*d = &parsed
	return nil
}

// wrong is the error for a part of a target.
func wrong(part, want string) error {
	return fmt.Errorf("composite: target: %s: %s; a target looks like %s", part, want, example)
}

// String writes the spec as a target.
func (s *spec) String() string {
	var parts []string
	for _, c := range s.clusters {
		text := escapeTarget(c.target)
		if c.name != endpointText(c.target) {
			text = c.name + "=" + text
		}
		parts = append(parts, text)
	}
	text := Scheme + ":///" + strings.Join(parts, ",")
	if query := s.query.String(); query != "" {
		text += "?" + query
	}
	return text
}

// String writes the query in the order of its fields.
func (q *specQuery) String() string {
	var pairs []string
	add := func(key, value string) {
		if value != "" {
			pairs = append(pairs, key+"="+url.QueryEscape(value))
		}
	}
	duration := func(d *time.Duration) string {
		if d == nil {
			return ""
		}
		return d.String()
	}
	add("retryOn", strings.Join(q.retryOn, ","))
	if q.attempts > 0 {
		add("attempts", strconv.FormatUint(q.attempts, 10))
	}
	add("policy", q.policy)
	add("connectTimeout", duration(q.connectTimeout))
	add("attemptTimeout", duration(q.attemptTimeout))
	add("overflow", q.overflow)
	return strings.Join(pairs, "&")
}

// escapeTarget escapes what would end a cluster's target in the path.
func escapeTarget(target string) string {
	const literal = "-_.~!$&'()*+;:@/[]"
	var b strings.Builder
	for i := range len(target) {
		c := target[i]
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', strings.IndexByte(literal, c) >= 0:
			b.WriteByte(c)
		default:
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return b.String()
}

func (s *spec) equal(other *spec) bool {
	return slices.Equal(s.clusters, other.clusters) && s.query.String() == other.query.String()
}
