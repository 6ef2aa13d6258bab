package composite

import (
	"encoding/json"
	"fmt"
	"time"
)

// The service config of a target, in the shape of its JSON.
type (
	serviceConfig struct {
		LoadBalancingConfig []map[string]policyConfig `json:"loadBalancingConfig"`
		MethodConfig        []methodConfig            `json:"methodConfig,omitempty"`
	}
	policyConfig struct {
		Clusters []clusterConfig `json:"clusters"`
		Overflow string          `json:"overflow,omitempty"`
	}
	clusterConfig struct {
		Name           string                `json:"name"`
		Target         string                `json:"target,omitempty"`
		ChildPolicy    []map[string]struct{} `json:"childPolicy,omitempty"`
		Attempts       uint64                `json:"attempts,omitempty"`
		ConnectTimeout string                `json:"connectTimeout,omitempty"`
		AttemptTimeout string                `json:"attemptTimeout,omitempty"`
	}
	methodConfig struct {
		Name        []struct{}  `json:"name"`
		RetryPolicy retryPolicy `json:"retryPolicy"`
	}
	retryPolicy struct {
		MaxAttempts          uint64   `json:"maxAttempts"`
		InitialBackoff       string   `json:"initialBackoff"`
		MaxBackoff           string   `json:"maxBackoff"`
		BackoffMultiplier    float64  `json:"backoffMultiplier"`
		RetryableStatusCodes []string `json:"retryableStatusCodes"`
	}
)

// serviceConfig returns the service config that the target stands for: its
// clusters, and a retry policy of as many attempts as there are slots.
func (s *spec) serviceConfig() (string, error) {
	policy := policyConfig{Overflow: s.query.overflow}
	seen := make(map[string]bool)
	for _, c := range s.clusters {
		cluster := clusterConfig{Name: c.name, Attempts: s.query.attempts}
		if !seen[c.name] { // a repeated entry shares the settings of the first
			cluster.Target = c.target.Text
			cluster.ConnectTimeout = protoSeconds(s.query.connectTimeout)
			cluster.AttemptTimeout = protoSeconds(s.query.attemptTimeout)
			if s.query.policy != "" {
				cluster.ChildPolicy = []map[string]struct{}{{s.query.policy: {}}}
			}
		}
		seen[c.name] = true
		policy.Clusters = append(policy.Clusters, cluster)
	}
	config := serviceConfig{LoadBalancingConfig: []map[string]policyConfig{{Scheme: policy}}}
	// gRPC refuses a retry policy of one attempt.
	if slots := s.query.slots(uint64(len(s.clusters))); slots > 1 {
		config.MethodConfig = []methodConfig{{
			Name: []struct{}{{}},
			RetryPolicy: retryPolicy{
				MaxAttempts: slots, InitialBackoff: "0.001s", MaxBackoff: "0.010s", BackoffMultiplier: 2,
				RetryableStatusCodes: s.retryable(),
			},
		}}
	}
	text, err := json.Marshal(config)
	return string(text), err
}

// retryable returns the codes that the next attempt follows.
func (s *spec) retryable() []string {
	switch {
	case len(s.query.retryOn) > 0:
		return s.query.retryOn
	case s.query.attemptTimeout != nil:
		return []string{"UNAVAILABLE", "DEADLINE_EXCEEDED"}
	default:
		return []string{"UNAVAILABLE"}
	}
}

// protoSeconds writes a duration as protojson does.
func protoSeconds(d *time.Duration) string {
	if d == nil {
		return ""
	}
	return fmt.Sprintf("%d.%09ds", *d/time.Second, *d%time.Second)
}
