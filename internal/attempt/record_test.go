package attempt

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"
)

// timeline is a trace of which every event takes a second. Besides a trace's steps
// it has
//
//	open              the attempt's stream is opened
//	header            a response header comes
//	over              the stream is over, without an error
//	over UNAVAILABLE  it is over with one
//	over EOF          it is over with what gRPC-Go makes of a Send that it does not retry any more
type timeline struct {
	*trace
	ledger *Ledger
	now    time.Time
}

func newTimeline(t *testing.T, cc *grpc.ClientConn) *timeline {
	t.Helper()
	rpc, l, _ := open(context.Background(), cc, method, opener)
	return &timeline{trace: newTrace(rpc, t), ledger: l, now: time.Unix(1000, 0)}
}

func (tl *timeline) run(steps string) {
	tl.t.Helper()
	h := StatsHandler()
	for step := range strings.SplitSeq(steps, ";") {
		step = strings.TrimSpace(step)
		verb, arg, _ := strings.Cut(step, " ")
		tl.now = tl.now.Add(time.Second)
		switch verb {
		case "begin":
			h.HandleRPC(tl.current.attempt, &stats.Begin{BeginTime: tl.now, IsTransparentRetryAttempt: arg == "transparent"})
		case "open":
			h.HandleRPC(tl.current.attempt, &stats.OutHeader{RemoteAddr: &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 443}})
		case "header":
			h.HandleRPC(tl.current.attempt, &stats.InHeader{})
		case "end":
			h.HandleRPC(tl.current.attempt, &stats.End{EndTime: tl.now, Error: failure(arg)})
		case "over":
			err := failure(strings.TrimSuffix(arg, "EOF"))
			if arg == "EOF" {
				err = errStopped
			}
			tl.ledger.Records(err)
		default:
			tl.step(step)
		}
	}
}

var errStopped = fmt.Errorf("max retries exhausted: failed after 2 attempts: %w", io.EOF)

// describeRecords describes what is known: "1 Unavailable (scripted) 2s; 2 OK open".
func describeRecords(records []Record) string {
	var parts []string
	for _, r := range records {
		part := fmt.Sprintf("%d %v", r.Number(), r.Status.Code())
		if m := r.Status.Message(); m != "" {
			part += " (" + m + ")"
		}
		if r.Transparent() {
			part += " transparent"
		}
		if r.Peer != nil {
			part += " open"
		}
		if r.Committed {
			part += " committed"
		}
		parts = append(parts, part)
	}
	return strings.Join(parts, "; ")
}

