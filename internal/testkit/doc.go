// Package testkit is what the tests of this module share: real gRPC servers on
// loopback with scripted replies, channels to them, and a check for leaks.
package testkit
