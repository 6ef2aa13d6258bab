package composite

import (
	"errors"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/balancer"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/status"

	"github.com/grpc-composite/grpc-composite/internal/plan"
	"github.com/grpc-composite/grpc-composite/resolver/clusterattr"
)

// eventNames are all the names of clusters.
var eventNames = [4]string{"a", "b", "c", "d"}

// eventConfig is a config. Its clusters are named by one letter each.
type eventConfig struct {
	list        string
	settings    map[string]eventSettings
	overflow    int
	noSkip      bool
	failRequest bool

	text string // by which it is known to be unchanged
}

type eventSettings struct {
	target         int // 0: that of the channel; 1 and 2: targets of its own
	policy         int // 0 and 1 are of one kind, with another config; so are 2 and 3
	connectTimeout time.Duration
	lazy           bool
	failbackDelay  time.Duration
	attempts       int
}

// kind is the name of the child policy.
func (s eventSettings) kind() string { return eventKinds[s.policy>>1] }

// freeze returns a config that does not change with c.
func (c eventConfig) freeze() eventConfig {
	c.settings = maps.Clone(c.settings)
	c.text = fmt.Sprint(c.list, c.overflow, c.noSkip, c.failRequest)
	for _, name := range c.names() {
		c.text += c.settings[name].text(name)
	}
	return c
}

// text is the JSON of a cluster.
func (s eventSettings) text(name string) string {
	target := ""
	if s.target > 0 {
		target = `,"target":"` + eventTarget(name, s.target) + `"`
	}
	return `{"name":"` + name + `"` + target + `,"childPolicy":[{"` + s.kind() + `":{"v":` + strconv.Itoa(s.policy) + `}}]` +
		`,"connectTimeout":"` + seconds(s.connectTimeout) + `","failbackDelay":"` + seconds(s.failbackDelay) + `"` +
		`,"lazy":` + strconv.FormatBool(s.lazy) + `,"attempts":` + strconv.Itoa(s.attempts) + `}`
}

// names are those of the list, each once.
func (c eventConfig) names() []string {
	var names []string
	for i, name := range strings.Split(c.list, "") {
		if !strings.Contains(c.list[:i], name) {
			names = append(names, name)
		}
	}
	return names
}

// slots are the names of the clusters for attempts 1, 2 and so on.
func (c eventConfig) slots() []string {
	var slots []string
	for i, name := range strings.Split(c.list, "") {
		n := 1
		if !strings.Contains(c.list[:i], name) {
			n = c.settings[name].attempts
		}
		for range n {
			slots = append(slots, name)
		}
	}
	return slots
}

func seconds(d time.Duration) string { return strconv.Itoa(int(d/time.Second)) + "s" }

// eventClusters keeps the parsed configs of clusters, which are immutable, by their
// text: parsing takes longer than anything else that an event does.
var eventClusters sync.Map

func parseEventCluster(t *testing.T, text string) clusterConfig {
	t.Helper()
	if cfg, ok := eventClusters.Load(text); ok {
		return cfg.(clusterConfig)
	}
	cfg, err := builder{}.ParseConfig([]byte(`{"clusters":[` + text + `]}`))
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	only := cfg.(*lbConfig).clusters[0]
	eventClusters.Store(text, only)
	return only
}

// parse is ParseConfig, put together from clusters that are parsed already.
func (c eventConfig) parse(t *testing.T) *lbConfig {
	t.Helper()
	cfg := &lbConfig{text: c.text, failRequest: c.failRequest, names: c.names(), index: make(map[string]int)}
	for i, name := range cfg.names {
		cfg.index[name] = i
		cfg.clusters = append(cfg.clusters, parseEventCluster(t, c.settings[name].text(name)))
	}
	var entries []plan.Entry
	for _, name := range c.slots() {
		entries = append(entries, plan.Entry{Cluster: cfg.index[name], Attempts: 1})
	}
	overflow := [4]plan.Overflow{plan.Fail, plan.UseLastCluster, plan.RoundRobin, plan.Fail}[c.overflow]
	cfg.slots = plan.NewSlots(entries, overflow, !c.noSkip)
	return cfg
}

// eventEndpoints are how many endpoints the channel's resolver has.
type eventEndpoints struct {
	tagged   map[string]int // by cluster
	untagged int
}

// of is the share of a cluster.
func (e eventEndpoints) of(cfg eventConfig, name string) string {
	only := true
	for _, other := range cfg.names() {
		if other != name && cfg.settings[other].target == 0 {
			only = false
		}
	}
	share := addresses(name, 0, e.tagged[name])
	if only {
		share += addresses("x", 0, e.untagged)
	}
	return share
}

