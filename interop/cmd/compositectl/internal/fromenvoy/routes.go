package fromenvoy

import (
	"strings"
	"time"
)

// Fields of routes and of what they are in that are read, or need no word, as in
// clusterFields.
var (
	routeFields = map[string]string{
		"name": "", "match": "", "route": "", "stat_prefix": "", "metadata": "",
		"request_headers_to_add": "a cluster's metadata is sent with each of its attempts, for all methods",
		"decorator":              "it names Envoy's traces",
		"tracing":                "it is about Envoy's traces",
	}
	actionFields = map[string]string{
		"cluster": "", "weighted_clusters": "", "timeout": "", "retry_policy": "",
		"retry_policy_typed_config": "it is an extension",
		"hedge_policy":              "gRPC-Go has no hedging by config",
		"request_mirror_policies":   "gRPC does not mirror requests",
		"max_stream_duration":       "a timeout of the entry limits all RPCs, streams too, and a client's own deadline holds anyway",
		"max_grpc_timeout":          "a client's own deadline holds anyway",
		"grpc_timeout_offset":       "a client's own deadline holds anyway",
		"idle_timeout":              "gRPC has no limit on the silence of a stream",
		"hash_policy":               "gRPC hashes only what an xDS route tells it to",
		"rate_limits":               "gRPC has no rate limits",
		"host_rewrite_literal":      "a cluster's servers are called in :authority by its target",
		"auto_host_rewrite":         "a cluster's servers are called in :authority by its target",
	}
	tableFields = map[string]string{"name": "", "virtual_hosts": "", "@type": ""}
	hostFields  = map[string]string{
		"name": "", "domains": "", "routes": "", "retry_policy": "",
		"include_request_attempt_count": "gRPC sends grpc-previous-rpc-attempts, and x-envoy-attempt-count if the program sets it",
		"retry_policy_typed_config":     "it is an extension",
		"hedge_policy":                  "gRPC-Go has no hedging by config",
	}
)

// route is a route that leads to the composite cluster.
type route struct {
	*node
	action *node
	retry  *node // the retry policy, or nil
	names  []methodName
}

// methods makes the methodConfig, and the settings of clusters that Envoy has in
// routes.
func (c *converter) methods(config *serviceConfig, p *policy) {
	routes := c.routesTo(c.composite.text("name"))
	if len(routes) == 0 {
		line, where := c.composite.line, ""
		if c.rds != nil {
			line, where = c.rds.line, "; those of RDS are not in it"
		}
		c.notef(line, "the file has no route to %q that a methodConfig can name%s: there is no retry policy, and so no retry", c.composite.text("name"), where)
		return
	}
	c.tryTimeout = c.longestTry(routes)
	p.setAttemptTimeout(c.tryTimeout.time)
	for _, r := range routes {
		m := &methodConfig{Name: r.names}
		c.timeout(r, m)
		if m.RetryPolicy = c.retryPolicy(r); m.RetryPolicy != nil {
			c.previousHosts(r, p)
		}
		config.MethodConfig = append(config.MethodConfig, m)
	}
}

// routesTo returns the routes to a cluster that stand for methods, in order.
func (c *converter) routesTo(name string) []route {
	var found []route
	seen := make(map[methodName]int) // to line
	for _, config := range c.routes {
		leading := len(found)
		for _, host := range config.list("virtual_hosts") {
			taken := newClaims()
			led, full := false, false
			for _, r := range host.list("routes") {
				names, why := methodNames(r.get("match"))
				action := r.get("route")
				leads, split := leadsTo(action, name)
				all := taken.first[methodName{}].line
				switch {
				case leads && all > 0:
					c.notef(r.line, "this route is never reached: the one at line %d takes every request", all)
				case leads && why != "":
					c.notef(r.get("match").at(r.line), "this route is not carried over: %s", why)
				case leads && c.goesElsewhere(r, taken, names):
				case leads && before(seen, names) > 0:
					c.notef(r.line, "this route is not carried over: the one at line %d comes first", before(seen, names))
				case leads:
					led = true
					for _, n := range names {
						seen[n] = r.line
						for what, other := range taken.elsewhere(n) {
							c.notef(r.line, "%s %s in Envoy, by the route at line %d, and to this list here", what, other.goal, other.line)
						}
					}
					if split {
						c.notef(action.get("weighted_clusters").line, "weighted_clusters: not carried over: all RPCs go to %q", name)
					}
					c.others(r, routeFields)
					c.others(action, actionFields)
					found = append(found, route{r, action, retryOf(host, action), names})
				}
				to := ""
				if !leads {
					to = goal(action)
				}
				for _, n := range names {
					taken.add(n, r.line, to)
				}
				if why != "" && !taken.addPart(r.get("match"), r.line, to) && !full {
					full = true
					c.notef(r.line, "this route, and those after it whose requests a methodConfig cannot name, are not compared with others: there are more than %d", maxParts)
				}
			}
			if led {
				c.others(host, hostFields)
			}
		}
		if len(found) > leading {
			c.others(config, tableFields)
			c.filters(config)
		}
	}
	return found
}

