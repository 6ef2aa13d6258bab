package composite

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/grpc-composite/grpc-composite/internal/plan"
)

// FuzzParseConfig checks what holds for every config, good or bad.
func FuzzParseConfig(f *testing.F) {
	for _, tc := range rejectedConfigs {
		f.Add(tc.input)
	}
	for _, tc := range acceptedConfigs() {
		f.Add(tc.input)
	}
	f.Add(`{"clusters":[{"name":"a","target":"dns://8.8.8.8/x%2C?y#z"}]}`)
	f.Fuzz(func(t *testing.T, data string) {
		cfg, unknown, err := parseConfig(json.RawMessage(data))
		if err != nil {
			if text := err.Error(); !strings.HasPrefix(text, "composite: ") || !utf8.ValidString(text) {
				t.Errorf("the error %q must begin with \"composite: \" and be valid UTF-8", text)
			}
			if cfg != nil || unknown != nil {
				t.Errorf("besides the error there are %+v and %q", cfg, unknown)
			}
			return
		}
		checkConfig(t, cfg)
		again, unknownAgain, err := parseConfig(json.RawMessage(data))
		if err != nil || !reflect.DeepEqual(again, cfg) || !reflect.DeepEqual(unknownAgain, unknown) {
			t.Errorf("parsing again gives %+v, unknown %q, error %v: want %+v, unknown %q", again, unknownAgain, err, cfg, unknown)
		}
	})
}

// checkConfig checks what the rest of the package relies on.
func checkConfig(t *testing.T, cfg *lbConfig) {
	t.Helper()
	if len(cfg.clusters) == 0 {
		t.Error("a config must have a cluster")
	}
	if n := cfg.slots.Len(); n < 1 || n > plan.MaxSlots {
		t.Errorf("%d slots: must be from 1 to %d", n, plan.MaxSlots)
	}
	used := make(map[int]bool)
	for slot := range cfg.slots.Len() {
		used[cfg.slots.Cluster(slot)] = true
	}
	names := make(map[string]bool)
	for i, c := range cfg.clusters {
		if c.name == "" || len(c.name) > maxNameLength || names[c.name] {
			t.Errorf("the name %q must be of 1 to %d bytes and no other cluster's", c.name, maxNameLength)
		}
		names[c.name] = true
		if !used[i] {
			t.Errorf("cluster %q has no slot", c.name)
		}
		if c.connectTimeout < 0 {
			t.Errorf("cluster %q has the connect timeout %v: must not be negative", c.name, c.connectTimeout)
		}
		if c.child.builder == nil {
			t.Errorf("cluster %q has no policy", c.name)
		}
		if !c.child.equal(c.child) {
			t.Errorf("cluster %q has a policy that does not equal itself", c.name)
		}
		if c.target != nil && c.target.Builder == nil {
			t.Errorf("cluster %q has a target without a resolver", c.name)
		}
		if inner, ok := c.child.config.(*lbConfig); ok {
			checkConfig(t, inner)
		}
	}
	if len(used) != len(cfg.clusters) {
		t.Errorf("%d clusters have slots, of %d", len(used), len(cfg.clusters))
	}
}
