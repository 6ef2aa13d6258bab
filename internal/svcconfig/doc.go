// Package svcconfig reads a service config as gRPC-Go v1.85.0 does, for those who
// explain it to a person: what gRPC reads comes with its path, and so does what
// gRPC ignores or refuses.
//
// gRPC-Go's own reader (service_config.go) says of a bad value neither where it is
// nor what is allowed, and of an ignored one nothing at all.
package svcconfig
