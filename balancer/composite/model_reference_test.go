package composite_test

import (
	"maps"
	"slices"
)

// modelRun is an RPC on its way through the model.
type modelRun struct {
	m   *model
	rpc modelRPC
	out modelOutcome

	start, number int
	ends          int            // attempts that are over, as gRPC counts them
	last          string         // the code of the attempt before, "" if there was none
	from, used    map[string]int // the last position used in each list: before this attempt, and by now
	seen          map[string]int // attempts by cluster
	asking        map[*modelCluster]bool
	// fresh are clusters that have connected since the RPC began: perhaps not to
	// all of their hosts yet.
	fresh map[*modelCluster]bool

	// What the pick at hand has passed over.
	full []*modelCluster
	sick []*modelCluster // that have no host, or that it waits for
}

// modelVerdict is what a pick comes to.
type modelVerdict int

const (
	modelUses modelVerdict = iota
	modelPasses
	modelOverflows // and so passes, for the policy around it
	modelWaits
	modelEnds
)

type modelPick struct {
	verdict modelVerdict
	path    []*modelCluster // that it uses, the innermost last
	code    string          // that it ends with
}

// run makes an RPC, and says what must come of it.
func (m *model) run(rpc modelRPC) modelOutcome {
	r := newModelRun(m, rpc)
	r.note(rpc.kindFeature())
	r.out.Code = r.call()
	m.settle()
	return r.out
}

// hold begins an RPC that goes on, and returns the cluster that it went to, or ""
// if there is none to be had. All of its clusters have a limit: from when on RPCs
// count if a limit comes later is not for the model to say.
func (m *model) hold(rpc modelRPC) string {
	r := newModelRun(m, rpc)
	if !r.knowsOwn() {
		return ""
	}
	p := r.pickOrAsk()
	m.settle()
	if p.verdict != modelUses || slices.ContainsFunc(p.path, func(c *modelCluster) bool { return c.settings.MaxRequests == 0 }) {
		return ""
	}
	m.held = append(m.held, modelHeld{beginModel(p.path)})
	return p.path[len(p.path)-1].name
}

func newModelRun(m *model, rpc modelRPC) *modelRun {
	r := &modelRun{m: m, rpc: rpc, start: 1, used: make(map[string]int), seen: make(map[string]int)}
	r.asking, r.fresh = make(map[*modelCluster]bool), make(map[*modelCluster]bool)
	r.out.features = make(map[modelFeature]bool)
	if rpc.Start != nil {
		r.start = *rpc.Start
		r.note(featureWithAttempt)
	}
	if rpc.Own != nil {
		r.note(featureWithClusters)
	}
	r.number = r.start
	return r
}

// call makes attempts until one is the last.
func (r *modelRun) call() (code string) {
	if r.start < 1 || !r.knowsOwn() {
		return "INTERNAL"
	}
	for retries, first := 0, true; ; first = false {
		p := r.pick()
		code, last := p.code, p.verdict == modelEnds
		if p.verdict == modelUses {
			var again bool
			if code, last, again = r.serve(p.path, first); again {
				r.ends++
				r.note(featureTransparent)
				continue // the same attempt
			}
		}
		r.ends++
		if code == "OK" || last || !slices.Contains(r.m.config.Retryable, code) || retries+1 >= r.m.config.MaxAttempts {
			return code
		}
		r.note(featureRetried)
		retries++
		r.number++
		r.last, r.from = code, maps.Clone(r.used)
	}
}

// knowsOwn tells whether the RPC's own list is one that the config allows.
func (r *modelRun) knowsOwn() bool {
	if r.rpc.Own == nil {
		return true
	}
	for _, name := range *r.rpc.Own {
		if r.m.clusters[name] == nil {
			return false
		}
	}
	return len(*r.rpc.Own) > 0
}

// pick finds a cluster for an attempt, and waits for one if need be.
func (r *modelRun) pick() modelPick {
	for {
		p := r.pickOrAsk()
		switch {
		case p.verdict == modelOverflows:
			r.note(featureOverflowFail)
			if r.last != "" && !r.m.config.FailRequest {
				return modelPick{verdict: modelEnds, code: r.last}
			}
			return modelPick{verdict: modelEnds, code: "UNAVAILABLE"}
		case p.verdict == modelPasses && r.rpc.Wait:
			r.note(featureWaitForReady)
		case p.verdict == modelPasses && r.m.config.FailRequest:
			r.note(featureNoHostRequest)
			return modelPick{verdict: modelEnds, code: "UNAVAILABLE"}
		case p.verdict == modelPasses:
			r.note(featureNoHostAttempt)
			return modelPick{verdict: modelPasses, code: "UNAVAILABLE"}
		case p.verdict != modelWaits:
			return p
		}
		if code := r.wait(false); code != "" {
			return modelPick{verdict: modelEnds, code: code}
		}
	}
}

