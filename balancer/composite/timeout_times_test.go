package composite_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

	"github.com/grpc-composite/grpc-composite/internal/testkit"
)

// timedServer is the only server of a cluster.
type timedServer struct {
	limit time.Duration // of the cluster; 0: none
	reply testkit.Reply
	opts  []grpc.ServerOption
}

// TestTimeoutTimes checks when an attempt is cut, and when it is not.
func TestTimeoutTimes(t *testing.T) {
	const (
		limit  = 100 * time.Millisecond
		before = 50 * time.Millisecond
		beyond = 150 * time.Millisecond
		gap    = 50 * time.Millisecond // between messages
		large  = 60 << 10              // two of them are more than the window of a stream that nobody reads
	)
	var (
		healthy      = timedServer{limit: limit}
		hung         = timedServer{limit: limit, reply: hang}
		down         = timedServer{limit: limit, reply: testkit.U}
		unlimited    = timedServer{reply: hang}
		late         = timedServer{limit: limit, reply: testkit.Reply{Delay: beyond}}
		early        = timedServer{limit: limit, reply: testkit.Reply{Delay: before}}
		earlyHeaders = timedServer{limit: limit, opts: headersThenSilence(before, 10*time.Second)}
		lateHeaders  = timedServer{limit: limit, opts: headersThenSilence(beyond, 0)}
		readThenDown = timedServer{limit: limit, reply: testkit.U, opts: readFirst()}
	)
	type times struct {
		name    string
		servers []timedServer // of a, b, c
		call    rpc
		want    string // time, calls and code
	}
	var cases []times
	for _, kind := range fourKinds {
		for _, tc := range []times{
			{name: "headers in time, then silence", servers: []timedServer{earlyHeaders, healthy}, want: "10.05s 1/0 OK"},
			{name: "headers that are late", servers: []timedServer{lateHeaders, healthy}, want: "100ms 0/1 OK"},
			{name: "an answer in time", servers: []timedServer{early, healthy}, want: "50ms 1/0 OK"},
			{name: "an answer that is late", servers: []timedServer{late, healthy}, want: "100ms 1/1 OK"},
			{name: "hung", servers: []timedServer{hung, hung, hung}, want: "300ms 1/1/1 DeadlineExceeded"},
			{name: "different limits", servers: []timedServer{hung, {limit: 300 * time.Millisecond, reply: hang}, {limit: time.Second, reply: hang}}, want: "1.4s 1/1/1 DeadlineExceeded"},
			{name: "no limit after one", servers: []timedServer{hung, unlimited, healthy}, want: "1m0s 1/1/0 DeadlineExceeded"},
			{name: "a limit after none", servers: []timedServer{{reply: testkit.U}, hung, healthy}, want: "100ms 1/1/1 OK"},
			{name: "a limit beyond the RPC's", servers: []timedServer{{limit: time.Hour, reply: hang}, healthy}, want: "1m0s 1/0 DeadlineExceeded"},
		} {
			tc.name, tc.call = tc.name+", "+kind.name, kind.call
			cases = append(cases, tc)
		}
	}
	cases = append(cases, []times{
		{"a slow upload", []timedServer{healthy}, slowUpload(10, 10, gap), "550ms 1 OK"},
		{"a slow upload to a hung server", []timedServer{hung, healthy}, slowUpload(10, 10, gap), "650ms 1/1 OK"},
		{"a slow upload that is repeated on the way", []timedServer{down, healthy}, slowUpload(10, 10, gap), "550ms 1/1 OK"},
		{"a slow upload that is repeated on the way, to a hung server", []timedServer{down, hung, healthy}, slowUpload(10, 10, gap), "650ms 1/1/1 OK"},
		{"a slow upload that is repeated as a whole, to a hung server", []timedServer{readThenDown, hung, healthy}, slowUpload(10, 10, gap), "650ms 1/1/1 OK"},
		{"an upload without a message", []timedServer{hung, hung, healthy}, slowUpload(0, 0, gap), "250ms 1/1/1 OK"},
		{"an upload that a server never reads", []timedServer{hung, healthy}, slowUpload(10, large, 0), "1m0s 1/0 DeadlineExceeded"},
		{"an upload of which a server never reads what it can leave", []timedServer{hung, healthy}, slowUpload(2, large, 0), "100ms 1/1 OK"},
		{"bidi that is never half-closed", []timedServer{hung, healthy}, receiveRPC, "1m0s 1/0 DeadlineExceeded"},
		{"bidi that is half-closed late", []timedServer{hung, healthy}, slowBidi(time.Second, 0), "1.1s 1/1 OK"},
		{"bidi that is half-closed long after the headers", []timedServer{{limit: limit, reply: testkit.Reply{Headers: true}}, healthy}, slowBidi(time.Second, 0), "1s 1/0 OK"},
		{"an error in time that the client reads late", []timedServer{{limit: limit, reply: testkit.Reply{Code: codes.NotFound}}, healthy}, slowBidi(0, time.Second), "1s 1/0 NotFound"},
		{"an error in time that the client reads late, and that is retried", []timedServer{down, healthy}, slowBidi(0, time.Second), "1s 1/1 OK"},
	}...)
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				net := newBubbleNet()
				var backends []*testkit.Backend
				var clusters []testkit.Cluster
				for i, s := range tc.servers {
					b := net.start(t, string(rune('a'+i)), s.opts...)
					b.Script(s.reply)
					backends = append(backends, b)
					cluster := testkit.Clusters(b)
					if s.limit > 0 {
						cluster = timed(s.limit, cluster...)
					}
					clusters = append(clusters, cluster...)
				}
				cc := net.dial(t, goingOn(clusters...))
				got, err := outcome(t, tc.call, cc, backends...)
				if got != tc.want {
					t.Errorf("%s (%v): want %s", got, err, tc.want)
				}
				if strings.HasPrefix(tc.want, rpcTime.String()) {
					checkMessage(t, err, codes.DeadlineExceeded, "", "attemptTimeout")
				}
			})
		})
	}
}
