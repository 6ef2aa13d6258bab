// Package xds tests composite channels whose clusters come from a control plane:
// go-control-plane's server, over loopback, with which gRPC's own xDS client talks.
package xds

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"github.com/envoyproxy/go-control-plane/pkg/cache/types"
	"github.com/envoyproxy/go-control-plane/pkg/cache/v3"
	"github.com/envoyproxy/go-control-plane/pkg/resource/v3"
	"github.com/envoyproxy/go-control-plane/pkg/server/v3"

	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc"

	"github.com/grpc-composite/grpc-composite/internal/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// nodeID is what gRPC clients call themselves.
const nodeID = "grpc"

// controlPlane is a control plane with one set of resources for each node. Its
// methods are safe for concurrent use.
type controlPlane struct {
	addr string

	mu      sync.Mutex
	server  *grpc.Server
	cache   cache.SnapshotCache
	cancel  context.CancelFunc
	nacks   []string
	names   map[string]bool // that clients have asked for
	version int64
	nodes   map[string]*resources
}

// resources are what a node is served.
type resources struct {
	listeners, routes, clusters, endpoints map[string]types.Resource
}

func startControlPlane(t testing.TB) *controlPlane {
	t.Helper()
	p := &controlPlane{addr: "127.0.0.1:0", nodes: make(map[string]*resources), names: make(map[string]bool), version: time.Now().UnixNano()}
	p.start(t)
	t.Cleanup(p.stop)
	return p
}

// start begins to serve, with the resources that there are and no memory of earlier
// streams, as a process that was started anew.
func (p *controlPlane) start(t testing.TB) {
	t.Helper()
	var lis net.Listener
	testkit.Eventually(t, "the control plane listens on "+p.addr, func() bool {
		var err error
		lis, err = net.Listen("tcp", p.addr)
		return err == nil
	})
	ctx, cancel := context.WithCancel(context.Background())
	p.mu.Lock()
	defer p.mu.Unlock()
	p.addr, p.cancel = lis.Addr().String(), cancel
	p.cache = cache.NewSnapshotCache(false, cache.IDHash{}, nil)
	p.server = grpc.NewServer()
	discovery.RegisterAggregatedDiscoveryServiceServer(p.server, server.NewServer(ctx, p.cache, server.CallbackFuncs{
		StreamRequestFunc: func(_ int64, req *discovery.DiscoveryRequest) error { return p.note(req) },
	}))
	for node := range p.nodes {
		p.publishLocked(t, node)
	}
	serving := p.server
	go func() { _ = serving.Serve(lis) }()
}

func (p *controlPlane) stop() {
	p.mu.Lock()
	serving, cancel := p.server, p.cancel
	p.mu.Unlock()
	cancel()
	serving.Stop()
}

// note makes the server pause when a client rejects something: the cache sends it
// again at once, and the client rejects it again.
func (p *controlPlane) note(req *discovery.DiscoveryRequest) error {
	p.mu.Lock()
	for _, name := range req.GetResourceNames() {
		p.names[name] = true
	}
	p.mu.Unlock()
	if req.GetErrorDetail() == nil {
		return nil
	}
	p.mu.Lock()
	p.nacks = append(p.nacks, req.GetErrorDetail().GetMessage())
	p.mu.Unlock()
	time.Sleep(50 * time.Millisecond)
	return nil
}

// asked tells whether a client has asked for a resource of that name.
func (p *controlPlane) asked(name string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.names[name]
}

// rejections are what clients said about resources that they rejected.
func (p *controlPlane) rejections() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]string(nil), p.nacks...)
}

// awaitRejection waits until a client has rejected a resource with words that contain
// want: RPCs may notice before the control plane is told.
func (p *controlPlane) awaitRejection(t testing.TB, want string) {
	t.Helper()
	testkit.Eventually(t, "a resource is rejected: "+want, func() bool {
		return slices.ContainsFunc(p.rejections(), func(text string) bool { return strings.Contains(text, want) })
	})
}

// update changes what a node is served.
func (p *controlPlane) update(t testing.TB, node string, change func(r *resources)) {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	r := p.nodes[node]
	if r == nil {
		r = &resources{make(map[string]types.Resource), make(map[string]types.Resource), make(map[string]types.Resource), make(map[string]types.Resource)}
		p.nodes[node] = r
	}
	change(r)
	p.publishLocked(t, node)
}

func (p *controlPlane) publishLocked(t testing.TB, node string) {
	t.Helper()
	r := p.nodes[node]
	p.version++
	snapshot, err := cache.NewSnapshot(fmt.Sprint(p.version), map[resource.Type][]types.Resource{
		resource.ListenerType: values(r.listeners),
		resource.RouteType:    values(r.routes),
		resource.ClusterType:  values(r.clusters),
		resource.EndpointType: values(r.endpoints),
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cache.SetSnapshot(context.Background(), node, snapshot); err != nil {
		t.Fatal(err)
	}
}

func values(m map[string]types.Resource) []types.Resource {
	list := make([]types.Resource, 0, len(m))
	for _, r := range m {
		list = append(list, r)
	}
	return list
}

// put adds resources or replaces those of the same names.
func (r *resources) put(all ...types.Resource) {
	for _, one := range all {
		into := map[string]map[string]types.Resource{
			resource.ListenerType: r.listeners,
			resource.RouteType:    r.routes,
			resource.ClusterType:  r.clusters,
			resource.EndpointType: r.endpoints,
		}
		into[resource.APITypePrefix+string(one.ProtoReflect().Descriptor().FullName())][cache.GetResourceName(one)] = one
	}
}

// bootstrap is the bootstrap config of clients. Providers are its certificate
// providers, or nil.
func (p *controlPlane) bootstrap(t testing.TB, providers map[string]any) []byte {
	t.Helper()
	text, err := json.Marshal(map[string]any{
		"xds_servers": []any{map[string]any{
			"server_uri":      p.addr,
			"channel_creds":   []any{map[string]any{"type": "insecure"}},
			"server_features": []any{"xds_v3"},
		}},
		"node":                  map[string]any{"id": nodeID},
		"certificate_providers": providers,
	})
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// ads is the one source of everything.
func ads() *core.ConfigSource {
	return &core.ConfigSource{
		ResourceApiVersion:    core.ApiVersion_V3,
		ConfigSourceSpecifier: &core.ConfigSource_Ads{Ads: &core.AggregatedConfigSource{}},
	}
}
