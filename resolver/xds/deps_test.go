package xds

import (
	"os/exec"
	"strings"
	"testing"
)

// TestOthersDoNotLinkXDS keeps gRPC's xDS support, and all that it needs, out of
// programs that do not import this package.
func TestOthersDoNotLinkXDS(t *testing.T) {
	t.Parallel()
	const module = "github.com/grpc-composite/grpc-composite/"
	deps := func(pkg string) string {
		out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", module+pkg).Output() //nolint:gosec // a package of this module
		if err != nil {
			t.Fatalf("go list: %v", err)
		}
		return string(out)
	}
	const support = "google.golang.org/grpc/internal/xds/xdsclient\n"
	if got := deps("balancer/composite"); strings.Contains(got, support) || strings.Contains(got, "envoyproxy") {
		t.Error("balancer/composite links xDS")
	}
	if !strings.Contains(deps("resolver/xds"), support) {
		t.Errorf("resolver/xds does not link %q: the test looks for the wrong package", support)
	}
}
