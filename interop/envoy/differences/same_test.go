package differences

import (
	"testing"

	"google.golang.org/grpc/codes"

	"github.com/grpc-composite/grpc-composite/internal/testkit"
	"github.com/grpc-composite/grpc-composite/interop/envoy"
)

// TestNesting has a list in another one, which is not different here: they share
// the attempt's number.
func TestNesting(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name         string
		outer, inner []string
		counts       string
		code         codes.Code
	}{
		{"the second attempt is the inner list's second", []string{"a", "N"}, []string{"b", "c"}, "1/0/1", codes.Unavailable},
		{"an inner list that is over is skipped", []string{"a", "N", "b"}, []string{"c"}, "1/2/0", codes.Unavailable},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			s := start(t, testkit.U, testkit.U, testkit.U)
			clusters := append(s.clusters(nil), envoy.Cluster{Name: "N", List: tc.inner})
			attempts := len(tc.outer)
			s.check(t, "Envoy", envoyOver(t, true, tc.outer, clusters, retry(attempts-1, "unavailable")), tc.counts, tc.code)

			byName := map[string]testkit.Cluster{}
			for _, c := range testkit.Clusters(s...) {
				byName[c.Name] = c
			}
			list := func(names []string) (list []testkit.Cluster) {
				for _, name := range names {
					list = append(list, byName[name])
				}
				return list
			}
			byName["N"] = testkit.Cluster{Name: "N", Target: "passthrough:///nested", More: map[string]any{
				"childPolicy": []any{map[string]any{"composite": testkit.Service{Clusters: list(tc.inner)}.Policy()}},
			}}
			s.check(t, "ours", ours(t, testkit.Service{Clusters: list(tc.outer), Attempts: attempts}), tc.counts, tc.code)
		})
	}
}
