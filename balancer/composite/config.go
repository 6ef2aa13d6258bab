package composite

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc/balancer"
	"google.golang.org/grpc/balancer/roundrobin"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/serviceconfig"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/grpc-composite/grpc-composite/internal/attempt"
	"github.com/grpc-composite/grpc-composite/internal/breaker"
	"github.com/grpc-composite/grpc-composite/internal/clustertarget"
	"github.com/grpc-composite/grpc-composite/internal/configjson"
	"github.com/grpc-composite/grpc-composite/internal/inspect"
	"github.com/grpc-composite/grpc-composite/internal/plan"
	"github.com/grpc-composite/grpc-composite/internal/svcconfig"
	pb "github.com/grpc-composite/grpc-composite/proto/composite/v1"
)

const (
	defaultConnectTimeout = time.Second
	maxNameLength         = 256 // bytes
)

// lbConfig is the parsed config. It is immutable.
type lbConfig struct {
	serviceconfig.LoadBalancingConfig `json:"-"`

	clusters        []clusterConfig // each name once, in the order of the list
	slots           *plan.Slots     // over the indexes of clusters
	failRequest     bool            // NoHost is FAIL_REQUEST
	nextCluster     bool            // Progression is NEXT_CLUSTER
	noteHosts       bool            // some cluster avoids previous hosts
	attemptTimeouts bool            // some cluster has one
	names           []string        // all, those of composite policies inside included
	index           map[string]int  // name to index in clusters
	text            string          // the JSON, by which a config is known to be unchanged
}

// MarshalJSON returns the config as it was written: gRPC's xDS policies write the
// configs of those below them, to parse them again.
func (c *lbConfig) MarshalJSON() ([]byte, error) { return []byte(c.text), nil }

// ownNames returns the names of the clusters.
func (c *lbConfig) ownNames() []string {
	names := make([]string, len(c.clusters))
	for i, cluster := range c.clusters {
		names[i] = cluster.name
	}
	return names
}

// allNames returns the names of all clusters, those of a composite policy inside
// another included.
func (c *lbConfig) allNames() []string {
	var names []string
	for _, cluster := range c.clusters {
		names = append(names, cluster.name)
		if inner, ok := cluster.child.config.(*lbConfig); ok {
			names = append(names, inner.names...)
		} else if strings.Contains(cluster.child.text, Name) {
			names = append(names, namesBelow(cluster.child.policy())...)
		}
	}
	return names
}

// namesBelow returns the names of clusters of composite policies below another one,
// whose config is its own business.
func namesBelow(p svcconfig.Policy) (names []string) {
	for _, inner := range svcconfig.Inside(p, Name) {
		var config struct{ Clusters []struct{ Name string } }
		if err := json.Unmarshal(inner.Config, &config); err != nil {
			continue // its policy says so, or does not care
		}
		for _, c := range config.Clusters {
			names = append(names, c.Name)
		}
		names = append(names, namesBelow(inner)...)
	}
	return names
}

// clusterConfig is the config of one cluster.
type clusterConfig struct {
	name           string
	target         *clustertarget.Target // nil: the channel's own resolver
	child          childConfig
	connectTimeout time.Duration
	lazy           bool
	metadata       metadata.MD // nil if there is none

	attemptTimeout     *attempt.Limit // nil: none
	maxRequests        int64          // 0: no limit
	avoidPreviousHosts int
	cooldown           *breaker.Config // nil: none
	failbackDelay      time.Duration
}

// guarded tells whether a pick from the cluster has more to do than to ask its
// child.
func (c *clusterConfig) guarded() bool {
	return c.attemptTimeout != nil || c.maxRequests > 0 || c.avoidPreviousHosts > 0 || c.cooldown != nil
}

// childConfig is a policy and its config.
type childConfig struct {
	builder balancer.Builder
	config  serviceconfig.LoadBalancingConfig
	// text is the config's JSON, by which one config is known to be equal to
	// another.
	text string
}

// policy is the same for those who look into configs.
func (c childConfig) policy() svcconfig.Policy {
	return svcconfig.Policy{Name: c.builder.Name(), Config: json.RawMessage(c.text)}
}

func (c childConfig) equal(other childConfig) bool {
	return c.builder.Name() == other.builder.Name() && c.text == other.text
}

