package composite_test

import (
	"fmt"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"

	"github.com/grpc-composite/grpc-composite/balancer/composite"
	"github.com/grpc-composite/grpc-composite/internal/testkit"
)

// TestLintCountsThrottledRPCs checks, for several throttlings, that the RPC that Lint
// names is the first that gRPC-Go does not retry.
func TestLintCountsThrottledRPCs(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		tokens, ratio float64
		attempts      int // on the first cluster
		want          int
	}{
		{4, 0.1, 1, 3},
		{4, 0.75, 1, 5},
		{10, 1, 2, 4},
		{3, 0.5, 1, 2},
		{5, 0.25, 2, 2},
		{4, 0.8, 1, 6}, // 7, if gRPC-Go added up exactly
		{5, 0.7, 1, 7}, // 6, likewise
	} {
		t.Run(fmt.Sprintf("%v tokens, ratio %v, %d attempts", tc.tokens, tc.ratio, tc.attempts), func(t *testing.T) {
			t.Parallel()
			backends := startAll(t, "a", "b")
			backends[0].Respond(func(int, testkit.Call) testkit.Reply { return testkit.Reply{Code: codes.Unavailable} })
			s := testkit.Service{
				Clusters: testkit.Clusters(backends...),
				Attempts: tc.attempts + 1,
				Other:    map[string]any{"retryThrottling": map[string]any{"maxTokens": tc.tokens, "tokenRatio": tc.ratio}},
			}
			s.Clusters[0].More = map[string]any{"attempts": tc.attempts}
			cc := dial(t, s)
			first := 1
			for ; first < 20; first++ {
				if _, err := testkit.Unary(testkit.Context(t), cc); err != nil {
					break
				}
			}
			if first != tc.want {
				t.Errorf("RPC %d is the first that fails, want %d", first, tc.want)
			}
			text := ""
			for _, f := range composite.Lint(s.JSON()) {
				text += f.String() + "\n"
			}
			if want := fmt.Sprintf("stops retrying at RPC %d in a row", tc.want); !strings.Contains(text, want) {
				t.Errorf("Lint says %q, want %q in it", text, want)
			}
		})
	}
}