func TestRecords(t *testing.T) {
	unavailable := channel(t, "UNAVAILABLE")
	several := channel(t, "UNAVAILABLE", "ABORTED")
	for _, tc := range []struct {
		name  string
		cc    *grpc.ClientConn // default: retries UNAVAILABLE
		trace string
		err   error // of the RPC
		want  string
	}{
		{name: "no attempt", trace: "", err: failure("UNAVAILABLE"), want: ""},
		{name: "an attempt that was never picked for", trace: "tag s1; begin", err: failure("UNAVAILABLE"), want: ""},
		{name: "success", trace: "tag s1; begin; pick; open; header; end", want: "1 OK open committed"},
		{name: "success of a stream", trace: "tag s1; begin; pick; open; header; end", err: io.EOF, want: "1 OK open committed"},
		{name: "failure", trace: "tag s1; begin; pick; open; end UNAVAILABLE", err: failure("UNAVAILABLE"), want: "1 Unavailable (scripted) open"},
		{name: "no host", trace: "tag s1; begin; pick; end UNAVAILABLE; tag s1; begin; tag s1; begin; pick; open; end", want: "1 Unavailable (scripted); 2 OK open"},
		{name: "a retry", trace: "tag s1; begin; pick; open; end ABORTED; tag s1; begin; pick; open; end", want: "1 Aborted (scripted) open; 2 OK open"},
		{name: "a transparent retry", trace: "tag s1; begin; pick; open; end UNAVAILABLE; tag s1; begin transparent; pick; open; end", want: "1 Unavailable (scripted) open; 1 OK transparent open"},
		{name: "Send notices: the only retryable code", trace: "tag s1; begin; pick; open; end; tag s1; begin; pick; open; end", want: "1 Unavailable (not reported by grpc-go) open; 2 OK open"},
		{name: "Send notices: one of several", cc: several, trace: "tag s1; begin; pick; open; end; tag s1; begin; pick; open; end", want: "1 Unknown (not reported by grpc-go) open; 2 OK open"},
		{name: "Send notices that the stream was refused", trace: "tag s1; begin; pick; open; end; tag s1; begin transparent; pick; open; end", want: "1 Unknown (not reported by grpc-go) open; 1 OK transparent open"},
		{name: "Send notices: the RPC's own for the last", trace: "tag s1; begin; pick; open; end", err: failure("ABORTED"), want: "1 Aborted (scripted) open"},
		{name: "Send notices: no retries left", trace: "tag s1; begin; pick; open; end", err: errStopped, want: "1 Unavailable (not reported by grpc-go) open"},
		{name: "Send notices: no retries left, and the RPC's own", trace: "tag s1; begin; pick; open; end; over EOF", err: failure("ABORTED"), want: "1 Aborted (scripted) open"},
		{name: "an interceptor tries again", trace: "tag s1; begin; pick; open; end ABORTED; close; tag s2; begin; pick; open; end", want: "1 Aborted (scripted) open; 2 OK open"},
		{name: "an interceptor tries again what Send noticed", trace: "tag s1; begin; pick; open; end; close; tag s2; begin; pick; open; end", want: "1 Unknown (not reported by grpc-go) open; 2 OK open"},
		{name: "an interceptor tries again what Send noticed, and the stream told", trace: "tag s1; begin; pick; open; end; over ABORTED; close; tag s2; begin; pick; open; end", want: "1 Aborted (scripted) open; 2 OK open"},
		{name: "at once: the other is not over", trace: "tag s1; begin; pick; open; tag s2; begin; pick; open; on s1; end", want: "1 OK open; 2 Canceled (not over when the RPC ended) open"},
		{name: "at once: the other is not sent", trace: "tag s1; begin; pick; open; tag s2; begin; pick; on s1; end", want: "1 OK open; 2 Canceled (not over when the RPC ended)"},
		{name: "at once: a success stays one when the other fails", trace: "tag s1; begin; pick; open; tag s2; begin; pick; open; on s1; end; over; on s2; end CANCELLED; over CANCELLED", want: "1 OK open; 2 Canceled (scripted) open"},
		{name: "at once: a success stays one if the other's failure is told first", trace: "tag s1; begin; pick; open; tag s2; begin; pick; open; end; on s1; end ABORTED; over ABORTED; over", want: "1 Aborted (scripted) open; 2 OK open"},
		{name: "at once: all fail, one unreported", trace: "tag s1; begin; pick; open; tag s2; begin; pick; open; end; over UNAVAILABLE; on s1; end ABORTED; over ABORTED", err: failure("ABORTED"), want: "1 Aborted (scripted) open; 2 Unavailable (scripted) open"},
		{name: "an interceptor's error is no attempt's", trace: "tag s1; begin; pick; open; header", err: errors.New("own"), want: "1 Canceled (not over when the RPC ended) open committed"},
		{name: "an interceptor's error after a success", trace: "tag s1; begin; pick; open; header; end", err: errors.New("own"), want: "1 OK open committed"},
		{name: "two stats handlers", trace: "tag s1; tag again; begin; begin; pick; open; open; header; header; end; end", want: "1 OK open committed"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			cc := tc.cc
			if cc == nil {
				cc = unavailable
			}
			tl := newTimeline(t, cc)
			if tc.trace != "" {
				tl.run(tc.trace)
			}
			records, dropped := tl.ledger.Records(tc.err)
			if got := describeRecords(records); got != tc.want || dropped != 0 {
				t.Errorf("records %q, %d dropped: want %q", got, dropped, tc.want)
			}
			if _, final := status.FromError(tc.err); !final {
				return
			}
			records, _ = tl.ledger.Records(status.Error(codes.DataLoss, "later"))
			if got := describeRecords(records); got != tc.want {
				t.Errorf("later the records are %q: want still %q", got, tc.want)
			}
		})
	}
}

