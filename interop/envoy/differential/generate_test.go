package differential

import (
	"math/rand/v2"
	"slices"

	"google.golang.org/grpc/codes"
)

// conditions are the codes that Envoy can retry by name.
var conditions = []codes.Code{codes.Canceled, codes.DeadlineExceeded, codes.Internal, codes.ResourceExhausted, codes.Unavailable}

// generate makes scenario number id of a seed, whatever came before it.
func generate(seed uint64, id int) scenario {
	g := generator{rand.New(rand.NewPCG(seed, uint64(id)))} //nolint:gosec // never negative
	return g.scenario(id)
}

type generator struct{ *rand.Rand }

// one in n.
func (g generator) one(n int) bool { return g.IntN(n) == 0 }

func (g generator) scenario(id int) scenario {
	s := scenario{id: id, hosts: make(map[string]int), nested: make(map[string][]string), skip: !g.one(4)}
	names := []string{"a", "b", "c", "d", "e", "f", "g", "h"}
	g.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	names = names[:1+g.IntN(len(names))]

	s.list = g.pick(names)
	if g.one(8) {
		s.list[g.IntN(len(s.list))] = "N"
		s.nested["N"] = g.pick(names)
	}
	s.attempts = 1 + g.IntN(len(s.list)+3)
	if g.one(10) {
		s.attempts = 1
	}
	for _, c := range conditions {
		if g.one(2) {
			s.retryable = append(s.retryable, c)
		}
	}
	for _, list := range [][]string{s.list, s.nested["N"]} {
		for _, name := range list {
			if name != "N" {
				s.hosts[name] = g.hosts()
			}
		}
	}
	hanging := g.one(50)
	changing := g.one(4)
	for i := range 1 + g.IntN(4) {
		c := call{replies: make(map[string][]reply), hosts: make(map[string]int)}
		if !hanging && g.one(3) {
			c.kind, c.slow, c.large = kind(1+g.IntN(3)), g.one(3), g.one(3)
		}
		for _, name := range s.names() {
			for range 1 + g.IntN(3) {
				c.replies[name] = append(c.replies[name], g.reply(s.retryable, hanging))
			}
			if changing && i > 0 && g.one(3) && !slices.Contains(s.nested["N"], name) {
				c.hosts[name] = g.hosts()
			}
		}
		s.calls = append(s.calls, c)
	}
	s.form = form{pickFirst: g.one(4), lazy: g.one(4), grouped: g.one(2), tagged: g.one(6)}
	s.form.ownList = !s.form.grouped && g.one(4)
	return s
}

// pick makes a list of names, some of which may repeat.
func (g generator) pick(names []string) []string {
	list := slices.Clone(names)
	for range g.IntN(3) {
		list = append(list, names[g.IntN(len(names))])
	}
	if g.one(2) {
		g.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	}
	if g.one(4) { // adjacent repeats
		i := g.IntN(len(list))
		list = slices.Insert(list, i, list[i])
	}
	return list
}

func (g generator) hosts() int {
	if g.one(3) {
		return 0
	}
	return 1 + g.IntN(2)
}

// reply is one that leads to the next attempt, more often than not.
func (g generator) reply(retryable []codes.Code, hanging bool) reply {
	switch n := g.IntN(100); {
	case hanging && n < 30:
		return reply{hang: true}
	case n < 60 && len(retryable) > 0:
		return reply{code: retryable[g.IntN(len(retryable))]}
	case n < 68 && len(retryable) > 0:
		return reply{code: retryable[g.IntN(len(retryable))], headers: true}
	case n < 80:
		return reply{code: codes.Code(1 + g.IntN(16)), headers: g.one(6)} //nolint:gosec // a code
	default:
		return reply{headers: g.one(6)}
	}
}
