package composite

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/balancer"
	"google.golang.org/grpc/resolver"
)

// eventPlay is a policy and its model, which the same things happen to.
type eventPlay struct {
	t         *testing.T
	world     *eventWorld
	model     *eventModel
	config    eventConfig // the next that is delivered
	endpoints eventEndpoints

	steps   [][2]int // for the story of a failure
	said    int      // errors so far, which makes each another
	pickers int32    // when the step began
}

func newEventPlay(t *testing.T) *eventPlay {
	t.Helper()
	p := &eventPlay{
		t:         t,
		world:     &eventWorld{t: t, clusters: make(map[string]*eventCluster)},
		model:     &eventModel{habits: make(map[string]*eventHabits), builds: make(map[string]*eventBuild), children: make(map[string][]*eventModelChild), built: make(map[string]int), resolved: make(map[string]int)},
		config:    eventConfig{list: "ab", settings: make(map[string]eventSettings)},
		endpoints: eventEndpoints{tagged: make(map[string]int)},
	}
	for _, name := range eventNames {
		c := &eventCluster{habits: eventHabits{connects: true}}
		p.world.clusters[name] = c
		p.model.habits[name], p.model.builds[name] = &c.habits, &c.build
		p.config.settings[name] = eventSettings{target: 1, connectTimeout: time.Second, attempts: 1}
	}
	p.world.policy = builder{}.Build(eventChannel{eventWorld: p.world}, balancer.BuildOptions{}).(*compositeBalancer)
	return p
}

// note begins a step.
func (p *eventPlay) note(op, arg int) {
	p.steps = append(p.steps, [2]int{op, arg})
	p.pickers = p.world.pickers.Load()
	p.model.changes = 0
}

func (p *eventPlay) fatalf(format string, args ...any) {
	p.t.Helper()
	p.t.Fatalf("after %d events %v, at %v: %s", len(p.steps), p.steps, p.model.now, fmt.Sprintf(format, args...))
}

func (p *eventPlay) deliver() {
	if p.model.closed {
		return
	}
	cfg := p.config.freeze()
	err := p.world.policy.UpdateClientConnState(balancer.ClientConnState{BalancerConfig: cfg.parse(p.t), ResolverState: p.endpoints.state()})
	synctest.Wait()
	if want := p.model.deliver(cfg, p.endpoints); want != (err != nil) {
		p.fatalf("the update's error is %v: want one: %v", err, want)
	}
}

// resolver is the one that is open for a cluster, or nil.
func (w *eventWorld) resolver(name string) *eventResolver {
	for _, r := range w.clusters[name].resolvers {
		if r.closes == 0 {
			return r
		}
	}
	return nil
}

func (p *eventPlay) text(kind string) string {
	p.said++
	return fmt.Sprint(kind, " ", p.said)
}

func (p *eventPlay) resolve(name string, zone eventZone) {
	r, t := p.world.resolver(name), find(p.model.tiers, name)
	if r == nil || zone == zoneSilent {
		return
	}
	text := p.text("resolver")
	err := r.say(zone, text)
	synctest.Wait()
	if refused := !t.resolve(zone, text); refused != (err != nil) {
		p.fatalf("the resolver's error is %v: want one: %v", err, refused)
	}
}

func (p *eventPlay) build(name string, zone eventZone) {
	*p.model.builds[name] = eventBuild{zone, p.text("resolver")}
}

func (p *eventPlay) habits(name string, h eventHabits) { *p.model.habits[name] = h }

// real is the child that a child of the model stands for.
func (p *eventPlay) real(ch *eventModelChild) *eventChild {
	name := ch.tier.name
	i := slices.Index(p.model.children[name], ch)
	if all := p.world.clusters[name].children; i < len(all) {
		return all[i]
	}
	p.fatalf("there is no child %s", ch.label)
	return nil
}

func (p *eventPlay) report(ch *eventModelChild, r eventReport) {
	if ch == nil {
		return
	}
	p.real(ch).report(r)
	synctest.Wait()
	ch.set(r)
	p.model.settle()
}

func (p *eventPlay) connection(name string, s eventState) {
	ch := p.model.child(name, 0)
	if ch == nil || !ch.conn {
		return
	}
	state, text := balancer.SubConnState{ConnectivityState: s.grpc()}, ""
	if s == stateFailure {
		text = p.text("connection")
		state.ConnectionError = fmt.Errorf("%s", text)
	}
	p.real(ch).stub.listener(state)
	ch.connection(s, text)
}

func (p *eventPlay) sleep(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
	p.model.advance(d)
	p.model.settle()
}

func (p *eventPlay) exitIdle() {
	if p.model.closed {
		return
	}
	p.world.policy.ExitIdle()
	synctest.Wait()
	p.model.exitIdle()
}

func (p *eventPlay) resolverError() {
	if p.model.closed {
		return
	}
	text := p.text("channel")
	p.world.policy.ResolverError(fmt.Errorf("%s", text))
	synctest.Wait()
	p.model.resolverError(text)
}

func (p *eventPlay) resolveNow(ch *eventModelChild) {
	if ch == nil {
		return
	}
	p.real(ch).cc.ResolveNow(resolver.ResolveNowOptions{})
	synctest.Wait()
	ch.resolveNow()
}

