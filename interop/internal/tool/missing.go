package tool

import (
	"os"
	"testing"
)

// Missing ends a test for want of a tool: it is skipped, and told how to get the
// tool, or fails where the environment variable CI is set.
func Missing(t testing.TB, name, install string, err error) {
	t.Helper()
	const text = "%s IS MISSING, so nothing was tested here.\n\tinstall it with: %s\n\twhat went wrong: %v"
	if os.Getenv("CI") != "" {
		t.Fatalf(text, name, install, err)
	}
	t.Skipf(text, name, install, err)
}
