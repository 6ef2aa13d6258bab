package composite_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
)

// modelFeature is a rule of the model that an RPC can exercise. Having it in the
// config is not enough: it is noted when it makes a difference.
type modelFeature string

const (
	featureUnary        modelFeature = "unary"
	featureServerStream modelFeature = "server stream"
	featureClientStream modelFeature = "client stream"
	featureBidi         modelFeature = "bidi stream"
	featureWithAttempt  modelFeature = "WithAttempt"
	featureWithClusters modelFeature = "WithClusters"

	featureRetried     modelFeature = "retry"
	featureTransparent modelFeature = "refused stream, transparent retry"
	featureRefused     modelFeature = "refused stream, attempt failed"
	featureReset       modelFeature = "reset stream"
	featureGateway     modelFeature = "answer of a gateway"
	featureCommitted   modelFeature = "headers before the error"
	featureDelay       modelFeature = "delay"
	featureLate        modelFeature = "headers in time, the end later than attemptTimeout"

	featureRepeated      modelFeature = "cluster used again"
	featureOverflowFail  modelFeature = "overflow FAIL"
	featureOverflowLast  modelFeature = "overflow USE_LAST_CLUSTER"
	featureOverflowRound modelFeature = "overflow ROUND_ROBIN"
	featureNextCluster   modelFeature = "NEXT_CLUSTER"
	featureOwnSlot       modelFeature = "own slot only"
	featureNested        modelFeature = "nested"
	featureNestedOver    modelFeature = "nested without a host"

	featureDown          modelFeature = "servers down"
	featureEmpty         modelFeature = "no endpoints"
	featureNoConnectTime modelFeature = "connectTimeout over"
	featureConnecting    modelFeature = "connecting"
	featureLazy          modelFeature = "lazy, asked"
	featureNoHostAttempt modelFeature = "no host, FAIL_ATTEMPT"
	featureNoHostRequest modelFeature = "no host, FAIL_REQUEST"
	featureWaitForReady  modelFeature = "no host, wait-for-ready"

	featureFull           modelFeature = "maxRequests"
	featureResting        modelFeature = "cooldown"
	featureRestBegins     modelFeature = "cooldown begins"
	featureEarly          modelFeature = "failbackDelay"
	featureHeldBackUsed   modelFeature = "held back, and used"
	featureAvoids         modelFeature = "avoidPreviousHosts"
	featureAttemptTimeout modelFeature = "attemptTimeout"

	featurePickError modelFeature = "child's error"
	featureDrop      modelFeature = "child's status"
	featureQueue     modelFeature = "child's queue"

	featureFreed     modelFeature = "place freed while waiting"
	featureRestored  modelFeature = "host restored while waiting"
	featureCancelled modelFeature = "cancelled while waiting"
	featureDeadline  modelFeature = "deadline while waiting"
)

// modelFeatures are all of them, in the order in which they are told.
var modelFeatures = []modelFeature{
	featureUnary, featureServerStream, featureClientStream, featureBidi, featureWithAttempt, featureWithClusters,
	featureRetried, featureTransparent, featureRefused, featureReset, featureGateway, featureCommitted, featureDelay, featureLate,
	featureRepeated, featureOverflowFail, featureOverflowLast, featureOverflowRound, featureNextCluster, featureOwnSlot, featureNested, featureNestedOver,
	featureDown, featureEmpty, featureNoConnectTime, featureConnecting, featureLazy, featureNoHostAttempt, featureNoHostRequest, featureWaitForReady,
	featureFull, featureResting, featureRestBegins, featureEarly, featureHeldBackUsed, featureAvoids, featureAttemptTimeout,
	featurePickError, featureDrop, featureQueue,
	featureFreed, featureRestored, featureCancelled, featureDeadline,
}

func (r *modelRun) note(f modelFeature) { r.out.features[f] = true }

func (r *modelRun) noteIf(is bool, f modelFeature) {
	if is {
		r.note(f)
	}
}

func (rpc modelRPC) kindFeature() modelFeature {
	return map[string]modelFeature{
		"unary": featureUnary, "server": featureServerStream, "client": featureClientStream, "bidi": featureBidi,
	}[rpc.Kind]
}

// noteDown notes a cluster without a host.
func (r *modelRun) noteDown(c *modelCluster) {
	r.sick = append(r.sick, c)
	for _, name := range sortedModelKeys(c.inner) {
		r.sick = append(r.sick, c.inner[name])
	}
	site := r.m.sites[c.name]
	switch {
	case site == nil, site.Says != "" && !c.settings.NoConnectTime:
	case site.Endpoints == "hole", site.Says != "":
		r.noteIf(!c.failed, featureNoConnectTime)
	case site.Endpoints == "empty":
		r.note(featureEmpty)
	default:
		r.note(featureDown)
	}
}

