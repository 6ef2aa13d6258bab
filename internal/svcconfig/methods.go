package svcconfig

import (
	"fmt"
	"strconv"
)

// checkMethods finds the entries that gRPC-Go refuses, which are read without an
// error. It does not look at entries without names, and neither does gRPC-Go.
func (c *Config) checkMethods(found *Problems) {
	seen := make(map[MethodName]string) // name to path
	for i, m := range c.Methods() {
		path := fmt.Sprintf("methodConfig[%d]", i)
		if m.Name == nil {
			continue
		}
		if p := m.RetryPolicy; p != nil {
			p.check(path+".retryPolicy", found)
		}
		for j, name := range *m.Name {
			at := fmt.Sprintf("%s.name[%d]", path, j)
			if name.Service == "" && name.Method != "" {
				found.refuse(at, strconv.Quote(name.Method)+": must have a service besides the method")
				continue
			}
			if before, ok := seen[name]; ok {
				found.refuse(at, fmt.Sprintf("%q: must not be named twice, and %s is the same", name, before))
				continue
			}
			seen[name] = at
		}
	}
}

// check finds what gRPC-Go refuses in a retry policy, none of whose fields may be
// left out.
func (p *RetryPolicy) check(path string, found *Problems) {
	if p.MaxAttempts < 2 {
		found.refuse(path+".maxAttempts", fmt.Sprintf("%d: must be given, and be at least 2; for no retries leave the retry policy out", p.MaxAttempts))
	}
	if p.InitialBackoff <= 0 {
		found.refuse(path+".initialBackoff", `must be given, and be positive, such as "0.001s"`)
	}
	if p.MaxBackoff <= 0 {
		found.refuse(path+".maxBackoff", `must be given, and be positive, such as "0.01s"`)
	}
	if p.BackoffMultiplier <= 0 {
		found.refuse(path+".backoffMultiplier", "must be given, and be positive, such as 2")
	}
	if len(p.RetryableStatusCodes) == 0 {
		found.refuse(path+".retryableStatusCodes", `must be given, and not be empty, such as ["UNAVAILABLE"]`)
	}
}

// checkThrottling finds what gRPC-Go refuses in the throttling.
func (c *Config) checkThrottling(found *Problems) {
	t := c.RetryThrottling
	if t == nil || c.MethodConfig == nil {
		return // gRPC-Go checks it only if there is a methodConfig
	}
	if t.MaxTokens <= 0 || t.MaxTokens > 1000 {
		found.refuse("retryThrottling.maxTokens", fmt.Sprintf("%v: must be given, and be above 0 and at most 1000", t.MaxTokens))
	}
	if t.TokenRatio <= 0 {
		found.refuse("retryThrottling.tokenRatio", fmt.Sprintf("%v: must be given, and be positive", t.TokenRatio))
	}
}