// goesElsewhere notes a route whose requests another route takes before, and not to the
// composite cluster.
func (c *converter) goesElsewhere(r *node, taken *claims, names []methodName) bool {
	for _, n := range names {
		if first, ok := taken.covering(n); ok && first.goal != "" {
			c.notef(r.line, "this route is never reached: the one at line %d takes its requests %s", first.line, first.goal)
			return true
		}
	}
	return false
}

// filters notes the HTTP filters that requests to a table of routes go through.
func (c *converter) filters(table *node) {
	noted := make(map[string]bool) // a /config_dump has each manager twice
	for _, m := range c.managers {
		if c.tables[m.get("route_config")] != table && (m.get("rds") == nil || m.text("rds", "route_config_name") != table.text("name")) {
			continue
		}
		for _, f := range m.list("http_filters") {
			name, kind := f.text("name"), f.kind()
			if noted[name] || kind == "envoy.filters.http.router" || strings.HasSuffix(kind, "router.v3.Router") {
				continue
			}
			noted[name] = true
			c.notef(f.line, "http_filters %s: not carried over: no proxy is in the way any more; what is still needed is an interceptor's or the server's to do", shown(name))
		}
	}
}

// retryOf returns the retry policy of a route: its own, or that of its virtual host.
func retryOf(host, action *node) *node {
	if own := action.get("retry_policy"); own != nil {
		return own
	}
	return host.get("retry_policy")
}

// leadsTo tells whether a route leads to a cluster, and whether to others as well.
func leadsTo(action *node, cluster string) (leads, split bool) {
	if action.text("cluster") == cluster {
		return true, false
	}
	for _, w := range action.list("weighted_clusters", "clusters") {
		if w.text("name") == cluster {
			return true, len(action.list("weighted_clusters", "clusters")) > 1
		}
	}
	return false, false
}

// before returns the line of a route before that takes what one with these names
// would, or 0.
func before(seen map[methodName]int, names []methodName) int {
	for _, n := range names {
		for _, earlier := range n.wider() {
			if line := seen[earlier]; line > 0 {
				return line
			}
		}
	}
	return 0
}

// methodNames returns what a match means for gRPC, or why it means nothing.
func methodNames(match *node) (names []methodName, why string) {
	for _, f := range match.all() {
		switch f.name {
		case "prefix", "path", "path_separated_prefix", "grpc", "case_sensitive":
		default:
			return nil, "a methodConfig tells methods apart by their names alone, and not by " + shown(f.name)
		}
	}
	if match.get("prefix") != nil {
		prefix := match.text("prefix")
		if prefix == "/" || prefix == "" {
			return []methodName{{}}, ""
		}
		if service, ok := strings.CutSuffix(strings.TrimPrefix(prefix, "/"), "/"); ok && prefix[0] == '/' && !strings.Contains(service, "/") {
			return []methodName{{Service: service}}, ""
		}
		return nil, "a methodConfig names a whole service or one method, and not what begins with " + shown(prefix)
	}
	if match.get("path_separated_prefix") != nil {
		service := strings.TrimPrefix(match.text("path_separated_prefix"), "/")
		if service != "" && !strings.Contains(service, "/") {
			return []methodName{{Service: service}}, ""
		}
	}
	path := strings.TrimPrefix(match.text("path"), "/")
	service, method, ok := strings.Cut(path, "/")
	if !ok || service == "" || method == "" || strings.Contains(method, "/") {
		return nil, "its match is no method of a service"
	}
	return []methodName{{service, method}}, ""
}

// envoyTimeout is a route's timeout if it has none.
const envoyTimeout = 15 * time.Second

func (c *converter) timeout(r route, m *methodConfig) {
	n := r.action.get("timeout")
	if n == nil {
		m.Timeout = seconds(envoyTimeout)
		c.notef(r.action.line, "timeout: left out, so in Envoy it is 15s, which is carried over; it limits streams, too")
		return
	}
	switch d, ok := n.duration(); {
	case !ok || d < 0:
		c.notef(n.line, "timeout: not carried over: %s is not a duration", shown(n.scalar))
	case d > 0: // 0 is no limit
		m.Timeout = seconds(d)
	}
}
