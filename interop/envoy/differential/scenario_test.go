package differential

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"google.golang.org/grpc/codes"

	"github.com/grpc-composite/grpc-composite/internal/testkit"
)

// scenario is a list of clusters, a retry policy, and calls that are made one
// after another. Clusters are called by letters.
type scenario struct {
	id        int
	list      []string
	nested    map[string][]string // lists of the clusters that are composite themselves
	hosts     map[string]int      // of the others, before the first call
	attempts  int                 // in all, the first included
	retryable []codes.Code
	skip      bool // clusters without hosts
	calls     []call
	form      form
}

// call is an RPC.
type call struct {
	kind    kind
	slow    bool           // a stream from the client waits before it sends
	large   bool           // what it sends does not fit into a stream's window
	hosts   map[string]int // that change before it
	replies map[string][]reply
}

// reply is what a server does. Past the end of a call's list for a cluster the
// last one repeats.
type reply struct {
	code    codes.Code
	headers bool // come before the code
	hang    bool
}

func (r reply) String() string {
	switch {
	case r.hang:
		return "HANG"
	case r.headers:
		return "HEADERS+" + codeName(r.code)
	default:
		return codeName(r.code)
	}
}

func (r reply) kit() testkit.Reply {
	return testkit.Reply{Code: r.code, Message: "scripted", Headers: r.headers, Hang: r.hang}
}

// kind is how a call sends and receives.
type kind int

const (
	unary kind = iota
	serverStream
	clientStream
	bidi
)

func (k kind) String() string {
	return [...]string{"unary", "server stream", "client stream", "bidi"}[k]
}

// form is how a scenario is written in a config of ours. All forms mean the same.
type form struct {
	pickFirst bool // as child policy
	lazy      bool
	grouped   bool // adjacent repeats by the field "attempts"
	ownList   bool // the config has each cluster once, and each RPC its own list
	tagged    bool // endpoints come from the channel's resolver
}

// words are what is not as usual.
func (f form) words() []string {
	var words []string
	for _, w := range []struct {
		is   bool
		word string
	}{{f.pickFirst, "pick_first"}, {f.lazy, "lazy"}, {f.grouped, "attempts"}, {f.ownList, "WithClusters"}, {f.tagged, "clusterattr"}} {
		if w.is {
			words = append(words, w.word)
		}
	}
	return words
}

func (f form) String() string {
	if f == (form{}) {
		return "plain"
	}
	return strings.Join(f.words(), ", ")
}

// hangs tells whether time matters.
func (s scenario) hangs() bool {
	for _, c := range s.calls {
		for _, list := range c.replies {
			if slices.ContainsFunc(list, func(r reply) bool { return r.hang }) {
				return true
			}
		}
	}
	return false
}

// changes tells whether hosts come or go.
func (s scenario) changes() bool {
	return slices.ContainsFunc(s.calls, func(c call) bool { return len(c.hosts) > 0 })
}

// names are the clusters that have hosts or might, in order.
func (s scenario) names() []string { return slices.Sorted(maps.Keys(s.hosts)) }

// retries tells whether there is a retry policy.
func (s scenario) retries() bool { return s.attempts > 1 && len(s.retryable) > 0 }

// size is what reduction makes smaller.
func (s scenario) size() int {
	size := 10*len(s.list) + 3*s.attempts + 2*len(s.retryable)
	for _, list := range s.nested {
		size += 10 * len(list)
	}
	for _, n := range s.hosts {
		size += n
	}
	for _, c := range s.calls {
		size += 50 + 5*len(c.hosts) + int(c.kind)
		if c.slow {
			size++
		}
		if c.large {
			size++
		}
		for _, list := range c.replies {
			for _, r := range list {
				size += 2
				if r != (reply{}) {
					size++
				}
				if r.headers || r.hang {
					size++
				}
			}
		}
	}
	return size + len(s.form.words())
}

func (s scenario) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "scenario %d: [%s]", s.id, strings.Join(s.list, " "))
	for _, name := range slices.Sorted(maps.Keys(s.nested)) {
		fmt.Fprintf(&b, ", %s = [%s]", name, strings.Join(s.nested[name], " "))
	}
	fmt.Fprintf(&b, ", %d attempts, retried: %s, clusters without hosts are skipped: %t\n", s.attempts, codeNames(s.retryable), s.skip)
	fmt.Fprintf(&b, "  hosts: %s; ours is written: %s\n", hostsText(s.hosts), s.form)
	return b.String()
}

func (c call) String() string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(c.replies)) {
		parts = append(parts, fmt.Sprintf("%s: %v", name, c.replies[name]))
	}
	text := fmt.Sprintf("%v, replies %s", c.kind, strings.Join(parts, "; "))
	if c.slow {
		text = "slow " + text
	}
	if c.large {
		text = "large " + text
	}
	if len(c.hosts) > 0 {
		text = "hosts now " + hostsText(c.hosts) + "; " + text
	}
	return text
}

func hostsText(hosts map[string]int) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(hosts)) {
		parts = append(parts, fmt.Sprintf("%s %d", name, hosts[name]))
	}
	return strings.Join(parts, ", ")
}

// codeName is the name that service configs have for a code.
func codeName(c codes.Code) string { return codeWords[c] }

func codeNames(list []codes.Code) string {
	if len(list) == 0 {
		return "nothing"
	}
	var names []string
	for _, c := range list {
		names = append(names, codeName(c))
	}
	return strings.Join(names, " ")
}

var codeWords = [...]string{
	"OK", "CANCELLED", "UNKNOWN", "INVALID_ARGUMENT", "DEADLINE_EXCEEDED", "NOT_FOUND", "ALREADY_EXISTS",
	"PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION", "ABORTED", "OUT_OF_RANGE",
	"UNIMPLEMENTED", "INTERNAL", "UNAVAILABLE", "DATA_LOSS", "UNAUTHENTICATED",
}
