// Package configjson reads protojson with errors that a person who writes a
// config by hand can act on: they name the field by its path and say what is
// allowed there. Fields that the message does not have are not errors; their
// paths are returned.
package configjson

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// maxShown is how many bytes of a bad value an error shows.
const maxShown = 80

// Error is a bad value in a config. Its text is "path: value: must be ...".
type Error struct {
	Path  string // such as "clusters[1].name"; empty for the config itself
	Value string // as it is written in the config; empty if it does not help
	Want  string // what is allowed, beginning with "must"
	Err   error  // the cause, if something else found the error
}

func (e *Error) Error() string {
	var parts []string
	for _, part := range []string{e.Path, Shorten(e.Value), e.Want} {
		if part != "" {
			parts = append(parts, part)
		}
	}
	if e.Err != nil {
		parts = append(parts, e.Err.Error())
	}
	return strings.Join(parts, ": ")
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Shorten cuts a value that is too long to be shown in an error.
func Shorten(s string) string {
	if len(s) <= maxShown {
		return s
	}
	return strings.ToValidUTF8(s[:maxShown], "") + "..."
}

// Unmarshal reads data into the message and returns the paths of the fields that
// the message does not have. An error is an *Error.
func Unmarshal(data []byte, message proto.Message) (unknown []string, err error) {
	var v any
	if err := json.Unmarshal(data, &v); err != nil {
		var syntax *json.SyntaxError
		if errors.As(err, &syntax) {
			return nil, &Error{Want: fmt.Sprintf("must be valid JSON, which ends at byte %d", syntax.Offset)}
		}
		return nil, &Error{Want: "must be valid JSON", Err: err}
	}
	var r reader
	if err := r.object(data, message.ProtoReflect(), ""); err != nil {
		return nil, err
	}
	return r.unknown, nil
}

type reader struct {
	unknown []string
}

// object reads a JSON object, which is known to be well-formed, into m.
func (r *reader) object(data json.RawMessage, m protoreflect.Message, path string) error {
	dec := json.NewDecoder(bytes.NewReader(data))
	if open, err := dec.Token(); err != nil || open != json.Delim('{') {
		return &Error{Path: path, Value: string(data), Want: "must be an object"}
	}
	seen := make(map[protoreflect.FieldNumber]bool)
	for dec.More() {
		key, err := dec.Token()
		if err != nil {
			return &Error{Path: path, Want: "must be an object", Err: err}
		}
		name := key.(string) // the keys of a well-formed object are strings
		at := name
		if path != "" {
			at = path + "." + name
		}
		var value json.RawMessage
		if err := dec.Decode(&value); err != nil {
			return &Error{Path: at, Want: "must be a value", Err: err}
		}
		fields := m.Descriptor().Fields()
		field := fields.ByJSONName(name)
		if field == nil {
			field = fields.ByTextName(name)
		}
		if field == nil {
			r.unknown = append(r.unknown, at)
			continue
		}
		if seen[field.Number()] {
			return &Error{Path: at, Want: "must be given once"}
		}
		seen[field.Number()] = true
		if string(value) == "null" {
			continue // the default, as in protojson
		}
		if err := r.field(value, m, field, at); err != nil {
			return err
		}
	}
	return nil
}

func (r *reader) field(value json.RawMessage, m protoreflect.Message, field protoreflect.FieldDescriptor, path string) error {
	switch {
	case field.IsList():
		return r.list(value, m, field, path)
	case isStruct(field):
		return r.object(value, m.Mutable(field).Message(), path)
	default:
		leaf, err := leaf(value, m, field, path)
		if err != nil {
			return err
		}
		m.Set(field, leaf)
		return nil
	}
}

func (r *reader) list(value json.RawMessage, m protoreflect.Message, field protoreflect.FieldDescriptor, path string) error {
	var items []json.RawMessage
	if err := json.Unmarshal(value, &items); err != nil {
		return &Error{Path: path, Value: string(value), Want: "must be a list"}
	}
	list := m.Mutable(field).List()
	for i, item := range items {
		at := fmt.Sprintf("%s[%d]", path, i)
		if isStruct(field) {
			if err := r.object(item, list.AppendMutable().Message(), at); err != nil {
				return err
			}
			continue
		}
		leaf, err := leaf(append(append(json.RawMessage("["), item...), ']'), m, field, at)
		if err != nil {
			err.Value = string(item)
			return err
		}
		list.Append(leaf.List().Get(0))
	}
	return nil
}

// isStruct tells whether a field holds messages that are read field by field,
// rather than one of the well-known types, which have a JSON form of their own.
func isStruct(field protoreflect.FieldDescriptor) bool {
	return field.Message() != nil && !field.IsMap() && field.Message().ParentFile().Package() != "google.protobuf"
}

// leaf lets protojson read one field.
func leaf(value json.RawMessage, m protoreflect.Message, field protoreflect.FieldDescriptor, path string) (protoreflect.Value, *Error) {
	one := m.New()
	bad := &Error{Path: path, Value: string(value), Want: want(field)}
	data := fmt.Appendf(nil, "{%q:%s}", field.JSONName(), value)
	if err := protojson.Unmarshal(data, one.Interface()); err != nil {
		return protoreflect.Value{}, bad
	}
	read := one.Get(field)
	if enum := field.Enum(); enum != nil && enum.Values().ByNumber(read.Enum()) == nil {
		return protoreflect.Value{}, bad
	}
	return read, nil
}

// want says what a field may hold.
func want(field protoreflect.FieldDescriptor) string {
	switch field.Kind() {
	case protoreflect.BoolKind:
		return "must be true or false"
	case protoreflect.StringKind:
		return "must be a string"
	case protoreflect.Uint32Kind:
		return "must be a whole number from 0 to 4294967295"
	case protoreflect.EnumKind:
		var names []string
		for i := range field.Enum().Values().Len() {
			if v := field.Enum().Values().Get(i); v.Number() != 0 {
				names = append(names, string(v.Name()))
			}
		}
		return "must be one of " + strings.Join(names, ", ")
	case protoreflect.MessageKind:
		if field.Message().FullName() == "google.protobuf.Duration" {
			return `must be a duration in seconds, such as "1.5s"`
		}
		return "must be an object"
	default:
		return "must be a valid " + field.Kind().String()
	}
}
