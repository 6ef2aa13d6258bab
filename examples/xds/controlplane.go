package main

import (
	"context"
	"maps"
	"net"
	"slices"
	"strconv"

	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/envoyproxy/go-control-plane/pkg/cache/types"
	"github.com/envoyproxy/go-control-plane/pkg/cache/v3"
	"github.com/envoyproxy/go-control-plane/pkg/resource/v3"
	"github.com/envoyproxy/go-control-plane/pkg/server/v3"
	"google.golang.org/grpc"

	"github.com/grpc-composite/grpc-composite/examples/internal/demo"
)

// controlPlane is go-control-plane's server, with resources for one node.
type controlPlane struct {
	addr    string
	cache   cache.SnapshotCache
	grpc    *grpc.Server
	served  chan struct{} // closed when grpc has come to its end
	cancel  context.CancelFunc
	version int

	// What is served. After a change call publish.
	retries uint32                  // of the route
	servers map[string]*demo.Server // of each cluster
}

func startControlPlane(ctx context.Context, servers map[string]*demo.Server) (*controlPlane, error) {
	lis, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	p := &controlPlane{
		addr: lis.Addr().String(), cache: cache.NewSnapshotCache(false, cache.IDHash{}, nil),
		grpc: grpc.NewServer(), served: make(chan struct{}), cancel: cancel,
		retries: 2, servers: maps.Clone(servers),
	}
	discovery.RegisterAggregatedDiscoveryServiceServer(p.grpc, server.NewServer(ctx, p.cache, nil))
	go func() {
		defer close(p.served)
		_ = p.grpc.Serve(lis) // its errors are seen by the client
	}()
	if err := p.publish(); err != nil {
		p.stop()
		return nil, err
	}
	return p, nil
}

// stop ends the control plane. One that has stopped may be stopped again.
func (p *controlPlane) stop() {
	p.cancel()
	p.grpc.Stop()
	<-p.served
}

// publish serves what there is now.
func (p *controlPlane) publish() error {
	listener, err := newListener()
	if err != nil {
		return err
	}
	names := slices.Sorted(maps.Keys(p.servers))
	var clusters, endpoints []types.Resource
	for _, name := range names {
		hosts, err := newEndpoints(name, p.servers[name].Addr)
		if err != nil {
			return err
		}
		clusters, endpoints = append(clusters, newCluster(name)), append(endpoints, hosts)
	}
	p.version++
	snapshot, err := cache.NewSnapshot(strconv.Itoa(p.version), map[resource.Type][]types.Resource{
		resource.ListenerType: {listener},
		resource.RouteType:    {newRoutes(p.retries)},
		resource.ClusterType:  clusters,
		resource.EndpointType: endpoints,
	})
	if err != nil {
		return err
	}
	return p.cache.SetSnapshot(context.Background(), node, snapshot)
}
