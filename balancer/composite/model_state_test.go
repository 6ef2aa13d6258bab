package composite_test

import (
	"slices"
	"strings"
)

// modelCondition is what a cluster can do for an attempt.
type modelCondition int

const (
	modelNoHost modelCondition = iota
	modelHasHost
	modelConnecting
	modelIdle
)

// condition is that of a cluster once the channel has noticed everything.
func (m *model) condition(c *modelCluster) modelCondition {
	if c.idle {
		return modelIdle
	}
	condition := m.childCondition(c)
	if condition == modelConnecting && (c.failed || c.settings.NoConnectTime) {
		return modelNoHost
	}
	return condition
}

// childCondition is what the cluster's policy says, which may have failed before.
func (m *model) childCondition(c *modelCluster) modelCondition {
	if c.settings.Inner != nil {
		best := modelNoHost
		for _, inner := range c.inner {
			switch m.condition(inner) {
			case modelHasHost:
				return modelHasHost
			case modelConnecting, modelIdle:
				best = modelConnecting
			default: // no better than nothing
			}
		}
		return best
	}
	site := m.sites[c.name]
	switch {
	case c.starting && site.Says == "":
		return modelConnecting
	case site.Says == "failure", site.Endpoints == "empty":
		return modelNoHost
	case site.Says == "connecting", site.Says == "connecting, plain", site.Endpoints == "hole":
		return modelConnecting
	case site.Says != "", site.hosts() > 0:
		return modelHasHost
	default:
		return modelNoHost
	}
}

// settle notes what follows from the conditions that the clusters are in now.
func (m *model) settle() {
	for _, c := range m.clusters {
		m.settleCluster(c)
	}
}

func (m *model) settleCluster(c *modelCluster) {
	if c.idle {
		return
	}
	for _, inner := range c.inner {
		m.settleCluster(inner)
	}
	switch m.childCondition(c) {
	case modelHasHost:
		c.failed = false
	case modelNoHost:
		c.failed = true // until it has a host
	default: // connecting says nothing new
	}
	switch m.condition(c) {
	case modelHasHost:
		c.hadHost = true
		c.lost = c.lost && c.settings.FailbackDelay
	case modelNoHost:
		c.lost = c.lost || c.hadHost
	default:
	}
}

// setConfig brings a new config. Clusters that stay keep their state.
func (m *model) setConfig(cfg modelConfig) {
	m.config = cfg
	m.clusters = updateModelClusters(m.clusters, &m.config.modelList, "")
	startModelClusters(m.clusters)
	m.settle()
}

// sure tells whether it does not matter how long the clusters that a config brings
// take to connect. It does if one loses its last host to a config, and gets the next
// in a cluster of a policy inside it.
func (m *model) sure(cfg modelConfig) bool {
	quick, slow := m.clone(), m.clone()
	quick.setConfig(cfg)
	slow.clusters = updateModelClusters(slow.clusters, &cfg.modelList, "")
	slow.settle()
	startModelClusters(slow.clusters)
	slow.settle()
	return quick.describe() == slow.describe()
}

func startModelClusters(clusters map[string]*modelCluster) {
	for _, c := range clusters {
		c.starting = false
		startModelClusters(c.inner)
	}
}

func updateModelClusters(old map[string]*modelCluster, list *modelList, prefix string) map[string]*modelCluster {
	clusters := make(map[string]*modelCluster)
	if list == nil {
		return clusters
	}
	for name, settings := range list.Settings {
		c := old[name]
		if c == nil {
			c = &modelCluster{name: prefix + name, idle: true, starting: true}
		}
		c.settings = settings
		c.idle = c.idle && settings.Lazy
		if settings.Failures == 0 {
			c.endRest()
		}
		c.inner = updateModelClusters(c.inner, settings.Inner, prefix+name+"/")
		clusters[name] = c
	}
	return clusters
}

// find returns the cluster of that name, or nil if the config does not have it.
func (m *model) find(name string) *modelCluster {
	clusters := m.clusters
	var c *modelCluster
	for _, part := range strings.Split(name, "/") {
		if c = clusters[part]; c == nil {
			return nil
		}
		clusters = c.inner
	}
	return c
}

// endRest is for a cooldown that the config no longer has.
func (c *modelCluster) endRest() {
	c.failures = 0
	if c.resting {
		c.resting = false
		c.rests++
	}
}

// setSite changes what is out there for a cluster, after the RPCs that its servers
// are at work on have ended.
func (m *model) setSite(name string, site modelSite) {
	for i := m.heldAt(name); i >= 0; i = m.heldAt(name) {
		m.release(i)
	}
	m.sites[name] = &site
	m.settle()
}

// restore makes a cluster well again.
func (m *model) restore(name string) {
	site := modelSite{Up: slices.Clone(m.sites[name].Up)}
	for i := range site.Up {
		site.Up[i] = true
	}
	if m.sites[name].Says != "" {
		site.Says = "plain"
	}
	m.setSite(name, site)
}

// heldAt is the index of a held RPC that went to the cluster, or -1.
func (m *model) heldAt(name string) int {
	return slices.IndexFunc(m.held, func(h modelHeld) bool { return h.path[len(h.path)-1].cluster.name == name })
}

// release ends a held RPC, which answers OK.
func (m *model) release(i int) {
	for _, token := range m.held[i].path {
		token.ended("OK")
	}
	m.held = slices.Delete(m.held, i, i+1)
}

// begin has an attempt take its place in a cluster.
func (c *modelCluster) begin() modelToken {
	c.inFlight++
	return modelToken{cluster: c, counts: c.settings.Failures > 0 && !c.resting, rests: c.rests}
}

// ended has the attempt leave its place, and tells whether a rest begins.
func (t modelToken) ended(code string) (rests bool) {
	c := t.cluster
	c.inFlight--
	switch {
	case !t.counts, c.settings.Failures == 0, c.rests != t.rests, code == "CANCELLED":
		return false
	case !slices.Contains(c.settings.failureCodes(), code):
		c.failures = 0
		return false
	}
	c.failures++
	if c.failures < c.settings.Failures {
		return false
	}
	c.failures, c.resting = 0, true
	c.rests++
	return true
}
