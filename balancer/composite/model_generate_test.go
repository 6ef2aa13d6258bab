package composite_test

import (
	"math/rand/v2"
	"slices"
	"strings"
)

// modelStep is what happens next in a world: one of its fields.
type modelStep struct {
	Config  *modelConfig `json:",omitempty"`
	Site    *modelMove   `json:",omitempty"`
	Hold    *modelRPC    `json:",omitempty"`
	Release bool         `json:",omitempty"` // the RPC that was held first
	RPC     *modelRPC    `json:",omitempty"`
}

// modelMove changes what is out there for a cluster.
type modelMove struct {
	Cluster string
	To      modelSite
}

// modelGenerator makes steps for one world, which it has made up its mind about:
// what every world has a little of is never found together.
type modelGenerator struct {
	rng   *rand.Rand
	tiers []string
	likes map[string]bool
	m     *model
}

var modelLikes = []string{
	"overflow", "own slot", "fail request", "next cluster", "repeat", "max requests", "avoid", "cooldown", "failback", "timeout", "lazy", "no connect time", "hole", "times",
}

func newModelGenerator(seed, world uint64) *modelGenerator {
	g := &modelGenerator{rng: rand.New(rand.NewPCG(seed, world)), likes: make(map[string]bool)}
	for _, like := range modelLikes {
		g.likes[like] = g.chance(2)
	}
	outer := []string{"a", "b", "c", "r", "s", "t", "n", "m"}
	g.rng.Shuffle(len(outer), func(i, j int) { outer[i], outer[j] = outer[j], outer[i] })
	for _, name := range outer[:2+g.rng.IntN(4)] {
		switch {
		case name == "m":
			g.tiers = append(g.tiers, "m/x", "m/y")
		case name == "n" && g.chance(3):
			g.tiers = append(g.tiers, "n/x", "n/o/x", "n/o/y")
		case name == "n":
			g.tiers = append(g.tiers, "n/x", "n/y")
		default:
			g.tiers = append(g.tiers, name)
		}
	}
	return g
}

// chance is true once in n times.
func (g *modelGenerator) chance(n int) bool { return g.rng.IntN(n) == 0 }

// like is chance for something that this world may be fond of.
func (g *modelGenerator) like(what string, n int) bool { return g.likes[what] && g.chance(n) }

func oneOfModel[T any](g *modelGenerator, from ...T) T { return from[g.rng.IntN(len(from))] }

