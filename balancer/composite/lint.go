package composite

import (
	"errors"
	"fmt"
	"hash/maphash"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/balancer"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/grpc-composite/grpc-composite/internal/configjson"
	"github.com/grpc-composite/grpc-composite/internal/plan"
	"github.com/grpc-composite/grpc-composite/internal/svcconfig"
)

// Severity tells how bad a [Finding] is.
type Severity uint8

const (
	// Warning is the severity of what works, but hardly as it was meant.
	Warning Severity = iota + 1
	// Error is the severity of what gRPC-Go refuses, and of what cannot do what
	// the list of clusters is for: no retry ever comes to some of them, or what is
	// there to lead to the next one ends the RPC instead.
	Error
)

// String returns "warning" or "error".
func (s Severity) String() string {
	if s == Error {
		return "error"
	}
	return "warning"
}

// MarshalText returns what String does, for JSON.
func (s Severity) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// Finding is something in a service config that a person should look at.
type Finding struct {
	Severity Severity `json:"severity"`
	Path     string   `json:"path"`    // such as "methodConfig[0].timeout"; empty for the config itself
	Problem  string   `json:"problem"` // what is wrong, and what will happen
	Remedy   string   `json:"remedy"`  // what to do about it
}

// String returns the finding on one line.
func (f Finding) String() string {
	parts := []string{f.Severity.String(), f.Path, f.Problem}
	parts = slices.DeleteFunc(parts, func(s string) bool { return s == "" })
	return strings.Join(parts, ": ") + "; " + f.Remedy
}

// Lint reads a service config, in JSON, and finds what gRPC-Go or the policy refuses,
// what they ignore, and what they accept although it cannot do what it is for: a
// retry policy with fewer attempts than there are slots, say. Findings are in the
// order of the config, and nil if there are none. There are at most 1,000, and none
// after the first MiB of their text, but for a last one that says how many more there
// are.
//
// It judges by what the program has registered: policies, and resolvers of clusters'
// targets. It takes the channel to have [DialOptions], and so up to 64 attempts, and
// retries to be made by the config's retry policy. It reads the proxy variables of
// the environment (HTTPS_PROXY, NO_PROXY), since a cluster with a target of its own
// does not use them. It connects to nothing, and may be called at any time and by
// any number of goroutines.
func Lint(serviceConfigJSON string) []Finding {
	l := linter{proxy: http.ProxyFromEnvironment}
	l.lint(serviceConfigJSON)
	return l.findings
}

const (
	// maxFindings is how many findings there are at most, besides the one that says
	// how many more there would be.
	maxFindings = 1000
	// maxText is after how many bytes of them there are no more: a finding may list
	// many names, and there is one for each entry of methodConfig.
	maxText = 1 << 20
)

// linter collects the findings of one service config.
type linter struct {
	proxy    func(*http.Request) (*url.URL, error)
	findings []Finding       // each once
	text     int             // how long they are, in bytes
	seen     map[uint64]bool // hashes of all, those that are left out included
	seed     maphash.Seed    // of the hashes
	more     int             // how many are left out
	worst    Severity        // of those
	refused  bool            // some finding is that gRPC-Go refuses the config
	nested   nested
}

func (l *linter) add(severity Severity, path, problem, remedy string) {
	f := Finding{Severity: severity, Path: path, Problem: problem, Remedy: remedy}
	if l.seen == nil {
		l.seen, l.seed = make(map[uint64]bool), maphash.MakeSeed()
	}
	hash := maphash.Comparable(l.seed, f)
	if l.seen[hash] {
		return // it is found once for each composite policy, say
	}
	l.seen[hash] = true
	if len(l.findings) == maxFindings || l.text >= maxText {
		l.more, l.worst = l.more+1, max(l.worst, severity)
		return
	}
	l.text += len(path) + len(problem) + len(remedy)
	l.findings = append(l.findings, f)
}

// tellMore adds the finding that there are more of them.
func (l *linter) tellMore() {
	if l.more > 0 {
		problem := plural(l.more, "finding is", "findings are") + " left out"
		l.findings = append(l.findings, Finding{Severity: l.worst, Problem: problem, Remedy: "see to those above first"})
	}
}

func (l *linter) errorf(path, remedy, format string, args ...any) {
	l.add(Error, path, fmt.Sprintf(format, args...), remedy)
}

func (l *linter) warnf(path, remedy, format string, args ...any) {
	l.add(Warning, path, fmt.Sprintf(format, args...), remedy)
}