// parseConfig checks these rules, in this order:
//   - there are at most 100 objects and lists in one another;
//   - the JSON is an object whose known fields have values of their types;
//     unknown fields are returned by path;
//   - clusters has at least one entry;
//   - each name has 1 to 256 bytes;
//   - attempts is at least 1, and all together make at most 64 slots;
//   - an entry that repeats a name has no settings but name and attempts;
//   - a target is a URI whose scheme has a resolver, and not xds, composite or
//     composite-xds, without white space around it;
//   - a child policy list names a registered policy with a valid config;
//   - connectTimeout and failbackDelay are not negative, attemptTimeout is
//     positive;
//   - maxRequests is at least 1, avoidPreviousHosts at most 64;
//   - cooldown has consecutiveFailures, codes that are failures, a positive time,
//     and a maxTime that is not shorter;
//   - metadata has keys and values that gRPC lets a program send.
func parseConfig(data json.RawMessage) (cfg *lbConfig, unknown []string, err error) {
	if svcconfig.Deeper(string(data), svcconfig.MaxDepth) {
		return nil, nil, fieldError("config", "", fmt.Sprintf("must have at most %d objects and lists in one another", svcconfig.MaxDepth))
	}
	var msg pb.LoadBalancingConfig
	unknown, err = configjson.Unmarshal(data, &msg)
	if err != nil {
		return nil, nil, prefixed(err)
	}
	if len(msg.GetClusters()) == 0 {
		return nil, nil, fieldError("clusters", "", "must list at least one cluster")
	}
	cfg = &lbConfig{text: string(data), failRequest: msg.GetNoHost() == pb.LoadBalancingConfig_FAIL_REQUEST}
	entries, err := cfg.addClusters(msg.GetClusters())
	if err != nil {
		return nil, nil, err
	}
	cfg.names = cfg.allNames()
	cfg.nextCluster = msg.GetProgression() == pb.LoadBalancingConfig_NEXT_CLUSTER
	for _, c := range cfg.clusters {
		cfg.noteHosts = cfg.noteHosts || c.avoidPreviousHosts > 0
		cfg.attemptTimeouts = cfg.attemptTimeouts || c.attemptTimeout != nil
	}
	overflow := plan.Fail
	switch msg.GetOverflow() {
	case pb.LoadBalancingConfig_USE_LAST_CLUSTER:
		overflow = plan.UseLastCluster
	case pb.LoadBalancingConfig_ROUND_ROBIN:
		overflow = plan.RoundRobin
	default: // FAIL, or left out
	}
	skip := msg.SkipClustersWithoutHosts == nil || msg.GetSkipClustersWithoutHosts()
	cfg.slots = plan.NewSlots(entries, overflow, skip)
	return cfg, unknown, nil
}

// addClusters reads the list of clusters and returns its entries as slots want
// them.
func (c *lbConfig) addClusters(list []*pb.Cluster) ([]plan.Entry, error) {
	var entries []plan.Entry
	slots := uint64(0)
	first := make(map[string]int) // name to index in list
	c.index = make(map[string]int)
	for i, msg := range list {
		path := fmt.Sprintf("clusters[%d]", i)
		name := msg.GetName()
		if name == "" {
			return nil, fieldError(path+".name", `""`, "must not be empty")
		}
		if len(name) > maxNameLength {
			return nil, fieldError(path+".name", strconv.Quote(name), fmt.Sprintf("must be at most %d bytes long, and has %d", maxNameLength, len(name)))
		}
		attempts := uint32(1)
		if msg.Attempts != nil {
			attempts = msg.GetAttempts()
		}
		if attempts == 0 {
			return nil, fieldError(path+".attempts", "0", "must be at least 1")
		}
		if slots += uint64(attempts); slots > plan.MaxSlots {
			return nil, fieldError(path+".attempts", fmt.Sprint(attempts), fmt.Sprintf("must add up to at most %d with the attempts of the entries before, and makes %d", plan.MaxSlots, slots))
		}
		if _, ok := c.index[name]; ok {
			if field := ownSetting(msg); field != "" {
				return nil, fieldError(path+"."+field, "", fmt.Sprintf("must be left out, since clusters[%d] defines %q and an entry that repeats it carries only name and attempts", first[name], name))
			}
		} else {
			cluster, err := newClusterConfig(msg, path)
			if err != nil {
				return nil, err
			}
			first[name], c.index[name] = i, len(c.clusters)
			c.clusters = append(c.clusters, cluster)
		}
		entries = append(entries, plan.Entry{Cluster: c.index[name], Attempts: int(attempts)})
	}
	return entries, nil
}

// ownSetting returns the name of a setting that an entry has besides those that
// a repeated one may have, or "".
func ownSetting(msg *pb.Cluster) string {
	m := msg.ProtoReflect()
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		switch field := fields.Get(i); {
		case field.Name() == "name", field.Name() == "attempts":
		case m.Has(field):
			return field.JSONName()
		}
	}
	return ""
}

