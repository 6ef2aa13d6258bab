package composite_test

import (
	"maps"
	"slices"
)

// The model test compares the policy, on real servers, with a second and much
// plainer description of the same rules. Its files:
//
//	model_types_test.go       what the model knows: config, servers, clusters, RPCs
//	model_reference_test.go   the rules: where an RPC's attempts go, and how it ends
//	model_attempt_test.go     the rules: what comes of an attempt, and of waiting
//	model_state_test.go       the rules: what else changes the clusters' state
//
//	model_driver_test.go      the test itself
//	model_generate_test.go    random steps
//	model_world_test.go       a channel and its servers, which take the steps
//	model_config_test.go      service configs
//	model_own_test.go         a child policy that does what the test says
//	model_watch_test.go       a child policy that tells what another one reports
//	model_settle_test.go      to wait until the channel has noticed a change
//	model_call_test.go        to make an RPC
//	model_scope_test.go       a test inside a test
//	model_reduce_test.go      a failure made small, and told
//	model_coverage_test.go    what was exercised, alone and in pairs
//	model_regression_test.go  what the test has found
//
// The rules are written from the documentation, and share no code with the policy.

// modelList is a list of clusters: the channel's own, or that of a policy inside
// a cluster.
type modelList struct {
	Entries     []modelEntry
	Settings    map[string]*modelSettings // by name
	Overflow    string                    `json:",omitempty"` // "" is FAIL
	OwnSlotOnly bool                      `json:",omitempty"` // skipClustersWithoutHosts is false
	FailRequest bool                      `json:",omitempty"`
	NextCluster bool                      `json:",omitempty"`
}

// modelEntry is an entry of a list.
type modelEntry struct {
	Name     string
	Attempts int `json:",omitempty"`
}

// modelSettings are those of one cluster. Times are either none at all or so long
// that they do not end within a run, except for attemptTimeout.
type modelSettings struct {
	MaxRequests    int        `json:",omitempty"`
	AvoidHosts     int        `json:",omitempty"`
	Failures       int        `json:",omitempty"` // cooldown.consecutiveFailures; 0: no cooldown
	FailureCodes   []string   `json:",omitempty"`
	FailbackDelay  bool       `json:",omitempty"`
	AttemptTimeout bool       `json:",omitempty"`
	Lazy           bool       `json:",omitempty"`
	NoConnectTime  bool       `json:",omitempty"` // connectTimeout is 0s
	Inner          *modelList `json:",omitempty"` // the child policy is a composite one
}

// modelConfig is a service config.
type modelConfig struct {
	modelList

	MaxAttempts int      `json:",omitempty"` // 0: no retry policy
	Retryable   []string `json:",omitempty"`
}

// slots are the names of a list by slot.
func (l *modelList) slots() []string {
	var slots []string
	for _, e := range l.Entries {
		for range max(e.Attempts, 1) {
			slots = append(slots, e.Name)
		}
	}
	return slots
}

// failureCodes are the codes that count against the cluster.
func (s *modelSettings) failureCodes() []string {
	if len(s.FailureCodes) == 0 {
		return []string{"UNAVAILABLE", "DEADLINE_EXCEEDED", "RESOURCE_EXHAUSTED"}
	}
	return s.FailureCodes
}

// modelSite is what is out there for one cluster, whether the config has it or
// not. The cluster x of the policy inside n has the name n/x.
type modelSite struct {
	Up        []bool `json:",omitempty"` // the servers that run
	Endpoints string `json:",omitempty"` // "": the servers; "empty": none; "hole": one that never answers
	// Says is what a cluster without servers reports, whose child policy is the
	// test's own: "plain", "drop" or "queue" when it is READY, "failure",
	// "connecting", "connecting, plain".
	Says string `json:",omitempty"`
}

// modelCluster is the state of a cluster, from when the config lists it until it
// does not any more.
type modelCluster struct {
	name     string // as that of a site
	settings *modelSettings

	starting bool // new, and not connected yet: see model.sure

	idle    bool // lazy, and not asked yet
	failed  bool // had no host, and none since
	hadHost bool // ever
	lost    bool // had no host, and not had one for failbackDelay since

	failures int // in a row
	resting  bool
	rests    int // how often a rest began or was ended
	inFlight int

	inner map[string]*modelCluster // of the policy inside, by name
}

