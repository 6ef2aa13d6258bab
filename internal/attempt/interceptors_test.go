package attempt

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// hookError is the error of a hook's own.
type hookError struct {
	by  string
	err error
}

func (e hookError) Error() string { return e.by + ": " + e.err.Error() }

func (e hookError) Unwrap() error { return e.err }

func failedBy(by string) Interceptors {
	return Interceptors{Failed: func(_ *Ledger, err error) error { return hookError{by, err} }}
}

// inside runs f in an RPC, unary or streaming, as one that an interceptor made.
// It returns what the RPC's caller is told when f has ended it.
func inside(ctx context.Context, i Interceptors, kind string, cc *grpc.ClientConn, f func(context.Context, ...grpc.CallOption) error, opts ...grpc.CallOption) error {
	if kind == "unary" {
		return i.Unary()(ctx, method, nil, nil, cc, func(ctx context.Context, _ string, _, _ any, _ *grpc.ClientConn, opts ...grpc.CallOption) error {
			return f(ctx, opts...)
		}, opts...)
	}
	_, err := i.Stream()(ctx, &grpc.StreamDesc{}, cc, method, func(ctx context.Context, _ *grpc.StreamDesc, _ *grpc.ClientConn, _ string, opts ...grpc.CallOption) (grpc.ClientStream, error) {
		return nil, f(ctx, opts...)
	}, opts...)
	return err
}

// TestInterceptors checks what the interceptors make of an RPC's error, and what its
// attempts are given.
func TestInterceptors(t *testing.T) {
	for _, kind := range []string{"unary", "stream"} {
		run := func(t *testing.T, i Interceptors, end error, picked bool, opts ...grpc.CallOption) error {
			t.Helper()
			cc := channel(t)
			return inside(context.Background(), i, kind, cc, func(rpc context.Context, _ ...grpc.CallOption) error {
				tr := newTrace(rpc, t)
				if tr.run("tag s; begin"); picked {
					tr.run("pick")
				}
				return end
			}, opts...)
		}
		t.Run(kind+"/the hook makes the error", func(t *testing.T) {
			if got := run(t, failedBy("hook"), failure("ABORTED"), true).Error(); !strings.HasPrefix(got, "hook: ") {
				t.Errorf("error %s: want the hook's", got)
			}
		})
		t.Run(kind+"/not of an RPC that another policy picks for", func(t *testing.T) {
			want := failure("ABORTED")
			if got := run(t, failedBy("hook"), want, false); got != want { //nolint:errorlint // itself
				t.Errorf("error %v: want %v itself", got, want)
			}
		})
		t.Run(kind+"/no hook", func(t *testing.T) {
			want := failure("ABORTED")
			if got := run(t, Interceptors{}, want, true); got != want { //nolint:errorlint // itself
				t.Errorf("error %v: want %v itself", got, want)
			}
		})
		t.Run(kind+"/the hook refuses", func(t *testing.T) {
			refuse := Interceptors{Started: func(*Ledger, []grpc.CallOption) ([]grpc.CallOption, error) { return nil, errOwn }}
			err := inside(context.Background(), refuse, kind, channel(t), func(context.Context, ...grpc.CallOption) error {
				t.Error("the RPC is made")
				return nil
			})
			if !errors.Is(err, errOwn) {
				t.Errorf("error %v: want the hook's", err)
			}
		})
		t.Run(kind+"/options", func(t *testing.T) {
			more := Interceptors{Started: func(_ *Ledger, opts []grpc.CallOption) ([]grpc.CallOption, error) {
				return append(opts, grpc.WaitForReady(true)), nil
			}}
			for want, i := range map[int]Interceptors{1: {}, 2: more} {
				_ = inside(context.Background(), i, kind, channel(t), func(_ context.Context, opts ...grpc.CallOption) error {
					if len(opts) != want {
						t.Errorf("%d options: want %d", len(opts), want)
					}
					return errOwn
				}, grpc.EmptyCallOption{})
			}
		})
		t.Run(kind+"/given twice", func(t *testing.T) {
			cc := channel(t)
			err := inside(context.Background(), failedBy("first"), kind, cc, func(ctx context.Context, _ ...grpc.CallOption) error {
				return inside(ctx, failedBy("second"), kind, cc, func(rpc context.Context, _ ...grpc.CallOption) error {
					newTrace(rpc, t).run("tag s; begin; pick")
					return failure("ABORTED")
				})
			})
			if got := err.Error(); !strings.HasPrefix(got, "first: ") || strings.Contains(got, "second: ") {
				t.Errorf("error %s: want that of the first", got)
			}
		})
		t.Run(kind+"/lean", func(t *testing.T) {
			lean := Interceptors{Lean: true}
			_ = inside(context.Background(), lean, kind, channel(t), func(rpc context.Context, _ ...grpc.CallOption) error {
				if a := pickFor(rpc, t); a == nil || a.FailFast() {
					t.Errorf("attempt %v: want one that waits for ready", a)
				}
				return nil
			}, grpc.WaitForReady(true))
		})
	}
}

