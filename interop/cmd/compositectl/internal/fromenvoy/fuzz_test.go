package fromenvoy_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/grpc-composite/grpc-composite/balancer/composite"
	"github.com/grpc-composite/grpc-composite/interop/cmd/compositectl/internal/fromenvoy"
)

// FuzzConvert checks that a file either makes a service config that is accepted, or an
// error, and that what is said can be shown.
func FuzzConvert(f *testing.F) {
	files, err := filepath.Glob("../../testdata/envoy/*.*")
	if err != nil || len(files) == 0 {
		f.Fatalf("no files to begin with: %v", err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Add([]byte(config([]string{all("retry_on: reset, per_try_timeout: 0.2s")}, "outlier_detection: {interval: 5s}", "health_checks: [{grpc_health_check: {}}]")))
	f.Fuzz(func(t *testing.T, data []byte) {
		got, err := fromenvoy.Convert(data, "")
		if err != nil {
			return
		}
		for _, finding := range composite.Lint(got.ServiceConfig) {
			if strings.HasPrefix(finding.Remedy, "correct it: gRPC-Go refuses") {
				t.Errorf("the service config\n%s\nhas the finding %v", got.ServiceConfig, finding)
			}
		}
		for _, n := range got.Notes {
			if n.Line < 1 || n.Text == "" || !utf8.ValidString(n.Text) || strings.ContainsAny(n.Text, "\n\x1b") {
				t.Errorf("the note %d: %q cannot be shown", n.Line, n.Text)
			}
		}
	})
}
