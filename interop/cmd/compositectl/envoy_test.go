package main

import (
	"os/exec"
	"testing"

	"github.com/grpc-composite/grpc-composite/interop/envoy"
)

// TestEnvoyAcceptsTestdata has an Envoy validate the configurations that from-envoy is
// tested with.
func TestEnvoyAcceptsTestdata(t *testing.T) {
	binary := envoy.Binary(t)
	// dynamic.yaml has cds.yaml and rds.yaml read, and config_dump.json is what
	// the Envoy that runs it says.
	for _, file := range []string{"documented.yaml", "everything.yaml", "camel.json", "none.yaml", "several.yaml", "dynamic.yaml"} {
		t.Run(file, func(t *testing.T) {
			cmd := exec.CommandContext(t.Context(), binary, "--mode", "validate", "--log-level", "error", "-c", file) //nolint:gosec // the Envoy that was installed or named
			cmd.Dir = "testdata/envoy"
			if text, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%v: %s", err, text)
			}
		})
	}
}
