package svcconfig

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"google.golang.org/grpc/balancer"

	"github.com/grpc-composite/grpc-composite/internal/configjson"
)

// Policy is one entry of a list of load-balancing policies.
type Policy struct {
	Path   string // of its config
	Name   string
	Config json.RawMessage
}

// policies is a list of policies, of which the first that is registered is used.
// Whoever knows the policy checks its config.
type policies struct{}

func (policies) check(value json.RawMessage, path string, found *Problems) {
	if string(value) == "null" {
		return
	}
	if _, problem := Choose(value, path); problem != nil {
		found.Refused = append(found.Refused, *problem)
	}
}

// Choose returns the policy that gRPC-Go uses of a list: the first one that is
// registered.
func Choose(value json.RawMessage, path string) (Policy, *Problem) {
	var entries []map[string]json.RawMessage
	if err := json.Unmarshal(value, &entries); err != nil {
		e := configjson.Error{Value: configjson.Shown(value), Want: `must be a list of objects, such as [{"composite": {...}}]`}
		return Policy{}, &Problem{Path: path, Text: e.Error()}
	}
	var asked []string
	for i, entry := range entries {
		at := fmt.Sprintf("%s[%d]", path, i)
		if len(entry) != 1 {
			return Policy{}, &Problem{Path: at, Text: fmt.Sprintf("must have one key, the name of a policy, and has %d", len(entry))}
		}
		for name, config := range entry {
			if balancer.Get(name) != nil {
				return Policy{Path: configjson.Join(at, name), Name: name, Config: config}, nil
			}
			asked = append(asked, configjson.Quote(name))
		}
	}
	text := "must name a policy that is registered"
	if len(asked) > 0 {
		text += ", and none of these is: " + configjson.List(asked)
	}
	return Policy{}, &Problem{Path: path, Text: text}
}

// Find returns the policies of that name that are in use, by a policy that is in
// use itself, down from the one given, but not those inside another of the same
// name. Every list of objects with one key each, of which one is a registered
// policy, is taken for a list of policies.
func Find(p Policy, name string) []Policy {
	if p.Name == name {
		return []Policy{p}
	}
	return Inside(p, name)
}

// Inside is Find for the lists in a policy's config.
func Inside(p Policy, name string) []Policy { return search(p, name).found }

// Beside tells whether there is a policy in use, down from the one given, that is
// neither of that name nor has a list of policies inside it: RPCs may then come to hosts
// by none of those that Find returns.
func Beside(p Policy, name string) bool {
	f := search(p, name)
	return p.Name != name && (f.beside || f.lists == 0)
}

// MaxDepth is how many objects and lists, one in another, a config may have: each
// policy reads the whole config of those inside it, so that a deep one takes time
// out of proportion to its length. Nobody looks for a policy deeper down.
const MaxDepth = 100

type finder struct {
	name   string
	found  []Policy
	lists  int  // of policies, so far
	beside bool // a policy of another name has none of them inside it
}

// search looks into a policy's config.
func search(p Policy, name string) finder {
	f := finder{name: name}
	dec := json.NewDecoder(bytes.NewReader(p.Config))
	dec.UseNumber()
	var config any
	if err := dec.Decode(&config); err == nil {
		f.value(config, p.Path, 0)
	}
	return f
}

func (f *finder) value(v any, path string, depth int) {
	if depth++; depth > MaxDepth {
		return
	}
	switch v := v.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			f.value(v[key], configjson.Join(path, key), depth)
		}
	case []any:
		if i, name, config, ok := chosen(v); ok {
			f.lists++
			f.policy(name, config, configjson.Join(fmt.Sprintf("%s[%d]", path, i), name), depth)
			return
		}
		for i, item := range v {
			f.value(item, fmt.Sprintf("%s[%d]", path, i), depth)
		}
	}
}

func (f *finder) policy(name string, config any, path string, depth int) {
	if name != f.name {
		lists := f.lists
		f.value(config, path, depth)
		f.beside = f.beside || f.lists == lists
		return
	}
	if text, err := json.Marshal(config); err == nil {
		f.found = append(f.found, Policy{Path: path, Name: name, Config: text})
	}
}

// chosen returns the entry that is used of a list, if it is a list of policies.
func chosen(list []any) (index int, name string, config any, ok bool) {
	for i, item := range list {
		entry, isObject := item.(map[string]any)
		if !isObject || len(entry) != 1 {
			return 0, "", nil, false
		}
		for name, config := range entry {
			if balancer.Get(name) != nil {
				return i, name, config, true
			}
		}
	}
	return 0, "", nil, false
}
