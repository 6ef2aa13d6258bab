package composite

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"google.golang.org/grpc/balancer/weightedtarget"

	"github.com/grpc-composite/grpc-composite/internal/testkit"
)

// treeServers are the servers of a tree.
var treeServers = []string{"s0", "s1", "s2", "s3"}

// treeCluster is a cluster of a tree. The tree itself is one, of which its list alone
// counts.
type treeCluster struct {
	name           string
	lazy           bool
	connectTimeout string
	guards         map[string]any // fields of the cluster's config that hold attempts back

	// A leaf has a stub policy, and one server.
	leaf, server string

	// Any other has a composite policy, which may be below one of another kind.
	clusters []*treeCluster
	below    bool
	more     map[string]any // fields of the composite policy's config
}

// cluster is the cluster's entry in a config.
func (c *treeCluster) cluster() testkit.Cluster {
	more := map[string]any{"connectTimeout": c.connectTimeout, "lazy": c.lazy}
	for k, v := range c.guards {
		more[k] = v
	}
	name, config, at := c.leaf, any(treeLeafConfig{Server: c.server}), c.server
	if c.leaf == "" {
		name, config, at = Name, c.service().Policy(), c.name
	}
	policy := []any{map[string]any{name: config}}
	if c.below {
		policy = []any{map[string]any{weightedtarget.Name: map[string]any{
			"targets": map[string]any{"one": map[string]any{"weight": 1, "childPolicy": policy}},
		}}}
	}
	more["childPolicy"] = policy
	return testkit.Cluster{Name: c.name, Target: "passthrough:///" + at, More: more}
}

// service is the config of the composite policy.
func (c *treeCluster) service() testkit.Service {
	s := testkit.Service{More: c.more}
	for _, inner := range c.clusters {
		s.Clusters = append(s.Clusters, inner.cluster())
	}
	return s
}

// String is the cluster in a line, such as "n1 lazy 1s below[n2 0s tree_ring_hash(s3)]".
func (c *treeCluster) String() string {
	s := c.name
	if c.lazy {
		s += " lazy"
	}
	if c.connectTimeout != "" {
		s += " " + c.connectTimeout
	}
	for _, fields := range []map[string]any{c.guards, c.more} {
		if len(fields) > 0 {
			text, _ := json.Marshal(fields)
			s += " " + string(text)
		}
	}
	if c.leaf != "" {
		return fmt.Sprintf("%s %s(%s)", s, c.leaf, c.server)
	}
	var clusters []string
	for _, inner := range c.clusters {
		clusters = append(clusters, inner.String())
	}
	kind := " inside["
	if c.below {
		kind = " below["
	}
	return s + kind + strings.Join(clusters, ", ") + "]"
}

// order is the servers that an attempt may come to, in order.
func (c *treeCluster) order(number int) []string {
	if c.leaf != "" {
		return []string{c.server}
	}
	var servers []string
	for _, inner := range c.clusters[min(number-1, len(c.clusters)):] {
		servers = append(servers, inner.order(number)...)
	}
	return servers
}

// treeKind is what a tree may have.
type treeKind struct {
	hanging bool // servers that do not answer a connection attempt, and short timeouts for it
	guarded bool // clusters that hold attempts back
	below   bool // policies of another kind between composite ones
}

// treeGenerator makes a tree and changes of it.
type treeGenerator struct {
	r     *rand.Rand
	kind  treeKind
	names int // of clusters, so far
}

func newTreeGenerator(r *rand.Rand) treeGenerator {
	kinds := []treeKind{
		{below: true}, {below: true}, {below: true}, {},
		{hanging: true, below: true}, {hanging: true},
		{guarded: true, below: true}, {guarded: true},
		{hanging: true, guarded: true, below: true}, {hanging: true, guarded: true, below: true},
	}
	return treeGenerator{r: r, kind: oneOf(r, kinds)}
}

// oneOf is a random one of them.
func oneOf[T any](r *rand.Rand, values []T) T { return values[r.IntN(len(values))] }

// tree makes a tree.
func (g *treeGenerator) tree() *treeCluster {
	return &treeCluster{name: "the tree", clusters: g.clusters(2, false)}
}

func (g *treeGenerator) name() string {
	g.names++
	return fmt.Sprint("n", g.names)
}

