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

// Error is a bad value in a config. Its text is "path: value: must be ...".
type Error struct {
	Path  string // such as "clusters[1].name"; empty for the config itself
	Value string // as it is written in the config; empty if it does not help
	Want  string // what is allowed, beginning with "must"
	Err   error  // the cause, if something else found the error
}

func (e *Error) Error() string {
	var parts []string
	for _, part := range []string{e.Path, shorten(e.Value), e.Want} {
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

// Unmarshal reads data into the message and returns the paths of the fields that
// the message does not have. An error is an *Error.
func Unmarshal(data []byte, message proto.Message) (unknown []string, err error) {
	// Only the syntax is checked here: a number that is too large for Go may be
	// in a field that nobody reads.
	if err := json.Unmarshal(data, new(json.RawMessage)); err != nil {
		var syntax *json.SyntaxError
		if errors.As(err, &syntax) {
			err = fmt.Errorf("byte %d: %w", syntax.Offset, err)
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
		return &Error{Path: path, Value: Shown(data), Want: "must be an object"}
	}
	seen := make(map[protoreflect.FieldNumber]string) // the name that was used
	for dec.More() {
		key, err := dec.Token()
		if err != nil {
			return &Error{Path: path, Want: "must be an object", Err: err}
		}
		name := key.(string) // the keys of a well-formed object are strings
		at := Join(path, name)
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
		switch before, ok := seen[field.Number()]; {
		case ok && before == name:
			return &Error{Path: at, Want: "must be given once"}
		case ok:
			return &Error{Path: at, Want: fmt.Sprintf("must be given once, and %q is the same field", before)}
		}
		seen[field.Number()] = name
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
		if field.IsMap() && leaf.Map().Len() == 0 {
			return nil // an empty map is the default, and may not be set
		}
		m.Set(field, leaf)
		return nil
	}
}

func (r *reader) list(value json.RawMessage, m protoreflect.Message, field protoreflect.FieldDescriptor, path string) error {
	var items []json.RawMessage
	if err := json.Unmarshal(value, &items); err != nil {
		return &Error{Path: path, Value: Shown(value), Want: "must be a list"}
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
		leaf, err := leaf(item, m, field, at)
		if err != nil {
			return err
		}
		list.Append(leaf)
	}
	return nil
}

// isStruct tells whether a field holds messages that are read field by field,
// rather than one of the well-known types, which have a JSON form of their own.
func isStruct(field protoreflect.FieldDescriptor) bool {
	return field.Message() != nil && !field.IsMap() && field.Message().ParentFile().Package() != "google.protobuf"
}

// leaf reads one field, or one item of a field that is a list.
func leaf(value json.RawMessage, m protoreflect.Message, field protoreflect.FieldDescriptor, path string) (protoreflect.Value, error) {
	if v, ok := readLeaf(value, m, field); ok {
		return v, nil
	}
	e := &Error{Path: path, Value: Shown(value), Want: want(field, value)}
	if field.IsMap() {
		e.Value = "" // what is mapped to may be secret: request metadata is
	}
	return protoreflect.Value{}, e
}

// readLeaf lets protojson read it.
func readLeaf(value json.RawMessage, m protoreflect.Message, field protoreflect.FieldDescriptor) (v protoreflect.Value, ok bool) {
	format := "{%q:%s}"
	if field.IsList() {
		format = "{%q:[%s]}"
	}
	one := m.New()
	if err := protojson.Unmarshal(fmt.Appendf(nil, format, field.JSONName(), value), one.Interface()); err != nil {
		return v, false
	}
	v = one.Get(field)
	if field.IsList() {
		v = v.List().Get(0)
	}
	enum := field.Enum()
	return v, enum == nil || enum.Values().ByNumber(v.Enum()) != nil
}

// want says what a field may hold, to somebody who wrote a value that it may
// not.
func want(field protoreflect.FieldDescriptor, value json.RawMessage) string {
	if field.IsMap() {
		return "must be an object whose values are strings, with each key once"
	}
	switch field.Kind() {
	case protoreflect.BoolKind:
		return "must be true or false"
	case protoreflect.StringKind:
		if value[0] == '"' {
			return "must be valid Unicode"
		}
		return "must be a string"
	case protoreflect.Uint32Kind:
		return "must be a whole number, not negative, and at most 4294967295"
	case protoreflect.EnumKind:
		var names []string
		for i := range field.Enum().Values().Len() {
			if v := field.Enum().Values().Get(i); v.Number() != 0 {
				names = append(names, string(v.Name()))
			}
		}
		return "must be one of " + strings.Join(names, ", ")
	case protoreflect.MessageKind:
		switch {
		case field.Message().FullName() == "google.protobuf.Duration":
			return `must be a duration in seconds, such as "1.5s", and at most "315576000000s"`
		case value[0] == '{':
			return "must have each key once, text that is valid Unicode, and numbers in the range of a double"
		default:
			return "must be an object"
		}
	default:
		return "must be a valid " + field.Kind().String()
	}
}
