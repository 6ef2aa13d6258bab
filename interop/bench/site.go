package main

import (
	"errors"
	"net"
	"time"

	"github.com/grpc-composite/grpc-composite/internal/testkit"
	"github.com/grpc-composite/grpc-composite/interop/envoy"
)

// retryOn has Envoy go on after what gRPC calls UNAVAILABLE.
const retryOn = "unavailable,connect-failure,reset,refused-stream"

// site is the servers of a run, and an Envoy before them.
type site struct {
	a, b, c, failing *server
	victim           *server      // is killed, and started again where it was
	swallow          string       // an address that swallows connects; "" if there is none
	envoy            *envoy.Envoy // nil: there is none
	noEnvoy          string       // why not
}

// newSite starts them. Envoy is started if it is wanted, and can be had.
func newSite(t *host, wantEnvoy bool) *site {
	s := &site{
		a:       startServer(t, "a", anyPort, false),
		b:       startServer(t, "b", anyPort, false),
		c:       startServer(t, "c", anyPort, false),
		failing: startServer(t, "failing", anyPort, true),
		victim:  startServer(t, "victim", net.JoinHostPort(testkit.Loopback(), "0"), false),
		swallow: swallowConnects(t),
	}
	if !wantEnvoy {
		s.noEnvoy = "not asked for"
		return s
	}
	var missing skip
	err := caught(func() { s.envoy = envoy.Start(t, s.envoyConfig()) })
	switch {
	case err == nil:
	case errors.As(err, &missing):
		s.noEnvoy = missing.text
	default:
		t.Fatal(err)
	}
	return s
}

func (s *site) envoyConfig() envoy.Config {
	config := envoy.Config{
		SkipClustersWithoutHosts: true,
		Clusters: []envoy.Cluster{
			{Name: "a", Hosts: []string{s.a.addr}},
			{Name: "b", Hosts: []string{s.b.addr}},
			{Name: "c", Hosts: []string{s.c.addr}},
			{Name: "failing", Hosts: []string{s.failing.addr}},
			{Name: "closed", Hosts: []string{testkit.ClosedPort}},
			{Name: "victim", Hosts: []string{s.victim.addr}},
		},
	}
	firsts := map[first]string{healthy: "a", unavailable: "failing", closed: "closed", killed: "victim"}
	if s.swallow != "" {
		firsts[swallowing] = "swallow"
		config.Clusters = append(config.Clusters, envoy.Cluster{
			Name: "swallow", Hosts: []string{s.swallow}, More: envoy.JSON{"connect_timeout": seconds(connectTimeout)},
		})
	}
	for kind, cluster := range firsts {
		name := string(kind)
		config.Clusters = append(config.Clusters, envoy.Cluster{
			Name: "list-" + name, List: []string{cluster, "b", "c"},
			// By default Envoy makes no more than 3 retries at a time.
			More: envoy.JSON{"circuit_breakers": envoy.JSON{"thresholds": []envoy.JSON{{"max_retries": 1024}}}},
		})
		config.Routes = append(config.Routes, envoy.Route{Name: name, Cluster: "list-" + name, Retry: &envoy.Retry{On: retryOn, Retries: 2}})
	}
	return config
}

// setup is what contenders have to reach if the first cluster does so.
func (s *site) setup(kind first, backoff time.Duration) setup {
	up := s.b.addr
	var addr string
	switch kind {
	case unavailable:
		addr = s.failing.addr
	case closed:
		addr = testkit.ClosedPort
	case swallowing:
		addr = s.swallow
	case killed:
		addr, up = s.victim.addr, s.victim.addr
	case healthy:
		addr, up = s.a.addr, s.a.addr
	}
	set := setup{addrs: []string{addr, s.b.addr, s.c.addr}, up: up, backoff: backoff, route: string(kind)}
	if s.envoy != nil {
		set.envoy = s.envoy.Addr
	}
	return set
}

// proxyCPU is what Envoy has used so far.
func (s *site) proxyCPU() time.Duration {
	if s.envoy == nil {
		return 0
	}
	return processCPU(s.envoy.PID())
}
