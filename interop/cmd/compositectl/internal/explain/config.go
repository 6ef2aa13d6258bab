// Package explain shows what becomes of an RPC under a service config.
package explain

import (
	"encoding/json"
	"fmt"
	"time"

	"google.golang.org/grpc/balancer"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/grpc-composite/grpc-composite/internal/configjson"
	"github.com/grpc-composite/grpc-composite/internal/plan"
	"github.com/grpc-composite/grpc-composite/internal/svcconfig"
	pb "github.com/grpc-composite/grpc-composite/proto/composite/v1"
)

const (
	name                  = "composite"
	defaultConnectTimeout = time.Second
)

// policy is a composite policy.
type policy struct {
	path        string
	clusters    []cluster // each name once
	slots       *plan.Slots
	failRequest bool
	nextCluster bool
	overflow    pb.LoadBalancingConfig_Overflow
}

type cluster struct {
	name, target   string
	connectTimeout time.Duration
	attemptTimeout time.Duration // 0: none
	inside         []*policy     // the composite policies in use inside it
	direct         bool          // RPCs may come to its hosts by none of these
	about          []string      // what else to say of it
}

// read reads a service config.
func read(text string) (*svcconfig.Config, []*policy, error) {
	if svcconfig.Deeper(text, svcconfig.MaxDepth) {
		return nil, nil, fmt.Errorf("it has more than %d objects and lists in one another, and is not looked into", svcconfig.MaxDepth)
	}
	config, problems, err := svcconfig.Parse(text)
	if err != nil {
		return nil, nil, fmt.Errorf("must be valid JSON: %w", err)
	}
	if len(problems.Refused) > 0 {
		return nil, nil, refused(problems.Refused[0])
	}
	if config.LoadBalancingConfig == nil {
		return nil, nil, fmt.Errorf("there is no loadBalancingConfig, so the policy %q is not in use", name)
	}
	used, problem := svcconfig.Choose(*config.LoadBalancingConfig, "loadBalancingConfig")
	if problem != nil {
		return nil, nil, refused(*problem)
	}
	if err := check(used); err != nil {
		return nil, nil, err
	}
	policies, err := composites(used)
	if err != nil {
		return nil, nil, err
	}
	if len(policies) == 0 {
		return nil, nil, fmt.Errorf("the policy in use is %q and not %q", used.Name, name)
	}
	return config, policies, nil
}

func refused(p svcconfig.Problem) error {
	if p.Path == "" {
		return fmt.Errorf("gRPC-Go refuses the service config: %s", p.Text)
	}
	return fmt.Errorf("gRPC-Go refuses the service config: %s: %s", p.Path, p.Text)
}

// check has the policy itself read its config.
func check(p svcconfig.Policy) error {
	parser, ok := balancer.Get(p.Name).(balancer.ConfigParser)
	if !ok {
		return nil
	}
	if _, err := parser.ParseConfig(p.Config); err != nil {
		return refused(svcconfig.Problem{Path: p.Path, Text: configjson.Cause(err, p.Config).Error()})
	}
	return nil
}

// readPolicy reads the config of a policy composite.
func readPolicy(from svcconfig.Policy) (*policy, error) {
	var msg pb.LoadBalancingConfig
	if _, err := configjson.Unmarshal(from.Config, &msg); err != nil {
		return nil, fmt.Errorf("%s: %w", from.Path, err)
	}
	p := &policy{
		path:        from.Path,
		failRequest: msg.GetNoHost() == pb.LoadBalancingConfig_FAIL_REQUEST,
		nextCluster: msg.GetProgression() == pb.LoadBalancingConfig_NEXT_CLUSTER,
		overflow:    msg.GetOverflow(),
	}
	index := make(map[string]int)
	var entries []plan.Entry
	for _, c := range msg.GetClusters() {
		if _, ok := index[c.GetName()]; !ok {
			cluster, err := readCluster(c)
			if err != nil {
				return nil, err
			}
			index[c.GetName()] = len(p.clusters)
			p.clusters = append(p.clusters, cluster)
		}
		attempts := 1
		if c.Attempts != nil {
			attempts = int(c.GetAttempts())
		}
		entries = append(entries, plan.Entry{Cluster: index[c.GetName()], Attempts: attempts})
	}
	overflow := map[pb.LoadBalancingConfig_Overflow]plan.Overflow{
		pb.LoadBalancingConfig_USE_LAST_CLUSTER: plan.UseLastCluster,
		pb.LoadBalancingConfig_ROUND_ROBIN:      plan.RoundRobin,
	}[msg.GetOverflow()]
	p.slots = plan.NewSlots(entries, overflow, msg.SkipClustersWithoutHosts == nil || msg.GetSkipClustersWithoutHosts())
	return p, nil
}

func readCluster(c *pb.Cluster) (cluster, error) {
	out := cluster{name: c.GetName(), target: c.GetTarget(), connectTimeout: defaultConnectTimeout}
	if d := c.GetConnectTimeout(); d != nil {
		out.connectTimeout = max(0, d.AsDuration())
	}
	if d := c.GetAttemptTimeout(); d != nil {
		out.attemptTimeout = max(0, d.AsDuration())
	}
	if c.GetLazy() {
		out.about = append(out.about, "lazy")
	}
	if n := c.GetMaxRequests(); n > 0 {
		out.about = append(out.about, fmt.Sprintf("at most %d requests", n))
	}
	if n := c.GetCooldown().GetConsecutiveFailures(); n > 0 {
		out.about = append(out.about, fmt.Sprintf("rests after %d failures in a row", n))
	}
	p, ok := childPolicy(c.GetChildPolicy())
	if !ok {
		out.direct = true
		return out, nil
	}
	if p.Name != "round_robin" {
		out.about = append(out.about, p.Name)
	}
	var err error
	out.inside, err = composites(p)
	out.direct = len(out.inside) == 0 || svcconfig.Beside(p, name)
	return out, err
}

// composites returns the composite policies in use down from a policy whose config is
// accepted, but not those inside them.
func composites(in svcconfig.Policy) ([]*policy, error) {
	var policies []*policy
	for _, found := range svcconfig.Find(in, name) {
		if in.Name != name && check(found) != nil {
			continue // and the policy around it is content: it does not read this
		}
		p, err := readPolicy(found)
		if err != nil {
			return nil, err
		}
		policies = append(policies, p)
	}
	return policies, nil
}

// childPolicy returns the policy of a list that is used.
func childPolicy(list []*structpb.Struct) (svcconfig.Policy, bool) {
	entries := make([]any, len(list))
	for i, entry := range list {
		entries[i] = entry.AsMap()
	}
	text, err := json.Marshal(entries)
	if err != nil {
		return svcconfig.Policy{}, false
	}
	used, problem := svcconfig.Choose(text, "")
	return used, problem == nil
}
