package fromenvoy

import (
	"fmt"
	"strings"
	"unicode"
)

// maxShown is how many bytes of a name or value a note shows.
const maxShown = 80

// shown is how a note shows what a file has: on one line, and not too long.
func shown(s string) string {
	if len(s) > maxShown {
		s = strings.ToValidUTF8(s[:maxShown], "") + "..."
	}
	for _, r := range s {
		if !unicode.IsGraphic(r) || r == '\uFFFD' {
			return fmt.Sprintf("%q", s)
		}
	}
	return s
}
