// Package observe writes down what became of RPCs, for tests to compare.
package observe

import (
	"fmt"
	"strings"

	"github.com/grpc-composite/grpc-composite/balancer/composite"
)

// Trail tells a trail in short: "1 a Unavailable, 2 b OK committed past c". Of an
// attempt that was repeated transparently it leaves out the code, which gRPC does not
// always report: "1 a repeated, 1 a OK transparent committed".
func Trail(trail composite.Trail) string {
	var parts []string
	for i, a := range trail.Attempts {
		part := fmt.Sprintf("%d %s %v", a.Number, a.Cluster, a.Code)
		if i+1 < len(trail.Attempts) && trail.Attempts[i+1].Transparent {
			part = fmt.Sprintf("%d %s repeated", a.Number, a.Cluster)
		}
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
