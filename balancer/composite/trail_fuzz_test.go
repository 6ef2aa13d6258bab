package composite

import (
	"errors"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"google.golang.org/grpc/codes"
)

// FuzzTrail checks that a trail is one line that can be shown, whatever clusters are
// called, and whatever servers and resolvers say.
func FuzzTrail(f *testing.F) {
	f.Add("primary", "127.0.0.1:50051", "not now", "secondary", "connection refused", byte(2), byte(1))
	f.Add("a b", "", "", "", "", byte(0), byte(0))
	f.Add("a\nb", "@\x00\n", "<html>\n<body>\xff", "\u202e", "\x1b[31m", byte(255), byte(255))
	f.Add(strings.Repeat("é", 128), strings.Repeat("1", 100), strings.Repeat("\n", 300), strings.Repeat("\"", 256), strings.Repeat("\\", 300), byte(9), byte(64))
	f.Fuzz(func(t *testing.T, cluster, peer, message, skipped, cause string, attempts, flags byte) {
		if len(cluster) > maxNameLength || len(skipped) > maxNameLength || !utf8.ValidString(cluster+skipped) {
			return // the config's parser refuses it
		}
		var trail Trail
		for i := range int(attempts) % 64 {
			a := Attempt{
				Number: i + 1, Cluster: cluster, Peer: peer, Message: message,
				Code: codes.Code(flags % 20), Transparent: flags&32 != 0, Committed: flags&64 != 0,
			}
			for j := range i % 8 {
				a.Skipped = append(a.Skipped, Skip{Cluster: skipped[:len(skipped)*(j%2)], Reason: "no_endpoints", Err: errors.New(cause)})
			}
			trail.Attempts = append(trail.Attempts, a)
		}
		text := trail.String()
		if len(text) > maxTrailLength || !utf8.ValidString(text) || strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) {
			t.Errorf("the trail of %d bytes: %q", len(text), text)
		}
	})
}
