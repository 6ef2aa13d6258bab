package inspect

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// hidden stands for the user info of a target.
const hidden = "***@"

// Text makes a text from a config, a resolver, a server or a caller fit to be
// shown: without the user info of targets, on one line of MaxText bytes at the
// most, and of printable characters, so that none can hide or reorder others.
func Text(s string) string {
	const enough = 4 * MaxText
	cut := len(s) > enough
	if cut {
		s = cutAt(s, enough)
	}
	s = WithoutUserInfo(s)
	s = strings.Map(func(r rune) rune {
		switch {
		case unicode.IsPrint(r):
			return r
		case unicode.IsSpace(r):
			return ' '
		default:
			return utf8.RuneError
		}
	}, s)
	if cut || len(s) > MaxText {
		const more = "..."
		s = strings.ToValidUTF8(s[:min(len(s), MaxText-len(more))], "") + more
	}
	return s
}

// Error is the Text of an error, and "" for nil.
func Error(err error) string {
	if err == nil {
		return ""
	}
	return Text(err.Error())
}

// delimiters end what may be user info, which cannot contain any of them.
const delimiters = "/?#\"\\<> \t\r\n"

// cutAt cuts a text to n bytes, and to less where that may be in the midst of user
// info.
func cutAt(s string, n int) string {
	rest := s[n-len("%2540"):]
	if end := strings.IndexAny(rest, delimiters); end >= 0 {
		rest = rest[:end]
	}
	s = s[:n]
	if strings.ContainsAny(rest, "@%") {
		s = s[:strings.LastIndexAny(s, delimiters)+1]
	}
	return s
}

// WithoutUserInfo hides all that may be the user info of a URI in a text: what is
// before an "@", or one that is escaped, back to where the authority may begin.
func WithoutUserInfo(s string) string {
	var out strings.Builder
	for {
		at, n := nextAt(s)
		if at < 0 {
			out.WriteString(s)
			return out.String()
		}
		begin := strings.LastIndexAny(s[:at], delimiters) + 1
		out.WriteString(s[:begin])
		if begin < at {
			out.WriteString(hidden)
		} else {
			out.WriteByte('@') // of an abstract socket, for one
		}
		s = s[at+n:]
	}
}

// nextAt returns where the first "@" is, escaped or not, and its length.
func nextAt(s string) (at, length int) {
	for {
		i := strings.IndexAny(s[at:], "@%")
		if i < 0 {
			return -1, 0
		}
		at += i
		for _, form := range []string{"@", "%40", "%2540"} {
			if strings.HasPrefix(s[at:], form) {
				return at, len(form)
			}
		}
		at++
	}
}
