package nethttp

import (
	"net/http"
	"testing"

	"connectrpc.com/connect"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding/gzip"
	"google.golang.org/grpc/status"

	"github.com/grpc-composite/grpc-composite/balancer/composite"
	"github.com/grpc-composite/grpc-composite/internal/testkit"
)

// TestGzip compresses requests to connect-go, which answers likewise.
func TestGzip(t *testing.T) {
	for _, k := range kinds {
		t.Run(k.name, func(t *testing.T) {
			t.Parallel()
			s, _, _ := k.pair(t)
			cc := s.dial(t, nil)
			for name, call := range calls {
				if got, err := call(testkit.Context(t), cc, grpc.UseCompressor(gzip.Name)); got != "a" || err != nil {
					t.Errorf("%s: answer from %q, error %v: want a", name, got, err)
				}
			}
		})
	}
}

// TestServerWithoutGzip has a first server that does not know the compression: the
// RPC goes on if UNIMPLEMENTED is retryable and comes in time.
func TestServerWithoutGzip(t *testing.T) {
	for _, tc := range []struct {
		name  string
		wrap  func(http.Handler) http.Handler
		code  codes.Code
		story string
	}{
		{"after headers", nil, codes.Unimplemented, "1 a Unimplemented committed"},
		{"trailers only", trailersOnly, codes.OK, "1 a Unimplemented, 2 b OK committed"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			plain := func(b *testkit.Backend) (http.Handler, func()) {
				return connectWith(b, connect.WithCompression(gzip.Name, nil, nil)), func() {}
			}
			s := &setup{kind: kind{name: "without gzip", handler: plain, serve: serveH2C}, wrap: tc.wrap}
			s.start(t, "a")
			s.kind.handler = connectHandler
			s.start(t, "b")
			var trail composite.Trail
			_, err := testkit.Unary(testkit.Context(t), s.dial(t, nil, "UNIMPLEMENTED"), grpc.UseCompressor(gzip.Name), composite.RecordTrail(&trail))
			if status.Code(err) != tc.code {
				t.Errorf("error %v: want %v", err, tc.code)
			}
			attempts(tc.story)(t, trail)
		})
	}
}
