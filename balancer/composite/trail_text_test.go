package composite_test

import (
	"errors"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"

	"github.com/grpc-composite/grpc-composite/balancer/composite"
)

// TestTextOfTrail checks how trails read.
func TestTextOfTrail(t *testing.T) {
	const peer = "192.0.2.1:443"
	refused := errors.New("connection refused")
	for _, tc := range []struct {
		name  string
		trail []composite.Attempt
		want  string
	}{
		{"none", nil, ""},
		{"an odd address", []composite.Attempt{{Number: 1, Cluster: "a", Peer: "/tmp/x\n; attempt 2 b: OK", Committed: true}, {Number: 2, Cluster: "b", Peer: "\xff"}}, `attempt 1 a "/tmp/x\n; attempt 2 b: OK": OK; attempt 2 b "\xff": OK`},
		{"a success", []composite.Attempt{{Number: 1, Cluster: "a", Peer: peer, Committed: true}}, "attempt 1 a 192.0.2.1:443: OK"},
		{
			"failures",
			[]composite.Attempt{
				{Number: 1, Cluster: "a", Peer: peer, Code: codes.ResourceExhausted, Message: "slow down"},
				{Number: 2, Cluster: "b", Peer: peer, Code: codes.Canceled, Message: "", Committed: true},
			},
			`attempt 1 a 192.0.2.1:443: RESOURCE_EXHAUSTED "slow down"; attempt 2 b 192.0.2.1:443: CANCELLED (committed)`,
		},
		{
			"a transparent retry",
			[]composite.Attempt{
				{Number: 1, Cluster: "a", Peer: peer, Code: codes.Unavailable, Message: "refused"},
				{Number: 1, Cluster: "a", Peer: peer, Transparent: true},
			},
			`attempt 1 a 192.0.2.1:443: UNAVAILABLE "refused"; attempt 1 (transparent retry) a 192.0.2.1:443: OK`,
		},
		{"one that was never sent", []composite.Attempt{{Number: 1, Cluster: "a", Code: codes.DeadlineExceeded, Message: "waited"}}, `attempt 1 a: DEADLINE_EXCEEDED "waited"`},
		{
			"skips",
			[]composite.Attempt{{Number: 1, Cluster: "c", Peer: peer, Code: codes.Unavailable, Message: "down", Skipped: []composite.Skip{
				{Cluster: "a", Reason: "transient_failure", Err: refused}, {Cluster: "b", Reason: "max_requests"},
			}}},
			`attempt 1 a skipped: transient failure ("connection refused"), b skipped: max requests, then c 192.0.2.1:443: UNAVAILABLE "down"`,
		},
		{
			"no host, and a cause that was told before",
			[]composite.Attempt{
				{Number: 1, Skipped: []composite.Skip{{Cluster: "a", Reason: "transient_failure", Err: refused}}, Code: codes.Unavailable, Message: "no host"},
				{Number: 2, Skipped: []composite.Skip{{Cluster: "a", Reason: "transient_failure", Err: refused}}, Code: codes.Unavailable, Message: "no host"},
				{Number: 3, Code: codes.Unavailable, Message: "past the end"},
			},
			`attempt 1 a skipped: transient failure ("connection refused"), then no host: UNAVAILABLE; attempt 2 a skipped: transient failure, then no host: UNAVAILABLE; attempt 3 no host: UNAVAILABLE`,
		},
		{
			"what does not fit on a line",
			[]composite.Attempt{{Number: 1, Cluster: "a b\n", Peer: peer, Code: codes.Internal, Message: "<h1>\r\n\x00\xff\u2028</h1>", Skipped: []composite.Skip{
				{Cluster: "über", Reason: "pick_error", Err: errors.New("a\nb")},
			}}},
			`attempt 1 über skipped: pick error ("a\nb"), then "a b\n" 192.0.2.1:443: INTERNAL "<h1>\r\n\x00\xff\u2028</h1>"`,
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := (composite.Trail{Attempts: tc.trail}).String(); got != tc.want {
				t.Errorf("text %s\nwant %s", got, tc.want)
			}
		})
	}
}

// TestTextIsShort checks that the text of a trail has at most 1 KiB, and tells how
// much it leaves out.
func TestTextIsShort(t *testing.T) {
	long := strings.Repeat("\x00", 1000)
	repeat := func(n int, a composite.Attempt) (all []composite.Attempt) {
		for i := range n {
			a.Number = i + 1
			all = append(all, a)
		}
		return all
	}
	skips := func(n int, s composite.Skip) (all []composite.Skip) {
		for i := range n {
			s.Cluster = strings.Repeat(string(rune('a'+i%26)), 1+i%256)
			all = append(all, s)
		}
		return all
	}
	for _, tc := range []struct {
		name  string
		trail []composite.Attempt
		parts []string
	}{
		{"many attempts", repeat(64, composite.Attempt{Cluster: "primary", Peer: "127.0.0.1:50051", Code: codes.Unavailable, Message: "scripted"}), []string{`attempt 1 primary`, `UNAVAILABLE "scripted"; and 47 more`}},
		{"attempts that just fit", repeat(17, composite.Attempt{Cluster: "primary", Peer: "127.0.0.1:50051", Code: codes.Unavailable, Message: "scripted"}), []string{`attempt 17 primary 127.0.0.1:50051: UNAVAILABLE "scripted"`}},
		{"a long message", repeat(1, composite.Attempt{Cluster: "a", Message: long}), []string{`attempt 1 a: OK "\x00`, `...`}},
		{"long messages", repeat(9, composite.Attempt{Cluster: "a", Message: long}), []string{"; and 8 more"}},
		{"long names", repeat(9, composite.Attempt{Cluster: long[:256], Message: long}), []string{"; and 8 more"}},
		{"many skips", repeat(3, composite.Attempt{Cluster: "z", Skipped: skips(64, composite.Skip{Reason: "no_endpoints"})}), []string{"attempt 1 a skipped: no endpoints, bb skipped: no endpoints", " more skipped, then z: OK"}},
		{"many skips with long causes", repeat(64, composite.Attempt{Skipped: skips(64, composite.Skip{Reason: "transient_failure", Err: errors.New(long)})}), []string{"attempt 1 a skipped: transient failure (", "; and 63 more"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			text := composite.Trail{Attempts: tc.trail}.String()
			if len(text) > 1024 {
				t.Errorf("%d bytes: want at most 1024", len(text))
			}
			checkLine(t, text)
			for _, part := range tc.parts {
				if !strings.Contains(text, part) {
					t.Errorf("text %q: want %q in it", text, part)
				}
			}
		})
	}
}
