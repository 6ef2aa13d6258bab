package composite_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

	"github.com/grpc-composite/grpc-composite/internal/testkit"
)

// rawClusters is a list of clusters in which one, at an index, is a raw server.
func rawClusters(raw *testkit.RawServer, at int, backends []*testkit.Backend) []testkit.Cluster {
	own := patient([]*testkit.Backend{{Name: raw.Name, Addr: raw.Addr}})
	return slices.Insert(testkit.Clusters(backends...), at, own...)
}

// TestBrokenServers checks what counts as an attempt when a server does not
// answer as a gRPC server does. The number of streams is how often the raw
// server was tried, and the counts tell the numbers of the later attempts.
func TestBrokenServers(t *testing.T) {
	const (
		ok         = testkit.RawOK
		refuse     = testkit.RawRefuse
		reset      = testkit.RawReset
		goAway     = testkit.RawGoAway
		closed     = testkit.RawClose
		badGateway = testkit.RawBadGateway
	)
	kinds := []struct {
		name string
		call rpc
	}{{"unary", unaryRPC}, {"bidi", bidiRPC}}
	disabled := []grpc.DialOption{grpc.WithDisableRetry()}
	for _, tc := range []struct {
		name      string
		at        int // index of the raw server in the list
		raw       []testkit.RawReply
		servers   string // the others
		retryable []string
		opts      []grpc.DialOption
		streams   int
		counts    string
		code      codes.Code
		parts     []string
	}{
		{name: "every stream refused: twice attempt 1", raw: []testkit.RawReply{refuse}, servers: "U OK", streams: 2, counts: "1/1"},
		{name: "one stream refused: the same cluster again", raw: []testkit.RawReply{refuse, ok}, servers: "OK OK", streams: 2, counts: "0/0"},
		{name: "one stream refused, then reset: attempt 2 follows", raw: []testkit.RawReply{refuse, reset}, servers: "U OK", retryable: []string{"INTERNAL", "UNAVAILABLE"}, streams: 2, counts: "1/1"},
		{name: "a stream of attempt 2 refused: attempt 3 follows", at: 1, raw: []testkit.RawReply{refuse}, servers: "U OK", streams: 1, counts: "1/1"},
		{name: "one stream refused, with retries disabled", raw: []testkit.RawReply{refuse, ok}, servers: "OK OK", opts: disabled, streams: 2, counts: "0/0"},
		{name: "every stream refused, with retries disabled", raw: []testkit.RawReply{refuse}, servers: "OK OK", opts: disabled, streams: 2, counts: "0/0", code: codes.Unavailable, parts: []string{"REFUSED_STREAM"}},
		{name: "every stream left out by a GOAWAY: twice attempt 1", raw: []testkit.RawReply{goAway}, servers: "U OK", streams: 2, counts: "1/1"},
		{name: "one stream left out by a GOAWAY: the same cluster again", raw: []testkit.RawReply{goAway, ok}, servers: "OK OK", streams: 2, counts: "0/0"},
		{name: "a stream of attempt 2 left out by a GOAWAY: attempt 3 follows", at: 1, raw: []testkit.RawReply{goAway}, servers: "U OK", streams: 1, counts: "1/1"},
		{name: "connection closed after the request", raw: []testkit.RawReply{closed}, servers: "U OK", streams: 1, counts: "1/1"},
		{name: "connection closed at attempt 2", at: 1, raw: []testkit.RawReply{closed}, servers: "U OK", streams: 1, counts: "1/1"},
		{name: "an HTTP error", raw: []testkit.RawReply{badGateway}, servers: "U OK", streams: 1, counts: "1/1"},
		{name: "an HTTP error from the last cluster", at: 2, raw: []testkit.RawReply{badGateway}, servers: "U U", streams: 1, counts: "1/1", code: codes.Unavailable, parts: []string{"502", "Bad Gateway"}},
		{name: "a stream that was reset", raw: []testkit.RawReply{reset}, servers: "U OK", retryable: []string{"INTERNAL", "UNAVAILABLE"}, streams: 1, counts: "1/1"},
		{name: "a stream that was reset, which is not retryable", raw: []testkit.RawReply{reset}, servers: "OK OK", streams: 1, counts: "0/0", code: codes.Internal, parts: []string{"RST_STREAM"}},
	} {
		for _, kind := range kinds {
			t.Run(tc.name+"/"+kind.name, func(t *testing.T) {
				t.Parallel()
				raw := testkit.StartRaw(t, "raw", tc.raw...)
				backends := startScripted(t, tc.servers)
				s := testkit.Service{Clusters: rawClusters(raw, tc.at, backends), Attempts: 3, Retryable: tc.retryable}
				err := kind.call(testkit.Context(t), dial(t, s, tc.opts...))
				// Of a failure that gRPC-Go notices while it repeats a Send, it
				// sometimes tells no more than io.EOF.
				if tc.code == codes.OK || kind.name != "bidi" || !errors.Is(err, io.EOF) {
					checkError(t, err, tc.code, tc.parts...)
				}
				if got := raw.Streams(); got != tc.streams {
					t.Errorf("%d streams: want %d", got, tc.streams)
				}
				if got := testkit.Counts(backends...); got != tc.counts {
					t.Errorf("calls %s: want %s", got, tc.counts)
				}
			})
		}
	}
}

// TestSilentServer checks that an attempt without an answer lasts until the
// caller gives up, and that nothing follows it.
func TestSilentServer(t *testing.T) {
	for _, kind := range rpcKinds {
		t.Run(kind.name, func(t *testing.T) {
			t.Parallel()
			raw := testkit.StartRaw(t, "raw", testkit.RawSilence)
			backends := startScripted(t, "OK OK")
			cc := dial(t, testkit.Service{Clusters: rawClusters(raw, 0, backends), Attempts: 3})
			ctx, cancel := context.WithCancel(testkit.Context(t))
			result := make(chan error, 1)
			go func() { result <- kind.call(ctx, cc) }()
			testkit.Eventually(t, "a stream", func() bool { return raw.Streams() == 1 })
			cancel()
			checkError(t, <-result, codes.Canceled)
			if got := fmt.Sprintf("%d/%s", raw.Streams(), testkit.Counts(backends...)); got != "1/0/0" {
				t.Errorf("calls %s: want 1/0/0", got)
			}
		})
	}
}
