package svcconfig_test

import (
	"strings"
	"testing"

	"github.com/grpc-composite/grpc-composite/internal/svcconfig"
)

func TestNearest(t *testing.T) {
	known := []string{"name", "target", "attempts", "attemptTimeout", "connectTimeout", "lazy"}
	for name, want := range map[string]string{
		"attemptTimeuot":          "attemptTimeout",
		"attempt_timeout":         "attemptTimeout",
		"ATTEMPT-TIMEOUT":         "attemptTimeout",
		"attempt":                 "attempts",
		"Name":                    "name",
		"nam":                     "name",
		"lzay":                    "",
		"timeout":                 "",
		"":                        "",
		"port":                    "",
		strings.Repeat("a", 1000): "",
	} {
		if got := svcconfig.Nearest(name, known); got != want {
			t.Errorf("Nearest(%q) = %q, want %q", name, got, want)
		}
	}
}
