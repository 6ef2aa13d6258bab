package composite

import (
	"fmt"
	"strings"
	"testing"
)

// unknownFields are fields that no entry of methodConfig has.
func unknownFields(n int) string {
	var fields strings.Builder
	for i := range n {
		fmt.Fprintf(&fields, `"field%d":0,`, i)
	}
	return fields.String()
}

// longFindings is a config with so many entries of methodConfig, each of which has a
// finding of 16 kB: it names 62 clusters.
func longFindings(entries int) string {
	var clusters, methods []string
	for i := range 64 {
		clusters = append(clusters, fmt.Sprintf(`{"name":"%s%d"}`, strings.Repeat("n", 240), i))
	}
	for i := range entries {
		methods = append(methods, fmt.Sprintf(`{"name":[{"service":"s%d"}],%s}`, i, retryPolicy(2)))
	}
	return lintConfig(strings.Join(clusters, ","), "", `,"methodConfig":[{"name":[{}],`+retryPolicy(64)+`},`+strings.Join(methods, ",")+`]`)
}

// TestLintBounds has more findings than Lint returns.
func TestLintBounds(t *testing.T) {
	for _, tc := range []struct {
		name, config string
		kept         int
		last         string // the finding that is added
	}{
		{"as many as there may be", retried(lintAB, "", unknownFields(1000)+retryPolicy(2)), 1000, ""},
		{"one more", retried(lintAB, "", unknownFields(1001)+retryPolicy(2)), 1000, "warning: 1 finding is left out; see to those above first"},
		{"many more, and an error among them", retried(lintABC, "", unknownFields(3000)+retryPolicy(2)), 1000, "error: 2001 findings are left out; see to those above first"},
		{"long ones", longFindings(500), 66, "error: 434 findings are left out; see to those above first"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			l := linter{proxy: noProxy}
			l.lint(tc.config)
			kept, last := l.findings, ""
			if l.more > 0 {
				kept, last = kept[:len(kept)-1], kept[len(kept)-1].String()
			}
			if len(kept) != tc.kept || last != tc.last {
				t.Errorf("there are %d findings and %q, want %d and %q", len(kept), last, tc.kept, tc.last)
			}
		})
	}
}