// refuse adds a finding that has gRPC-Go refuse the whole config.
func (l *linter) refuse(path, problem string) {
	l.refused = true
	l.add(Error, path, problem, "correct it: gRPC-Go refuses the whole service config")
}

func (l *linter) lint(text string) {
	defer l.tellMore()
	if svcconfig.Deeper(text, svcconfig.MaxDepth) {
		l.errorf("", "nest fewer policies", "it has more than %d objects and lists in one another, and is not looked into", svcconfig.MaxDepth)
		return
	}
	config, problems, err := svcconfig.Parse(text)
	if err != nil {
		l.refuse("", "must be valid JSON: "+err.Error())
		return
	}
	for _, p := range problems.Refused {
		l.refuse(p.Path, p.Text)
	}
	l.ignored(problems)
	if l.refused {
		return
	}
	roots := l.roots(config)
	if !l.refused {
		if err := acceptedByGRPC(text); err != nil {
			l.refuse("", strings.TrimPrefix(err.Error(), "grpc: the provided default service config is invalid: "))
		}
	}
	if l.refused {
		return
	}
	for _, root := range roots {
		l.clusters(root, attemptsOf(config, root.config), 0)
		l.ended(config, root)
		l.attempts(config, root.config)
	}
}

// maxRoots is how many composite policies, inside no other one, are looked into: each
// is compared with every entry of methodConfig.
const maxRoots = 16

// root is a composite policy that is in use.
type root struct {
	svcconfig.Policy
	config *lbConfig
}

// roots returns the composite policies that are in use and inside no other one, and
// finds what is wrong with the choice of policies.
func (l *linter) roots(config *svcconfig.Config) []root {
	const remedy = `list {"composite": {...}} first in loadBalancingConfig`
	if config.LoadBalancingConfig == nil {
		if p := config.LoadBalancingPolicy; p != nil && *p == Name {
			l.refuse("loadBalancingPolicy", `"composite": must be in loadBalancingConfig instead, since the policy needs a config`)
			return nil
		}
		l.warnf("loadBalancingConfig", remedy, `the policy "composite" is not in use: there is no list of policies`)
		return nil
	}
	used, problem := svcconfig.Choose(*config.LoadBalancingConfig, "loadBalancingConfig")
	if problem != nil {
		l.refuse(problem.Path, problem.Text)
		return nil
	}
	if used.Name != Name {
		if parser, ok := balancer.Get(used.Name).(balancer.ConfigParser); ok {
			if _, err := parser.ParseConfig(used.Config); err != nil {
				l.refuse(used.Path, configjson.Cause(err, used.Config).Error())
				return nil
			}
		}
	}
	policies := svcconfig.Find(used, Name)
	if len(policies) == 0 {
		l.warnf(used.Path, remedy, `the policy "composite" is not in use: the first policy of the list that is registered is %q`, used.Name)
	}
	if more := len(policies) - maxRoots; more > 0 {
		l.warnf(used.Path, "look at the others in a config of their own", `it has %d policies "composite", and %d are not looked into`, len(policies), more)
		policies = policies[:maxRoots]
	}
	var roots []root
	for _, p := range policies {
		cfg, unknown, err := parseConfig(p.Config)
		switch {
		case err != nil && used.Name == Name:
			l.refuse(fieldOf(p.Path, err))
			continue
		case err != nil: // and the policy around it has accepted it
			path, problem := fieldOf(p.Path, err)
			l.warnf(path, "correct it, or remove it", "%s; but the policy %q around it does not read it, and it is not in use", problem, used.Name)
			continue
		}
		l.unknown(p.Path, unknown)
		roots = append(roots, root{p, cfg})
	}
	return roots
}

// fieldOf returns what an error of a composite policy's config is about, and what is
// wrong with it.
func fieldOf(path string, err error) (field, problem string) {
	var config *configError
	if !errors.As(err, &config) {
		return path, err.Error()
	}
	e := *config.field
	if e.Path != "" {
		path += "." + e.Path
	}
	e.Path = ""
	return path, e.Error()
}

// acceptedByGRPC has gRPC itself read the config. It is the last word: what it
// refuses for reasons of its own is not missed.
func acceptedByGRPC(text string) error {
	cc, err := grpc.NewClient("passthrough:///lint",
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultServiceConfig(text),
		grpc.WithMaxCallAttempts(plan.MaxSlots))
	if err != nil {
		return err
	}
	return cc.Close()
}
