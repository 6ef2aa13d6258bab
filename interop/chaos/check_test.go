package chaos

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/grpc-composite/grpc-composite/balancer/composite"
)

// observation is what is known of an RPC when it has ended.
type observation struct {
	call       string
	endless    bool     // the client does not half-close before it has the answers
	own        bool     // the RPC has a list of its own
	changed    bool     // the config did, meanwhile
	order      []string // its clusters; the config's, if that stayed the same
	members    []string // its clusters, in some order
	start, end time.Time
	err        error
	trail      composite.Trail
	server     string               // who says to have answered, or ""
	abandoned  bool                 // by the caller
	short      bool                 // ended well, with fewer messages than there are
	late       time.Duration        // by how much the process was, meanwhile
	calm       map[string]time.Time // since when clusters have been, up to the end
}

// finding is what is wrong with an RPC.
type finding struct {
	what     string
	clusters []string // it is not wrong if one of these may have been too slow
	from, to time.Time
}

// checker judges RPCs.
type checker struct {
	clusterOf map[string]string // a server's address to its cluster
	addrOf    map[string]string // a server's name to its address
}

// check returns what became of an RPC, in a few words, and what is wrong with that.
func (c checker) check(o observation) (outcome string, findings []finding) {
	findings = append(c.places(o), c.waits(o)...)
	outcome, failed := c.outcome(o)
	return outcome, append(findings, failed...)
}

func (o observation) finding(clusters []string, format string, args ...any) finding {
	return finding{fmt.Sprintf(format, args...), clusters, o.start, o.end}
}

// wasCalm tells whether a cluster was calm from some time on.
func (o observation) wasCalm(cluster string, from time.Time) bool {
	since, ok := o.calm[cluster]
	return ok && since.Before(from)
}

// outcome judges the RPC's end. It must be a good one if one of its clusters was
// calm all the time, but for what the README's limits say.
func (c checker) outcome(o observation) (string, []finding) {
	code := status.Code(o.err)
	switch {
	case o.err == nil && o.short:
		return "ended too soon", []finding{o.finding(nil, "it ended well without all of its messages")}
	case o.err == nil:
		return "OK", nil
	case code == codes.DataLoss:
		return "wrong cluster", []finding{o.finding(nil, "an attempt went to the wrong cluster")}
	case o.abandoned:
		return "given up by the caller", nil
	case o.own && o.changed && code == codes.Internal && strings.Contains(o.err.Error(), "must be the name of a cluster"):
		return code.String() + ", own list with a cluster that is just removed", nil
	}
	var calm []string
	for _, cluster := range o.members {
		if o.wasCalm(cluster, o.start) {
			calm = append(calm, cluster)
		}
	}
	var last composite.Attempt
	if n := len(o.trail.Attempts); n > 0 {
		last = o.trail.Attempts[n-1]
	}
	atFault := last.Cluster != "" && !slices.Contains(calm, last.Cluster)
	switch {
	case atFault && last.Committed:
		return code.String() + ", from a server that had begun to answer", nil
	case atFault && o.endless && code == codes.DeadlineExceeded:
		return code.String() + ", of a conversation whose server was stopped", nil
	case atFault && (last.Number > 1 || last.Transparent) && strings.Contains(last.Message, "transport is closing"):
		return code.String() + ", connection lost just before a retry", nil
	case len(calm) == 0:
		return code.String() + ", no cluster surely healthy", nil
	}
	return code.String() + ", though a cluster was healthy", []finding{o.finding(calm, "it failed, though %v had been healthy all the time", calm)}
}

// places judges where the attempts went.
func (c checker) places(o observation) []finding {
	var findings []finding
	number := 0
	for _, a := range o.trail.Attempts {
		if a.Number != number+1 && (a.Number != number || !a.Transparent) {
			findings = append(findings, o.finding(nil, "attempt %d comes after attempt %d", a.Number, number))
		}
		number = a.Number
		if a.Peer != "" && c.clusterOf[a.Peer] != a.Cluster {
			findings = append(findings, o.finding(nil, "attempt %d went to %s of cluster %q, instead of %q", a.Number, a.Peer, c.clusterOf[a.Peer], a.Cluster))
		}
		findings = append(findings, c.skips(o, a)...)
	}
	if o.server == "" {
		return findings
	}
	if n := len(o.trail.Attempts); n == 0 || o.trail.Attempts[n-1].Peer != c.addrOf[o.server] {
		findings = append(findings, o.finding(nil, "%s has answered, and the trail knows nothing of it", o.server))
	}
	return findings
}

// skips judges which clusters an attempt passed over: all from its own slot to the
// one that it used, and none that was calm.
func (c checker) skips(o observation, a composite.Attempt) []finding {
	var findings []finding
	var skipped []string
	end := a.Start.Add(a.Duration)
	for _, s := range a.Skipped {
		skipped = append(skipped, s.Cluster)
		if o.wasCalm(s.Cluster, a.Start) {
			findings = append(findings, finding{fmt.Sprintf("attempt %d passed over %s, which was healthy: %s (%v)", a.Number, s.Cluster, s.Reason, s.Err), []string{s.Cluster}, a.Start, end})
		}
	}
	if o.order == nil || a.Cluster == "" {
		return findings
	}
	slot := a.Number - 1
	used := slices.Index(o.order, a.Cluster)
	if used < slot || slot < 0 {
		return append(findings, o.finding(nil, "attempt %d used %q, of %v", a.Number, a.Cluster, o.order))
	}
	if want := o.order[slot:used]; !slices.Equal(skipped, want) {
		findings = append(findings, o.finding(nil, "attempt %d used %s, and passed over %v: want %v", a.Number, a.Cluster, skipped, want))
	}
	return findings
}

// patience is what an RPC may take longer than its times allow on a machine that is
// never late.
const patience = time.Second

// waits judges how long attempts took. Once a server has begun to answer, only the
// RPC's deadline ends it, and so it is with a conversation.
func (c checker) waits(o observation) []finding {
	var findings []finding
	spare := patience + o.late
	if took, limit := o.end.Sub(o.start), rpcDeadline+spare; took > limit {
		findings = append(findings, o.finding(nil, "it took %v: want at most %v", took, limit))
	}
	for _, a := range o.trail.Attempts {
		if o.endless && a.Peer != "" {
			continue
		}
		limit := time.Duration(len(o.members))*connectTimeout + attemptTimeout + spare
		if !a.Committed && a.Duration > limit {
			findings = append(findings, o.finding(nil, "attempt %d took %v: want at most %v", a.Number, a.Duration, limit))
		}
		// A healthy cluster answers soon; what comes before it has its time to connect.
		limit = time.Duration(len(a.Skipped))*connectTimeout + spare
		if o.wasCalm(a.Cluster, a.Start) && a.Duration > limit {
			findings = append(findings, finding{
				fmt.Sprintf("attempt %d took %v, though %s was healthy: want at most %v", a.Number, a.Duration, a.Cluster, limit),
				[]string{a.Cluster}, a.Start, a.Start.Add(a.Duration),
			})
		}
	}
	return findings
}
