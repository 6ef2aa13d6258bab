package demo

import (
	"slices"
	"testing"
)

func TestWrap(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, text string
		want       []string
	}{
		{"nothing", "", nil},
		{"one line", "as it is", []string{"as it is"}},
		{"at spaces", "a line that is too long", []string{"a line", "that is", "too long"}},
		{"a long word", "a verylongword too", []string{"a", "verylongword", "too"}},
		{"line breaks", "a\n\nb", []string{"a b"}},
		{"not by bytes", "äöü äöü ä", []string{"äöü äöü", "ä"}},
	} {
		if got := Wrap(tc.text, 8); !slices.Equal(got, tc.want) {
			t.Errorf("%s: %q: want %q", tc.name, got, tc.want)
		}
	}
}
