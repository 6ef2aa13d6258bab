package configjson

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"
)

const (
	// maxShown is how many bytes of a bad value an error shows.
	maxShown = 80
	// maxListed is how many names an error lists.
	maxListed = 20
	// maxCause is how many bytes of another's error are shown.
	maxCause = 512
)

// shorten cuts a value that is too long to be shown in an error. What is left is
// valid UTF-8, whatever the config has.
func shorten(s string) string { return cut(strings.ToValidUTF8(s, "\uFFFD"), maxShown) }

// cut cuts a text to n bytes, between two runes.
func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + "..."
}

// Shown is the form in which an error shows a value, which is known to be JSON: on
// one line, and without the strings in an object or list, which may be secret:
// request metadata is.
func Shown(value json.RawMessage) string {
	var line bytes.Buffer
	if value := bytes.TrimLeft(value, " \t\r\n"); len(value) > 0 && value[0] != '{' && value[0] != '[' {
		_ = json.Compact(&line, value) // known to be well-formed
		return line.String()
	}
	s := shower{dec: json.NewDecoder(bytes.NewReader(value)), out: &line}
	s.dec.UseNumber()
	s.value()
	return line.String()
}

// shower writes JSON without strings, as much of it as an error shows.
type shower struct {
	dec *json.Decoder
	out *bytes.Buffer
}

func (s *shower) value() {
	switch t, _ := s.dec.Token(); t := t.(type) {
	case json.Delim:
		s.container(t)
	case string:
		s.out.WriteString(`"..."`)
	case nil:
		s.out.WriteString("null")
	default:
		fmt.Fprint(s.out, t)
	}
}

func (s *shower) container(open json.Delim) {
	s.out.WriteString(open.String())
	for first := true; s.out.Len() <= maxShown && s.dec.More(); first = false {
		if !first {
			s.out.WriteByte(',')
		}
		if open == '{' {
			key, _ := s.dec.Token()
			text, _ := json.Marshal(key)
			s.out.Write(text)
			s.out.WriteByte(':')
		}
		s.value()
	}
	if s.out.Len() <= maxShown {
		end, _ := s.dec.Token()
		fmt.Fprint(s.out, end)
	}
}

// plainKey is what a path shows as it is.
var plainKey = regexp.MustCompile(fmt.Sprintf(`^[A-Za-z0-9_-]{1,%d}$`, maxShown))

// Join adds a key to a path.
func Join(path, key string) string {
	if !plainKey.MatchString(key) {
		key = Quote(key)
	}
	if path == "" {
		return key
	}
	return path + "." + key
}

// Quote quotes a name from a config, cut to what an error shows.
func Quote(name string) string { return strconv.Quote(shorten(name)) }

// List lists names from a config, or paths, as many as an error shows.
func List(names []string) string {
	if more := len(names) - maxListed; more > 0 {
		return strings.Join(names[:maxListed], ", ") + fmt.Sprintf(", and %d more", more)
	}
	return strings.Join(names, ", ")
}