// pickOrAsk picks, and picks again when those that it asked to connect have done
// so, or cannot.
func (r *modelRun) pickOrAsk() modelPick {
	for {
		r.full, r.sick = nil, nil
		p := r.pickFrom(&r.m.config.modelList, r.m.clusters, "")
		if p.verdict != modelWaits || len(r.asking) == 0 {
			return p
		}
		clear(r.asking)
		r.m.settle()
	}
}

// pickFrom picks from a list.
func (r *modelRun) pickFrom(list *modelList, clusters map[string]*modelCluster, prefix string) modelPick {
	slots := list.slots()
	if r.rpc.Own != nil && prefix == "" {
		slots = *r.rpc.Own
	}
	position := r.number
	if list.NextCluster {
		position = r.start
		if last, ok := r.from[prefix]; ok {
			position = last + 1
		}
		r.noteIf(position != r.number, featureNextCluster)
	}
	begin := position
	if position > len(slots) {
		switch list.Overflow {
		case "USE_LAST_CLUSTER":
			r.note(featureOverflowLast)
			begin = len(slots)
		case "ROUND_ROBIN":
			r.note(featureOverflowRound)
			begin = (position-1)%len(slots) + 1
		default:
			return modelPick{verdict: modelOverflows}
		}
	}
	end := len(slots)
	if list.OwnSlotOnly {
		r.noteIf(begin != end, featureOwnSlot)
		end = begin
	}

	// try goes to the cluster at a slot, and tells whether that is the end of the
	// search.
	waits := false
	var pick modelPick
	try := func(slot int) bool {
		pick = r.enter(clusters[slots[slot-1]])
		waits = waits || pick.verdict == modelWaits
		if pick.verdict == modelUses {
			r.used[prefix] = position + slot - begin
		}
		return pick.verdict == modelUses || pick.verdict == modelEnds
	}

	// The first cluster that can be used, or that the attempt has to wait for.
	var early, resting []int
	seen := make(map[string]bool)
	for slot := begin; slot <= end && !waits; slot++ {
		c := clusters[slots[slot-1]]
		if seen[c.name] {
			continue
		}
		seen[c.name] = true
		if r.asking[c] {
			// Asked by an earlier attempt, which did not wait. By now it may
			// have connected, or not.
			r.out.unsure = r.out.unsure || len(early)+len(resting) > 0
			delete(r.asking, c)
			r.m.settle()
		}
		switch {
		case r.m.condition(c) == modelNoHost:
			r.noteDown(c)
		case c.lost && c.settings.FailbackDelay:
			r.note(featureEarly)
			early = append(early, slot)
		case c.resting:
			r.note(featureResting)
			resting = append(resting, slot)
		case r.isFull(c):
		case try(slot):
			return pick
		}
	}

	// What is merely held back is used, rather than that the RPC fails or waits.
	for _, slot := range append(early, resting...) {
		if !r.isFull(clusters[slots[slot-1]]) && try(slot) {
			r.note(featureHeldBackUsed)
			return pick
		}
	}
	if waits {
		return modelPick{verdict: modelWaits}
	}
	if list.OwnSlotOnly {
		r.used[prefix] = position
	}
	return modelPick{verdict: modelPasses}
}

// enter goes to a cluster: if it has a host, its child policy picks.
func (r *modelRun) enter(c *modelCluster) modelPick {
	says := r.m.says(c)
	switch condition := r.m.condition(c); {
	case condition == modelIdle:
		r.note(featureLazy)
		c.idle = false
		r.asking[c], r.fresh[c] = true, true
		return modelPick{verdict: modelWaits}
	case says == "plain", says == "connecting, plain":
		r.note(featurePickError)
		return modelPick{verdict: modelPasses}
	case condition == modelConnecting:
		r.note(featureConnecting)
		r.sick = append(r.sick, c)
		return modelPick{verdict: modelWaits}
	case says == "drop":
		r.note(featureDrop)
		return modelPick{verdict: modelEnds, code: "RESOURCE_EXHAUSTED"}
	case says == "queue":
		r.note(featureQueue)
		r.sick = append(r.sick, c)
		return modelPick{verdict: modelWaits}
	case c.settings.Inner == nil:
		return modelPick{verdict: modelUses, path: []*modelCluster{c}}
	}
	p := r.pickFrom(c.settings.Inner, c.inner, c.name+"/")
	switch p.verdict {
	case modelUses:
		r.note(featureNested)
		p.path = append([]*modelCluster{c}, p.path...)
	case modelOverflows, modelPasses:
		r.note(featureNestedOver)
		p.verdict = modelPasses
	default: // it waits, or the RPC ends
	}
	return p
}

// says is what the test's own policy in a cluster reports.
func (m *model) says(c *modelCluster) string {
	if site := m.sites[c.name]; site != nil {
		return site.Says
	}
	return ""
}

func (r *modelRun) isFull(c *modelCluster) bool {
	if c.settings.MaxRequests == 0 || c.inFlight < c.settings.MaxRequests {
		return false
	}
	r.note(featureFull)
	r.full = append(r.full, c)
	return true
}
