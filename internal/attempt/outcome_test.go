package attempt

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/stats"
)

// observer notes what it is told, and whether a lock was held meanwhile.
type observer struct {
	ledger *Ledger
	told   []string
}

func (o *observer) Settle(token uint64, oneOf []codes.Code) {
	text := fmt.Sprintf("%d none", token)
	for i, code := range slices.Sorted(slices.Values(oneOf)) {
		text = fmt.Sprintf("%d %v", token, code)
		if i > 0 {
			text += " or another"
		}
	}
	if !o.ledger.mu.TryLock() {
		text += " under a lock"
	} else {
		o.ledger.mu.Unlock()
	}
	o.told = append(o.told, text)
}

// TestObserve checks what observers are told, and when. The steps are those of a
// trace, and more:
//
//	observe 1     an observer gives 1 as its token
//	nested 2      so does one of a policy inside
//	deep 3        so does one of a policy inside more others than are remembered
//	result        the RPC ends without an error, and so does the stream
//	result io.EOF, result NOT_FOUND, result wrapped io.EOF
//	result own    with an interceptor's error, which is no status
//	told          puts a bar after what was told until then
func TestObserve(t *testing.T) {
	for _, tc := range []struct {
		name, retryable, steps, want string
	}{
		{name: "an attempt fails", steps: "tag s; begin; pick; observe 1; end UNAVAILABLE; told; result UNAVAILABLE", want: "| 1 Unavailable"},
		{name: "it is cancelled, and so its stream is over", steps: "tag s; begin; pick; observe 1; close; end CANCELLED; told", want: "1 Canceled |"},
		{name: "it succeeds", steps: "tag s; begin; pick; observe 1; end; told; result", want: "| 1 OK"},
		{name: "it succeeds, a stream", steps: "tag s; begin; pick; observe 1; end; told; result io.EOF", want: "| 1 OK"},
		{name: "nobody tells how it failed, and it is the last", steps: "tag s; begin; pick; observe 1; end; told; result NOT_FOUND", want: "| 1 NotFound"},
		{name: "nobody tells how it failed, gRPC-Go included", steps: "tag s; begin; pick; observe 1; end; told; result wrapped io.EOF", want: "| 1 Unknown"},
		{name: "it succeeds, and an interceptor has an error of its own", retryable: "UNAVAILABLE", steps: "tag s; begin; pick; observe 1; end; result own", want: "1 OK"},
		{name: "it fails, and an interceptor has an error of its own", retryable: "UNAVAILABLE", steps: "tag s; begin; pick; observe 1; end NOT_FOUND; result own", want: "1 NotFound"},
		{name: "nobody tells how it failed, and another follows", retryable: "UNAVAILABLE", steps: "tag s; begin; pick; observe 1; end; told; tag s; told; begin; told; pick; observe 2; end; result", want: "| | 1 Unavailable | 2 OK"},
		{name: "nobody tells how it failed, and it may be one of several codes", retryable: "UNAVAILABLE INTERNAL", steps: "tag s; begin; pick; observe 1; end; tag s; begin", want: "1 Unavailable or another"},
		{name: "it fails, and another follows", steps: "tag s; begin; pick; observe 1; end UNAVAILABLE; tag s; begin; pick; observe 2; end NOT_FOUND; result NOT_FOUND", want: "1 Unavailable 2 NotFound"},
		{name: "it is begun twice", steps: "tag s; begin; pick; observe 1; end UNAVAILABLE; tag s; begin; tag s; begin; pick; observe 2; end; result", want: "1 Unavailable 2 OK"},
		{name: "it is retried transparently", steps: "tag s; begin; pick; observe 1; end UNAVAILABLE; tag s; begin transparent; pick; observe 2; end; result", want: "1 none 2 OK"},
		{name: "policies inside each other", steps: "tag s; begin; pick; nested 2; observe 1; end UNAVAILABLE; result UNAVAILABLE", want: "1 Unavailable 2 Unavailable"},
		{name: "a policy inside one that does not observe", steps: "tag s; begin; pick; nested 2; end; result", want: "2 OK"},
		{name: "a policy inside very many others", steps: "tag s; begin; pick; observe 1; deep 2; end; result", want: "1 OK"},
		{name: "picked again", steps: "tag s; begin; pick; nested 2; observe 1; pick; observe 3; end UNAVAILABLE; result UNAVAILABLE", want: "3 Unavailable"},
		{name: "picked again without an observer", steps: "tag s; begin; pick; observe 1; pick; end UNAVAILABLE; result UNAVAILABLE", want: ""},
		{name: "nobody observes", steps: "tag s; begin; pick; end UNAVAILABLE; result UNAVAILABLE", want: ""},
		{name: "streams at once", steps: "tag s; begin; pick; observe 1; tag u; begin; pick; observe 2; on s; end UNAVAILABLE; told; close; told; on u; end; result", want: "| | 2 OK 1 Unavailable"},
		{name: "streams at once, of which one has failed and may go on", steps: "tag s; begin; pick; observe 1; tag u; begin; pick; observe 2; on s; end UNAVAILABLE; on u; end; result; told; on s; tag s; begin transparent; told; pick; observe 3; header; end; close", want: "2 OK | 1 none | 3 OK"},
		{name: "streams at once, one of which outlives the RPC", steps: "tag s; begin; pick; observe 1; tag u; begin; pick; observe 2; end; result; told; on s; end CANCELLED; result", want: "2 OK | 1 Canceled"},
		{name: "it outlives the RPC, and fails", steps: "tag s; begin; pick; observe 1; tag u; begin; pick; observe 2; end; result; told; on s; end UNAVAILABLE; told; close", want: "2 OK | | 1 Unavailable"},
		{name: "it outlives the RPC, and is retried transparently", steps: "tag s; begin; pick; observe 1; tag u; begin; pick; observe 2; end; result; told; on s; end UNAVAILABLE; told; tag s; begin transparent; told; pick; observe 3; header; end; close", want: "2 OK | | 1 none | 3 OK"},
		{name: "it outlives the RPC, and succeeds", steps: "tag s; begin; pick; observe 1; tag u; begin; pick; observe 2; end; result; told; on s; header; end; told; close", want: "2 OK | | 1 OK"},
		{name: "it outlives the RPC, and nobody tells how it ends", steps: "tag s; begin; pick; observe 1; tag u; begin; pick; observe 2; end; result; told; on s; end; told; close", want: "2 OK | | 1 none"},
		{name: "streams at once, of which the latest outlives the RPC", steps: "tag s; begin; pick; observe 1; end; tag u; begin; pick; observe 2; on s; result", want: "1 OK"},
		{name: "streams at once, of which the latest has failed and may go on", steps: "tag s; begin; pick; observe 1; end; tag u; begin; pick; observe 2; end UNAVAILABLE; on s; result; told; on u; close", want: "1 OK | 2 Unavailable"},
		{name: "it is retried transparently, as Send notices", steps: "tag s; begin; pick; observe 1; end; tag s; begin transparent; pick; observe 2; end; result", want: "1 none 2 OK"},
		{name: "streams at once, and one goes on before it has ended", steps: "tag s; begin; pick; observe 1; tag u; begin; pick; tag u; begin; pick; end; result", want: ""},
		{name: "a stream after another, which failed", steps: "tag s; begin; pick; observe 1; end UNAVAILABLE; close; told; tag u; told; begin; pick; observe 2; end; result", want: "| 1 Unavailable | 2 OK"},
		{name: "a stream after another, which was closed", steps: "tag s; begin; pick; observe 1; end; close; tag u; begin; pick; observe 2; end; result", want: "2 OK 1 none"},
		{name: "a stream after another, which has answered and was closed", steps: "tag s; begin; pick; observe 1; header; end; close; tag u; told; begin; pick; observe 2; end UNAVAILABLE; result UNAVAILABLE", want: "1 OK | 2 Unavailable"},
		{name: "a stream after another, which fails", steps: "tag s; begin; pick; observe 1; end; close; tag u; begin; pick; observe 2; end UNAVAILABLE; result UNAVAILABLE", want: "2 Unavailable 1 none"},
		{name: "the RPC is over, and a stream that was cancelled ends well", steps: "tag s; begin; pick; observe 1; tag u; begin; pick; observe 2; end; result; told; on s; header; close; end", want: "2 OK | 1 OK"},
		{name: "the RPC is over while a stream may go on of which Send has noticed a failure", steps: "tag s; begin; pick; observe 1; end; tag u; begin; pick; observe 2; end; result; told; on s; tag s; told; begin; told; pick; observe 3; end NOT_FOUND; close", retryable: "UNAVAILABLE", want: "2 OK | | 1 Unavailable | 3 NotFound"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var retryable []string
				if tc.retryable != "" {
					retryable = strings.Fields(tc.retryable)
				}
				rpc, l, _ := open(context.Background(), channel(t, retryable...), method, opener)
				tr, o := newTrace(rpc, t), &observer{ledger: l}
				for step := range strings.SplitSeq(tc.steps, "; ") {
					switch verb, arg, _ := strings.Cut(step, " "); verb {
					case "observe":
						FromContext(tr.current.attempt).Observe(o, token(arg))
					case "nested":
						a := FromContext(tr.current.attempt)
						a.EnterNested()
						a.Observe(o, token(arg))
						a.LeaveNested()
					case "deep":
						a := FromContext(tr.current.attempt)
						a.depth += maxDepth
						a.Observe(o, token(arg))
						a.depth -= maxDepth
					case "close":
						tr.closeAndWait()
					case "result":
						tr.closeAndWait()
						_ = l.result(result(arg))
					case "told":
						o.told = append(o.told, "|")
					default:
						tr.step(step)
					}
				}
				if got := strings.Join(o.told, " "); got != tc.want {
					t.Errorf("told %q: want %q", got, tc.want)
				}
			})
		})
	}
}

