package fromenvoy

import (
	"fmt"
	"iter"
)

// claims are what the routes of a virtual host take, in order: Envoy has the first
// route that matches.
type claims struct {
	all       []claim // those that tell requests apart by their methods alone
	first     map[methodName]claim
	ofService map[string][]claim
	parts     []part // the others
}

// claim is a route that takes some methods.
type claim struct {
	name methodName
	line int
	goal string // where it leads, or "" for the composite cluster
	rest bool   // it takes what routes before leave of a service
}

func newClaims() *claims {
	return &claims{first: make(map[methodName]claim), ofService: make(map[string][]claim)}
}

// add adds a route, unless one before it takes all that it would.
func (c *claims) add(n methodName, line int, goal string) {
	if _, ok := c.covering(n); ok {
		return
	}
	added := claim{n, line, goal, len(c.ofService[n.Service]) > 0}
	c.all = append(c.all, added)
	c.first[n] = added
	c.ofService[n.Service] = append(c.ofService[n.Service], added)
}

// covering returns the first route that takes all of a name.
func (c *claims) covering(n methodName) (first claim, ok bool) {
	for _, earlier := range n.wider() {
		if first, ok = c.first[earlier]; ok {
			break
		}
	}
	begin := n.begin()
	for i := range c.parts {
		if p := &c.parts[i]; p.covers(begin) && (!ok || p.line < first.line) {
			return claim{line: p.line, goal: p.goal}, true
		}
	}
	return first, ok
}

// elsewhere yields the routes that take a part of a name, and not to the composite
// cluster, with what they take.
func (c *claims) elsewhere(n methodName) iter.Seq2[string, claim] {
	var named []claim
	switch {
	case n.Service == "":
		named = c.all
	case n.Method == "":
		named = c.ofService[n.Service]
	}
	return func(yield func(string, claim) bool) {
		for _, other := range named {
			if other.goal != "" && !yield(other.methods()+" goes", other) {
				return
			}
		}
		begin := n.begin()
		for i := range c.parts {
			p := &c.parts[i]
			if p.goal != "" && p.meets(begin) && !yield("requests that match "+p.match+" go", claim{line: p.line, goal: p.goal}) {
				return
			}
		}
	}
}

// wider returns a name and those that stand for its methods, too.
func (n methodName) wider() []methodName {
	return []methodName{n, {Service: n.Service}, {}}
}

// methods returns what a route takes, as a note has it.
func (c claim) methods() string {
	switch {
	case c.name.Method != "":
		return shown(c.name.Service + "/" + c.name.Method)
	case c.rest:
		return "each other method of " + shown(c.name.Service)
	default:
		return "each method of " + shown(c.name.Service)
	}
}

// goal returns where a route leads.
func goal(action *node) string {
	if name := action.text("cluster"); name != "" {
		return fmt.Sprintf("to cluster %q", name)
	}
	return "elsewhere"
}
