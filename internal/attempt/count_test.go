package attempt

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"
)

// counter notes which attempts it is to count: by number, with "none" if their pick
// gave no connection.
type counter struct{ told []string }

func (c *counter) Count(a *Attempt, timedOut bool) {
	text := fmt.Sprint(a.Number())
	if a.Route().None {
		text += " none"
	}
	if timedOut {
		text += " late"
	}
	c.told = append(c.told, text)
}

// TestCounter checks which attempts are counted, and when. The steps are those of a
// trace, and more:
//
//	count     the pick's Counter counts
//	none      the pick gives no connection
//	result    the RPC ends, and so does the stream
//	told      puts a bar after what was counted until then
func TestCounter(t *testing.T) {
	for _, tc := range []struct{ name, steps, want string }{
		{"an attempt", "tag s; begin; pick; count; end; told; result", "| 1"},
		{"an attempt that nobody counts", "tag s; begin; pick; end; result", ""},
		{"a response begins", "tag s; begin; pick; count; header; told; end; result", "1 |"},
		{"it is cancelled, and so its stream is over", "tag s; begin; pick; count; close; end CANCELLED; told; result CANCELLED", "1 |"},
		{"it fails, and another follows", "tag s; begin; pick; count; end UNAVAILABLE; told; tag s; begin; told; pick; count; end; result", "| 1 | 2"},
		{"nobody tells that it failed, and another follows", "tag s; begin; pick; count; end; tag s; begin; told; pick; count; end; result", "1 | 2"},
		{"it is begun twice", "tag s; begin; pick; count; end UNAVAILABLE; tag s; begin; tag s; begin; pick; count; end; result", "1 2"},
		{"it is retried transparently", "tag s; begin; pick; count; end UNAVAILABLE; tag s; begin transparent; pick; count; end; result", "1"},
		{"it is retried transparently, and begun twice", "tag s; begin; pick; count; end UNAVAILABLE; tag s; begin transparent; tag s; begin; pick; count; end; result", "1"},
		{"picked again", "tag s; begin; pick; count; none; pick; count; end; result", "1"},
		{"it waits to its end", "tag s; begin; pick; count; none; close; end CANCELLED; result CANCELLED", "1 none"},
		{"never picked for", "tag s; begin; result", ""},
		{"a stream after another", "tag s; begin; pick; count; end UNAVAILABLE; close; told; tag u; told; begin; pick; count; end; result", "| 1 | 2"},
		{"streams at once, one of which outlives the RPC", "tag s; begin; pick; count; tag u; begin; pick; count; end; result; told; on s; close; end CANCELLED", "2 | 1"},
		{"one that outlives the RPC, and that nobody cancels", "tag s; begin; pick; count; tag u; begin; pick; count; end; result; told; on s; end UNAVAILABLE; told; tag s; begin; told; pick; count; end; told; close", "2 | | 1 | | 3"},
		{"one that outlives the RPC, and that nobody repeats", "tag s; begin; pick; count; tag u; begin; pick; count; end; result; on s; end UNAVAILABLE; told; close", "2 | 1"},
		{"one that has failed when the RPC is over is repeated", "tag s; begin; pick; count; tag u; begin; pick; count; end; on s; end UNAVAILABLE; on u; result; told; on s; tag s; begin transparent; pick; count; end; close", "2 | 1"},
		{"one that outlives the RPC is repeated", "tag s; begin; pick; count; tag u; begin; pick; count; end; result; on s; end UNAVAILABLE; tag s; begin transparent; told; pick; count; end; close", "2 | 1"},
		{"one that outlives the RPC is picked for when that is over", "tag s; begin; result; pick; count; end UNAVAILABLE", "1"},
		{"the RPC ends more than once", "tag s; begin; pick; count; end; result; result", "1"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				rpc, l, _ := open(context.Background(), channel(t), method, opener)
				tr, c := newTrace(rpc, t), &counter{}
				for step := range strings.SplitSeq(tc.steps, "; ") {
					switch verb, arg, _ := strings.Cut(step, " "); verb {
					case "count":
						a := FromContext(tr.current.attempt)
						a.WillCount()
						a.PassOver(c, 0, 0)
					case "none":
						FromContext(tr.current.attempt).PickNone()
					case "close":
						tr.closeAndWait()
					case "result":
						tr.closeAndWait()
						_ = l.result(failure(arg))
					case "told":
						c.told = append(c.told, "|")
					default:
						tr.step(step)
					}
				}
				if got := strings.Join(c.told, " "); got != tc.want {
					t.Errorf("counted %q: want %q", got, tc.want)
				}
			})
		})
	}
}

// TestCountOfLateHeader has the response begin when the attempt's time is over, and
// gRPC-Go is about to end it.
func TestCountOfLateHeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ta, c := newTimed(t, false, 0), &counter{}
		ta.run("pick; limit 100ms")
		ta.attempt.WillCount()
		ta.attempt.PassOver(c, 0, 0)
		ta.run("100ms; header")
		StatsHandler().HandleRPC(ta.attempt, &stats.End{Client: true, Error: status.FromContextError(ta.attempt.Err()).Err()})
		ta.run("cancel")
		_ = ta.ledger.result(failure("DEADLINE_EXCEEDED"))
		if got, want := strings.Join(c.told, " "), "1 late"; got != want {
			t.Errorf("counted %q: want %q", got, want)
		}
	})
}

// TestCountOfLateEnd has an attempt end in different ways when its time is over.
func TestCountOfLateEnd(t *testing.T) {
	cc := channel(t)
	for _, tc := range []struct{ name, end, want string }{
		{"by its time", "DEADLINE_EXCEEDED", "1 late"},
		{"by what a server has said", "ABORTED", "1"},
		{"without a report, though it failed", "", "1 late"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ta, c := newTimed(t, false, 0), &counter{}
				defer ta.cancel()
				ta.ledger.cc = cc
				ta.run("pick; limit 100ms")
				ta.attempt.WillCount()
				ta.attempt.PassOver(c, 0, 0)
				ta.run("100ms")
				h := StatsHandler()
				h.HandleRPC(ta.attempt, &stats.End{Client: true, Error: failure(tc.end)})
				h.HandleRPC(h.TagRPC(ta.ledger, &stats.RPCTagInfo{FullMethodName: method}), &stats.Begin{})
				if got := strings.Join(c.told, " "); got != tc.want {
					t.Errorf("counted %q: want %q", got, tc.want)
				}
			})
		})
	}
}