// TestNoTimeLeft has an RPC end by its deadline, soon after an attempt has begun, or
// late, and before it was sent or after; or by one that is not its own.
func TestNoTimeLeft(t *testing.T) {
	for _, tc := range []struct {
		left time.Duration // 0: there is no deadline
		sent bool
		want string
	}{
		{-time.Millisecond, false, "1 none"},
		{10*time.Millisecond - 1, false, "1 none"},
		{10 * time.Millisecond, false, "1 DeadlineExceeded"},
		{-time.Millisecond, true, "1 DeadlineExceeded"},
		{0, false, "1 DeadlineExceeded"},
	} {
		t.Run(fmt.Sprintf("%v, sent %v", tc.left, tc.sent), func(t *testing.T) {
			rpc, l, _ := open(context.Background(), channel(t), method, opener)
			begin := time.Now()
			stream, cancel := context.WithCancel(rpc)
			if tc.left != 0 {
				stream, cancel = context.WithDeadline(rpc, begin.Add(tc.left))
			}
			defer cancel()
			h, o := StatsHandler(), &observer{ledger: l}
			ctx := h.TagRPC(stream, &stats.RPCTagInfo{FullMethodName: method})
			h.HandleRPC(ctx, &stats.Begin{Client: true, BeginTime: begin})
			a := FromContext(ctx)
			a.Pick()
			a.Observe(o, 1)
			if tc.sent {
				h.HandleRPC(ctx, &stats.OutHeader{Client: true})
			}
			h.HandleRPC(ctx, &stats.End{Client: true, Error: failure("DEADLINE_EXCEEDED")})
			cancel()
			_ = l.result(failure("DEADLINE_EXCEEDED"))
			if got := strings.Join(o.told, " "); got != tc.want {
				t.Errorf("told %q: want %q", got, tc.want)
			}
		})
	}
}

