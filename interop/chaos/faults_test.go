package chaos

import (
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/miekg/dns"
)

// inflictor carries out the faults of a plan. Faults that have to do with the same
// thing take turns, whatever the plan says: a slow machine may be late.
type inflictor struct {
	t      *testing.T
	world  *world
	health *health
	report *report

	servers map[*server]*sync.Mutex
	config  sync.Mutex
}

func newInflictor(t *testing.T, w *world, h *health, r *report) *inflictor {
	t.Helper()
	i := &inflictor{t: t, world: w, health: h, report: r, servers: make(map[*server]*sync.Mutex)}
	for _, cluster := range clusterNames {
		for _, s := range w.tiers[cluster] {
			i.servers[s] = &sync.Mutex{}
		}
	}
	return i
}

// phase carries out faults at their times, and returns when all are healed.
func (i *inflictor) phase(faults []fault) {
	var all sync.WaitGroup
	begin := time.Now()
	for _, f := range faults {
		<-time.After(time.Until(begin.Add(f.At)))
		all.Go(func() { i.inflict(f) })
	}
	all.Wait()
}

func (i *inflictor) inflict(f fault) {
	cluster := clusterNames[f.Cluster]
	defer i.report.fault(f.Kind)
	if f.Kind.ofConfig() {
		i.change(f, cluster)
		return
	}
	var servers []*server
	for _, n := range f.Servers { // in the plan's order, which is the same for all
		s := i.world.tiers[cluster][n]
		i.servers[s].Lock()
		defer i.servers[s].Unlock()
		servers = append(servers, s)
	}
	i.health.begin(cluster)
	defer i.health.end(cluster)
	if f.Kind.ofName() {
		i.misname(f, cluster, servers)
		return
	}
	i.attack(f, servers)
}

// attack does something to servers, and undoes it.
func (i *inflictor) attack(f fault, servers []*server) {
	t, w := i.t, i.world
	each := func(do func(s *server)) {
		for _, s := range servers {
			do(s)
		}
	}
	tell := func(command string) { each(func(s *server) { s.tell(t, command) }) }
	over := time.After(f.For)
	switch f.Kind {
	case kill:
		each(func(s *server) { s.kill(t) })
		<-over
		each(func(s *server) { s.start(t) })
	case restart:
		each(func(s *server) {
			s.kill(t)
			s.start(t)
		})
	case halt:
		each(func(s *server) { s.halt(t) })
		<-over
		each(func(s *server) { s.proceed(t) })
	case hole:
		tell("hole")
		<-over
		tell("serve")
	case reset:
		tell("cut")
		<-over
		tell("whole")
	case goaway:
		for done := false; !done; {
			tell("goaway")
			select {
			case <-over:
				done = true
			case <-time.After(50 * time.Millisecond):
			}
		}
	case age:
		tell("age")
		<-over
		tell("young")
	case wrongCert:
		each(func(s *server) { w.certify(s, w.rogue) })
		tell("drop")
		<-over
		each(func(s *server) { w.certify(s, w.cas[s.Cluster]) })
		tell("drop")
	case rotate:
		w.client.Set(w.clients.Client(t, "renewed client"))
		each(func(s *server) { w.certify(s, w.cas[s.Cluster]) })
		tell("goaway")
	default:
		t.Errorf("nobody knows how to do this: %v", f)
	}
}

// misname has the DNS server do something wrong for a cluster, and has the client
// ask it.
func (i *inflictor) misname(f fault, cluster string, servers []*server) {
	ask := func() {
		for _, s := range servers {
			s.tell(i.t, "goaway")
		}
	}
	name := dnsName(cluster)
	over := time.After(f.For)
	switch f.Kind {
	case dnsEmpty:
		i.world.names.answer(name, answer{empty: true})
	case dnsNXDomain:
		i.world.names.answer(name, answer{rcode: dns.RcodeNameError})
	case dnsServfail:
		i.world.names.answer(name, answer{rcode: dns.RcodeServerFailure})
	case dnsSlow:
		i.world.names.answer(name, answer{after: f.For / 2})
	case dnsSilent:
		i.world.names.answer(name, answer{silent: true})
	default: // fewer addresses
		i.world.names.announce(name, i.world.ips(cluster)[:1])
	}
	ask()
	<-over
	i.world.names.announce(name, i.world.ips(cluster))
	i.world.names.answer(name, answer{})
	ask()
}

// change changes the config, and changes it back. Another order or another child
// policy are nothing that RPCs may notice.
func (i *inflictor) change(f fault, cluster string) {
	i.config.Lock()
	defer i.config.Unlock()
	c := i.world.config
	over := time.After(f.For)
	switch f.Kind {
	case reorder:
		c.order = orders[f.Choice]
	case remove:
		i.health.begin(cluster)
		defer i.health.end(cluster)
		c.order = slices.DeleteFunc(slices.Clone(clusterNames), func(name string) bool { return name == cluster })
	default:
		c.policies[cluster] = []string{"pick_first", "least_request_experimental"}[f.Choice%2]
	}
	c.apply()
	<-over
	c.order = clusterNames
	delete(c.policies, cluster)
	c.apply()
}

// orders are those of the clusters.
var orders = [][]string{
	{"b", "a", "c"}, {"c", "b", "a"}, {"b", "c", "a"}, {"c", "a", "b"}, {"a", "c", "b"}, {"a", "b", "c"},
}
