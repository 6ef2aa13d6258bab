package tool

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

// spy is a test that notes how it ends.
type spy struct {
	testing.TB
	how, text string
}

func (*spy) Helper() {}

func (s *spy) Skipf(format string, args ...any) { s.end("skipped", format, args) }

func (s *spy) Fatalf(format string, args ...any) { s.end("failed", format, args) }

// end notes the first end: the test would not go on.
func (s *spy) end(how, format string, args []any) {
	if s.how == "" {
		s.how, s.text = how, fmt.Sprintf(format, args...)
	}
}

func TestMissing(t *testing.T) {
	for ci, want := range map[string]string{"": "skipped", "true": "failed"} {
		t.Setenv("CI", ci)
		s := &spy{TB: t}
		Missing(s, "Something", "get it", errors.New("out of reach"))
		if s.how != want {
			t.Errorf("CI=%q: %q: want %q", ci, s.how, want)
		}
		for _, part := range []string{"Something IS MISSING", "get it", "out of reach"} {
			if !strings.Contains(s.text, part) {
				t.Errorf("text %q: want %q in it", s.text, part)
			}
		}
	}
}