// names are those of the clusters that a list may have.
func (g *modelGenerator) names(prefix string) []string {
	var names []string
	for _, tier := range g.tiers {
		name, ok := strings.CutPrefix(tier, prefix)
		name, _, _ = strings.Cut(name, "/")
		if ok && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// next returns the next step.
func (g *modelGenerator) next() modelStep {
	if len(g.m.clusters) == 0 {
		return modelStep{Config: g.config()}
	}
	for {
		switch n := g.rng.IntN(20); {
		case n < 3:
			cfg := g.mutate()
			if g.chance(2) {
				cfg = g.config()
			}
			if g.m.sure(*cfg) {
				return modelStep{Config: cfg}
			}
		case n < 6:
			return modelStep{Site: g.move()}
		case n < 8 && g.likes["max requests"]:
			if rpc := g.hold(); rpc != nil {
				return modelStep{Hold: rpc}
			}
		case n == 8 && len(g.m.held) > 0:
			return modelStep{Release: true}
		case n > 8:
			if rpc := g.rpc(); !g.m.clone().run(*rpc).unsure {
				return modelStep{RPC: rpc}
			}
		}
	}
}

// config is a new one.
func (g *modelGenerator) config() *modelConfig {
	cfg := &modelConfig{modelList: *g.list("", nil)}
	if !g.chance(8) {
		cfg.MaxAttempts = 2 + g.rng.IntN(7)
		cfg.Retryable = g.codes()
	}
	return cfg
}

// mutate is the config with a change: another order, or other settings.
func (g *modelGenerator) mutate() *modelConfig {
	cfg := g.m.config
	if g.chance(3) {
		next := g.config()
		next.modelList = cfg.modelList
		return next
	}
	cfg.modelList = *g.list("", &cfg.modelList)
	return &cfg
}

// codes are retryable ones.
func (g *modelGenerator) codes() []string {
	codes := []string{"UNAVAILABLE"}
	for g.chance(2) {
		code := oneOfModel(g, "RESOURCE_EXHAUSTED", "DEADLINE_EXCEEDED", "DEADLINE_EXCEEDED", "INTERNAL", "INTERNAL", "ABORTED", "CANCELLED", "NOT_FOUND")
		if g.chance(4) {
			codes = codes[:0]
		}
		if !slices.Contains(codes, code) {
			codes = append(codes, code)
		}
	}
	return codes
}

// list is a new list of clusters. The settings of old stay, mostly, if there is
// one.
func (g *modelGenerator) list(prefix string, old *modelList) *modelList {
	names := g.names(prefix)
	g.rng.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	l := &modelList{Settings: make(map[string]*modelSettings)}
	some := len(names)
	if g.chance(3) {
		some = 1 + g.rng.IntN(len(names))
	}
	for _, name := range names[:some] {
		e := modelEntry{Name: name}
		if g.like("repeat", 3) {
			e.Attempts = 1 + g.rng.IntN(3)
		}
		l.Entries = append(l.Entries, e)
		if old != nil && old.Settings[name] != nil && !g.chance(4) {
			l.Settings[name] = old.Settings[name]
		} else {
			l.Settings[name] = g.settings(prefix + name)
		}
	}
	for g.like("repeat", 2) {
		again := oneOfModel(g, names[:some]...)
		l.Entries = append(l.Entries, modelEntry{Name: again})
	}
	if g.likes["overflow"] {
		l.Overflow = oneOfModel(g, "", "USE_LAST_CLUSTER", "ROUND_ROBIN")
	}
	l.OwnSlotOnly = g.like("own slot", 2)
	l.FailRequest = g.like("fail request", 2)
	l.NextCluster = g.like("next cluster", 2)
	return l
}

// settings are those of a cluster.
func (g *modelGenerator) settings(name string) *modelSettings {
	s := &modelSettings{FailbackDelay: g.like("failback", 2), AttemptTimeout: g.like("timeout", 2)}
	if g.like("max requests", 2) {
		s.MaxRequests = oneOfModel(g, 1, 1, 2)
	}
	if g.like("avoid", 2) {
		s.AvoidHosts = oneOfModel(g, 1, modelSurelyAvoids, modelSurelyAvoids, modelSurelyAvoids)
	}
	if g.like("cooldown", 2) {
		s.Failures = 1 + g.rng.IntN(3)
		if g.chance(3) {
			s.FailureCodes = []string{oneOfModel(g, "INTERNAL", "UNAVAILABLE", "ABORTED", "UNKNOWN")}
		}
	}
	tier := g.tier(name)
	switch {
	case tier.Policy == "composite":
		s.Inner = g.list(name+"/", nil)
		s.Lazy = !strings.Contains(name, "/") && g.likes["lazy"] && !g.chance(3)
	case strings.Contains(name, "/"):
		// What becomes of the policy around it in between would be a matter of
		// time.
	case tier.Policy == "own":
		s.NoConnectTime = g.like("no connect time", 2)
	case g.like("no connect time", 2):
		s.NoConnectTime = true
	case tier.Policy != "pick_first":
		// pick_first goes to sleep again when its connection is lost.
		s.Lazy = g.likes["lazy"] && !g.chance(3)
	}
	return s
}

func (g *modelGenerator) tier(name string) modelTier {
	for _, tier := range modelTiers {
		if tier.Name == name {
			return tier
		}
	}
	return modelTier{Name: name}
}

// move changes what is out there for some cluster.
func (g *modelGenerator) move() *modelMove {
	tier := g.tier(oneOfModel(g, g.tiers...))
	move := &modelMove{Cluster: tier.Name}
	if tier.Policy == "own" {
		move.To.Says = oneOfModel(g, "plain", "drop", "drop", "queue", "queue", "failure", "connecting", "connecting, plain")
		return move
	}
	for range tier.Hosts {
		move.To.Up = append(move.To.Up, tier.Policy == "raw" || !g.chance(3))
	}
	switch {
	case g.chance(4):
		move.To.Endpoints = "empty"
	case g.like("hole", 3) && !strings.Contains(tier.Name, "/"):
		move.To.Endpoints = "hole"
	}
	return move
}

// hold is an RPC to hold, or nil if there is no cluster for it that has a limit.
func (g *modelGenerator) hold() *modelRPC {
	name := oneOfModel(g, sortedModelKeys(g.m.clusters)...)
	rpc := &modelRPC{Kind: "bidi", Own: &[]string{name}}
	if g.chance(2) {
		start := 2
		rpc.Own, rpc.Start = &[]string{name, name}, &start
	}
	m := g.m.clone()
	if len(m.held) > 3 || m.hold(*rpc) == "" {
		return nil
	}
	return rpc
}

// rpc is an RPC to make.
func (g *modelGenerator) rpc() *modelRPC {
	rpc := &modelRPC{Kind: oneOfModel(g, "unary", "server", "client", "bidi"), Wait: g.chance(4), Replies: make(map[string][]modelReply)}
	if rpc.Kind == "client" || rpc.Kind == "bidi" {
		rpc.Messages = g.rng.IntN(3)
	}
	// With several codes to retry nobody could tell with which one the attempt
	// failed.
	rpc.Early = len(g.m.config.Retryable) < 2 && g.chance(2)
	rpc.OnWait = oneOfModel(g, "free", "restore", "restore last", "cancel", "deadline")
	g.giveOptions(rpc)
	for _, tier := range g.tiers {
		if !g.chance(4) {
			rpc.Replies[tier] = g.replies(tier)
		}
	}
	return rpc
}

// giveOptions gives an RPC another start, or its own list.
func (g *modelGenerator) giveOptions(rpc *modelRPC) {
	slots := g.m.config.slots()
	if g.chance(5) {
		start := 1 + g.rng.IntN(len(slots)+1)
		if g.chance(20) {
			start = 0
		}
		rpc.Start = &start
	}
	own := []string{}
	if len(g.m.held) > 0 && g.chance(2) {
		// One that is full, perhaps, so that the RPC waits for a place.
		if name, _, _ := strings.Cut(oneOfModel(g, g.m.held...).path[0].cluster.name, "/"); g.m.clusters[name] != nil {
			own = append(own, name)
			rpc.Wait, rpc.OnWait = true, "free"
		}
	}
	if len(own) == 0 && !g.chance(4) {
		return
	}
	for range 1 + g.rng.IntN(5) {
		own = append(own, oneOfModel(g, slots...))
	}
	g.rng.Shuffle(len(own), func(i, j int) { own[i], own[j] = own[j], own[i] })
	if g.chance(40) {
		own = append(own, "unknown")
	}
	if g.chance(80) {
		own = own[:0]
	}
	rpc.Own = &own
}

func (g *modelGenerator) replies(tier string) []modelReply {
	var replies []modelReply
	for range 1 + g.rng.IntN(3) {
		replies = append(replies, g.reply(tier))
	}
	return replies
}

func (g *modelGenerator) reply(tier string) modelReply {
	var r modelReply
	timed := g.timed(tier)
	if g.chance(60) || timed && g.like("times", 8) {
		return modelReply{Hang: true}
	}
	if g.tier(tier).Policy == "raw" {
		r.Raw = oneOfModel(g, "refuse", "refuse", "reset", "gateway", "")
		return r
	}
	r.Late = timed && g.like("times", 25)
	switch n := g.rng.IntN(20); {
	case n < 12:
		r.Code = "UNAVAILABLE"
	case n < 15 && len(g.m.config.Retryable) > 0:
		r.Code = oneOfModel(g, g.m.config.Retryable...)
	case n == 15:
		r.Code = "CANCELLED"
	case n < 18:
		r.Code = oneOfModel(g, "UNKNOWN", "INVALID_ARGUMENT", "DEADLINE_EXCEEDED", "NOT_FOUND", "ALREADY_EXISTS", "PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION", "ABORTED", "OUT_OF_RANGE", "UNIMPLEMENTED", "INTERNAL", "DATA_LOSS", "UNAUTHENTICATED")
	}
	r.Headers = g.chance(12)
	r.Delay = g.chance(15)
	return r
}

// timed tells whether attempts that go to the cluster have to be answered in time.
func (g *modelGenerator) timed(tier string) bool {
	clusters := g.m.clusters
	for _, name := range strings.Split(tier, "/") {
		c := clusters[name]
		if c == nil {
			return false
		}
		if c.settings.AttemptTimeout {
			return true
		}
		clusters = c.inner
	}
	return false
}
