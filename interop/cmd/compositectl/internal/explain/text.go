package explain

import (
	"fmt"
	"strings"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/grpc-composite/grpc-composite/internal/svcconfig"
	pb "github.com/grpc-composite/grpc-composite/proto/composite/v1"
)

// assumptions are what the longest time rests on.
const assumptions = `Assumed: the channel has composite.DialOptions, and nothing else retries. In the worst case each
attempt waits for each cluster that it comes to for the whole connectTimeout, and then for the
whole attemptTimeout of the slowest. An attemptTimeout ends with the response's header: only the
timeout limits an answer that has begun. For client and bidi streams it begins with the client's
half-close. Servers send no retry pushback, and nothing is retried transparently. The RPC's own
deadline, which is not known here, ends it in any case.
`

// maxText is how much is explained, in bytes, and with what is begun then somewhat more:
// each policy is explained for each entry of methodConfig.
const maxText = 1 << 20

// Text explains a service config, in the words that a person reads. It returns an
// error for one that gRPC-Go refuses, or that has no policy composite.
func Text(serviceConfigJSON string) (string, error) {
	config, policies, err := read(serviceConfigJSON)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	for i, p := range policies {
		if len(policies) > 1 {
			fmt.Fprintf(&b, "%s\n\n", p.path)
		}
		all := false
		for j, m := range config.Methods() {
			if len(m.Names()) == 0 {
				continue
			}
			for _, name := range m.Names() {
				all = all || name == svcconfig.MethodName{}
			}
			title := join(m.Names())
			if len(config.Methods()) == 1 && all {
				title = "all methods"
			}
			if b.Len() > maxText {
				return b.String() + "There is more to say than this, and it is left out.\n\n" + assumptions, nil
			}
			write(&b, fmt.Sprintf("%s (methodConfig[%d])", title, j), p, &m)
		}
		if !all {
			title := "all methods"
			if len(config.Methods()) > 0 {
				title += " that no entry of methodConfig names"
			}
			write(&b, title, p, &svcconfig.MethodConfig{})
		}
		if i == len(policies)-1 {
			b.WriteString(assumptions)
		}
	}
	return b.String(), nil
}

func join(names []svcconfig.MethodName) string {
	texts := make([]string, len(names))
	for i, n := range names {
		texts[i] = oneLine(n.String())
	}
	return strings.Join(texts, ", ")
}

// write explains what becomes of the RPCs of one entry.
func write(b *strings.Builder, title string, p *policy, m *svcconfig.MethodConfig) {
	fmt.Fprintf(b, "%s\n\n", title)
	n := count(p, m.RetryPolicy)
	for a := 1; a <= n; a++ {
		if a > 1 {
			least, most := m.RetryPolicy.Backoff(a - 1)
			fmt.Fprintf(b, "     │  after %s, and a back-off of %v to %v\n", codeList(m.RetryPolicy.RetryableStatusCodes), round(least), round(most))
		}
		writeAttempt(b, p, a, m.Waits())
		writeProgression(b, p, a, m)
	}
	if m.RetryPolicy == nil {
		b.WriteString("     no retry policy: no other attempt follows\n")
	}
	b.WriteByte('\n')
	writeWorst(b, p, m)
	b.WriteByte('\n')
}

func writeAttempt(b *strings.Builder, p *policy, a int, waits bool) {
	start, ok := p.slots.Start(a)
	if !ok {
		what := "with the status of the attempt before"
		if p.failRequest {
			what = "with UNAVAILABLE"
		}
		fmt.Fprintf(b, "  attempt %d → no slot: the RPC ends %s (overflow: FAIL)\n", a, what)
		return
	}
	fmt.Fprintf(b, "  attempt %d → %s", a, p.clusters[p.slots.Cluster(start)].text())
	if a > p.slots.Len() {
		fmt.Fprintf(b, " (overflow: %s)", pb.LoadBalancingConfig_Overflow_name[int32(p.overflow)])
	}
	b.WriteString("\n       → if no host: ")
	for _, name := range p.next(start) {
		fmt.Fprintf(b, "%s → if no host: ", oneLine(name))
	}
	switch {
	case waits:
		b.WriteString("the RPC waits (waitForReady)\n")
	case p.failRequest:
		b.WriteString("the RPC ends with UNAVAILABLE\n")
	default:
		b.WriteString("the attempt fails with UNAVAILABLE\n")
	}
}

