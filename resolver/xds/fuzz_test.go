package xds

import (
	"encoding/json"
	"net/url"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"
)

// FuzzParseTarget checks what holds for every target, good or bad.
func FuzzParseTarget(f *testing.F) {
	add := func(target string) {
		_, text, _ := strings.Cut(target, ":")
		f.Add(text)
	}
	for _, tc := range accepted {
		add(tc.input)
	}
	for _, tc := range rejected {
		add(tc.input)
	}
	f.Fuzz(func(t *testing.T, text string) {
		u, err := url.Parse(Scheme + ":" + text)
		if err != nil {
			t.Skip("gRPC does not take it for such a target")
		}
		s, err := parseSpec(*u)
		if err != nil {
			if text := err.Error(); !strings.HasPrefix(text, "composite-xds: target: ") || !utf8.ValidString(text) {
				t.Errorf("the error %q must begin with \"composite-xds: target: \" and be valid UTF-8", text)
			}
			return
		}
		if s.target.URL.Scheme != "xds" || s.target.URL.RawQuery != "" || s.target.Endpoint() == "" || s.target.URL.Host != u.Host || s.target.URL.Path != u.Path {
			t.Errorf("%q becomes %q: want its authority and path, and no query", text, s.target.URL.String())
		}
		config, err := json.Marshal(s.policy)
		if err != nil {
			t.Fatal(err)
		}
		again, err := parseText(t, Scheme+":///x?config="+url.QueryEscape(string(config)))
		if err != nil || !reflect.DeepEqual(again.policy, s.policy) {
			t.Errorf("%q has the config %s; that is %v, error %v", text, config, again, err)
		}
		// What is filled in depends on the routes, and changes nothing else.
		for _, routed := range []map[string]bool{nil, {"a": true}} {
			filled := fill(s.policy, routed)
			if twice := fill(filled, routed); !reflect.DeepEqual(twice, filled) {
				t.Errorf("%s is filled to %v, and then to %v", config, filled, twice)
			}
		}
		if after, err := json.Marshal(s.policy); err != nil || string(after) != string(config) {
			t.Errorf("filling has changed %s to %s, error %v", config, after, err)
		}
	})
}
