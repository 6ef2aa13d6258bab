package fromenvoy

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode"

	"github.com/grpc-composite/grpc-composite/internal/svcconfig"
)

// node is a value of a configuration, with its place. A nil node is one that is not
// there, and reads as empty.
type node struct {
	line   int
	scalar string   // if it is neither of these:
	fields []*field // of an object
	items  []*node  // of a list
	isList bool
}

type field struct {
	name  string // in snake_case, whatever the file has
	line  int
	value *node
}

// get returns the value of a field, or of a field of that, and so on.
func (n *node) get(path ...string) *node {
	for _, name := range path {
		var found *node
		if n != nil {
			for _, f := range n.fields {
				if f.name == name {
					found = f.value
				}
			}
		}
		n = found
	}
	return n
}

func (n *node) text(path ...string) string {
	if n = n.get(path...); n == nil {
		return ""
	}
	return n.scalar
}

func (n *node) list(path ...string) []*node {
	if n = n.get(path...); n == nil {
		return nil
	}
	return n.items
}

func (n *node) at(fallback int) int {
	if n == nil {
		return fallback
	}
	return n.line
}

// typeName returns the name of the message that an Any holds.
func (n *node) typeName() string {
	return lastPart(n.text("@type"))
}

// lastPart returns the name of the message in a type's URL.
func lastPart(url string) string {
	return url[strings.LastIndexByte(url, '/')+1:]
}

// digest returns a hash of what a value holds, which does not depend on its lines.
func (n *node) digest() [sha256.Size]byte {
	h := sha256.New()
	n.write(h)
	return [sha256.Size]byte(h.Sum(nil))
}

func (n *node) write(w io.Writer) {
	_, _ = fmt.Fprintf(w, "%q{", n.scalar)
	for _, f := range n.fields {
		_, _ = fmt.Fprintf(w, "%q:", f.name)
		f.value.write(w)
	}
	_, _ = io.WriteString(w, "}[")
	for _, item := range n.items {
		item.write(w)
	}
	_, _ = io.WriteString(w, "]")
}

// kind returns what an extension is. As in Envoy the type of its config tells, and its
// name only if that has no type of its own: names are free.
func (n *node) kind() string {
	config := n.get("typed_config")
	name := config.typeName()
	if strings.HasSuffix(name, ".TypedStruct") {
		name = lastPart(config.text("type_url"))
	}
	if name == "" || strings.HasPrefix(name, "google.protobuf.") {
		return n.text("name")
	}
	return name
}

// duration reads a duration as protobuf's JSON form has it.
func (n *node) duration() (time.Duration, bool) {
	if n == nil {
		return 0, false
	}
	quoted, err := json.Marshal(n.scalar)
	if err != nil {
		return 0, false
	}
	var d svcconfig.Duration
	if err := d.UnmarshalJSON(quoted); err != nil {
		return 0, false
	}
	return time.Duration(d), true
}

// snake turns a name in camelCase, which Envoy reads too, into snake_case.
func snake(name string) string {
	if strings.ContainsAny(name, "@./ -") {
		return name // a key of a map, and no field
	}
	var b strings.Builder
	for i, r := range name {
		if unicode.IsUpper(r) {
			if i > 0 {
				b.WriteByte('_')
			}
			r = unicode.ToLower(r)
		}
		b.WriteRune(r)
	}
	return b.String()
}
