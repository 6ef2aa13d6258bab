// Package fromenvoy makes a service config of an Envoy's configuration that has a
// composite cluster (envoy.clusters.composite), and says of each line that is not
// carried over why.
//
// It walks the YAML or JSON as it is: an Envoy has more extensions than anybody has
// protobufs of, and none of them may keep the rest from being read.
package fromenvoy
