package fromenvoy

import (
	"cmp"
	"crypto/sha256"
	"strings"
)

const (
	compositeName = "envoy.clusters.composite"
	compositeType = "envoy.extensions.clusters.composite.v3.ClusterConfig"
	skipFlag      = "composite_cluster_skip_clusters_without_hosts"
)

// maxManagers is of how many HTTP connection managers filters are looked at.
const maxManagers = 1000

// dump is what a configuration has of interest, wherever it stands: in a bootstrap's
// static_resources, in the resources of a discovery response, in an admin /config_dump,
// or alone.
type dump struct {
	clusters []*node // each name once
	byName   map[string]*node
	routes   []*node           // route configurations, each once
	tables   map[*node]*node   // all route configurations to those in routes that they equal
	contents map[content]*node // routes by what they are known by
	managers []*node           // HTTP connection managers
	skip     *node             // the runtime flag, or nil
	rds      *node             // the first name of a route configuration that is elsewhere
}

func collect(roots []*node) *dump {
	d := &dump{byName: make(map[string]*node), tables: make(map[*node]*node), contents: make(map[content]*node)}
	for _, root := range roots {
		d.walk(root, "")
	}
	return d
}

// walk looks for clusters and routes in a value of the field with a name.
func (d *dump) walk(n *node, name string) {
	if n == nil {
		return
	}
	for _, item := range n.items {
		d.walk(item, name)
	}
	if isCluster(n, name) {
		if d.byName[n.text("name")] == nil {
			d.byName[n.text("name")] = n
			d.clusters = append(d.clusters, n)
		}
		return
	}
	if hosts := n.get("virtual_hosts"); hosts != nil {
		// A /config_dump has a static table in the bootstrap, in a listener and
		// among the routes.
		key := content{n.text("name"), hosts.digest()}
		if d.contents[key] == nil {
			d.contents[key] = n
			d.routes = append(d.routes, n)
		}
		d.tables[n] = d.contents[key]
	}
	if n.get("http_filters") != nil && len(d.managers) < maxManagers {
		d.managers = append(d.managers, n)
	}
	for _, f := range n.fields {
		if strings.HasSuffix(f.name, skipFlag) {
			d.skip = f.value
		}
		if f.name == "route_config_name" && d.rds == nil {
			d.rds = f.value
		}
		if f.name != "virtual_hosts" { // which the table of routes is read for
			d.walk(f.value, f.name)
		}
	}
}

// content is what a route configuration is known by.
type content struct {
	name   string
	digest [sha256.Size]byte // of its virtual hosts
}

// isCluster tells whether a value of the field with a name is a cluster, and not
// just names one.
func isCluster(n *node, name string) bool {
	if n.text("name") == "" {
		return false
	}
	if strings.HasSuffix(n.typeName(), "cluster.v3.Cluster") {
		return true
	}
	if name != "clusters" && name != "cluster" && name != "" && name != "resources" {
		return false
	}
	for _, f := range []string{"type", "cluster_type", "lb_policy", "load_assignment", "eds_cluster_config", "connect_timeout"} {
		if n.get(f) != nil {
			return true
		}
	}
	return false
}

// isComposite tells whether a cluster is a composite one.
func isComposite(cluster *node) bool {
	kind := cluster.get("cluster_type").kind()
	return kind == compositeName || kind == compositeType
}

// clusterType returns the type of a cluster, as an Envoy's config has it.
func clusterType(cluster *node) string {
	return cmp.Or(cluster.get("cluster_type").kind(), cluster.text("type"), "STATIC")
}

// entries returns the sub-clusters that a composite cluster lists.
func entries(composite *node) []*node {
	return composite.list("cluster_type", "typed_config", "clusters")
}