// TestRecordTimes checks when attempts began, and how long they took.
func TestRecordTimes(t *testing.T) {
	tl := newTimeline(t, channel(t))
	tl.run("tag s1; begin; pick; open; end UNAVAILABLE; tag s1; begin; pick; end ABORTED; tag s1")
	records, _ := tl.ledger.Records(nil)
	for i, want := range []struct{ start, took time.Duration }{{2 * time.Second, 3 * time.Second}, {7 * time.Second, 2 * time.Second}} {
		start := records[i].Start.Sub(time.Unix(1000, 0))
		if start != want.start || records[i].Duration != want.took {
			t.Errorf("attempt %d began after %v and took %v: want %v and %v", i+1, start, records[i].Duration, want.start, want.took)
		}
	}
}

// TestRecordsAreLimited checks that a ledger forgets attempts but the first and the
// latest.
func TestRecordsAreLimited(t *testing.T) {
	const attempts = maxRecords + 100
	tl := newTimeline(t, channel(t))
	for range attempts {
		tl.run("tag s1; begin; pick; open; end UNAVAILABLE")
	}
	records, dropped := tl.ledger.Records(nil)
	if len(records) != maxRecords+1 || dropped != attempts-maxRecords-1 {
		t.Fatalf("%d records, %d dropped: want %d and %d", len(records), dropped, maxRecords+1, attempts-maxRecords-1)
	}
	if first, second, last := records[0].Number(), records[1].Number(), records[maxRecords].Number(); first != 1 || second != dropped+2 || last != attempts {
		t.Errorf("attempts %d, %d to %d: want 1, %d to %d", first, second, last, dropped+2, attempts)
	}
}

// TestRouteIsOfTheLastPick checks that a record has the cluster and the route of
// the outermost policy's last pick, and only when pickers are done.
func TestRouteIsOfTheLastPick(t *testing.T) {
	a, b, inner := &Cluster{Name: "a"}, &Cluster{Name: "b"}, &Cluster{Name: "inner"}
	pick := func(at *Attempt, c *Cluster, start, end int, h Held) {
		at.Pick()
		at.Choose(c)
		at.EnterNested()
		at.Pick()
		at.Choose(inner)
		at.PassOver("inner", 3, 5)
		at.HoldBack(Held{Full: 1 << 40})
		at.LeaveNested()
		at.PassOver("outer", start, end)
		if h != (Held{}) {
			at.HoldBack(h)
		}
	}
	for _, tc := range []struct {
		name  string
		picks func(*Attempt)
		want  string
	}{
		{"one", func(at *Attempt) { pick(at, a, 0, 1, Held{Full: 1}) }, "a 0-1 1"},
		{"nothing passed over", func(at *Attempt) { pick(at, a, 2, 2, Held{}) }, "a 2-2 0"},
		{"two", func(at *Attempt) { pick(at, a, 0, 3, Held{Full: 1}); pick(at, b, 1, 2, Held{}) }, "b 1-2 0"},
		{"two, the last without anything passed over", func(at *Attempt) { pick(at, a, 0, 3, Held{Full: 1}); pick(at, b, 0, 0, Held{}) }, "b 0-0 0"},
	} {
		for _, end := range []string{"open", "end UNAVAILABLE"} {
			t.Run(tc.name+"/"+end, func(t *testing.T) {
				tl := newTimeline(t, channel(t))
				tl.run("tag s1; begin")
				tc.picks(FromContext(tl.current.attempt))
				describe := func() string {
					records, _ := tl.ledger.Records(nil)
					r := records[0]
					return fmt.Sprintf("%s %d-%d %d", r.Cluster, r.Route.Start, r.Route.End, r.Route.Held.Full)
				}
				if got := describe(); got != " 0-0 0" {
					t.Errorf("while pickers may be at work %q: want nothing", got)
				}
				tl.run(end)
				if got := describe(); got != tc.want {
					t.Errorf("cluster and route %q: want %q", got, tc.want)
				}
			})
		}
	}
}