func (e eventEndpoints) state() resolver.State {
	state := resolver.State{Endpoints: []resolver.Endpoint{}}
	for _, name := range eventNames {
		for _, endpoint := range endpointsAt(addresses(name, 0, e.tagged[name])) {
			state.Endpoints = append(state.Endpoints, clusterattr.Set(endpoint, name))
		}
	}
	state.Endpoints = append(state.Endpoints, endpointsAt(addresses("x", 0, e.untagged))...)
	return state
}

// addresses are those of n endpoints of a target, in one text.
func addresses(name string, target, n int) string {
	text := ""
	for i := range n {
		text += name + strconv.Itoa(target) + strconv.Itoa(i) + " "
	}
	return text
}

func endpointsAt(addresses string) []resolver.Endpoint {
	endpoints := []resolver.Endpoint{}
	for addr := range strings.FieldsSeq(addresses) {
		endpoints = append(endpoints, resolver.Endpoint{Addresses: []resolver.Address{{Addr: addr}}})
	}
	return endpoints
}

// eventZone is what a cluster's own resolver says.
type eventZone int

const (
	zoneSilent eventZone = iota
	zoneOne
	zoneNone // an empty list
	zoneFails
)

func (z eventZone) endpoints(name string, target int) string {
	if z == zoneOne {
		return addresses(name, target, 1)
	}
	return ""
}

// buildTime is how long the n-th resolver of a cluster takes to build. It never ends
// at the same moment as anything else.
func buildTime(n int) time.Duration { return time.Duration(1 + n%998) }

// eventStep is how long a step takes, besides the time that it lets go on.
const eventStep = time.Microsecond

// eventBuild is what the resolvers of a cluster say when they are built.
type eventBuild struct {
	zone eventZone
	err  string
}

// eventState is a state that a child reports.
type eventState int

const (
	stateNone eventState = iota // it reports none
	stateConnecting
	stateReady
	stateFailure
	stateIdle
	stateLoses // READY, and then CONNECTING
	stateTries // TRANSIENT_FAILURE, and then CONNECTING
	stateUsual // READY if there are endpoints, else TRANSIENT_FAILURE and an error
)

// eventStates are those that have two bits of an event.
var eventStates = [4]eventState{stateConnecting, stateReady, stateFailure, stateIdle}

func (s eventState) grpc() connectivity.State {
	return [...]connectivity.State{stateConnecting: connecting, stateReady: ready, stateFailure: failure, stateIdle: idle}[s]
}

// eventHabits are what the children of a cluster do when they are called.
type eventHabits struct {
	onUpdate, onExitIdle, onError eventState
	refuses                       bool // new endpoints
	connects                      bool // to them
	keepsConn                     bool // if there are none any more
}

func (h *eventHabits) reports(endpoints bool) []eventState {
	switch {
	case h.onUpdate == stateNone:
		return nil
	case h.onUpdate == stateLoses:
		return []eventState{stateReady, stateConnecting}
	case h.onUpdate == stateTries:
		return []eventState{stateFailure, stateConnecting}
	case h.onUpdate == stateUsual && endpoints:
		return []eventState{stateReady}
	case h.onUpdate == stateUsual:
		return []eventState{stateFailure}
	default:
		return []eventState{h.onUpdate}
	}
}

// refusal is the error for the n-th endpoints of a child, or "".
func (h *eventHabits) refusal(label string, n int, endpoints bool) string {
	switch {
	case h.refuses:
		return fmt.Sprint(label, " refuses ", n)
	case h.onUpdate == stateUsual && !endpoints:
		return balancer.ErrBadResolverState.Error()
	default:
		return ""
	}
}

// eventAnswer is what a child's picker says.
type eventAnswer int

const (
	answerUsual eventAnswer = iota // what goes with the state
	answerOdd                      // what does not
	answerError
	answerStatus
	answerConn
	answerWait
)

// eventReport is a report of a child.
type eventReport struct {
	state  eventState
	answer eventAnswer
	text   string // of the picker's error
}

func (r eventReport) answers() eventAnswer {
	switch {
	case r.answer > answerOdd:
		return r.answer
	case r.answer == answerUsual && r.state == stateFailure:
		return answerError
	case (r.answer == answerUsual) == (r.state == stateReady):
		return answerConn
	default:
		return answerWait
	}
}

// err is the picker's error, or nil if it has none that tells anything.
func (r eventReport) err() error {
	switch r.answers() {
	case answerError:
		return errors.New(r.text)
	case answerStatus:
		return status.Error(codes.ResourceExhausted, r.text)
	default:
		return nil
	}
}
