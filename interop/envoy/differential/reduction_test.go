package differential

import (
	"maps"
	"slices"
)

// reduce returns the smallest scenario that still differs, of those that can be
// had by leaving things out one after another.
func reduce(c comparison, differing func([]scenario) []comparison) comparison {
	for {
		found := differing(smaller(c.scenario))
		if len(found) == 0 {
			return c
		}
		c = smallest(found)
	}
}

func smallest(list []comparison) comparison {
	return slices.MinFunc(list, func(a, b comparison) int { return a.scenario.size() - b.scenario.size() })
}

// smaller are the scenarios that have one thing less.
func smaller(s scenario) []scenario {
	var list []scenario
	add := func(change func(*scenario)) {
		c := s.clone()
		change(&c)
		c.tidy()
		if c.size() < s.size() && len(c.list) > 0 && len(c.calls) > 0 && c.attempts > 0 {
			list = append(list, c)
		}
	}
	for i := range s.calls {
		add(func(c *scenario) { c.dropCall(i) })
		add(func(c *scenario) { c.calls[i].kind = unary })
		add(func(c *scenario) { c.calls[i].slow = false })
		add(func(c *scenario) { c.calls[i].large = false })
		for name, replies := range s.calls[i].replies {
			add(func(c *scenario) { c.calls[i].replies[name] = []reply{{}} })
			add(func(c *scenario) { c.calls[i].replies[name] = replies[:1] })
			add(func(c *scenario) { c.calls[i].replies[name] = replies[1:] })
		}
		for name := range s.calls[i].hosts {
			add(func(c *scenario) { delete(c.calls[i].hosts, name) })
		}
	}
	for i := range s.list {
		add(func(c *scenario) { c.list = slices.Delete(c.list, i, i+1) })
	}
	for name, inner := range s.nested {
		for i := range inner {
			add(func(c *scenario) { c.nested[name] = slices.Delete(c.nested[name], i, i+1) })
		}
	}
	for name := range s.hosts {
		add(func(c *scenario) { c.hosts[name] = min(1, c.hosts[name]) })
		add(func(c *scenario) { c.hosts[name] = 0 })
	}
	for i := range s.retryable {
		add(func(c *scenario) { c.retryable = slices.Delete(c.retryable, i, i+1) })
	}
	add(func(c *scenario) { c.attempts-- })
	add(func(c *scenario) { c.attempts = (c.attempts + 1) / 2 })
	add(func(c *scenario) { c.form = form{} })
	for _, change := range []func(f *form){
		func(f *form) { f.pickFirst = false },
		func(f *form) { f.lazy = false },
		func(f *form) { f.grouped = false },
		func(f *form) { f.ownList = false },
		func(f *form) { f.tagged = false },
	} {
		add(func(c *scenario) { change(&c.form) })
	}
	return list
}

// clone copies all that may be changed.
func (s scenario) clone() scenario {
	s.list, s.retryable, s.calls = slices.Clone(s.list), slices.Clone(s.retryable), slices.Clone(s.calls)
	s.hosts, s.nested = maps.Clone(s.hosts), maps.Clone(s.nested)
	for name, list := range s.nested {
		s.nested[name] = slices.Clone(list)
	}
	for i, c := range s.calls {
		s.calls[i].hosts, s.calls[i].replies = maps.Clone(c.hosts), maps.Clone(c.replies)
	}
	return s
}

// dropCall leaves a call out, but not what changes before it.
func (s *scenario) dropCall(i int) {
	hosts := s.calls[i].hosts
	s.calls = slices.Delete(s.calls, i, i+1)
	if i == len(s.calls) {
		return
	}
	next := &s.calls[i]
	maps.Copy(hosts, next.hosts)
	if i == 0 {
		maps.Copy(s.hosts, hosts)
		clear(hosts)
	}
	next.hosts = hosts
}

// tidy leaves out what nothing refers to any more.
func (s *scenario) tidy() {
	maps.DeleteFunc(s.nested, func(name string, list []string) bool {
		return len(list) == 0 || !slices.Contains(s.list, name)
	})
	used := slices.Clone(s.list)
	for _, list := range s.nested {
		used = append(used, list...)
	}
	unused := func(name string) bool { return !slices.Contains(used, name) }
	maps.DeleteFunc(s.hosts, func(name string, _ int) bool { return unused(name) })
	s.list = slices.DeleteFunc(s.list, func(name string) bool {
		_, isNested := s.nested[name]
		_, hasHosts := s.hosts[name]
		return !isNested && !hasHosts
	})
	for i := range s.calls {
		maps.DeleteFunc(s.calls[i].hosts, func(name string, _ int) bool { return unused(name) })
		maps.DeleteFunc(s.calls[i].replies, func(name string, list []reply) bool { return unused(name) || len(list) == 0 })
		for name := range s.hosts {
			if len(s.calls[i].replies[name]) == 0 {
				s.calls[i].replies[name] = []reply{{}}
			}
		}
	}
}
