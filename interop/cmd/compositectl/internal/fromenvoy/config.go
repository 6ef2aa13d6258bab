package fromenvoy

import (
	"fmt"
	"iter"
	"strconv"
	"strings"
	"time"
)

// The service config, in the shape of its JSON.
type (
	serviceConfig struct {
		LoadBalancingConfig []map[string]*policy `json:"loadBalancingConfig"`
		MethodConfig        []*methodConfig      `json:"methodConfig,omitempty"`
		HealthCheckConfig   *healthCheckConfig   `json:"healthCheckConfig,omitempty"`
	}
	policy struct {
		Clusters                 []*cluster `json:"clusters"`
		SkipClustersWithoutHosts *bool      `json:"skipClustersWithoutHosts,omitempty"`
		NoHost                   string     `json:"noHost,omitempty"`
	}
	cluster struct {
		Name               string           `json:"name"`
		Target             string           `json:"target,omitempty"`
		ChildPolicy        []map[string]any `json:"childPolicy,omitempty"`
		ConnectTimeout     string           `json:"connectTimeout,omitempty"`
		AttemptTimeout     string           `json:"attemptTimeout,omitempty"`
		MaxRequests        uint64           `json:"maxRequests,omitempty"`
		AvoidPreviousHosts uint64           `json:"avoidPreviousHosts,omitempty"`

		connectTimeout time.Duration
	}
	methodConfig struct {
		Name        []methodName `json:"name"`
		Timeout     string       `json:"timeout,omitempty"`
		RetryPolicy *retryPolicy `json:"retryPolicy,omitempty"`
	}
	methodName struct {
		Service string `json:"service,omitempty"`
		Method  string `json:"method,omitempty"`
	}
	retryPolicy struct {
		MaxAttempts          uint64   `json:"maxAttempts"`
		InitialBackoff       string   `json:"initialBackoff"`
		MaxBackoff           string   `json:"maxBackoff"`
		BackoffMultiplier    float64  `json:"backoffMultiplier"`
		RetryableStatusCodes []string `json:"retryableStatusCodes"`
	}
	healthCheckConfig struct {
		ServiceName string `json:"serviceName"`
	}
)

// defined yields the clusters of a policy, each at the entry that has its settings.
func (p *policy) defined() iter.Seq[*cluster] {
	return func(yield func(*cluster) bool) {
		seen := make(map[string]bool)
		for _, c := range p.Clusters {
			if !seen[c.Name] && !yield(c) {
				return
			}
			seen[c.Name] = true
		}
	}
}

// setAttemptTimeout gives each cluster the timeout, unless it is zero.
func (p *policy) setAttemptTimeout(d time.Duration) {
	if d == 0 {
		return
	}
	for c := range p.defined() {
		c.AttemptTimeout = seconds(d)
	}
}

// seconds writes a duration as protojson does.
func seconds(d time.Duration) string {
	text := fmt.Sprintf("%d.%09d", d/time.Second, d%time.Second)
	return strings.TrimSuffix(strings.TrimRight(text, "0"), ".") + "s"
}

func uintOf(n *node) (uint64, bool) {
	if n == nil {
		return 0, false
	}
	v, err := strconv.ParseUint(n.scalar, 10, 32)
	return v, err == nil
}
