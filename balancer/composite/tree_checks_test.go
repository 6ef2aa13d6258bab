package composite

import (
	"errors"
	"testing/synctest"
	"time"
)

// probe makes RPCs while the servers are left as they are, and checks where they go.
func (p *treePlay) probe() {
	p.t.Helper()
	number := min(1+p.r.IntN(2), len(p.tree.clusters))
	if p.generator.kind.guarded {
		p.probeGuarded(number)
	} else {
		p.probeOrder(number)
	}
}

// expected is the server to which attempts go sooner or later, unless something holds
// them back: the first in their order that is up, "" if none is.
func (p *treePlay) expected(order []string) string {
	for _, server := range order {
		if p.world.servers[server] == treeUp {
			return server
		}
	}
	return ""
}

// treeSettles is for how long an RPC is repeated until it goes where it has to, and
// treeDeadline is an RPC's, which must have another end before.
const (
	treeSettles  = 36 * time.Second
	treeDeadline = 30 * time.Second
)

// probeOrder checks that attempts of a number get to the first cluster that can serve
// them, and stay with it.
func (p *treePlay) probeOrder(number int) {
	p.t.Helper()
	rpc := treeRPC{number: number, deadline: treeDeadline}
	want := p.expected(p.tree.order(number))
	var got string
	for begin, n := time.Now(), 1; time.Since(begin) < treeSettles && (n <= 5 || want == "" || got != want); n++ {
		var err error
		if got, err = p.call(rpc); errors.Is(err, errTreeDeadline) {
			p.t.Fatalf("an RPC hangs: want an answer from %q", want)
		}
		time.Sleep(3 * time.Second)
	}
	if got != want {
		p.t.Fatalf("answer from %q: want %q", got, want)
	}
	// Clusters that slept must be awake in time, and fallbacks must not.
	if want != "" && !p.generator.kind.hanging && p.r.IntN(2) == 0 {
		p.sleep(70 * time.Minute)
		if _, err := p.call(rpc); err != nil {
			p.t.Fatalf("RPC after a long time without any: %v: want an answer", err)
		}
	}
}

// probeGuarded checks that attempts of a number are answered if there is a server for
// them, though the clusters have settings that hold attempts back.
func (p *treePlay) probeGuarded(number int) {
	p.t.Helper()
	const deadline = 100 * time.Second // for the RPCs in the background that are in the way
	up := p.expected(p.tree.order(number)) != ""
	if _, err := p.call(treeRPC{number: number, wait: true, deadline: deadline}); up && err != nil {
		p.t.Fatalf("RPC that waits for ready: %v: want an answer", err)
	}
	if _, err := p.call(treeRPC{number: number, deadline: deadline}); errors.Is(err, errTreeDeadline) {
		p.t.Fatal("an RPC hangs")
	}
	p.background.Wait()
	if names, order := p.ownList(); len(names) > 0 {
		_, err := p.call(treeRPC{number: 1, wait: true, deadline: deadline, names: names})
		if p.expected(order) != "" && err != nil {
			p.t.Fatalf("RPC with a list of its own: %v: want an answer", err)
		}
	}
	if _, err := p.call(treeRPC{number: number, deadline: deadline}); up && err != nil {
		p.t.Fatalf("RPC: %v: want an answer", err)
	}
}

// ownList is a random list of clusters for an RPC, and the servers that its first
// attempt may come to, in any order.
func (p *treePlay) ownList() (names, servers []string) {
	for _, c := range p.tree.clusters {
		if p.r.IntN(2) == 0 {
			names = append(names, c.name)
			servers = append(servers, c.order(1)...)
		}
	}
	p.r.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	return names, servers
}

// checkRest checks that nothing is under way when nobody uses the policy.
func (p *treePlay) checkRest() {
	p.t.Helper()
	p.background.Wait()
	synctest.Wait()
	p.checkCounters(p.policy)
	p.sleep(2 * time.Hour)
	synctest.Wait()
	before := p.channel.count()
	p.sleep(time.Hour)
	synctest.Wait()
	if n := p.channel.count() - before; n > 0 {
		p.t.Fatalf("%d pickers in an hour without RPCs", n)
	}
}

// checkCounters checks that nothing is counted as under way in a policy, and in those
// inside it.
func (p *treePlay) checkCounters(b *compositeBalancer) {
	p.t.Helper()
	for _, c := range b.current() {
		b.mu.Lock()
		held := c.held
		var inside []*compositeBalancer
		if c.current != nil {
			inside = append(inside, c.current.nested...)
		}
		b.mu.Unlock()
		if n := c.guard.inFlight.Load(); n != 0 {
			p.t.Fatalf("cluster %s: %d attempts are in flight", c.name, n)
		}
		if held != 0 {
			p.t.Fatalf("cluster %s: %d calls hold it back", c.name, held)
		}
		for _, b := range inside {
			p.checkCounters(b)
		}
	}
}
