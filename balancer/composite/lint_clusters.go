package composite

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"

	"google.golang.org/protobuf/types/known/structpb"

	"github.com/grpc-composite/grpc-composite/internal/configjson"
	"github.com/grpc-composite/grpc-composite/internal/plan"
	"github.com/grpc-composite/grpc-composite/internal/svcconfig"
	pb "github.com/grpc-composite/grpc-composite/proto/composite/v1"
)

// maxNested is how many composite policies deep, one in a cluster of another, they are
// looked into.
const maxNested = 4

// attemptsOf returns the numbers of the attempts that an RPC may have: as many as there
// are slots, or as a retry policy makes, if that makes more.
func attemptsOf(config *svcconfig.Config, cfg *lbConfig) []int {
	most := cfg.slots.Len()
	for _, m := range config.Methods() {
		if m.Retries() {
			most = max(most, m.RetryPolicy.MaxAttempts)
		}
	}
	var numbers []int
	for n := range min(most, plan.MaxSlots) {
		numbers = append(numbers, n+1)
	}
	return numbers
}

// clusters finds what is wrong with the clusters of a policy that these attempts may
// come to.
func (l *linter) clusters(r root, attempts []int, depth int) {
	var msg pb.LoadBalancingConfig
	if _, err := configjson.Unmarshal(r.Config, &msg); err != nil || depth == maxNested {
		return
	}
	seen := make(map[string]bool)
	for i, entry := range msg.GetClusters() {
		if seen[entry.GetName()] {
			continue // it repeats another, whose settings it has
		}
		seen[entry.GetName()] = true
		index := r.config.index[entry.GetName()]
		cluster := &r.config.clusters[index]
		path := fmt.Sprintf("%s.clusters[%d]", r.Path, i)
		l.hopeless(path+".target", cluster)
		l.proxied(path+".target", cluster)
		for _, p := range childComposites(entry.GetChildPolicy(), path+".childPolicy") {
			cfg, unknown, err := parseConfig(p.Config)
			if err != nil {
				continue // and the policy around it, which is accepted, does not read it
			}
			l.unknown(p.Path, unknown)
			inner := root{p, cfg}
			l.clusters(inner, r.config.reaching(index, attempts), depth+1)
			l.counted(r.config, cluster.name, inner, attempts)
		}
	}
}

// childComposites returns the composite policies in use in a cluster.
func childComposites(list []*structpb.Struct, path string) []svcconfig.Policy {
	if len(list) == 0 {
		return nil
	}
	policies := make([]any, len(list))
	for i, p := range list {
		policies[i] = p.AsMap()
	}
	text, err := json.Marshal(policies)
	if err != nil {
		return nil
	}
	used, problem := svcconfig.Choose(text, path)
	if problem != nil {
		return nil
	}
	return svcconfig.Find(used, Name)
}

// proxied finds a cluster that the environment's proxy does not hold for: gRPC-Go
// asks for one for the channel's own target only.
func (l *linter) proxied(path string, c *clusterConfig) {
	if c.target == nil {
		return
	}
	switch c.target.Parsed.URL.Scheme {
	case "dns", "passthrough":
	default:
		return
	}
	address := c.target.Parsed.Endpoint()
	proxy, err := l.proxy(&http.Request{URL: &url.URL{Scheme: "https", Host: address}})
	if err != nil || proxy == nil {
		return
	}
	l.warnf(path, "see that the host can be reached without the proxy, or leave the cluster's target out, so that the channel's own target is used",
		"the environment (HTTPS_PROXY) has the proxy %s for %q, but gRPC-Go uses one for the channel's own target alone: the cluster connects directly", proxy.Redacted(), address)
}

// reaching returns those of the attempts that may come to a cluster.
func (c *lbConfig) reaching(cluster int, attempts []int) (reaching []int) {
	for _, n := range attempts {
		slot, end := c.slots.Reach(n, c.nextCluster)
		for slot < end && c.slots.Cluster(slot) != cluster {
			slot++
		}
		if slot < end {
			reaching = append(reaching, n)
		}
	}
	return reaching
}

// counted finds an attempt that starts at a cluster and for which the composite policy
// inside that has no slot: the attempt's number is the same in both.
func (l *linter) counted(outer *lbConfig, cluster string, inner root, attempts []int) {
	index, n := outer.index[cluster], inner.config.slots.Len()
	if _, ok := inner.config.slots.Start(plan.MaxSlots + 1); ok || inner.config.nextCluster {
		return // every attempt has a slot, or those that have used none here
	}
	for _, a := range attempts {
		slot, ok := outer.slots.Start(a)
		if !ok || a <= n || outer.slots.Cluster(slot) != index {
			continue
		}
		l.warnf(inner.Path+".clusters", fmt.Sprintf("list clusters for attempt %d too, or set overflow to USE_LAST_CLUSTER inside", a),
			"attempt %d comes to the cluster %q as attempt %d and not as its first, and the policy inside has %s: it has no host for it", a, cluster, a, plural(n, "slot", "slots"))
		return
	}
}

func plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}