// TestGivenTwiceLean has dial options that count leanly given after others, which say how
// the RPC is counted.
func TestGivenTwiceLean(t *testing.T) {
	cc := channel(t)
	_ = inside(context.Background(), Interceptors{}, "unary", cc, func(ctx context.Context, _ ...grpc.CallOption) error {
		return inside(ctx, Interceptors{Lean: true}, "unary", cc, func(rpc context.Context, _ ...grpc.CallOption) error {
			if rpc.Value(attemptKey).(*Ledger).lean {
				t.Error("the RPC counts leanly")
			}
			return nil
		})
	})
}

// TestUnaryEnd checks what becomes of io.EOF, which is all that gRPC-Go tells of an attempt
// that fails while it sends again: observers, and the records, are told what is known.
func TestUnaryEnd(t *testing.T) {
	const once, retried = "tag s; begin; pick; end", "tag s; begin; pick; end UNAVAILABLE; tag s; begin; pick; end"
	const answered = "tag s; begin; pick; end UNAVAILABLE; tag s; begin; pick; header; end"
	wrapped, own := fmt.Errorf("max retries exhausted: %w", io.EOF), fmt.Errorf("decoding the payload: %w", io.EOF)
	unknown := status.Error(codes.Unknown, notReported).Error()
	for _, tc := range []struct {
		name, retryable, steps string
		err                    error
		want, told             string
		own                    bool // an interceptor's
	}{
		{"a success", "UNAVAILABLE", retried, nil, "<nil>", "1 OK", false},
		{"a failure", "UNAVAILABLE", retried, failure("ABORTED"), failure("ABORTED").Error(), "1 Aborted", false},
		{"not retryable", "UNAVAILABLE", retried, io.EOF, unknown, "1 none", false},
		{"no attempts left", "UNAVAILABLE", retried, wrapped, status.Error(codes.Unavailable, notReported).Error(), "1 Unavailable", false},
		{"no attempts left, and several codes", "UNAVAILABLE INTERNAL", retried, wrapped, unknown, "1 Unavailable or another", false},
		{"an interceptor's own", "UNAVAILABLE", once, io.EOF, "EOF", "1 OK", true},
		{"an interceptor's own after a retry", "UNAVAILABLE", retried, own, own.Error(), "1 OK", true},
		{"an interceptor's own after an answer", "UNAVAILABLE", answered, io.EOF, "EOF", "1 OK", true},
		{"an interceptor's own after an answer, which looks like gRPC-Go's", "UNAVAILABLE", answered, wrapped, wrapped.Error(), "1 OK", true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			o := new(observer)
			var records string
			i := Interceptors{Started: func(l *Ledger, opts []grpc.CallOption) ([]grpc.CallOption, error) {
				o.ledger = l
				return append(opts, l.WriteRecords(func(err error, _ bool) {
					all, _ := l.Records(err)
					records = describeRecords(all[len(all)-1:])
				})), nil
			}}
			err := inside(context.Background(), i, "unary", channel(t, strings.Fields(tc.retryable)...), func(rpc context.Context, opts ...grpc.CallOption) error {
				tr := newTrace(rpc, t)
				tr.run(tc.steps)
				FromContext(tr.current.attempt).Observe(o, 1)
				tr.run("close")
				if tc.own {
					opts[0].(grpc.OnFinishCallOption).OnFinish(nil)
				} else {
					opts[0].(grpc.OnFinishCallOption).OnFinish(tc.err)
				}
				return tc.err
			})
			if got := fmt.Sprint(err); got != tc.want {
				t.Errorf("error %s: want %s", got, tc.want)
			}
			if got := strings.Join(o.told, " "); got != tc.told {
				t.Errorf("told %q: want %q", got, tc.told)
			}
			if _, isStatus := status.FromError(err); isStatus && !strings.Contains(records, status.Code(err).String()) {
				t.Errorf("the last record is %q: want the error's code, %v", records, status.Code(err))
			}
		})
	}
}

