package composite_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/balancer/leastrequest"

	"github.com/grpc-composite/grpc-composite/internal/testkit"
)

const (
	modelPatience = testkit.Patience // for what must happen
	modelForever  = "36000s"
	modelBackoff  = 20 * time.Millisecond // of connections
	// modelSurelyAvoids is how often to pick again so that even a policy that
	// picks at random finds another host.
	modelSurelyAvoids = 40
)

// modelPace is how many times as long as on an idle machine everything takes whose
// time is limited.
type modelPace int

func (p modelPace) attemptTimeout() time.Duration { return time.Duration(p) * 300 * time.Millisecond }

// deadline is that of an RPC that waits until it is over.
func (p modelPace) deadline() time.Duration { return time.Duration(p) * 250 * time.Millisecond }

// lateness is that of an answer whose headers are in time.
func (p modelPace) lateness() time.Duration { return time.Duration(p) * 400 * time.Millisecond }

// modelTier is a cluster that a world has, whether a config lists it or not.
type modelTier struct {
	Name   string // "n/x" is x of the policy inside n
	Policy string // "raw": a server of hand-written frames; "own": no server, and a policy of the test's own
	Hosts  int
}

// modelTiers are all that worlds choose from.
var modelTiers = []modelTier{
	{"a", "round_robin", 2},
	{"b", "pick_first", 1},
	{"c", leastrequest.Name, 2},
	{"r", "raw", 1},
	{"s", "own", 0},
	{"t", "own", 0},
	{"n", "composite", 0},
	{"n/x", "round_robin", 2},
	{"n/y", "pick_first", 1},
	{"n/o", "composite", 0},
	{"n/o/x", "round_robin", 1},
	{"n/o/y", leastrequest.Name, 2},
	{"m", "composite", 0},
	{"m/x", "pick_first", 1},
	{"m/y", "round_robin", 1},
}

// modelWorld is a channel with its servers, and the model of both.
type modelWorld struct {
	t     testing.TB
	pace  modelPace
	slow  bool // what fails may be due to the machine, which is too slow
	model *model
	live  *liveConfig
	hole  string // an address where nobody answers
	tiers map[string]*modelServers
	held  []*modelStream // as model.held
	// config is the service config in force.
	config  string
	history []string // of RPCs

	mu    sync.Mutex // guards what the servers share
	rpc   int        // the RPC at hand
	early bool       // its first attempt is answered early
	reps  map[string][]modelReply
	seen  map[string]int
	hits  []modelServed
	ends  int  // attempts that are over
	open  bool // an attempt is not over
	hold  bool // the next stream of a raw server is held
	late  bool // the answer to the attempt at hand ends late
}

// modelServers are those of one cluster.
type modelServers struct {
	modelTier
	servers  []*testkit.Backend
	addrs    []string
	resolver *testkit.Resolver
	watch    *modelWatch
	synced   *modelCluster
	own      *testkit.Policy
	child    *testkit.PolicyChild // of own; nil: none
	gone     map[*testkit.PolicyChild]bool
	mu       sync.Mutex // guards child, gone and site
	site     modelSite  // as it is: the model may be ahead
}

// modelServed is an attempt that a server got.
type modelServed struct{ Cluster, Host string }

func (s modelServed) String() string { return s.Host }

func newModelWorld(t testing.TB, tiers []string, pace modelPace) *modelWorld {
	t.Helper()
	w := &modelWorld{t: t, pace: pace, tiers: make(map[string]*modelServers)}
	w.model = &model{sites: make(map[string]*modelSite), clusters: make(map[string]*modelCluster)}
	w.hole, _ = testkit.BlackHole(t)
	loopback := testkit.Loopback()
	for _, tier := range modelTiers {
		if slices.ContainsFunc(tiers, func(name string) bool {
			return name == tier.Name || strings.HasPrefix(name, tier.Name+"/")
		}) {
			w.tiers[tier.Name] = w.start(tier, loopback)
		}
	}
	w.live = &liveConfig{resolver: testkit.NewResolver(t)}
	nothing := testkit.Service{Clusters: []testkit.Cluster{{Name: "nothing", Target: testkit.EmptyTarget}}}
	w.live.cc = dialTarget(t, w.live.resolver.Target(), nothing, grpc.WithConnectParams(grpc.ConnectParams{
		Backoff:           backoff.Config{BaseDelay: modelBackoff, MaxDelay: modelBackoff, Multiplier: 1},
		MinConnectTimeout: time.Hour,
	}), grpc.WithStatsHandler(w))
	w.live.cc.Connect()
	testkit.Eventually(t, "the resolver is built", func() bool { return w.live.resolver.Built() > 0 })
	t.Cleanup(func() {
		for _, s := range w.held {
			s.cancel()
		}
	})
	return w
}

