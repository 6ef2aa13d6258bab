package xds

import (
	"net"
	"strconv"
	"testing"

	cluster "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listener "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	router "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/router/v3"
	hcm "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	upstream "github.com/envoyproxy/go-control-plane/envoy/extensions/upstreams/http/v3"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/grpc-composite/grpc-composite/interop/envoy"
)

// envoyID is what Envoy calls itself.
const envoyID = "envoy"

// startEnvoy starts an Envoy that has everything from the control plane.
func startEnvoy(t testing.TB, m *mesh) *envoy.Envoy {
	t.Helper()
	host, portText, err := net.SplitHostPort(m.addr)
	if err != nil {
		t.Fatal(err)
	}
	port, err := strconv.Atoi(portText)
	if err != nil {
		t.Fatal(err)
	}
	const name = "control_plane"
	source := envoy.JSON{"resource_api_version": "V3", "ads": envoy.JSON{}}
	return envoy.Start(t, envoy.Config{
		SkipClustersWithoutHosts: true,
		More: envoy.JSON{
			"node": envoy.JSON{"id": envoyID, "cluster": "test"},
			"dynamic_resources": envoy.JSON{
				"lds_config": source, "cds_config": source,
				"ads_config": envoy.JSON{
					"api_type": "GRPC", "transport_api_version": "V3",
					"grpc_services": []envoy.JSON{{"envoy_grpc": envoy.JSON{"cluster_name": name}}},
				},
			},
			"static_resources": envoy.JSON{"clusters": []envoy.JSON{{
				"name": name, "type": "STATIC",
				"typed_extension_protocol_options": envoy.JSON{
					"envoy.extensions.upstreams.http.v3.HttpProtocolOptions": envoy.JSON{
						"@type":                "type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions",
						"explicit_http_config": envoy.JSON{"http2_protocol_options": envoy.JSON{}},
					},
				},
				"load_assignment": envoy.JSON{"cluster_name": name, "endpoints": []envoy.JSON{{"lb_endpoints": []envoy.JSON{{
					"endpoint": envoy.JSON{"address": envoy.JSON{"socket_address": envoy.JSON{"address": host, "port_value": port}}},
				}}}}},
			}}},
		},
	})
}

// newProxyListener is what a sidecar has for a service: a port, HTTP/2, and routes
// of the same name that a gRPC client gets.
func newProxyListener(t testing.TB) *listener.Listener {
	t.Helper()
	return &listener.Listener{
		Name: "sidecar",
		Address: &core.Address{Address: &core.Address_SocketAddress{SocketAddress: &core.SocketAddress{
			Address: "127.0.0.1", PortSpecifier: &core.SocketAddress_PortValue{},
		}}},
		FilterChains: []*listener.FilterChain{{Filters: []*listener.Filter{{
			Name: "hcm",
			ConfigType: &listener.Filter_TypedConfig{TypedConfig: pack(t, &hcm.HttpConnectionManager{
				StatPrefix: "sidecar", CodecType: hcm.HttpConnectionManager_HTTP2,
				RouteSpecifier: &hcm.HttpConnectionManager_Rds{Rds: &hcm.Rds{ConfigSource: ads(), RouteConfigName: routeName}},
				HttpFilters:    []*hcm.HttpFilter{newFilter(t, "router", &router.Router{})},
			})},
		}}}},
	}
}

// overHTTP2 has Envoy speak HTTP/2 to a cluster, as gRPC does anyway.
func overHTTP2(t testing.TB, c *cluster.Cluster) *cluster.Cluster {
	t.Helper()
	c.TypedExtensionProtocolOptions = map[string]*anypb.Any{
		"envoy.extensions.upstreams.http.v3.HttpProtocolOptions": pack(t, &upstream.HttpProtocolOptions{
			UpstreamProtocolOptions: &upstream.HttpProtocolOptions_ExplicitHttpConfig_{ExplicitHttpConfig: &upstream.HttpProtocolOptions_ExplicitHttpConfig{
				ProtocolConfig: &upstream.HttpProtocolOptions_ExplicitHttpConfig_Http2ProtocolOptions{Http2ProtocolOptions: &core.Http2ProtocolOptions{}},
			}},
		}),
	}
	return c
}
