package svcconfig

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"google.golang.org/grpc/codes"

	"github.com/grpc-composite/grpc-composite/internal/configjson"
)

// A checker finds what gRPC-Go would not read in a value that is known to be JSON.
type checker interface {
	check(value json.RawMessage, path string, found *Problems)
}

// The fields that gRPC-Go reads (the struct jsonSC and those in it).
var (
	serviceConfig = object{
		{"loadBalancingPolicy", optional{leaf[string]{"must be a string"}}},
		{"loadBalancingConfig", policies{}},
		{"methodConfig", optional{list{methodConfig}}},
		{"retryThrottling", optional{object{
			{"maxTokens", number}, {"tokenRatio", number},
		}}},
		{"healthCheckConfig", optional{object{{"serviceName", text}}}},
	}
	methodConfig = object{
		{"name", optional{list{object{{"service", text}, {"method", text}}}}},
		{"waitForReady", leaf[*bool]{"must be true or false"}},
		{"timeout", optional{duration}},
		{"maxRequestMessageBytes", leaf[*int64]{"must be a whole number"}},
		{"maxResponseMessageBytes", leaf[*int64]{"must be a whole number"}},
		{"retryPolicy", optional{object{
			{"maxAttempts", leaf[int]{"must be a whole number, without quotes"}},
			{"initialBackoff", duration},
			{"maxBackoff", duration},
			{"backoffMultiplier", number},
			{"retryableStatusCodes", optional{list{leaf[codes.Code]{`must be the name of a status code, such as "UNAVAILABLE"`}}}},
		}}},
	}
	text     = leaf[string]{"must be a string"}
	number   = leaf[float64]{"must be a number, without quotes"}
	duration = leaf[Duration]{errDuration.Error()}
)

// leaf is a value that is read into a T.
type leaf[T any] struct{ want string }

func (l leaf[T]) check(value json.RawMessage, path string, found *Problems) {
	if err := json.Unmarshal(value, new(T)); err != nil {
		e := configjson.Error{Value: configjson.Shown(value), Want: l.want}
		found.refuse(path, e.Error())
	}
}

// optional is a value that may be null.
type optional struct{ checker }

func (o optional) check(value json.RawMessage, path string, found *Problems) {
	if string(value) != "null" {
		o.checker.check(value, path, found)
	}
}

// list is a list of such values, each of which may be null too.
type list struct{ item checker }

func (l list) check(value json.RawMessage, path string, found *Problems) {
	var items []json.RawMessage
	if err := json.Unmarshal(value, &items); err != nil {
		e := configjson.Error{Value: configjson.Shown(value), Want: "must be a list"}
		found.refuse(path, e.Error())
		return
	}
	for i, item := range items {
		l.item.check(item, fmt.Sprintf("%s[%d]", path, i), found)
	}
}

// object is an object of these fields.
type object []struct {
	name  string
	value checker
}

func (o object) check(value json.RawMessage, path string, found *Problems) {
	value = bytes.TrimSpace(value)
	if string(value) == "null" {
		return // what a Go struct makes of it is nothing
	}
	dec := json.NewDecoder(bytes.NewReader(value))
	if open, err := dec.Token(); err != nil || open != json.Delim('{') {
		e := configjson.Error{Value: configjson.Shown(value), Want: "must be an object"}
		found.refuse(path, e.Error())
		return
	}
	seen := make(map[string]bool)
	for dec.More() {
		key, err := dec.Token()
		if err != nil {
			return // not so: the syntax is known to be right
		}
		name, _ := key.(string)
		var value json.RawMessage
		if err := dec.Decode(&value); err != nil {
			return
		}
		at := configjson.Join(path, name)
		field, ok := o.field(name)
		if !ok {
			found.Unknown = append(found.Unknown, Unknown{Path: at, Name: name, Meant: Nearest(name, o.names())})
			continue
		}
		if seen[field] {
			found.Repeated = append(found.Repeated, at)
		}
		seen[field] = true
		o.value(field).check(value, at, found)
	}
}

// field returns the name of the field that a key is read into: gRPC-Go does not
// mind capitals.
func (o object) field(key string) (string, bool) {
	for _, f := range o {
		if strings.EqualFold(f.name, key) {
			return f.name, true
		}
	}
	return "", false
}

func (o object) value(name string) checker {
	for _, f := range o {
		if f.name == name {
			return f.value
		}
	}
	return nil
}

func (o object) names() []string {
	names := make([]string, len(o))
	for i, f := range o {
		names[i] = f.name
	}
	return names
}
