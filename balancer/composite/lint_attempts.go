package composite

import (
	"fmt"
	"strconv"
	"strings"

	"google.golang.org/grpc/codes"

	"github.com/grpc-composite/grpc-composite/internal/attempt"
	"github.com/grpc-composite/grpc-composite/internal/plan"
	"github.com/grpc-composite/grpc-composite/internal/svcconfig"
)

// attempts finds where the retry policies do not fit the clusters.
func (l *linter) attempts(config *svcconfig.Config, cfg *lbConfig) {
	methods := config.Methods()
	retried, all := false, false
	for i, m := range methods {
		path := fmt.Sprintf("methodConfig[%d]", i)
		if len(m.Names()) == 0 {
			l.warnf(path+".name", `name methods, or all with [{}]`, "the entry names no method, and gRPC-Go ignores it")
			continue
		}
		l.names(path, &methods[i])
		retried = retried || m.RetryPolicy != nil
		for _, name := range m.Names() {
			all = all || name == svcconfig.MethodName{}
		}
	}
	if !retried && cfg.slots.Len() > 1 {
		l.errorf("methodConfig", fmt.Sprintf(`add {"name": [{}], "retryPolicy": {...}} with "maxAttempts": %d, or retry with an interceptor after DialOptions`, cfg.slots.Len()),
			"there is no retry policy, so an RPC has one attempt: %s", cfg.beyond(1))
	}
	for i := range methods {
		if m := &methods[i]; len(m.Names()) > 0 {
			l.method(fmt.Sprintf("methodConfig[%d]", i), cfg, m, retried)
		}
	}
	if retried && !all && cfg.slots.Len() > 1 {
		l.warnf("methodConfig", `add an entry with "name": [{}] and a retryPolicy`,
			"no entry covers methods other than those of %s: they have no retry policy, so an RPC has one attempt: %s", covered(methods), cfg.beyond(1))
	}
	if retried {
		l.throttling(config, cfg)
	}
}

// method finds where one entry does not fit the clusters. Somewhere in the config
// there is a retry policy if retried is set.
func (l *linter) method(path string, cfg *lbConfig, m *svcconfig.MethodConfig, retried bool) {
	if m.Timeout != nil && *m.Timeout == 0 {
		l.errorf(path+".timeout", "leave it out for no limit", "it is zero: every RPC fails with DEADLINE_EXCEEDED before it is sent")
	}
	policy, slots := m.RetryPolicy, cfg.slots.Len()
	if policy == nil {
		if retried && slots > 1 {
			l.warnf(path, "if that is not meant, give the entry a retryPolicy of its own",
				"the entry has no retryPolicy, and gRPC-Go takes none from another entry, so an RPC of %s has one attempt: %s", named(m.Names()), cfg.beyond(1))
		}
		return
	}
	attempts := min(policy.MaxAttempts, plan.MaxSlots)
	at := path + ".retryPolicy"
	switch _, more := cfg.slots.Start(slots + 1); {
	case attempts < slots:
		l.errorf(at+".maxAttempts", fmt.Sprintf("set it to %d, or take the clusters out that no attempt is for", slots),
			"an RPC has %d attempts, and the clusters have %d slots: %s", attempts, slots, cfg.beyond(attempts))
	case policy.MaxAttempts > slots && !more:
		what := "with the status of the one before"
		if cfg.failRequest {
			what = "with UNAVAILABLE"
		}
		unless := ""
		if repeats(cfg, m) {
			unless = ", unless an attempt before found no host,"
		}
		fewer := "make it as many as there are slots"
		if slots == 1 {
			fewer = "leave the retryPolicy out" // gRPC-Go refuses one of a single attempt
		}
		l.warnf(at+".maxAttempts", fewer+", give a cluster more attempts, or set overflow to USE_LAST_CLUSTER or ROUND_ROBIN",
			"it is %d, and the clusters have %s: attempt %d has no slot%s and ends the RPC %s, after another back-off", policy.MaxAttempts, plural(slots, "slot", "slots"), slots+1, unless, what)
	case policy.MaxAttempts > plan.MaxSlots:
		l.warnf(at+".maxAttempts", fmt.Sprintf("set it to at most %d, or give grpc.WithMaxCallAttempts after DialOptions", plan.MaxSlots),
			"it is %d, and DialOptions let a channel make %d", policy.MaxAttempts, plan.MaxSlots)
	}
	l.stuck(path, cfg, m)
	l.unretried(at+".retryableStatusCodes", cfg, m)
	l.backoffs(at, cfg, m)
	if m.Timeout != nil {
		l.timeout(path+".timeout", cfg, m)
	}
}