func (r *modelRun) noteHit(c *modelCluster, hit modelHit) {
	for _, h := range r.out.Hits {
		if h.Cluster == c.name {
			r.note(featureRepeated)
			r.noteIf(hit.Avoids && r.m.sites[c.name].hosts() > 1, featureAvoids)
		}
	}
}

func (r *modelRun) noteReply(reply modelReply) {
	r.noteIf(reply.Raw == "refuse", featureRefused)
	r.noteIf(reply.Raw == "reset", featureReset)
	r.noteIf(reply.Raw == "gateway", featureGateway)
	r.noteIf(reply.Headers && reply.code() != "OK", featureCommitted)
	r.noteIf(reply.Delay, featureDelay)
	r.noteIf(reply.Late, featureLate)
	if reply.Late {
		r.out.late++
	}
}

// modelCoverage counts what was exercised. It is safe for concurrent use.
type modelCoverage struct {
	mu    sync.Mutex
	rpcs  int
	alone map[modelFeature]int
	pairs map[[2]modelFeature]int
}

func (c *modelCoverage) add(features map[modelFeature]bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.alone == nil {
		c.alone, c.pairs = make(map[modelFeature]int), make(map[[2]modelFeature]int)
	}
	c.rpcs++
	for i, f := range modelFeatures {
		if !features[f] {
			continue
		}
		c.alone[f]++
		for _, g := range modelFeatures[i+1:] {
			if features[g] {
				c.pairs[[2]modelFeature{f, g}]++
			}
		}
	}
}

// log tells how often each feature and each pair of them was exercised, and names
// the pairs that never were.
func (c *modelCoverage) log(t *testing.T) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	var text, never strings.Builder
	impossible := make(map[string][]string)
	seen, total := 0, 0
	for i, f := range modelFeatures {
		fmt.Fprintf(&text, "%6d %s:", c.alone[f], f)
		for _, g := range modelFeatures[i+1:] {
			n := c.pairs[[2]modelFeature{f, g}]
			pair := fmt.Sprintf("%s + %s", f, g)
			switch why := whyNeverModel(f, g); {
			case why != "" && n > 0:
				t.Errorf("%s: %d times, though %s", pair, n, why)
			case why != "":
				impossible[why] = append(impossible[why], pair)
				continue
			case n == 0:
				fmt.Fprintf(&never, "\n  %s", pair)
			default:
				seen++
			}
			total++
			fmt.Fprintf(&text, " %d", n)
		}
		text.WriteString("\n")
	}
	t.Logf("%d RPCs. How often each feature was exercised, and with each of those after it that it can be combined with:\n%s", c.rpcs, text.String())
	for _, why := range sortedModelKeys(impossible) {
		t.Logf("cannot be, since %s:\n  %s", why, strings.Join(impossible[why], "\n  "))
	}
	t.Logf("%d of %d possible pairs. Never exercised:%s", seen, total, never.String())
}

// whyNeverModel says why two features cannot meet in one RPC, or "".
func whyNeverModel(f, g modelFeature) string {
	for _, rule := range modelNever {
		if rule.among[f] && rule.and[g] || rule.among[g] && rule.and[f] {
			return rule.why
		}
	}
	return ""
}

type modelNeverRule struct {
	among, and map[modelFeature]bool
	why        string
}

func modelFeatureSet(features ...modelFeature) map[modelFeature]bool {
	set := make(map[modelFeature]bool)
	for _, f := range features {
		set[f] = true
	}
	return set
}

// modelExclusive is a rule for features of which an RPC has one.
func modelExclusive(why string, features ...modelFeature) modelNeverRule {
	return modelNeverRule{modelFeatureSet(features...), modelFeatureSet(features...), why}
}

func modelApart(why string, among, and []modelFeature) modelNeverRule {
	return modelNeverRule{modelFeatureSet(among...), modelFeatureSet(and...), why}
}

var modelNever = []modelNeverRule{
	modelExclusive("an RPC is of one kind", featureUnary, featureServerStream, featureClientStream, featureBidi),
	modelExclusive("each of them ends the RPC", featureCommitted, featureOverflowFail, featureNoHostRequest, featureDrop, featureCancelled, featureDeadline),
	modelApart("each of them ends the RPC", []modelFeature{featureLate}, []modelFeature{featureOverflowFail, featureNoHostRequest, featureDrop, featureCancelled, featureDeadline}),
	modelExclusive("a config has one of them, and an RPC that waits for ready neither", featureNoHostAttempt, featureNoHostRequest, featureWaitForReady),
	modelApart("the deadline would come sooner", []modelFeature{featureDeadline}, []modelFeature{featureAttemptTimeout}),
	modelExclusive("the test ends an RPC's first wait in one of these ways, and further ones by a cancel", featureFreed, featureRestored, featureDeadline),
}