func token(text string) uint64 {
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		panic(err) // a test's own mistake
	}
	return n
}

// result is the error that an RPC ends with.
func result(text string) error {
	switch text {
	case "io.EOF":
		return io.EOF
	case "own":
		return errors.New("own")
	case "wrapped io.EOF":
		return fmt.Errorf("max retries exhausted: %w", io.EOF)
	default:
		return failure(text)
	}
}

// TestObserveBesideAnotherStream has an attempt observed while another stream of
// its RPC begins, as streams at once do. The race detector watches.
func TestObserveBesideAnotherStream(t *testing.T) {
	rpc, l, _ := open(context.Background(), nil, method, opener)
	tr, o := newTrace(rpc, t), &observer{ledger: l}
	tr.run("tag s; begin; pick; close")
	a := FromContext(tr.current.attempt)
	var wg sync.WaitGroup
	wg.Go(func() { a.Observe(o, 1) })
	tr.run("tag u; begin; pick; end; tag v; begin")
	wg.Wait()
	tr.run("on s; end CANCELLED")
	if got := strings.Join(o.told, " "); got != "1 Canceled" {
		t.Errorf("told %q: want 1 Canceled", got)
	}
}

// TestObserveForgetsStreams checks that streams that are over are not kept, though
// some are observed.
func TestObserveForgetsStreams(t *testing.T) {
	rpc, l, _ := open(context.Background(), channel(t), method, opener)
	tr, o := newTrace(rpc, t), &observer{ledger: l}
	for i := range 100 {
		tr.run("tag s; begin; pick")
		if i%2 == 0 {
			FromContext(tr.current.attempt).Observe(o, 1)
		}
		end := "end UNAVAILABLE; close"
		if i%4 == 1 {
			end = "end; close"
		}
		if tr.run(end); i%3 == 0 {
			delete(tr.streams, "s")
			tr.run("tag s; begin; close") // and is never picked for
		}
		delete(tr.streams, "s")
	}
	tr.run("tag s; begin")
	n := 0
	for a := l.heads; a != nil; a = a.sibling {
		n++
	}
	if n != 1 {
		t.Errorf("%d streams are kept: want 1", n)
	}
}