// repeats tells whether an attempt can find no host, use no slot, and be followed by
// another that starts where it did.
func repeats(cfg *lbConfig, m *svcconfig.MethodConfig) bool {
	return cfg.nextCluster && cfg.slots.Skip() && !cfg.failRequest && !m.Waits() && m.RetryPolicy.Retryable(codes.Unavailable)
}

// begun returns how many attempts an RPC can begin: the one past the last slot, which
// ends the RPC, included.
func begun(cfg *lbConfig, m *svcconfig.MethodConfig) int {
	attempts := min(m.RetryPolicy.MaxAttempts, plan.MaxSlots)
	if _, more := cfg.slots.Start(cfg.slots.Len() + 1); !more && !repeats(cfg, m) {
		attempts = min(attempts, cfg.slots.Len()+1)
	}
	return attempts
}

// limited is a cluster with the shortest attemptTimeout that may hold for an attempt
// on it.
type limited struct {
	cluster *clusterConfig
	limit   *attempt.Limit
}

// followed returns the clusters of the attempts that another one with a slot can
// follow, each once, if they have a limit.
func (l *linter) followed(cfg *lbConfig, m *svcconfig.MethodConfig) []limited {
	var clusters []limited
	index := make(map[int]int)
	for n := 1; n < begun(cfg, m); n++ {
		if _, ok := cfg.slots.Start(n + 1); !ok {
			break
		}
		slot, _ := cfg.slots.Start(n)
		i := cfg.slots.Cluster(slot)
		limit := l.nested.limit(&cfg.clusters[i], n)
		at, ok := index[i]
		switch {
		case limit == nil:
		case !ok:
			index[i] = len(clusters)
			clusters = append(clusters, limited{&cfg.clusters[i], limit})
		case limit.After < clusters[at].limit.After:
			clusters[at].limit = limit
		}
	}
	return clusters
}

// unretried finds attempt timeouts that end the RPC.
func (l *linter) unretried(path string, cfg *lbConfig, m *svcconfig.MethodConfig) {
	if m.RetryPolicy.Retryable(codes.DeadlineExceeded) {
		return
	}
	for _, c := range l.followed(cfg, m) {
		on := strconv.Quote(c.limit.Cluster)
		if c.limit != c.cluster.attemptTimeout {
			on += " inside " + strconv.Quote(c.cluster.name)
		}
		l.errorf(path, `add "DEADLINE_EXCEEDED"`,
			"an attempt on %s that takes longer than its attemptTimeout of %v ends the RPC with DEADLINE_EXCEEDED, which is not listed, and no other cluster is tried", on, c.limit.After)
	}
}

// beyond says what comes of the slots after the first so many.
func (c *lbConfig) beyond(attempts int) string {
	var slots []string
	for slot := attempts; slot < c.slots.Len(); slot++ {
		slots = append(slots, fmt.Sprintf("slot %d (%q)", slot+1, c.clusters[c.slots.Cluster(slot)].name))
	}
	are := "are"
	if len(slots) == 1 {
		are = "is"
	}
	fate := are + " reached only if a cluster before is passed over"
	if !c.slots.Skip() {
		fate = are + " never reached"
	}
	return and(slots) + " " + fate
}

// covered lists the methods that the entries name.
func covered(methods []svcconfig.MethodConfig) string {
	var names []svcconfig.MethodName
	for _, m := range methods {
		names = append(names, m.Names()...)
	}
	return named(names)
}

// maxNamed is how many names a finding lists.
const maxNamed = 5

func named(names []svcconfig.MethodName) string {
	var texts []string
	for i, name := range names {
		if i == maxNamed {
			texts = append(texts, fmt.Sprintf("%d more", len(names)-maxNamed))
			break
		}
		text := name.String()
		if name.Service != "" {
			text = strconv.Quote(text)
		}
		texts = append(texts, text)
	}
	return and(texts)
}

// and joins texts as a sentence does.
func and(texts []string) string {
	if len(texts) < 2 {
		return strings.Join(texts, "")
	}
	last := len(texts) - 1
	return strings.Join(texts[:last], ", ") + " and " + texts[last]
}
