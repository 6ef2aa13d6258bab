package fromenvoy

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/grpc/balancer"

	"github.com/grpc-composite/grpc-composite/internal/plan"
)

// Note says of a line what was not carried over, or is not quite the same, and why.
type Note struct {
	Line int
	Text string
}

// Result is a service config, and what has to be said of it.
type Result struct {
	ServiceConfig string // JSON
	Notes         []Note // by line
}

// Convert makes a service config of an Envoy's bootstrap, of cluster and route
// resources, or of an admin /config_dump, in YAML or JSON. If there are several
// composite clusters, name says which one; otherwise it may be empty.
func Convert(data []byte, name string) (*Result, error) {
	roots, err := parse(data)
	if err != nil {
		return nil, err
	}
	d := collect(roots)
	composite, err := d.choose(name)
	if err != nil {
		return nil, err
	}
	c := &converter{dump: d, composite: composite, noted: make(map[Note]bool), defined: make(map[string]int)}
	config := c.convert()
	var text bytes.Buffer
	enc := json.NewEncoder(&text)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(config); err != nil {
		return nil, err
	}
	if err := check(config); err != nil {
		return nil, fmt.Errorf("line %d: the cluster %q makes a config that is refused: %w", composite.line, composite.text("name"), err)
	}
	slices.SortStableFunc(c.notes, func(a, b Note) int { return cmp.Compare(a.Line, b.Line) })
	return &Result{text.String(), c.notes}, nil
}

// check has the policy itself read its config.
func check(config *serviceConfig) error {
	text, err := json.Marshal(config.LoadBalancingConfig[0][policyName])
	if err != nil {
		return err
	}
	parser, ok := balancer.Get(policyName).(balancer.ConfigParser)
	if !ok {
		return errors.New(`the policy "composite" is not registered`)
	}
	_, err = parser.ParseConfig(text)
	return err
}

const policyName = "composite"

// choose returns the composite cluster with a name, or the only one that is not
// inside another.
func (d *dump) choose(name string) (*node, error) {
	inside := make(map[string]bool)
	var names []string
	var found []*node
	for _, c := range d.clusters {
		if !isComposite(c) {
			continue
		}
		found, names = append(found, c), append(names, strconv.Quote(c.text("name")))
		for _, entry := range entries(c) {
			inside[entry.text("name")] = true
		}
		if c.text("name") == name && name != "" {
			return c, nil
		}
	}
	switch {
	case len(found) == 0:
		return nil, fmt.Errorf("there is no composite cluster (%s): %s", compositeName, d.types())
	case name != "":
		return nil, fmt.Errorf("there is no composite cluster %q, only %s", name, strings.Join(names, ", "))
	}
	top := slices.DeleteFunc(slices.Clone(found), func(c *node) bool { return inside[c.text("name")] })
	if len(top) == 1 {
		return top[0], nil
	}
	if len(found) == 1 {
		return found[0], nil
	}
	return nil, fmt.Errorf("there are several composite clusters, %s, and a service config is for one: choose it with --cluster", strings.Join(names, ", "))
}

// maxListed is how many clusters an error lists.
const maxListed = 20

// types lists the clusters with their types.
func (d *dump) types() string {
	if len(d.clusters) == 0 {
		return "there are no clusters at all"
	}
	var texts []string
	for i, c := range d.clusters {
		if i == maxListed {
			texts = append(texts, fmt.Sprintf("and %d more", len(d.clusters)-maxListed))
			break
		}
		texts = append(texts, fmt.Sprintf("%q is %s", c.text("name"), clusterType(c)))
	}
	return strings.Join(texts, ", ")
}

const (
	// maxNotes is how many notes there may be.
	maxNotes = 1000
	// maxPolicies is how many composite clusters are converted: one that several
	// others list is converted for each, and those may be many.
	maxPolicies = 16
)

// converter makes one service config.
type converter struct {
	*dump
	composite  *node
	notes      []Note
	noted      map[Note]bool
	policies   int            // made so far
	health     []health       // of each cluster, in the order of the list
	tryTimeout tryTimeout     // of all routes
	defined    map[string]int // clusters to the line that first lists them
}

// notef adds a note, unless it is there already: a cluster may be in several composite
// ones.
func (c *converter) notef(line int, format string, args ...any) {
	note := Note{line, fmt.Sprintf(format, args...)}
	switch {
	case c.noted[note]:
	case len(c.notes) < maxNotes:
		c.notes, c.noted[note] = append(c.notes, note), true
	case len(c.notes) == maxNotes:
		c.notes = append(c.notes, Note{line, "there is more to say than this, and it is left out"})
	}
}

func (c *converter) convert() *serviceConfig {
	p := c.policy(c.composite, nil)
	config := &serviceConfig{LoadBalancingConfig: []map[string]*policy{{policyName: p}}}
	c.methods(config, p)
	config.HealthCheckConfig = c.healthCheck()
	if c.composite.get("circuit_breakers") == nil {
		c.notef(c.composite.line, "circuit_breakers: left out, so in Envoy max_retries is 3: no retry is made while 3 others are under way. It is not carried over: %s. Nor is max_requests of the clusters that leave it out, which is 1024", unlimitedRetries)
	}
	return config
}

// policy makes a policy of a composite cluster, which is inside these.
func (c *converter) policy(composite *node, inside []string) *policy {
	c.policies++
	p := &policy{NoHost: "FAIL_REQUEST"}
	if c.skip != nil && c.skip.scalar == "false" {
		p.SkipClustersWithoutHosts = new(bool)
	}
	inside = append(slices.Clone(inside), composite.text("name"))
	c.others(composite, compositeFields)
	seen := make(map[string]bool)
	for i, entry := range entries(composite) {
		if i == plan.MaxSlots {
			c.notef(entry.line, "cluster %q and those after it: not carried over: %d is the most", entry.text("name"), plan.MaxSlots)
			break
		}
		name := entry.text("name")
		if seen[name] {
			p.Clusters = append(p.Clusters, &cluster{Name: name})
			continue
		}
		seen[name] = true
		p.Clusters = append(p.Clusters, c.cluster(entry, inside))
	}
	return p
}