// scriptedStream is a client stream that answers by a script.
type scriptedStream struct {
	grpc.ClientStream
	ctx     context.Context
	answers []error
	asked   int
}

func (s *scriptedStream) Context() context.Context { return s.ctx }

func (s *scriptedStream) next() error {
	s.asked++
	return s.answers[min(s.asked, len(s.answers))-1]
}

func (s *scriptedStream) SendMsg(any) error { return s.next() }

func (s *scriptedStream) RecvMsg(any) error { return s.next() }

func (s *scriptedStream) CloseSend() error { return s.next() }

// openStream opens a stream that answers by a script.
func openStream(t *testing.T, i Interceptors, desc grpc.StreamDesc, answers ...error) (grpc.ClientStream, *scriptedStream, *Ledger) {
	t.Helper()
	s := &scriptedStream{answers: answers}
	opened, err := i.Stream()(context.Background(), &desc, channel(t), method, func(ctx context.Context, _ *grpc.StreamDesc, _ *grpc.ClientConn, _ string, _ ...grpc.CallOption) (grpc.ClientStream, error) {
		s.ctx = ctx
		return s, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return opened, s, s.ctx.Value(attemptKey).(*Ledger)
}

// TestStreamSend checks what SendMsg tells, and when it ends the RPC.
func TestStreamSend(t *testing.T) {
	wrapped, own := fmt.Errorf("max retries exhausted: %w", io.EOF), fmt.Errorf("encoding the payload: %w", io.EOF)
	for _, tc := range []struct {
		name     string
		answer   error
		want     string
		messages int64
		over     bool
	}{
		{"sent", nil, "<nil>", 1, false},
		{"the stream is over, as RecvMsg is going to tell", io.EOF, "EOF", 0, false},
		{"no retries are left", wrapped, "EOF", 0, true},
		{"another error", failure("ABORTED"), "hook: " + failure("ABORTED").Error(), 0, true},
		{"an interceptor's own", own, own.Error(), 0, true},
		{"one request", nil, "<nil>", 1, false},
		{"one request, and the stream is over", io.EOF, "<nil>", 0, false},
		{"one request, and no retries are left", wrapped, "<nil>", 0, true},
		{"one request, and an interceptor's own", own, own.Error(), 0, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s, _, l := openStream(t, failedBy("hook"), grpc.StreamDesc{ClientStreams: !strings.HasPrefix(tc.name, "one request")}, tc.answer)
			newTrace(l, t).run("tag s; begin; pick")
			if got := fmt.Sprint(s.SendMsg(nil)); got != tc.want {
				t.Errorf("SendMsg returns %s: want %s", got, tc.want)
			}
			if got := l.messages.Load(); got != tc.messages || l.flags.has(over) != tc.over {
				t.Errorf("%d messages sent, over %v: want %d, %v", got, l.flags.has(over), tc.messages, tc.over)
			}
		})
	}
}

// TestStreamReceive checks what RecvMsg tells, and when it ends the RPC. The steps
// are those of a trace.
func TestStreamReceive(t *testing.T) {
	const retried = "tag s; begin; pick; end UNAVAILABLE; tag s; begin; pick; end"
	aborted := failure("ABORTED")
	for _, tc := range []struct {
		name     string
		oneReply bool
		steps    string
		endRPC   bool // a picker has ended a stream
		answers  []error
		want     string
		asked    int
		over     bool
	}{
		{name: "a message of several", steps: "tag s; begin; pick", answers: []error{nil}, want: "<nil>", asked: 1},
		{name: "the only message", oneReply: true, steps: "tag s; begin; pick; end", answers: []error{nil}, want: "<nil>", asked: 1, over: true},
		{name: "the end", steps: "tag s; begin; pick; end", answers: []error{io.EOF}, want: "EOF", asked: 1, over: true},
		{name: "the end of one attempt, after a picker's error", steps: "tag s; begin; pick; end", endRPC: true, answers: []error{io.EOF}, want: "EOF", asked: 1, over: true},
		{name: "a failure", steps: "tag s; begin; pick; end", answers: []error{aborted}, want: "hook: " + aborted.Error(), asked: 1, over: true},
		{name: "the end after a retry and a message", steps: retried, answers: []error{nil, io.EOF, aborted}, want: "<nil>; EOF", asked: 2, over: true},
		{name: "the end after a retry", steps: retried, answers: []error{io.EOF, io.EOF}, want: "EOF", asked: 2, over: true},
		{name: "a failure after a retry", steps: retried, answers: []error{aborted}, want: "hook: " + aborted.Error(), asked: 1, over: true},
		{name: "a failure after a retry, said to be the end", steps: retried, answers: []error{io.EOF, aborted}, want: "hook: " + aborted.Error(), asked: 2, over: true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s, script, l := openStream(t, failedBy("hook"), grpc.StreamDesc{ServerStreams: !tc.oneReply}, tc.answers...)
			tr := newTrace(l, t)
			tr.run(tc.steps)
			if tc.endRPC {
				FromContext(tr.current.attempt).EndRPC(aborted)
			}
			for want := range strings.SplitSeq(tc.want, "; ") {
				if got := fmt.Sprint(s.RecvMsg(nil)); got != want {
					t.Errorf("RecvMsg returns %s: want %s", got, want)
				}
			}
			if script.asked != tc.asked || l.flags.has(over) != tc.over {
				t.Errorf("the stream is asked %d times, over %v: want %d, %v", script.asked, l.flags.has(over), tc.asked, tc.over)
			}
		})
	}
}