// start starts the servers of a cluster.
func (w *modelWorld) start(tier modelTier, loopback string) *modelServers {
	s := &modelServers{modelTier: tier, resolver: testkit.NewResolver(w.t), gone: make(map[*testkit.PolicyChild]bool)}
	site := &modelSite{}
	s.watch = newModelWatch(w.t, tier.Policy)
	switch tier.Policy {
	case "composite": // its endpoints do not matter, as long as there are some
		s.addrs = []string{testkit.ClosedPort}
		_ = s.resolver.UpdateAddrs(s.addrs...)
		return s
	case "own":
		s.own, site.Says = w.newOwnPolicy(s), "plain"
		s.addrs = []string{testkit.ClosedPort}
	case "raw":
		s.watch.policy = "round_robin"
		s.addrs = []string{testkit.StartRawBackend(w.t, tier.Name, func() (testkit.RawReply, bool) { return w.answerRaw(tier.Name) }).Addr}
	default:
		for i := range tier.Hosts {
			host := fmt.Sprintf("%s%d", tier.Name, i+1)
			b := testkit.StartOn(w.t, host, loopback, w.serverOptions()...)
			b.Respond(func(_ int, c testkit.Call) testkit.Reply { return w.answer(tier.Name, host, c) })
			s.servers = append(s.servers, b)
			s.addrs = append(s.addrs, b.Addr)
		}
	}
	site.Up = slices.Repeat([]bool{true}, tier.Hosts)
	_ = s.resolver.UpdateAddrs(s.addrs...)
	s.site = *site
	w.model.sites[tier.Name] = site
	return s
}

// setSite makes what is out there for a cluster as the site says.
func (w *modelWorld) setSite(name string, site modelSite) {
	for i := w.model.heldAt(name); i >= 0; i = w.model.heldAt(name) {
		w.endHeld(i)
		w.model.release(i)
	}
	w.model.setSite(name, site)
	w.arrange(name)
}

// arrange makes what is out there for a cluster as the model says: it starts and
// stops servers, and delivers endpoints.
func (w *modelWorld) arrange(name string) {
	s := w.tiers[name]
	s.mu.Lock()
	old := s.site
	s.site = *w.model.sites[name]
	s.mu.Unlock()
	if s.own != nil {
		_ = s.resolver.UpdateAddrs(s.addrs...) // has it report
		return
	}
	w.startServers(s, &old)
	if s.site.Endpoints != "" {
		w.deliver(s, &old)
	}
	for i, b := range s.servers {
		if !s.site.Up[i] && old.Up[i] {
			b.Stop()
		}
	}
	if s.site.Endpoints == "" {
		w.deliver(s, &old)
	}
}

// startServers starts servers. If others are going to be stopped, it waits until
// these are connected, so that there is no time without any.
func (w *modelWorld) startServers(s *modelServers, old *modelSite) {
	both := modelSite{Up: slices.Clone(old.Up), Endpoints: old.Endpoints}
	starts, stops := false, false
	for i, b := range s.servers {
		if s.site.Up[i] && !old.Up[i] {
			b.Restart(w.t)
			both.Up[i], starts = true, true
		}
		stops = stops || !s.site.Up[i] && old.Up[i]
	}
	if starts && stops && s.watched() {
		w.await(func() string { return s.unsettled(&both) })
	}
}

// deliver delivers other endpoints.
func (w *modelWorld) deliver(s *modelServers, old *modelSite) {
	if s.site.Endpoints == old.Endpoints {
		return
	}
	switch s.site.Endpoints {
	case "empty":
		_ = s.resolver.UpdateAddrs()
	case "hole":
		_ = s.resolver.UpdateAddrs(w.hole)
	default:
		_ = s.resolver.UpdateAddrs(s.addrs...)
	}
}

// setConfig brings a config into force.
func (w *modelWorld) setConfig(cfg modelConfig) {
	w.model.setConfig(cfg)
	service := w.service(&cfg.modelList, "")
	service.Attempts, service.Retryable = cfg.MaxAttempts, cfg.Retryable
	w.config = service.JSON()
	w.live.set(w.t, service)
	for name, tier := range w.tiers {
		if w.model.find(name) == nil {
			tier.forget()
		}
	}
}

// forget has what is left of a removed cluster's policy not be taken for that of
// the next cluster of its name.
func (s *modelServers) forget() {
	s.watch.forget()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.child != nil {
		s.gone[s.child] = true
		s.child = nil
	}
}