func newClusterConfig(msg *pb.Cluster, path string) (clusterConfig, error) {
	c := clusterConfig{name: msg.GetName(), connectTimeout: defaultConnectTimeout, lazy: msg.GetLazy()}
	if text := msg.GetTarget(); text != "" {
		target, err := clustertarget.Parse(text)
		if err != nil {
			return c, &configError{&configjson.Error{Path: path + ".target", Value: inspect.WithoutUserInfo(strconv.Quote(text)), Err: err}}
		}
		c.target = target
	}
	child, err := newChildConfig(msg.GetChildPolicy(), path+".childPolicy")
	if err != nil {
		return c, err
	}
	c.child = child
	if err := c.setDurations(msg, path); err != nil {
		return c, err
	}
	if c.maxRequests = int64(msg.GetMaxRequests()); msg.MaxRequests != nil && c.maxRequests == 0 {
		return c, fieldError(path+".maxRequests", "0", "must be at least 1; leave it out for no limit")
	}
	if c.avoidPreviousHosts = int(msg.GetAvoidPreviousHosts()); c.avoidPreviousHosts > plan.MaxSlots {
		return c, fieldError(path+".avoidPreviousHosts", fmt.Sprint(c.avoidPreviousHosts), fmt.Sprintf("must be at most %d", plan.MaxSlots))
	}
	if c.cooldown, err = parseCooldown(msg.GetCooldown(), path+".cooldown"); err != nil {
		return c, err
	}
	c.metadata, err = parseMetadata(msg.GetMetadata(), path+".metadata")
	return c, err
}

// setDurations reads the fields that are durations.
func (c *clusterConfig) setDurations(msg *pb.Cluster, path string) error {
	if d := msg.GetConnectTimeout(); d != nil {
		if c.connectTimeout = d.AsDuration(); c.connectTimeout < 0 {
			return fieldError(path+".connectTimeout", protojson.Format(d), "must not be negative")
		}
	}
	if d := msg.GetAttemptTimeout(); d != nil {
		after := d.AsDuration()
		if after <= 0 {
			return fieldError(path+".attemptTimeout", protojson.Format(d), "must be positive")
		}
		c.attemptTimeout = &attempt.Limit{After: after, Cluster: c.name}
	}
	if d := msg.GetFailbackDelay(); d != nil {
		if c.failbackDelay = d.AsDuration(); c.failbackDelay < 0 {
			return fieldError(path+".failbackDelay", protojson.Format(d), "must not be negative")
		}
	}
	return nil
}

// newChildConfig picks the first policy of the list that is registered and
// parses its config.
func newChildConfig(list []*structpb.Struct, path string) (childConfig, error) {
	if len(list) == 0 {
		return childConfig{builder: balancer.Get(roundrobin.Name)}, nil
	}
	asked := make([]string, 0, len(list))
	for i, item := range list {
		at := fmt.Sprintf("%s[%d]", path, i)
		if n := len(item.GetFields()); n != 1 {
			return childConfig{}, fieldError(at, "", fmt.Sprintf("must have one key, the name of a policy, and has %d", n))
		}
		for name, value := range item.GetFields() {
			asked = append(asked, configjson.Quote(name))
			builder := balancer.Get(name)
			if builder == nil {
				continue
			}
			child := childConfig{builder: builder}
			parser, ok := builder.(balancer.ConfigParser)
			if !ok {
				return child, nil
			}
			text, err := json.Marshal(value.AsInterface())
			if err != nil {
				return child, &configError{&configjson.Error{Path: at, Want: "must be valid JSON", Err: err}}
			}
			child.text = string(text)
			child.config, err = parser.ParseConfig(text)
			if err != nil {
				if name != Name {
					err = configjson.Cause(err, text)
				}
				return child, &configError{&configjson.Error{Path: at, Want: fmt.Sprintf("must be a valid config for %q", name), Err: err}}
			}
			return child, nil
		}
	}
	return childConfig{}, fieldError(path, "", "must name a policy that is registered, and none of these is: "+configjson.List(asked))
}

// configError is an error in the config. It unwraps to what a child policy or
// resolver said.
type configError struct{ field *configjson.Error }

func (e *configError) Error() string { return "composite: " + e.field.Error() }

func (e *configError) Unwrap() error { return e.field.Err }

func fieldError(path, value, want string) error {
	return &configError{&configjson.Error{Path: path, Value: value, Want: want}}
}

func prefixed(err error) error {
	var field *configjson.Error
	if errors.As(err, &field) {
		return &configError{field}
	}
	return fmt.Errorf("composite: %w", err)
}
