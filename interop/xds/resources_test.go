package xds

import (
	"net"
	"strconv"
	"testing"
	"time"

	cluster "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpoint "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	listener "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	route "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	router "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/router/v3"
	hcm "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/grpc-composite/grpc-composite/internal/testkit"
)

// service is the name that channels ask for, and routeName that of its routes.
const (
	service   = "service.example"
	routeName = "routes"
)

func pack(t testing.TB, m proto.Message) *anypb.Any {
	t.Helper()
	packed, err := anypb.New(m)
	if err != nil {
		t.Fatal(err)
	}
	return packed
}

// newListener is what a gRPC client gets for a service: its HTTP filters, of which
// the router comes last, and the name of its routes.
func newListener(t testing.TB, filters ...*hcm.HttpFilter) *listener.Listener {
	t.Helper()
	filters = append(filters, newFilter(t, "router", &router.Router{}))
	return &listener.Listener{Name: service, ApiListener: &listener.ApiListener{ApiListener: pack(t, &hcm.HttpConnectionManager{
		RouteSpecifier: &hcm.HttpConnectionManager_Rds{Rds: &hcm.Rds{ConfigSource: ads(), RouteConfigName: routeName}},
		HttpFilters:    filters,
	})}}
}

func newFilter(t testing.TB, name string, config proto.Message) *hcm.HttpFilter {
	t.Helper()
	return &hcm.HttpFilter{Name: name, ConfigType: &hcm.HttpFilter_TypedConfig{TypedConfig: pack(t, config)}}
}

// newRoutes sends everything to one cluster, with a retry policy or nil.
func newRoutes(cluster string, retry *route.RetryPolicy) *route.RouteConfiguration {
	return &route.RouteConfiguration{Name: routeName, VirtualHosts: []*route.VirtualHost{{
		Name: "all", Domains: []string{"*"},
		Routes: []*route.Route{newRoute("", cluster, retry)},
	}}}
}

// newRoute is for the paths that begin with prefix.
func newRoute(prefix, cluster string, retry *route.RetryPolicy) *route.Route {
	return &route.Route{
		Match: &route.RouteMatch{PathSpecifier: &route.RouteMatch_Prefix{Prefix: prefix}},
		Action: &route.Route_Route{Route: &route.RouteAction{
			ClusterSpecifier: &route.RouteAction_Cluster{Cluster: cluster},
			RetryPolicy:      retry,
		}},
	}
}

// retry is a retry policy of that many retries, with short back-offs.
func retry(retries uint32, on string) *route.RetryPolicy {
	return &route.RetryPolicy{
		RetryOn: on, NumRetries: wrapperspb.UInt32(retries),
		RetryBackOff: &route.RetryPolicy_RetryBackOff{
			BaseInterval: durationpb.New(time.Millisecond), MaxInterval: durationpb.New(2 * time.Millisecond),
		},
	}
}

// newCluster is a cluster whose endpoints come by EDS.
func newCluster(name string) *cluster.Cluster {
	return &cluster.Cluster{
		Name:                 name,
		ClusterDiscoveryType: &cluster.Cluster_Type{Type: cluster.Cluster_EDS},
		EdsClusterConfig:     &cluster.Cluster_EdsClusterConfig{EdsConfig: ads()},
		ConnectTimeout:       durationpb.New(time.Second),
	}
}

// newEndpoints are the hosts of a cluster, a list for each priority.
func newEndpoints(t testing.TB, name string, priorities ...[]*testkit.Backend) *endpoint.ClusterLoadAssignment {
	t.Helper()
	assignment := &endpoint.ClusterLoadAssignment{ClusterName: name}
	for i, backends := range priorities {
		locality := &endpoint.LocalityLbEndpoints{
			Locality:            &core.Locality{Region: "region", Zone: strconv.Itoa(i)},
			LoadBalancingWeight: wrapperspb.UInt32(1),
			Priority:            uint32(i),
		}
		for _, b := range backends {
			locality.LbEndpoints = append(locality.LbEndpoints, newEndpoint(t, b.Addr))
		}
		assignment.Endpoints = append(assignment.Endpoints, locality)
	}
	return assignment
}

func newEndpoint(t testing.TB, addr string) *endpoint.LbEndpoint {
	t.Helper()
	host, portText, err := net.SplitHostPort(addr)
	if err != nil {
		t.Fatal(err)
	}
	port, err := strconv.ParseUint(portText, 10, 16)
	if err != nil {
		t.Fatal(err)
	}
	return &endpoint.LbEndpoint{
		HostIdentifier: &endpoint.LbEndpoint_Endpoint{Endpoint: &endpoint.Endpoint{Address: &core.Address{Address: &core.Address_SocketAddress{SocketAddress: &core.SocketAddress{
			Address: host, PortSpecifier: &core.SocketAddress_PortValue{PortValue: uint32(port)},
		}}}}},
		LoadBalancingWeight: wrapperspb.UInt32(1),
	}
}
