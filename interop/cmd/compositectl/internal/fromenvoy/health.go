package fromenvoy

// health is how a cluster's hosts are checked.
type health struct {
	line    int
	grpc    bool
	service string
}

// noteHealth reads the health checks of a cluster.
func (c *converter) noteHealth(cluster *node) {
	h := health{line: cluster.get("health_checks").at(cluster.line)}
	for _, check := range cluster.list("health_checks") {
		if g := check.get("grpc_health_check"); g != nil {
			h.grpc, h.service = true, g.text("service_name")
			c.notef(g.line, "grpc_health_check: Envoy asks at intervals; gRPC watches, so interval, timeout and thresholds are not carried over")
			continue
		}
		c.notef(check.line, "health_checks: not carried over: gRPC-Go has grpc_health_check alone")
	}
	c.health = append(c.health, h)
}

// healthCheck returns the health check of the whole channel, if that of all clusters
// is the same.
func (c *converter) healthCheck() *healthCheckConfig {
	var first *health
	same := true
	for i := range c.health {
		h := &c.health[i]
		if first == nil && h.grpc {
			first = h
		}
		same = same && h.grpc && (first == nil || h.service == first.service)
	}
	switch {
	case first == nil:
		return nil
	case !same:
		c.notef(first.line, "grpc_health_check: not carried over: healthCheckConfig holds for all clusters, and they do not have the same check")
		return nil
	default:
		c.notef(first.line, "grpc_health_check: carried over as healthCheckConfig, for programs that import google.golang.org/grpc/health")
		return &healthCheckConfig{first.service}
	}
}
