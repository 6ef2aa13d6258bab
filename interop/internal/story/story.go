// Package story writes down what became of an RPC, for tests to compare.
package story

import (
	"fmt"
	"strings"

	"github.com/grpc-composite/grpc-composite/balancer/composite"
)

// Of tells a trail in short: "1 a Unavailable, 2 b OK committed past c".
func Of(trail composite.Trail) string {
	var parts []string
	for _, a := range trail.Attempts {
		part := fmt.Sprintf("%d %s %v", a.Number, a.Cluster, a.Code)
		if a.Transparent {
			part += " transparent"
		}
		if a.Committed {
			part += " committed"
		}
		for i, s := range a.Skipped {
			part += []string{" past ", "+"}[min(i, 1)] + s.Cluster
		}
		parts = append(parts, part)
	}
	return strings.Join(parts, ", ")
}
