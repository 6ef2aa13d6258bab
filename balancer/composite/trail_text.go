package composite

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"google.golang.org/grpc/codes"
)

const (
	maxTrailLength = 1024 // bytes of a trail's text
	maxSkipsLength = 512  // bytes of the clusters skipped, in an attempt's text
)

// String writes the trail in one line of at most 1 KiB.
func (t Trail) String() string {
	text, told := "", make(map[string]bool)
	for i, a := range t.Attempts {
		part, rest := a.write(told), len(t.Attempts)-i
		if i > 0 {
			part = "; " + part
		}
		room := maxTrailLength - len(text) - len(andMore(rest-1))
		switch {
		case len(part) <= room:
			text += part
		case i == 0:
			text = cut(part, room)
		default:
			return text + andMore(rest)
		}
	}
	return text
}

func andMore(n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("; and %d more", n)
}

// cut shortens a text to n bytes.
func cut(s string, n int) string {
	return strings.ToValidUTF8(s[:n-len("...")], "") + "..."
}

// String writes the attempt in one line. What servers said is quoted.
func (a Attempt) String() string { return a.write(make(map[string]bool)) }

// write writes the attempt, without the causes of skips that were told before.
func (a Attempt) write(told map[string]bool) string {
	text := fmt.Sprintf("attempt %d ", a.Number)
	if a.Transparent {
		text += "(transparent retry) "
	}
	if len(a.Skipped) > 0 {
		text += writeSkips(a.Skipped, told) + ", then "
	}
	if a.Cluster == "" {
		return text + "no host: " + codeName(a.Code)
	}
	text += plainOrQuoted(a.Cluster)
	if a.Peer != "" {
		text += " " + plainOrQuoted(a.Peer)
	}
	text += ": " + codeName(a.Code)
	if a.Message != "" {
		text += " " + quoteShort(a.Message)
	}
	if a.Committed && a.Code != codes.OK {
		text += " (committed)"
	}
	return text
}

// writeSkips joins skips until they are too long for an attempt, and counts the
// rest.
func writeSkips(skips []Skip, told map[string]bool) string {
	text := ""
	for i, s := range skips {
		part := s.String()
		if told[part] {
			s.Err = nil
			part = s.String()
		}
		told[part] = true
		if i > 0 {
			part = ", " + part
		}
		if i > 0 && len(text)+len(part) > maxSkipsLength {
			return text + fmt.Sprintf(", and %d more skipped", len(skips)-i)
		}
		text += part
	}
	return text
}

// String writes the skip in one line.
func (s Skip) String() string {
	text := plainOrQuoted(s.Cluster) + " skipped: " + strings.ReplaceAll(s.Reason, "_", " ")
	if s.Err != nil {
		text += " (" + quoteCause(s.Err) + ")"
	}
	return text
}

// plainOrQuoted quotes a name that would not read as one.
func plainOrQuoted(name string) string {
	odd := func(r rune) bool { return !unicode.IsPrint(r) || strings.ContainsRune(" \"();,", r) }
	if !utf8.ValidString(name) || strings.ContainsFunc(name, odd) {
		return quoteShort(name)
	}
	return name
}
