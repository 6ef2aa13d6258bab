package main

import "context"

// extra is something to measure that is not turns of RPCs.
type extra struct {
	name, title string
	columns     []string
	contenders  []string
	// run returns a row's values for each of the contenders that are wanted, or none
	// if it cannot be measured here.
	run func(ctx context.Context, t *host, o options, s *site, contenders []string) [][]float64
}

var extras = append([]extra{failoverExtra, swallowExtra, stormExtra, updateExtra}, memoryExtras...)

func (e extra) measure(ctx context.Context, t *host, o options, s *site) []measurement {
	var wanted []string
	for _, c := range e.contenders {
		if o.wants(e.name, c) && (c != envoyName || s.envoy != nil) {
			wanted = append(wanted, c)
		}
	}
	if len(wanted) == 0 {
		return nil
	}
	o.say("%s: %s", e.name, e.title)
	values := e.run(ctx, t, o, s, wanted)
	if values == nil {
		return nil
	}
	m := measurement{Workload: e.name, Title: e.title, Columns: e.columns}
	for i, c := range wanted {
		m.Rows = append(m.Rows, row{c, values[i]})
	}
	return []measurement{m}
}

// contenderNames are all of them, in their order.
func contenderNames() (names []string) {
	for _, c := range contenders {
		names = append(names, c.name)
	}
	return names
}

func contenderNamed(name string) contender {
	for _, c := range contenders {
		if c.name == name {
			return c
		}
	}
	panic("no contender " + name)
}
