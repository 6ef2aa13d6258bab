package svcconfig_test

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/grpc-composite/grpc-composite/internal/svcconfig"
)

// TestFindAndBeside looks for pick_first down from round_robin, as if this had policies
// inside it.
func TestFindAndBeside(t *testing.T) {
	for _, tc := range []struct {
		name, config string
		found        []string // their paths
		beside       bool
	}{
		{"no list", `{}`, nil, true},
		{"a list of something else", `{"targets":[{"a":1},{"b":2}]}`, nil, true},
		{"no JSON", `{`, nil, true},
		{"it alone", `{"childPolicy":[{"unknown":{}},{"pick_first":{}},{"round_robin":{}}]}`, []string{"p.childPolicy[1].pick_first"}, false},
		{"it inside another", `{"childPolicy":[{"round_robin":{"childPolicy":[{"pick_first":{}}]}}]}`, []string{"p.childPolicy[0].round_robin.childPolicy[0].pick_first"}, false},
		{"two of it", `{"a":[{"pick_first":{}}],"b":{"c":[{"pick_first":{}}]}}`, []string{"p.a[0].pick_first", "p.b.c[0].pick_first"}, false},
		{"it, and another after it", `{"a":[{"pick_first":{}}],"b":[{"round_robin":{}}]}`, []string{"p.a[0].pick_first"}, true},
		{"it, and another before it that is deeper", `{"a":[{"round_robin":{"x":[{"round_robin":{}}]}}],"b":[{"pick_first":{}}]}`, []string{"p.b[0].pick_first"}, true},
		{"not what is inside it", `{"a":[{"pick_first":{"x":[{"round_robin":{}}],"y":[{"pick_first":{}}]}}]}`, []string{"p.a[0].pick_first"}, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p := svcconfig.Policy{Path: "p", Name: "round_robin", Config: json.RawMessage(tc.config)}
			var found []string
			for _, f := range svcconfig.Find(p, "pick_first") {
				found = append(found, f.Path)
			}
			if !slices.Equal(found, tc.found) {
				t.Errorf("Find = %q, want %q", found, tc.found)
			}
			if beside := svcconfig.Beside(p, "pick_first"); beside != tc.beside {
				t.Errorf("Beside = %v, want %v", beside, tc.beside)
			}
			if p.Name = "pick_first"; svcconfig.Beside(p, "pick_first") {
				t.Error("Beside = true for a policy of the name itself, want false")
			}
		})
	}
}
