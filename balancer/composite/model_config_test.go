package composite_test

import (
	"fmt"
	"maps"

	"github.com/grpc-composite/grpc-composite/internal/testkit"
)

// service is a list as a config has it.
func (w *modelWorld) service(list *modelList, prefix string) testkit.Service {
	service := testkit.Service{More: make(map[string]any)}
	defined := make(map[string]bool)
	for _, e := range list.Entries {
		c := testkit.Cluster{Name: e.Name, More: make(map[string]any)}
		if e.Attempts > 0 {
			c.More["attempts"] = e.Attempts
		}
		if !defined[e.Name] {
			w.define(&c, prefix, list.Settings[e.Name])
		}
		defined[e.Name] = true
		service.Clusters = append(service.Clusters, c)
	}
	if list.Overflow != "" {
		service.More["overflow"] = list.Overflow
	}
	if list.OwnSlotOnly {
		service.More["skipClustersWithoutHosts"] = false
	}
	if list.FailRequest {
		service.More["noHost"] = "FAIL_REQUEST"
	}
	if list.NextCluster {
		service.More["progression"] = "NEXT_CLUSTER"
	}
	return service
}

func (w *modelWorld) define(c *testkit.Cluster, prefix string, s *modelSettings) {
	more := map[string]any{"connectTimeout": modelForever}
	if s.NoConnectTime {
		more["connectTimeout"] = "0s"
	}
	if s.MaxRequests > 0 {
		more["maxRequests"] = s.MaxRequests
	}
	if s.AvoidHosts > 0 {
		more["avoidPreviousHosts"] = s.AvoidHosts
	}
	if s.Failures > 0 {
		cooldown := map[string]any{"consecutiveFailures": s.Failures, "time": modelForever, "maxTime": modelForever}
		if len(s.FailureCodes) > 0 {
			cooldown["codes"] = s.FailureCodes
		}
		more["cooldown"] = cooldown
	}
	if s.FailbackDelay {
		more["failbackDelay"] = modelForever
	}
	if s.AttemptTimeout {
		more["attemptTimeout"] = fmt.Sprintf("%gs", w.pace.attemptTimeout().Seconds())
	}
	if s.Lazy {
		more["lazy"] = true
	}
	switch tier := w.tiers[prefix+c.Name]; {
	case s.Inner != nil:
		inner := w.service(s.Inner, prefix+c.Name+"/")
		c.Target = tier.resolver.Target()
		more["childPolicy"] = []any{map[string]any{"composite": inner.Policy()}}
	case tier.own != nil:
		c.Target = tier.resolver.Target()
		more["childPolicy"] = tier.own.Config()
	default:
		c.Target = tier.resolver.Target()
		more["childPolicy"] = tier.watch.config()
	}
	maps.Copy(c.More, more)
}
