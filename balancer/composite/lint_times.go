package composite

import (
	"fmt"
	"math"
	"time"

	"github.com/grpc-composite/grpc-composite/internal/svcconfig"
)

// longBackoffs is what the back-offs of an RPC may add up to without a finding. They
// protect one overloaded service from its retries; another cluster need not wait.
const longBackoffs = time.Second

func (l *linter) backoffs(path string, cfg *lbConfig, m *svcconfig.MethodConfig) {
	retries := begun(cfg, m) - 1
	if _, longest := m.RetryPolicy.Backoffs(retries); longest > longBackoffs {
		l.warnf(path, `set initialBackoff to "0.001s" and maxBackoff to "0.01s": the next attempt goes to another cluster`,
			"the back-offs before %s can add up to %v, in which nothing is tried", plural(retries, "retry", "retries"), round(longest))
	}
}

// timeout finds a timeout of the RPC that is over before the last cluster's turn.
func (l *linter) timeout(path string, cfg *lbConfig, m *svcconfig.MethodConfig) {
	limit := time.Duration(*m.Timeout)
	last := min(cfg.slots.Len(), m.RetryPolicy.MaxAttempts)
	var attempts time.Duration
	for slot := range last - 1 {
		if t := l.nested.limit(&cfg.clusters[cfg.slots.Cluster(slot)], slot+1); t != nil {
			attempts = svcconfig.Add(attempts, t.After)
		}
	}
	waits, _ := m.RetryPolicy.Backoffs(last - 1)
	// gRPC-Go takes a negative timeout for none, and zero has a finding already.
	if limit <= 0 || attempts == 0 || limit > svcconfig.Add(attempts, waits) {
		return
	}
	name := cfg.clusters[cfg.slots.Cluster(last-1)].name
	l.warnf(path, fmt.Sprintf("make it longer, or the attemptTimeouts before %q shorter", name),
		"it is %v, and the attemptTimeouts before slot %d (%q) add up to %v, with back-offs of at least %v: if those attempts time out, the RPC ends before that one has its turn", limit, last, name, round(attempts), round(waits))
}

// throttling finds a retry throttling by which one failing cluster stops the retries
// of the whole channel.
func (l *linter) throttling(config *svcconfig.Config, cfg *lbConfig) {
	t := config.RetryThrottling
	if t == nil {
		return
	}
	const path, remedy = "retryThrottling", "leave it out; cooldown takes out a cluster that fails, and no other"
	// gRPC-Go takes a token for each attempt that fails with a retryable code,
	// and makes the retry only if more than half of them are left.
	if t.MaxTokens-1 <= t.MaxTokens/2 {
		l.errorf(path+".maxTokens", "set it above 2, or leave retryThrottling out", "it is %v: the first failure leaves no more than half of the tokens, so no attempt is ever retried", t.MaxTokens)
		return
	}
	cost := 0 // tokens that an RPC takes whose attempts on the first cluster fail
	for cost < cfg.slots.Len() && cfg.slots.Cluster(cost) == cfg.slots.Cluster(0) {
		cost++
	}
	if cost == cfg.slots.Len() {
		return // there is no other cluster
	}
	first := cfg.clusters[cfg.slots.Cluster(0)]
	served, stops := untilThrottled(t, cost)
	rests := first.cooldown != nil && first.cooldown.Failures <= int64(served*cost)
	if !stops || rests {
		l.warnf(path, remedy, "it counts for the whole channel: if %v attempts on %q fail at about the same time, gRPC-Go stops retrying, and RPCs fail although other clusters could serve them", math.Ceil(t.MaxTokens/2), first.name)
		return
	}
	l.warnf(path, remedy, "it counts for the whole channel: while every attempt on %q fails with a retryable code, gRPC-Go stops retrying at RPC %d in a row, and RPCs fail although other clusters could serve them", first.name, served+1)
}

// maxServed is how many RPCs in a row are looked at.
const maxServed = 100_000

// untilThrottled returns how many RPCs in a row, each with so many attempts that take a
// token and one that succeeds, come before the first that is not retried; false if
// there are too many for anybody to expect. It adds up as gRPC-Go does, since the sum
// of many ratios is not what they make when multiplied.
func untilThrottled(t *svcconfig.RetryThrottling, cost int) (served int, stops bool) {
	tokens := t.MaxTokens
	for served = range maxServed {
		for range cost {
			if tokens = max(tokens-1, 0); tokens <= t.MaxTokens/2 {
				return served, true
			}
		}
		tokens = min(tokens+t.TokenRatio, t.MaxTokens)
	}
	return 0, false
}

// round leaves out digits that nobody reads.
func round(d time.Duration) time.Duration {
	if d < time.Second {
		return d.Round(time.Microsecond)
	}
	return d.Round(time.Millisecond)
}
