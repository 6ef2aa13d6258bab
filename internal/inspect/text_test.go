package inspect

import (
	"errors"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestText(t *testing.T) {
	long := strings.Repeat("x", 5*MaxText)
	for _, tc := range []struct{ name, in, want string }{
		{"nothing", "", ""},
		{"a target", "dns:///a.example:443", "dns:///a.example:443"},
		{"user info", "dns://user:secret@ns.example/a.example", "dns://***@ns.example/a.example"},
		{"in the endpoint", "dns:///user:secret@a.example:443", "dns:///***@a.example:443"},
		{"of one cluster", "composite:///a=dns:///a.example,b=dns://u:secret@ns/b?attempts=2", "composite:///a=dns:///a.example,b=dns://***@ns/b?attempts=2"},
		{"without a scheme", "user:secret@a.example:443", "***@a.example:443"},
		{"with an at sign of its own", "dns://u:s@ecret@ns/a", "dns://***@***@ns/a"},
		{"escaped", "composite:///a=dns:%2F%2Fu:secret%40ns/a", "composite:///***@ns/a"},
		{"escaped twice", "composite:///u:secret%2540ns", "composite:///***@ns"},
		{"with all that it may have", "dns://u-._~!$&'()*+,;=:%2Fsecret@ns/a", "dns://***@ns/a"},
		{"quoted in an error", `resolver for "dns://u:secret@ns/a": produced zero addresses`, `resolver for "dns://***@ns/a": produced zero addresses`},
		{"percent signs that are none", "a%2 b%254 c%3Au:s%40d", "a%2 b%254 ***@d"},
		{"an abstract socket", "dial unix @socket: refused", "dial unix @socket: refused"},
		{"markup", `<script>alert("1")</script>`, `<script>alert("1")</script>`},
		{"several lines", "a\r\nb\tc", "a  b c"},
		{"what reorders text", "a\u202eb\u2066c", "a\ufffdb\ufffdc"},
		{"what is not text", "a\x00b\xffc", "a\ufffdb\ufffdc"},
		{"too long", long, long[:MaxText-3] + "..."},
		{"user info too long", "dns://u:" + long + "@ns/a", "dns://..."},
		{"escaped, at the cut", "dns://" + strings.Repeat("s", 4*MaxText-8) + "%40ns/a", "dns://..."},
		{"user info after the cut", long + " dns://u:secret@ns/a", long[:MaxText-3] + "..."},
		{"cut within a letter", strings.Repeat("x", MaxText-4) + "ééé", strings.Repeat("x", MaxText-4) + "..."},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := Text(tc.in); got != tc.want {
				t.Errorf("Text(%q) = %q: want %q", tc.in, got, tc.want)
			}
		})
	}
}

func TestError(t *testing.T) {
	if got := Error(nil); got != "" {
		t.Errorf("nil: %q", got)
	}
	if got := Error(errors.New("dns://u:s@ns/a")); got != "dns://***@ns/a" {
		t.Errorf("an error: %q", got)
	}
}

func FuzzText(f *testing.F) {
	f.Add("dns://u:secret@ns/a")
	f.Add("%40@%2540")
	f.Add(strings.Repeat("@", 10*MaxText))
	f.Add(strings.Repeat("é%40 ", MaxText))
	f.Fuzz(func(t *testing.T, s string) {
		got := Text(s)
		if len(got) > MaxText || !utf8.ValidString(got) || strings.ContainsAny(got, "\n\r\t\x00") {
			t.Errorf("Text(%q) = %q", s, got)
		}
		// All that is before an "@" is hidden, or ends with a delimiter.
		for rest := got; ; {
			before, after, ok := strings.Cut(rest, "@")
			if !ok {
				break
			}
			if before != "" && !strings.HasSuffix(before, "***") && !strings.ContainsAny(before[len(before)-1:], delimiters) {
				t.Errorf("Text(%q) = %q", s, got)
			}
			rest = after
		}
	})
}