func (p *eventPlay) close() {
	if p.model.closed {
		return
	}
	p.world.policy.Close()
	p.world.closed.Store(true)
	p.model.close()
}

// pick has an attempt come.
func (p *eventPlay) pick(number int, failFast bool) {
	latest := p.world.latest.Load()
	if latest == nil {
		return
	}
	got := outcome(latest.Picker.Pick(balancer.PickInfo{Ctx: attemptOf(p.t, number, !failFast)}))
	synctest.Wait()
	if p.model.closed {
		return // a pick that was late; what it comes to does not matter
	}
	if want := p.model.pick(number, failFast); got != want {
		p.fatalf("attempt %d:\n%s: want\n%s", number, got, want)
	}
	p.model.settle()
	for i, t := range p.model.tiers {
		if t.unsure {
			t.unsure, t.used = false, p.world.policy.clusters[i].used.Load()
		}
	}
}

// outcome puts what a picker says into the words of the model.
func outcome(result balancer.PickResult, err error) string {
	switch {
	case err == balancer.ErrNoSubConnAvailable:
		return evWait
	case err == nil:
		conn, ok := result.SubConn.(*eventConn)
		if !ok {
			return fmt.Sprintf("a connection that the channel does not know: %T", result.SubConn)
		}
		return conn.owner.label
	case isStatus(err):
		return evStatus + err.Error()
	default:
		return evError + err.Error()
	}
}

// compare finds what differs when all is at rest.
func (p *eventPlay) compare() {
	// What timers call later has to come after this, for the race detector, too.
	defer p.world.unlocked()
	if published := int(p.world.pickers.Load() - p.pickers); published > p.model.changes {
		p.fatalf("%d pickers for %d changes", published, p.model.changes)
	}
	for name, c := range p.world.clusters {
		p.compareCluster(name, c)
	}
	if got := int(p.world.asked.Load()); got != p.model.channelAsk {
		p.fatalf("the channel's resolver was asked %d times: want %d", got, p.model.channelAsk)
	}
	latest := p.world.latest.Load()
	if p.model.closed || latest == nil {
		if !p.model.closed && p.model.configured {
			p.fatalf("there is no picker")
		}
		return
	}
	if got, want := latest.ConnectivityState, p.model.state().grpc(); got != want {
		p.fatalf("the channel is %v: want %v", got, want)
	}
	clusters := latest.Picker.(*picker).clusters
	if len(clusters) != len(p.model.tiers) {
		p.fatalf("the picker has %d clusters: want %d", len(clusters), len(p.model.tiers))
	}
	for i, t := range p.model.tiers {
		c := &clusters[i]
		if eventCondition(c.condition) != t.condition || c.early != t.early || c.cluster.name != t.name {
			p.fatalf("the picker's cluster %d is %s, %v, early %v: want %s, %v, early %v", i, c.cluster.name, c.condition, c.early, t.name, t.condition, t.early)
		}
	}
}

func (p *eventPlay) compareCluster(name string, c *eventCluster) {
	want := p.model.children[name]
	if len(c.children) != len(want) {
		p.fatalf("%s has had %d children: want %d", name, len(c.children), len(want))
	}
	for i, w := range want {
		ch := c.children[i]
		closes := 0
		if w.closed {
			closes = 1
		}
		if ch.closes != closes || ch.kind != w.kind {
			p.fatalf("%s is a %s and was closed %d times: want a %s, %d", w.label, ch.kind, ch.closes, w.kind, closes)
		}
		if got, want := [...]int{ch.updates, ch.errors, ch.exits}, [...]int{w.updates, w.errors, w.exits}; got != want || ch.endpoints != w.endpoints {
			p.fatalf("%s got %v updates, errors and requests to connect, and endpoints %q: want %v, %q", w.label, got, ch.endpoints, want, w.endpoints)
		}
		if w.closed && ch.stub != nil && ch.stub.shut.Load() == 0 {
			p.fatalf("%s is closed, and its connection is not", w.label)
		}
	}
	open := 0
	for _, r := range c.resolvers {
		switch {
		case r.closes > 1:
			p.fatalf("a resolver of %s was closed %d times", name, r.closes)
		case r.closes == 0 && open > 0:
			p.fatalf("two resolvers of %s are open", name)
		case r.closes == 0:
			open = r.target
		}
	}
	t := find(p.model.tiers, name)
	if t == nil && open != 0 || t != nil && open != t.open {
		p.fatalf("the target %d of %s is being resolved: want %+v", open, name, t)
	}
	if got := int(c.asked.Load()); got != p.model.resolved[name] {
		p.fatalf("the resolvers of %s were asked %d times: want %d", name, got, p.model.resolved[name])
	}
}

// finish closes the policy, after which nothing happens any more.
func (p *eventPlay) finish() {
	p.close()
	pickers := p.world.pickers.Load()
	time.Sleep(24 * time.Hour)
	synctest.Wait()
	if got := p.world.pickers.Load(); got != pickers {
		p.t.Errorf("%d pickers after Close", got-pickers)
	}
	if !p.t.Failed() {
		p.compare()
	}
}