// server is the state of a server.
func (g *treeGenerator) server() treeServer {
	if g.kind.hanging {
		return oneOf(g.r, []treeServer{treeUp, treeDown, treeHangs})
	}
	return oneOf(g.r, []treeServer{treeUp, treeDown})
}

func (g *treeGenerator) connectTimeout() string {
	if g.kind.hanging {
		return oneOf(g.r, []string{"0s", "0.1s", "1s", "2s"})
	}
	return "2s"
}

// clusters makes a list of clusters that has so many levels of others inside, and is
// below a policy of another kind or not.
func (g *treeGenerator) clusters(levels int, below bool) []*treeCluster {
	var clusters []*treeCluster
	for range 1 + g.r.IntN(3) {
		clusters = append(clusters, g.cluster(levels, below))
	}
	return clusters
}

func (g *treeGenerator) cluster(levels int, below bool) *treeCluster {
	c := &treeCluster{name: g.name(), lazy: g.r.IntN(2) == 0, connectTimeout: g.connectTimeout()}
	switch n := g.r.IntN(10); {
	case levels == 0 || n < 5:
		g.makeLeaf(c, below)
	default:
		c.below = g.kind.below && n < 8
		c.clusters = g.clusters(levels-1, below || c.below)
	}
	g.guard(c)
	return c
}

// makeLeaf gives a cluster a server and a policy. Below a policy that has nobody pick
// from an IDLE child there is none that connects only then.
func (g *treeGenerator) makeLeaf(c *treeCluster, below bool) {
	policies := treeLeaves
	if below {
		policies = slices.DeleteFunc(slices.Clone(policies), func(name string) bool { return name == treeRingHash })
	}
	c.leaf, c.server = oneOf(g.r, policies), oneOf(g.r, treeServers)
}

// guard gives a cluster settings that hold attempts back, and its composite policy some
// that change where they go.
func (g *treeGenerator) guard(c *treeCluster) {
	if !g.kind.guarded {
		return
	}
	c.guards = make(map[string]any)
	set := func(oneIn int, field string, value any) {
		if g.r.IntN(oneIn) == 0 {
			c.guards[field] = value
		}
	}
	set(3, "maxRequests", 1+g.r.IntN(2))
	set(4, "cooldown", map[string]any{"consecutiveFailures": 1 + g.r.IntN(2), "time": "5s", "maxTime": "20s"})
	set(4, "failbackDelay", oneOf(g.r, []string{"0.5s", "10s"}))
	set(4, "attemptTimeout", "100s")
	set(5, "avoidPreviousHosts", 1)
	if c.leaf == "" {
		c.more = oneOf(g.r, []map[string]any{
			nil, nil,
			{"progression": "NEXT_CLUSTER"}, {"overflow": "USE_LAST_CLUSTER"}, {"noHost": "FAIL_REQUEST"},
		})
	}
}

// change returns a copy of a cluster in which something may be another, in those inside
// it too. The cluster is below a policy of another kind or not.
func (g *treeGenerator) change(old *treeCluster, below bool) *treeCluster {
	c := *old
	switch g.r.IntN(8) {
	case 0:
		c.lazy = !c.lazy
		g.guard(&c)
	case 1:
		if c.leaf != "" {
			c.name = g.name()
			g.makeLeaf(&c, below)
		}
	case 2:
		c.connectTimeout = g.connectTimeout()
	case 3:
		if c.leaf != "" {
			c.server = oneOf(g.r, treeServers)
		}
	}
	c.clusters = slices.Clone(old.clusters)
	for i, inner := range c.clusters {
		if g.r.IntN(3) == 0 {
			c.clusters[i] = g.change(inner, below || c.below)
		}
	}
	if c.leaf == "" {
		g.changeList(&c, below || c.below)
	}
	return &c
}

// changeList changes which clusters there are, or their order.
func (g *treeGenerator) changeList(c *treeCluster, below bool) {
	switch g.r.IntN(8) {
	case 0:
		g.r.Shuffle(len(c.clusters), func(i, j int) { c.clusters[i], c.clusters[j] = c.clusters[j], c.clusters[i] })
	case 1:
		if len(c.clusters) < 4 {
			c.clusters = append(c.clusters, g.cluster(1, below))
		}
	case 2:
		if len(c.clusters) > 1 {
			c.clusters = c.clusters[1:]
		}
	}
}
