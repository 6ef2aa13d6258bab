package explain

import (
	"strings"
	"unicode"

	"google.golang.org/grpc/codes"
)

// codeName returns the name of a code as a service config writes it.
func codeName(c codes.Code) string {
	if c == codes.Canceled {
		return "CANCELLED"
	}
	var b strings.Builder
	before := 'A'
	for i, r := range c.String() {
		if i > 0 && unicode.IsUpper(r) && unicode.IsLower(before) {
			b.WriteByte('_')
		}
		b.WriteRune(unicode.ToUpper(r))
		before = r
	}
	return b.String()
}

func isPlain(r rune) bool { return unicode.IsGraphic(r) }
