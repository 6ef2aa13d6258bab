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

// clusters finds what is wrong with the clusters of a policy, whatever the retry
// policy is.
func (l *linter) clusters(r root, depth int) {
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
		cluster := &r.config.clusters[r.config.index[entry.GetName()]]
		path := fmt.Sprintf("%s.clusters[%d]", r.Path, i)
		l.proxied(path+".target", cluster)
		for _, p := range childComposites(entry.GetChildPolicy(), path+".childPolicy") {
			cfg, unknown, err := parseConfig(p.Config)
			if err != nil {
				continue // and the policy around it, which is accepted, does not read it
			}
			l.unknown(p.Path, unknown)
			inner := root{p, cfg}
			l.clusters(inner, depth+1)
			l.counted(r.config, cluster.name, inner)
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

// counted finds slots of a cluster at which the composite policy inside it has none:
// the attempt's number is the same in both, and it starts there by it.
func (l *linter) counted(outer *lbConfig, cluster string, inner root) {
	index, n := outer.index[cluster], inner.config.slots.Len()
	if _, ok := inner.config.slots.Start(plan.MaxSlots + 1); ok || inner.config.nextCluster {
		return // every attempt has a slot, or those that have used none here
	}
	for slot := n; slot < outer.slots.Len(); slot++ {
		if outer.slots.Cluster(slot) != index {
			continue
		}
		l.warnf(inner.Path+".clusters", fmt.Sprintf("list clusters for attempt %d too, or set overflow to USE_LAST_CLUSTER inside", slot+1),
			"attempt %d comes to the cluster %q as attempt %d and not as its first, and the policy inside has %s: it has no host for it", slot+1, cluster, slot+1, plural(n, "slot", "slots"))
		return
	}
}

func plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}
