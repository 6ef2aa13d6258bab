package composite

import (
	"slices"
	"testing"
	"unicode/utf8"

	"github.com/grpc-composite/grpc-composite/internal/svcconfig"
)

// FuzzLint checks, for every text: that Lint says that gRPC-Go refuses it if that is
// so, and only then; and that a finding can be shown.
func FuzzLint(f *testing.F) {
	for _, tc := range lintCases() {
		f.Add(tc.config)
	}
	for _, tc := range lintRefusedCases {
		f.Add(tc.config)
	}
	for _, duration := range []string{".5s", "1.s", "+1s", "--1s", "-.000000001s", "315576000001s", "1.0000000000s", ".s", "s"} {
		f.Add(retried(lintAB, "", `"timeout":"`+duration+`"`))
	}
	f.Fuzz(func(t *testing.T, text string) {
		l := linter{proxy: noProxy}
		l.lint(text)
		if svcconfig.Deeper(text, svcconfig.MaxDepth) {
			return // and it takes the policy long to read it
		}
		if err := acceptedByGRPC(text); l.refused != (err != nil) {
			t.Errorf("refused is %v, and gRPC-Go says %v: %v", l.refused, err, l.findings)
		}
		for i, finding := range l.findings {
			if finding.Severity != Error && finding.Severity != Warning || finding.Problem == "" || finding.Remedy == "" {
				t.Errorf("the finding %+v lacks something", finding)
			}
			if !utf8.ValidString(finding.String()) {
				t.Errorf("the finding %q is not valid UTF-8", finding)
			}
			if slices.Contains(l.findings[:i], finding) {
				t.Errorf("the finding %v is there twice", finding)
			}
		}
	})
}