// modelRPC is an RPC to make.
type modelRPC struct {
	Kind     string // "unary", "server", "client" or "bidi" stream
	Messages int    `json:",omitempty"` // that the client sends, of a client or bidi stream
	// Early: the first server that is called answers before it has all of the
	// request, so that the client may notice by a Send that fails. Otherwise, and
	// from then on, servers answer when they have all of it. gRPC-Go does not tell
	// with what code a Send failed, and loses the status of an RPC whose retry
	// fails so early.
	Early bool      `json:",omitempty"`
	Wait  bool      `json:",omitempty"` // for ready
	Start *int      `json:",omitempty"` // WithAttempt
	Own   *[]string `json:",omitempty"` // WithClusters
	// Replies are those to the first, second... attempt that a cluster gets; the
	// last one repeats. Clusters that are not listed answer OK.
	Replies map[string][]modelReply `json:",omitempty"`
	// OnWait is what happens if the RPC waits: "free" a place, "restore" the first
	// cluster that is not well, or the last ("restore last"), "cancel" the RPC, or
	// its "deadline" ends it. If there is nothing to be done it is a cancel.
	OnWait string `json:",omitempty"`
}

// modelReply is what a server does with an attempt.
type modelReply struct {
	Code    string `json:",omitempty"` // "" is OK
	Headers bool   `json:",omitempty"` // response headers go first
	Delay   bool   `json:",omitempty"` // for less than an attemptTimeout
	Late    bool   `json:",omitempty"` // headers go first, and then it takes longer than an attemptTimeout
	Hang    bool   `json:",omitempty"`
	// Raw is what only a server of hand-written frames does: "refuse" or "reset"
	// the stream, or answer as a "gateway" does.
	Raw string `json:",omitempty"`
}

// modelOutcome is what must come of an RPC.
type modelOutcome struct {
	Hits  []modelHit
	Code  string
	Waits []modelWait // in order

	timeouts, late int // attempts that take their time
	// unsure: it depends on how fast the machine is.
	unsure   bool
	features map[modelFeature]bool
}

// modelHit is an attempt that a server gets.
type modelHit struct {
	Cluster string
	// Avoids: it goes to a host that no earlier attempt was sent to, if there is
	// one.
	Avoids bool
}

func (h modelHit) String() string { return h.Cluster }

// modelWait is a time at which an RPC waits, and what ends that.
type modelWait struct {
	AfterHits int    // of servers
	AfterEnds int    // of attempts
	Do        string // as modelRPC.OnWait
	Cluster   string // to restore
	held      int    // the index of the stream to end
}

// model is all that the reference knows.
type model struct {
	config   modelConfig
	sites    map[string]*modelSite
	clusters map[string]*modelCluster // by name
	held     []modelHeld
}

// modelHeld is an RPC that goes on, and takes its place in each of the clusters
// it went to.
type modelHeld struct{ path []modelToken }

// modelToken is a cluster that an attempt went to, one for each policy inside
// another, as it was then.
type modelToken struct {
	cluster *modelCluster
	counts  bool // for the cooldown
	rests   int
}

// clone returns a model that shares nothing with m that changes.
func (m *model) clone() *model {
	known := make(map[*modelCluster]*modelCluster)
	var one func(c *modelCluster) *modelCluster
	all := func(clusters map[string]*modelCluster) map[string]*modelCluster {
		out := make(map[string]*modelCluster)
		for name, c := range clusters {
			out[name] = one(c)
		}
		return out
	}
	one = func(c *modelCluster) *modelCluster {
		if known[c] == nil {
			clone := *c
			known[c] = &clone
			clone.inner = all(c.inner)
		}
		return known[c]
	}
	out := &model{config: m.config, sites: make(map[string]*modelSite), clusters: all(m.clusters)}
	for name, s := range m.sites {
		out.sites[name] = &modelSite{Up: slices.Clone(s.Up), Endpoints: s.Endpoints, Says: s.Says}
	}
	for _, h := range m.held {
		path := slices.Clone(h.path)
		for i := range path {
			path[i].cluster = one(path[i].cluster)
		}
		out.held = append(out.held, modelHeld{path})
	}
	return out
}

// hosts is how many servers a cluster's endpoints lead to.
func (s *modelSite) hosts() int {
	if s.Endpoints != "" {
		return 0
	}
	n := 0
	for _, up := range s.Up {
		if up {
			n++
		}
	}
	return n
}

// sortedModelKeys makes the order of a map not matter.
func sortedModelKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
