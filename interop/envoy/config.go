package envoy

import (
	"path/filepath"
	"time"
)

// JSON is a message of Envoy's configuration.
type JSON = map[string]any

// skipFlag makes a composite cluster pass over clusters without hosts.
const skipFlag = "envoy.reloadable_features.composite_cluster_skip_clusters_without_hosts"

// Config is what an Envoy does.
type Config struct {
	Clusters []Cluster
	Routes   []Route
	// SkipClustersWithoutHosts is the runtime feature of that name.
	SkipClustersWithoutHosts bool
	// More holds fields of Envoy's Bootstrap message, in place of those that the
	// others make. One listener has to come of it.
	More JSON
}

// Cluster is a cluster of hosts, or a composite cluster if it has a list.
type Cluster struct {
	Name string
	// Hosts are addresses.
	Hosts []string
	// Changing has Envoy read the hosts from a file, which [Envoy.SetHosts]
	// changes. Each such cluster takes one of the inotify instances of the user,
	// of which Linux allows 128 by default.
	Changing bool
	// Unhealthy are addresses of hosts that Envoy is told are not healthy.
	Unhealthy []string
	// List makes it a composite cluster over those of these names.
	List []string
	// More holds fields of Envoy's Cluster message.
	More JSON
}

// Route is a route to a cluster, taken by calls with its name as their authority.
type Route struct {
	Name, Cluster string
	Retry         *Retry
}

// Retry is a retry policy, with back-offs of 1 ms.
type Retry struct {
	// On are Envoy's retry conditions, with commas between them.
	On string
	// Retries is num_retries, which is left out if negative.
	Retries int
	// PerTryTimeout is left out if it is 0.
	PerTryTimeout time.Duration
}

// bootstrap is the configuration file of an Envoy whose endpoint files are in dir.
func (c Config) bootstrap(dir string) JSON {
	clusters := make([]JSON, 0, len(c.Clusters))
	var hosts []JSON
	for _, cluster := range c.Clusters {
		clusters = append(clusters, cluster.message(dir))
		if cluster.Changing {
			hosts = append(hosts, Route{Name: probeName(cluster.Name), Cluster: cluster.Name}.virtualHost())
		}
	}
	for _, route := range c.Routes {
		hosts = append(hosts, route.virtualHost())
	}
	message := JSON{
		"admin": JSON{"address": loopback()},
		"layered_runtime": JSON{"layers": []JSON{{
			"name": "features", "static_layer": JSON{skipFlag: c.SkipClustersWithoutHosts},
		}}},
		// Thousands of clusters would otherwise have thousands of metrics.
		"stats_config": JSON{"stats_matcher": JSON{"reject_all": true}},
		"node":         JSON{"id": "test", "cluster": "test"},
		"static_resources": JSON{
			"listeners": []JSON{listener(hosts)},
			"clusters":  clusters,
		},
	}
	for k, v := range c.More {
		message[k] = v
	}
	return message
}

func loopback() JSON {
	return JSON{"socket_address": JSON{"address": "127.0.0.1", "port_value": 0}}
}

// listener takes HTTP/2 calls.
func listener(virtualHosts []JSON) JSON {
	return JSON{
		"name": "listener", "address": loopback(),
		"filter_chains": []JSON{{"filters": []JSON{{
			"name": "hcm",
			"typed_config": typed("envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager", JSON{
				"stat_prefix": "test", "codec_type": "HTTP2",
				"route_config": JSON{"name": "routes", "virtual_hosts": virtualHosts},
				"http_filters": []JSON{{
					"name":         "router",
					"typed_config": typed("envoy.extensions.filters.http.router.v3.Router", JSON{}),
				}},
			}),
		}}}},
	}
}

func typed(name string, message JSON) JSON {
	message["@type"] = "type.googleapis.com/" + name
	return message
}

func (c Cluster) message(dir string) JSON {
	message := JSON{"name": c.Name, "connect_timeout": "20s"}
	switch {
	case len(c.List) > 0:
		list := make([]JSON, len(c.List))
		for i, name := range c.List {
			list[i] = JSON{"name": name}
		}
		message["lb_policy"] = "CLUSTER_PROVIDED"
		message["cluster_type"] = JSON{
			"name":         "envoy.clusters.composite",
			"typed_config": typed("envoy.extensions.clusters.composite.v3.ClusterConfig", JSON{"clusters": list}),
		}
	case c.Changing:
		message["type"] = "EDS"
		message["eds_cluster_config"] = JSON{"eds_config": JSON{
			"resource_api_version": "V3",
			"path_config_source":   JSON{"path": endpointFile(dir, c.Name)},
		}}
	default:
		message["type"] = "STATIC"
		message["load_assignment"] = c.assignment()
	}
	if len(c.List) == 0 {
		message["typed_extension_protocol_options"] = JSON{
			"envoy.extensions.upstreams.http.v3.HttpProtocolOptions": typed("envoy.extensions.upstreams.http.v3.HttpProtocolOptions", JSON{
				"explicit_http_config": JSON{"http2_protocol_options": JSON{}},
			}),
		}
	}
	for k, v := range c.More {
		message[k] = v
	}
	return message
}

// endpointFile is where Envoy reads a cluster's hosts from.
func endpointFile(dir, cluster string) string { return filepath.Join(dir, "hosts", cluster+".json") }

func (r Route) virtualHost() JSON {
	action := JSON{"cluster": r.Cluster, "timeout": "0s"}
	if r.Retry != nil {
		retry := JSON{
			"retry_on":       r.Retry.On,
			"retry_back_off": JSON{"base_interval": "0.001s", "max_interval": "0.001s"},
		}
		if r.Retry.Retries >= 0 {
			retry["num_retries"] = r.Retry.Retries
		}
		if r.Retry.PerTryTimeout > 0 {
			retry["per_try_timeout"] = duration(r.Retry.PerTryTimeout)
		}
		action["retry_policy"] = retry
	}
	return JSON{
		"name": r.Name, "domains": []string{r.Name},
		"routes": []JSON{{"match": JSON{"prefix": "/"}, "route": action}},
	}
}
