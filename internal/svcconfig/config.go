package svcconfig

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"google.golang.org/grpc/codes"
)

// Config is a service config, with the fields that gRPC-Go reads. Pointers are nil
// for what is left out.
type Config struct {
	LoadBalancingPolicy *string
	LoadBalancingConfig *json.RawMessage // a list of policies
	MethodConfig        *[]MethodConfig
	RetryThrottling     *RetryThrottling
	HealthCheckConfig   *HealthCheckConfig
}

// Methods returns the entries of MethodConfig.
func (c *Config) Methods() []MethodConfig {
	if c.MethodConfig == nil {
		return nil
	}
	return *c.MethodConfig
}

// HealthCheckConfig asks for client-side health checking (gRFC A17).
type HealthCheckConfig struct{ ServiceName string }

// RetryThrottling is the channel's budget of retries (gRFC A6).
type RetryThrottling struct{ MaxTokens, TokenRatio float64 }

// MethodConfig is what holds for the methods of its names. gRPC ignores one
// without names.
type MethodConfig struct {
	Name                    *[]MethodName
	WaitForReady            *bool
	Timeout                 *Duration
	MaxRequestMessageBytes  *int64
	MaxResponseMessageBytes *int64
	RetryPolicy             *RetryPolicy
}

// Names returns the entries of Name.
func (m *MethodConfig) Names() []MethodName {
	if m.Name == nil {
		return nil
	}
	return *m.Name
}

// Waits tells whether an attempt that finds no host waits for one, unless a call says
// otherwise.
func (m *MethodConfig) Waits() bool { return m.WaitForReady != nil && *m.WaitForReady }

// Retries tells whether the entry has a retry policy for any method.
func (m *MethodConfig) Retries() bool { return m.RetryPolicy != nil && len(m.Names()) > 0 }

// MethodName names a method, or all of a service, or all that no other name
// covers.
type MethodName struct{ Service, Method string }

func (n MethodName) String() string {
	switch {
	case n.Service == "":
		return "all methods that no other entry names"
	case n.Method == "":
		return n.Service
	default:
		return n.Service + "/" + n.Method
	}
}

// RetryPolicy is gRFC A6's, as gRPC-Go reads it.
type RetryPolicy struct {
	MaxAttempts          int
	InitialBackoff       Duration
	MaxBackoff           Duration
	BackoffMultiplier    float64
	RetryableStatusCodes []codes.Code
}

// Retryable tells whether the policy retries an attempt that ended with the code.
func (p *RetryPolicy) Retryable(code codes.Code) bool {
	for _, c := range p.RetryableStatusCodes {
		if c == code {
			return true
		}
	}
	return false
}

// Parse reads a service config. An error is about JSON alone, and names the place;
// everything else that gRPC-Go refuses or ignores is in the problems.
func Parse(text string) (*Config, Problems, error) {
	if err := syntax(text); err != nil {
		return nil, Problems{}, err
	}
	var found Problems
	serviceConfig.check(json.RawMessage(text), "", &found)
	if len(found.Refused) > 0 {
		return nil, found, nil
	}
	var config Config
	if err := json.Unmarshal([]byte(text), &config); err != nil {
		found.refuse("", err.Error())
		return nil, found, nil
	}
	config.checkMethods(&found)
	config.checkThrottling(&found)
	if len(found.Refused) > 0 {
		return nil, found, nil
	}
	return &config, found, nil
}

// syntax says where a text is not JSON.
func syntax(text string) error {
	err := json.Unmarshal([]byte(text), new(json.RawMessage))
	if err == nil {
		return nil
	}
	end := len(text)
	var at *json.SyntaxError
	if errors.As(err, &at) && at.Offset > 0 {
		end = min(end, int(at.Offset))
	}
	before := []byte(text[:end])
	line := bytes.Count(before, []byte("\n")) + 1
	column := end - bytes.LastIndexByte(before, '\n') - 1
	return fmt.Errorf("line %d, column %d: %w", line, max(column, 1), err)
}
