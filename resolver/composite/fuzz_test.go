package composite

import (
	"fmt"
	"net/url"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

// FuzzParseTarget checks what holds for every target, good or bad.
func FuzzParseTarget(f *testing.F) {
	for _, tc := range accepted {
		f.Add(afterScheme(tc.input))
	}
	for _, tc := range rejected {
		f.Add(afterScheme(tc.input))
	}
	f.Fuzz(func(t *testing.T, text string) {
		u, err := url.Parse("composite:" + text)
		if err != nil {
			t.Skip("gRPC does not take it for such a target")
		}
		s, err := parseSpec(*u)
		if err != nil {
			if text := err.Error(); !strings.HasPrefix(text, "composite: target: ") || !utf8.ValidString(text) {
				t.Errorf("the error %q must begin with \"composite: target: \" and be valid UTF-8", text)
			}
			return
		}
		if want := commas(text); len(s.clusters) > 0 && len(s.clusters) != want+1 {
			t.Errorf("%q has %d clusters: want %d, as it has %d commas", text, len(s.clusters), want+1, want)
		}
		again, err := parseText(t, s.format())
		if err != nil || !reflect.DeepEqual(again, s) {
			t.Errorf("%q is %+v; written as %q it is %+v, error %v", text, s, s.format(), again, err)
		}
		if len(s.clusters) > 0 {
			acceptedByGRPC(t, s)
		}
	})
}

func afterScheme(target string) string {
	_, text, _ := strings.Cut(target, ":")
	return text
}

// commas counts the commas of a path as it is written.
func commas(text string) int {
	path, _, _ := strings.Cut(text, "#")
	path, _, _ = strings.Cut(path, "?")
	return strings.Count(path, ",")
}

// acceptedByGRPC checks that a channel accepts the service config, and so that
// the policy accepts its own.
func acceptedByGRPC(t *testing.T, s *spec) {
	t.Helper()
	config, err := s.serviceConfig()
	if err != nil {
		t.Fatal(err)
	}
	cc, err := grpc.NewClient("passthrough:///", grpc.WithDefaultServiceConfig(config), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatalf("%s has the service config %s: %v", s.format(), config, err)
	}
	_ = cc.Close()
}

// format writes a spec as a target.
func (s *spec) format() string {
	var parts []string
	for _, c := range s.clusters {
		text := escape(c.target.Text)
		if m := named.FindStringSubmatch(c.name + "="); m != nil && m[1] == c.name {
			text = c.name + "=" + text
		}
		parts = append(parts, text)
	}
	target := Scheme + ":///" + strings.Join(parts, ",")
	if query := s.query.format(); query != "" {
		target += "?" + query
	}
	return target
}

func (q *specQuery) format() string {
	var pairs []string
	add := func(key, value string) {
		if value != "" {
			pairs = append(pairs, key+"="+url.QueryEscape(value))
		}
	}
	add("retryOn", strings.Join(q.retryOn, ","))
	if q.attempts > 0 {
		add("attempts", strconv.FormatUint(q.attempts, 10))
	}
	add("policy", q.policy)
	addDuration := func(key string, d *time.Duration) {
		if d != nil {
			add(key, d.String())
		}
	}
	addDuration("connectTimeout", q.connectTimeout)
	addDuration("attemptTimeout", q.attemptTimeout)
	add("overflow", q.overflow)
	return strings.Join(pairs, "&")
}

// escape escapes all that might mean something in a path.
func escape(target string) string {
	const literal = "-_.~:/[]"
	var b strings.Builder
	for i := range len(target) {
		c := target[i]
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', strings.IndexByte(literal, c) >= 0:
			b.WriteByte(c)
		default:
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return b.String()
}