// writeProgression writes where else an attempt may start.
func writeProgression(b *strings.Builder, p *policy, a int, m *svcconfig.MethodConfig) {
	if !p.nextCluster || a == 1 {
		return
	}
	var parts []string
	_, ok := p.slots.Start(a)
	if ok && p.slots.Skip() {
		parts = append(parts, "or later: progression NEXT_CLUSTER starts after the last slot that was used")
	}
	if p.repeats(m) {
		parts = append(parts, "or earlier, if an attempt found no host and so used no slot")
		if n := most(m.RetryPolicy); !ok && a < n {
			parts = append(parts, fmt.Sprintf("an RPC then has up to %d attempts", n))
		}
	}
	if len(parts) > 0 {
		fmt.Fprintf(b, "       (%s)\n", strings.Join(parts, ";\n        "))
	}
}

// next returns the names of the clusters that an attempt passes on to.
func (p *policy) next(start int) []string {
	if !p.slots.Skip() {
		return nil
	}
	seen := map[int]bool{p.slots.Cluster(start): true}
	var names []string
	for slot := start + 1; slot < p.slots.Len(); slot++ {
		if i := p.slots.Cluster(slot); !seen[i] {
			seen[i] = true
			names = append(names, p.clusters[i].name)
		}
	}
	return names
}

// text describes a cluster.
func (c cluster) text() string {
	target := "the channel's own resolver"
	if c.target != "" {
		target = oneLine(c.target)
	}
	about := []string{target, "no timeout", fmt.Sprintf("%v to connect", c.connectTimeout)}
	switch {
	case c.attemptTimeout > 0:
		about[1] = fmt.Sprintf("%v timeout", c.attemptTimeout)
	case len(c.inside) > 0 && !c.direct:
		about[1] = "no timeout of its own"
	}
	return fmt.Sprintf("%s (%s)", oneLine(c.name), strings.Join(append(about, c.about...), ", "))
}

// writeWorst writes the longest times of an RPC: while every cluster has a host, and
// at all.
func writeWorst(b *strings.Builder, p *policy, m *svcconfig.MethodConfig) {
	connected, all := connected(p, m), worst(p, m)
	limit := time.Duration(-1)
	if m.Timeout != nil && *m.Timeout >= 0 {
		limit = time.Duration(*m.Timeout)
	}
	fmt.Fprintf(b, "  longest time, all clusters connected: %s\n", connected.text(limit, false))
	fmt.Fprintf(b, "  worst case:                           %s\n", all.text(limit, m.Waits()))
}

// text says how long it is under the entry's timeout, which is none if it is negative,
// for RPCs that may wait for ready without an end.
func (l latency) text(limit time.Duration, waits bool) string {
	var why []string
	if len(l.unlimited) > 0 {
		why = append(why, "no attemptTimeout of "+oneLine(strings.Join(l.unlimited, ", ")))
	}
	if waits {
		why = append(why, "it waits for ready")
	}
	sum := l.sum()
	if len(why) > 0 {
		sum = "unbounded (" + strings.Join(why, "; ")
		if limit < 0 {
			return sum + ", and no timeout)"
		}
		sum += ")"
	}
	if limit >= 0 && (len(why) > 0 || limit < l.total()) {
		return fmt.Sprintf("%v, the entry's timeout; without it %s", limit, sum)
	}
	return sum
}

func (l latency) sum() string {
	var parts []string
	for _, part := range []struct {
		time time.Duration
		what string
	}{{l.attempts, "attempts"}, {l.connecting, "connecting"}, {l.backoffs, "back-offs"}} {
		if part.time > 0 {
			parts = append(parts, fmt.Sprintf("%v %s", round(part.time), part.what))
		}
	}
	if len(parts) == 0 {
		return "0s"
	}
	return fmt.Sprintf("%v = %s", round(l.total()), strings.Join(parts, " + "))
}

func codeList(list []codes.Code) string {
	names := make([]string, 0, len(list))
	seen := make(map[codes.Code]bool)
	for _, c := range list {
		if !seen[c] {
			seen[c] = true
			names = append(names, codeName(c))
		}
	}
	return strings.Join(names, " or ")
}

func round(d time.Duration) time.Duration { return d.Round(10 * time.Microsecond) }

// oneLine keeps what is odd in a config from looking like something else on a
// terminal.
func oneLine(s string) string {
	for _, r := range s {
		if r < ' ' || r == 0x7f || r == '\uFFFD' || (r > 0x7f && !isPlain(r)) {
			return fmt.Sprintf("%q", s)
		}
	}
	return s
}
