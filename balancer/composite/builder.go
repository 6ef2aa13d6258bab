package composite

import (
	"encoding/json"
	"time"

	"google.golang.org/grpc/balancer"
	"google.golang.org/grpc/grpclog"
	"google.golang.org/grpc/serviceconfig"

	_ "google.golang.org/grpc/balancer/roundrobin" // the default child policy

	"github.com/grpc-composite/grpc-composite/internal/configjson"
	"github.com/grpc-composite/grpc-composite/internal/inspect"
	_ "github.com/grpc-composite/grpc-composite/resolver/composite" // the scheme "composite"
)

// Name is the name of the policy in a service config.
const Name = "composite"

var logger = grpclog.Component("composite")

func init() { balancer.Register(builder{}) }

type builder struct{}

func (builder) Name() string { return Name }

func (builder) Build(cc balancer.ClientConn, opts balancer.BuildOptions) balancer.Balancer {
	b := &compositeBalancer{cc: cc, channel: cc, opts: opts, created: time.Now()}
	if b.outer = outerOf(cc); b.outer != nil {
		b.channel = b.outer.cluster.parent.channel
		b.outer.nest(b)
	} else {
		b.recorder = recorderOf(cc)
		inspect.Add(b)
	}
	return b
}

// ParseConfig parses the policy's config, whose schema is the message
// composite.v1.LoadBalancingConfig.
func (builder) ParseConfig(data json.RawMessage) (serviceconfig.LoadBalancingConfig, error) {
	cfg, unknown, err := parseConfig(data)
	if err != nil {
		return nil, err
	}
	if len(unknown) > 0 {
		logger.Warningf("ignoring fields of the config that this version does not know: %s", configjson.List(unknown))
	}
	return cfg, nil
}
