package xds

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strings"
	"unicode/utf8"

	"google.golang.org/grpc/resolver"

	"github.com/grpc-composite/grpc-composite/internal/configjson"
	"github.com/grpc-composite/grpc-composite/internal/plan"
	pb "github.com/grpc-composite/grpc-composite/proto/composite/v1"
)

const (
	xdsScheme = "xds"
	// maxNameLength is the most bytes that the policy allows a name.
	maxNameLength = 256
	// example is what errors show.
	example = `"composite-xds:///service.example?clusters=primary,secondary"`
)

// spec is what a target says.
type spec struct {
	target resolver.Target // for gRPC's xDS resolver
	part   string          // of the target, which names the clusters
	policy map[string]any  // the config of the policy, as JSON has it
}

// parseSpec reads a target.
func parseSpec(u url.URL) (*spec, error) {
	name := strings.TrimPrefix(u.Path, "/")
	switch {
	case u.User != nil:
		return nil, wrong("user information", "must not be there")
	case u.Opaque != "":
		return nil, wrong(fmt.Sprintf("%q", u.Opaque), "must come after three slashes")
	case u.Fragment != "":
		return nil, wrong("fragment", `must not be there; write a "#" as %23`)
	case name == "":
		return nil, wrong(`name ""`, "must not be empty")
	case !utf8.ValidString(name):
		return nil, wrong(fmt.Sprintf("name %q", name), "must be valid UTF-8")
	}
	s := new(spec)
	if err := s.parseQuery(u.RawQuery); err != nil {
		return nil, err
	}
	u.Scheme, u.RawQuery, u.ForceQuery = xdsScheme, "", false
	s.target = resolver.Target{URL: u}
	return s, nil
}

// parseQuery reads the query, which has one key. Errors do not show a config, which may
// have request metadata in it.
func (s *spec) parseQuery(raw string) (err error) {
	if raw == "" {
		return wrong(`query ""`, "must have clusters or config")
	}
	pair, _, more := strings.Cut(raw, "&")
	key, value, _ := strings.Cut(pair, "=")
	s.part = fmt.Sprintf("query %q", key)
	if key == "clusters" {
		s.part = fmt.Sprintf("query %q", pair)
	}
	if more {
		return wrong(s.part, `must be the only key; write a "&" in its value as %26`)
	}
	switch key {
	case "clusters":
		s.policy, err = parseClusters(value)
	case "config":
		s.policy, err = parseConfig(value)
	default:
		return wrong(s.part, "must be one of clusters, config")
	}
	if err != nil {
		return wrong(s.part, err.Error())
	}
	return nil
}

// parseClusters reads a list of names. Its errors say what the list must be.
func parseClusters(value string) (map[string]any, error) {
	parts := strings.Split(value, ",")
	if len(parts) > plan.MaxSlots {
		return nil, fmt.Errorf("must list at most %d clusters, and lists %d", plan.MaxSlots, len(parts))
	}
	clusters := make([]any, len(parts))
	for i, part := range parts {
		name, err := url.QueryUnescape(part)
		at := fmt.Sprintf("cluster %d: %q: ", i+1, part)
		switch {
		case err != nil:
			return nil, fmt.Errorf("%smust be escaped as in a URL: %w", at, err)
		case name == "":
			return nil, fmt.Errorf("%smust not be empty", at)
		case !utf8.ValidString(name):
			return nil, fmt.Errorf("%smust be valid UTF-8", at)
		case len(name) > maxNameLength:
			return nil, fmt.Errorf("%smust be at most %d bytes long, and has %d", at, maxNameLength, len(name))
		}
		clusters[i] = map[string]any{"name": name}
	}
	return map[string]any{"clusters": clusters}, nil
}

// parseConfig reads a config of the policy, as far as its JSON. The policy itself
// judges what it says, but is not given the text: what it refuses there and a map
// does not tell, such as a field that is given twice, is refused here, in its words.
func parseConfig(value string) (map[string]any, error) {
	text, err := url.QueryUnescape(value)
	if err != nil {
		return nil, fmt.Errorf("must be escaped as in a URL: %w", err)
	}
	if !utf8.ValidString(text) {
		return nil, errors.New("must be valid UTF-8")
	}
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.UseNumber() // as they are written
	var policy map[string]any
	if err := decoder.Decode(&policy); err != nil {
		return nil, fmt.Errorf("must be a JSON object: %w", err)
	}
	if _, err := decoder.Token(); policy == nil || !errors.Is(err, io.EOF) {
		return nil, errors.New("must be one JSON object")
	}
	if _, err := configjson.Unmarshal([]byte(text), new(pb.LoadBalancingConfig)); err != nil {
		return nil, fmt.Errorf("composite: %w", err)
	}
	return policy, nil
}

// wrong is the error for a part of a target.
func wrong(part, want string) error {
	return fmt.Errorf("composite-xds: target: %s: %s; a target looks like %s", part, want, example)
}
