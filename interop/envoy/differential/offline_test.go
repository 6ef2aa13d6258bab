package differential

import (
	"reflect"
	"slices"
	"testing"
)

// generated are scenarios that need no Envoy.
func generated() []scenario {
	var list []scenario
	for id := range 2000 {
		list = append(list, generate(1, id))
	}
	return list
}

// check fails the test unless a scenario can be run.
func check(t *testing.T, s scenario) {
	t.Helper()
	used := slices.Clone(s.list)
	for _, list := range s.nested {
		used = append(used, list...)
	}
	if len(s.list) == 0 || len(s.list) > 64 || len(s.calls) == 0 || s.attempts < 1 {
		t.Fatalf("scenario %v: it has nothing to run, or too much", s)
	}
	for _, name := range used {
		_, hasHosts := s.hosts[name]
		if _, isNested := s.nested[name]; hasHosts == isNested {
			t.Fatalf("scenario %v: what %s is is not said once", s, name)
		}
	}
	if len(s.calls[0].hosts) > 0 {
		t.Fatalf("scenario %v: hosts change before the first call", s)
	}
	for _, c := range s.calls {
		for _, name := range s.names() {
			if len(c.replies[name]) == 0 {
				t.Fatalf("scenario %v: %s has no replies", s, name)
			}
		}
		for name := range c.hosts {
			if _, ok := s.hosts[name]; !ok {
				t.Fatalf("scenario %v: hosts of %s change, and nobody uses it", s, name)
			}
		}
	}
}

// TestGenerator checks that a seed makes the same scenarios again, that they can be
// run, and that each thing that may occur does.
func TestGenerator(t *testing.T) {
	t.Parallel()
	seen := make(map[string]bool)
	list := generated()
	for i, s := range list {
		check(t, s)
		if again := generate(1, i); !reflect.DeepEqual(s, again) {
			t.Fatalf("scenario %d is %v, and then %v", i, s, again)
		}
		seen["nested"] = seen["nested"] || len(s.nested) > 0
		seen["hangs"] = seen["hangs"] || s.hangs()
		seen["changes"] = seen["changes"] || s.changes()
		seen["skips"] = seen["skips"] || s.skip
		seen["does not skip"] = seen["does not skip"] || !s.skip
		seen["no retries"] = seen["no retries"] || !s.retries()
		seen["past the end"] = seen["past the end"] || s.attempts > len(s.list)
		for _, c := range s.calls {
			seen[c.kind.String()] = true
		}
	}
	const want = 11
	for what, ok := range seen {
		if !ok {
			t.Errorf("never seen: %s", what)
		}
	}
	if len(seen) != want {
		t.Errorf("%d things seen: want %d: %v", len(seen), want, seen)
	}
}

// TestSmaller checks that what reduction tries can be run, and that the original
// stays as it is.
func TestSmaller(t *testing.T) {
	t.Parallel()
	for _, s := range generated()[:200] {
		before := s.clone()
		for _, c := range smaller(s) {
			check(t, c)
			if c.size() >= s.size() {
				t.Fatalf("%v is not smaller than %v", c, s)
			}
		}
		if !reflect.DeepEqual(s, before) {
			t.Fatalf("%v was changed: it was %v", s, before)
		}
	}
}

// TestReduce has a difference that needs two lists, a code and a host that goes.
func TestReduce(t *testing.T) {
	t.Parallel()
	differs := func(s scenario) bool {
		return slices.Contains(s.list, "a") && slices.Contains(s.list, "b") && s.attempts > 1 &&
			slices.ContainsFunc(s.calls, func(c call) bool {
				n, ok := c.hosts["a"]
				return ok && n == 0
			})
	}
	differing := func(list []scenario) []comparison {
		var found []comparison
		for _, s := range list {
			if differs(s) {
				found = append(found, comparison{scenario: s})
			}
		}
		return found
	}
	found := differing(generated())
	if len(found) == 0 {
		t.Fatal("no scenario to reduce")
	}
	for _, c := range found {
		s := reduce(c, differing).scenario
		if len(s.list) != 2 || len(s.calls) != 2 || s.attempts != 2 || len(s.retryable) != 0 || len(s.calls[1].hosts) != 1 || s.form != (form{}) {
			t.Fatalf("%v was reduced to %v, which has more than it needs", c.scenario, s)
		}
	}
}