// TestStreamTakesBackASuccess has gRPC-Go end a stream with io.EOF whose retry failed:
// the record that was written then is written again.
func TestStreamTakesBackASuccess(t *testing.T) {
	aborted := failure("ABORTED")
	for _, tc := range []struct {
		name    string
		attempt bool // the stream's context is the attempt's
		answers []error
		want    string
	}{
		{"a success stays one", true, []error{io.EOF, io.EOF}, "2 OK; 2 OK complete"},
		{"a failure", true, []error{io.EOF, aborted}, "2 OK; 2 Aborted (scripted)"},
		{"a failure at once, since Header was asked for", true, []error{aborted}, "2 OK; 2 Aborted (scripted)"},
		{"a stream without an attempt", false, []error{io.EOF, aborted}, "2 OK; 2 OK complete"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s, script, l := openStream(t, Interceptors{}, grpc.StreamDesc{ServerStreams: true}, tc.answers...)
			var got []string
			option := l.WriteRecords(func(err error, complete bool) {
				records, _ := l.Records(err)
				text := describeRecords(records[len(records)-1:])
				if complete {
					text += " complete"
				}
				got = append(got, text)
			})
			tr := newTrace(l, t)
			tr.run("tag s; begin; pick; end UNAVAILABLE; tag s; begin; pick; end")
			if script.ctx = context.Background(); tc.attempt {
				script.ctx = tr.current.attempt
			}
			option.(grpc.OnFinishCallOption).OnFinish(nil)
			_ = s.RecvMsg(nil)
			if text := strings.Join(got, "; "); text != tc.want {
				t.Errorf("written %q: want %q", text, tc.want)
			}
		})
	}
}

// TestStreamCloseSend checks that the half-close lets an attempt's time run.
func TestStreamCloseSend(t *testing.T) {
	s, _, l := openStream(t, Interceptors{}, grpc.StreamDesc{ClientStreams: true}, errOwn)
	if l.allSent(0) {
		t.Error("all is sent before the half-close")
	}
	if err := s.CloseSend(); !errors.Is(err, errOwn) {
		t.Errorf("CloseSend returns %v: want the stream's own error", err)
	}
	if !l.allSent(0) {
		t.Error("not all is sent after the half-close")
	}
}