// TestRecordsWhileStreamsRun reads the records of an RPC while other streams of it
// make attempts, for the race detector.
func TestRecordsWhileStreamsRun(t *testing.T) {
	rpc, l, _ := open(context.Background(), channel(t), method, opener)
	h := StatsHandler()
	c := &Cluster{Name: "a"}
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			ctx, cancel := context.WithCancel(rpc)
			defer cancel()
			for range 100 {
				attempt := h.TagRPC(ctx, &stats.RPCTagInfo{FullMethodName: method})
				h.HandleRPC(attempt, &stats.Begin{BeginTime: time.Now()})
				at := FromContext(attempt)
				for range 3 {
					at.Pick()
					at.Choose(c)
					at.PassOver("picker", 0, 1)
					at.HoldBack(Held{Full: 1})
				}
				h.HandleRPC(attempt, &stats.OutHeader{})
				h.HandleRPC(attempt, &stats.InHeader{})
				h.HandleRPC(attempt, &stats.End{EndTime: time.Now()})
				l.Records(nil)
			}
		})
	}
	wg.Wait()
}

// TestWriteRecords checks that records are written for those who are told of a
// stream's end, complete when the RPC's caller is, and never after that.
func TestWriteRecords(t *testing.T) {
	cancelled, aborted := failure("CANCELLED"), failure("ABORTED")
	complete := func(err error) error { return fmt.Errorf("%v, and no more", err) } //nolint:errorlint // to be printed
	type event func(*timeline, func(error))
	stream := func(err error) event { return func(_ *timeline, streamOver func(error)) { streamOver(err) } }
	rpc := func(err error) event { return func(tl *timeline, _ func(error)) { _ = tl.ledger.result(err) } }
	attempt := func(steps string) event { return func(tl *timeline, _ func(error)) { tl.run(steps) } }
	for _, tc := range []struct {
		name   string
		events []event
		want   []error // one for each time
	}{
		{"nothing happens", nil, nil},
		{"no attempt at all", []event{rpc(aborted)}, []error{aborted}},
		{"success", []event{attempt("tag s1; begin; pick; end"), stream(nil), rpc(nil)}, []error{nil, complete(nil)}},
		{"the end of a stream", []event{attempt("tag s1; begin; pick; end"), stream(nil), rpc(io.EOF), rpc(io.EOF)}, []error{nil, complete(io.EOF)}},
		{"failure", []event{attempt("tag s1; begin; pick; end ABORTED"), stream(aborted), rpc(aborted)}, []error{aborted, complete(aborted)}},
		{"nobody receives the end", []event{attempt("tag s1; begin; pick; end CANCELLED"), stream(cancelled)}, []error{cancelled}},
		{"gRPC-Go is late", []event{attempt("tag s1; begin; pick; end CANCELLED"), rpc(cancelled), stream(cancelled)}, []error{cancelled}},
		{"an interceptor tries again", []event{attempt("tag s1; begin; pick; end ABORTED"), stream(aborted), attempt("close; tag s2; begin; pick; end"), stream(nil), rpc(nil)}, []error{aborted, nil, complete(nil)}},
		{"an interceptor tries again, and gRPC-Go is late", []event{attempt("tag s1; begin; pick; end ABORTED"), stream(aborted), attempt("close; tag s2; begin; pick; end CANCELLED"), rpc(cancelled), stream(cancelled)}, []error{aborted, cancelled}},
		{"a Send that is not retried any more", []event{attempt("tag s1; begin; pick; end"), stream(errStopped), rpc(aborted)}, []error{errStopped, aborted}},
		{"an interceptor's error after a success", []event{attempt("tag s1; begin; pick; end"), stream(nil), rpc(aborted)}, []error{nil, complete(aborted)}},
		{"streams at once go on after the end of one", []event{attempt("tag s1; begin; pick; tag s2; begin; pick; tag s3; begin; pick; end"), stream(nil), attempt("tag s4; begin; pick; on s1; end; on s2; end"), rpc(nil)}, []error{nil, nil}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tl := newTimeline(t, channel(t))
			var got []error
			option := tl.ledger.WriteRecords(func(err error, isComplete bool) {
				if isComplete {
					err = complete(err)
				}
				got = append(got, err)
			})
			for _, e := range tc.events {
				e(tl, option.(grpc.OnFinishCallOption).OnFinish)
			}
			if fmt.Sprint(got) != fmt.Sprint(tc.want) {
				t.Errorf("written with %v: want %v", got, tc.want)
			}
		})
	}
}
