package differential

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/grpc-composite/grpc-composite/internal/testkit"
	"github.com/grpc-composite/grpc-composite/interop/envoy"
)

// envoySide is an Envoy that has the composite clusters of many scenarios, which
// all agree on the runtime feature for skipping.
type envoySide struct {
	servers *servers
	envoy   *envoy.Envoy
	lanes   []*lane
}

// lanes is how many sets of clusters with changing hosts an Envoy has. Scenarios
// whose hosts change take turns on them, since each such cluster takes an inotify
// instance, and there are few.
const lanes = 3

// lane is a set of clusters whose hosts change.
type lane struct {
	mu    sync.Mutex // held by the scenario whose turn it is
	hosts map[string]int
}

// startEnvoy starts an Envoy for scenarios, of which those with other ideas about
// skipping are left out. Scenarios go by their index.
func startEnvoy(t testing.TB, servers *servers, scenarios []scenario, skip bool, perTry time.Duration) envoySide {
	t.Helper()
	c := envoy.Config{SkipClustersWithoutHosts: skip}
	for _, name := range letters {
		for n := range maxHosts + 1 {
			c.Clusters = append(c.Clusters, envoy.Cluster{Name: constantName(name, n), Hosts: servers.addrs[name][:n]})
		}
		for i := range lanes {
			c.Clusters = append(c.Clusters, envoy.Cluster{Name: laneName(i, name), Changing: true})
		}
	}
	for i, s := range scenarios {
		if s.skip != skip {
			continue
		}
		for name, list := range s.nested {
			c.Clusters = append(c.Clusters, envoy.Cluster{Name: nestedName(i, name), List: s.envoyNames(i, list)})
		}
		c.Clusters = append(c.Clusters, envoy.Cluster{Name: routeName(i), List: s.envoyNames(i, s.list)})
		c.Routes = append(c.Routes, envoy.Route{Name: routeName(i), Cluster: routeName(i), Retry: s.envoyRetry(perTry)})
	}
	side := envoySide{servers: servers, envoy: envoy.Start(t, c)}
	for range lanes {
		side.lanes = append(side.lanes, &lane{hosts: make(map[string]int)})
	}
	return side
}

func routeName(i int) string { return fmt.Sprintf("s%d", i) }

// constantName is a cluster that scenarios share, as its hosts never change.
func constantName(name string, hosts int) string { return fmt.Sprintf("%s.%d", name, hosts) }

// laneName is a cluster whose hosts change, for scenarios that take that lane.
func laneName(i int, name string) string { return fmt.Sprintf("lane%d.%s", i%lanes, name) }

// nestedName is a composite cluster in the list of another.
func nestedName(i int, name string) string { return routeName(i) + "." + name }

// envoyNames are the names of a list's clusters in the configuration.
func (s scenario) envoyNames(i int, list []string) []string {
	changes := s.changes()
	names := make([]string, len(list))
	for j, name := range list {
		_, nested := s.nested[name]
		switch {
		case nested:
			names[j] = nestedName(i, name)
		case changes:
			names[j] = laneName(i, name)
		default:
			names[j] = constantName(name, s.hosts[name])
		}
	}
	return names
}

func (s scenario) envoyRetry(perTry time.Duration) *envoy.Retry {
	hangs := s.hangs()
	if !s.retries() && !hangs {
		return nil
	}
	r := &envoy.Retry{}
	if s.retries() {
		var on []string
		for _, c := range s.retryable {
			on = append(on, strings.ToLower(strings.ReplaceAll(codeName(c), "_", "-")))
		}
		// Envoy takes an attempt that took too long for a reset.
		if hangs && slices.Contains(s.retryable, codes.DeadlineExceeded) {
			on = append(on, "reset")
		}
		r.On, r.Retries = strings.Join(on, ","), s.attempts-1
	}
	if hangs {
		r.PerTryTimeout = perTry
	}
	return r
}

// run makes the calls of scenario i.
func (e envoySide) run(t testing.TB, i int, s scenario) []outcome {
	t.Helper()
	if s.changes() {
		lane := e.lanes[i%lanes]
		lane.mu.Lock()
		defer lane.mu.Unlock()
		e.setHosts(t, i, s.hosts)
	}
	var outcomes []outcome
	for _, c := range s.calls {
		e.setHosts(t, i, c.hosts)
		outcomes = append(outcomes, e.servers.call(testkit.Context(t), e.envoy.Route(routeName(i)), c))
	}
	return outcomes
}

// setHosts changes hosts in the lane of scenario i.
func (e envoySide) setHosts(t testing.TB, i int, hosts map[string]int) {
	t.Helper()
	now := e.lanes[i%lanes].hosts
	for name, n := range hosts {
		if now[name] != n {
			e.envoy.SetHosts(t, laneName(i, name), e.servers.addrs[name][:n]...)
			now[name] = n
		}
	}
}
