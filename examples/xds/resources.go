package main

import (
	"fmt"
	"net/netip"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpoint "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	listener "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	route "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	router "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/router/v3"
	hcm "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

const (
	node      = "example"         // what the client calls itself
	service   = "service.example" // what it asks for
	routeName = "routes"
	primary   = "primary" // the cluster that the route names
)

// newListener is what the client asks for first.
func newListener() (*listener.Listener, error) {
	filter, err := anypb.New(&router.Router{})
	if err != nil {
		return nil, err
	}
	manager, err := anypb.New(&hcm.HttpConnectionManager{
		RouteSpecifier: &hcm.HttpConnectionManager_Rds{Rds: &hcm.Rds{ConfigSource: ads(), RouteConfigName: routeName}},
		HttpFilters:    []*hcm.HttpFilter{{Name: "router", ConfigType: &hcm.HttpFilter_TypedConfig{TypedConfig: filter}}},
	})
	if err != nil {
		return nil, err
	}
	return &listener.Listener{Name: service, ApiListener: &listener.ApiListener{ApiListener: manager}}, nil
}

// newRoutes has one route, for all methods. It must name a cluster that exists,
// though the client's target has the list that is used. Its retry policy is the one
// that holds: one retry less than there are clusters, on a status code of gRPC's.
func newRoutes(retries uint32) *route.RouteConfiguration {
	return &route.RouteConfiguration{Name: routeName, VirtualHosts: []*route.VirtualHost{{
		Name: "all", Domains: []string{"*"},
		Routes: []*route.Route{{
			Match: &route.RouteMatch{PathSpecifier: &route.RouteMatch_Prefix{}},
			Action: &route.Route_Route{Route: &route.RouteAction{
				ClusterSpecifier: &route.RouteAction_Cluster{Cluster: primary},
				RetryPolicy: &route.RetryPolicy{
					RetryOn: "unavailable", NumRetries: wrapperspb.UInt32(retries),
					RetryBackOff: &route.RetryPolicy_RetryBackOff{BaseInterval: durationpb.New(time.Millisecond), MaxInterval: durationpb.New(10 * time.Millisecond)},
				},
			}},
		}},
	}}}
}

// newCluster is a cluster whose endpoints are served by the control plane, too.
func newCluster(name string) *clusterv3.Cluster {
	return &clusterv3.Cluster{
		Name:                 name,
		ClusterDiscoveryType: &clusterv3.Cluster_Type{Type: clusterv3.Cluster_EDS},
		EdsClusterConfig:     &clusterv3.Cluster_EdsClusterConfig{EdsConfig: ads()},
	}
}

// newEndpoints is one host for a cluster.
func newEndpoints(cluster, addr string) (*endpoint.ClusterLoadAssignment, error) {
	host, err := netip.ParseAddrPort(addr)
	if err != nil {
		return nil, fmt.Errorf("the address of a server: %w", err)
	}
	return &endpoint.ClusterLoadAssignment{ClusterName: cluster, Endpoints: []*endpoint.LocalityLbEndpoints{{
		Locality:            &core.Locality{Region: "here"},
		LoadBalancingWeight: wrapperspb.UInt32(1),
		LbEndpoints: []*endpoint.LbEndpoint{{HostIdentifier: &endpoint.LbEndpoint_Endpoint{Endpoint: &endpoint.Endpoint{
			Address: &core.Address{Address: &core.Address_SocketAddress{SocketAddress: &core.SocketAddress{
				Address:       host.Addr().String(),
				PortSpecifier: &core.SocketAddress_PortValue{PortValue: uint32(host.Port())},
			}}},
		}}}},
	}}}, nil
}

// ads tells the client to ask for it where it asks for everything.
func ads() *core.ConfigSource {
	return &core.ConfigSource{
		ResourceApiVersion:    core.ApiVersion_V3,
		ConfigSourceSpecifier: &core.ConfigSource_Ads{Ads: &core.AggregatedConfigSource{}},
	}
}
