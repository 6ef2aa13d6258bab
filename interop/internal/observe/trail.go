// Package observe writes down what became of RPCs, for tests to compare.
package observe

import (
	"fmt"
	"strings"

	"github.com/grpc-composite/grpc-composite/balancer/composite"
)

// Trail tells a trail in short: "1 a Unavailable, 2 b OK committed past c".
func Trail(trail composite.Trail) string {
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
