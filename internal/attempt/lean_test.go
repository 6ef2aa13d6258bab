package attempt

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/balancer"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"

	"github.com/grpc-composite/grpc-composite/internal/testkit"
)

// openLean opens the ledger of an RPC whose attempts are counted without a stats
// handler, which waits for ready or not.
func openLean(t *testing.T, wait bool) *Ledger {
	t.Helper()
	_, l, _ := open(context.Background(), channel(t), method, opener)
	l.lean, l.failFast = true, failFastOption([]grpc.CallOption{grpc.WaitForReady(wait)})
	return l
}

// streamContexts returns two contexts of a stream, as gRPC-Go makes one for each
// attempt.
func streamContexts(rpc context.Context, t *testing.T) (first, second context.Context) {
	t.Helper()
	type key struct{}
	stream, cancel := context.WithCancel(rpc)
	t.Cleanup(cancel)
	return context.WithValue(stream, key{}, 1), context.WithValue(stream, key{}, 2)
}

// onChannel is a channel, as a picker of it tells.
type onChannel string

func (c onChannel) Target() string { return string(c) }

// pickFor is ForPicker on the channel that the tests' RPCs are made on.
func pickFor(ctx context.Context, t *testing.T) *Attempt {
	t.Helper()
	return ForPicker(balancer.PickInfo{Ctx: ctx, FullMethodName: method}, onChannel(channel(t).Target()))
}

func isLean(ctx context.Context) bool {
	_, lean := ForCredentials(ctx)
	return lean
}

// TestForPicker checks which attempt a picker is asked for, by its context.
func TestForPicker(t *testing.T) {
	type key struct{}
	t.Run("untracked", func(t *testing.T) {
		if a := pickFor(context.Background(), t); a != nil || isLean(context.Background()) {
			t.Errorf("attempt %v, lean %v: want none", a, isLean(context.Background()))
		}
	})
	t.Run("with a stats handler", func(t *testing.T) {
		rpc, _, _ := open(context.Background(), channel(t), method, opener)
		if a := pickFor(rpc, t); a != nil || isLean(rpc) {
			t.Errorf("before TagRPC there is the attempt %v, lean %v", a, isLean(rpc))
		}
		tr := newTrace(rpc, t)
		tr.run("tag s; begin")
		want := FromContext(tr.current.attempt)
		if got := pickFor(tr.current.attempt, t); got != want || got.Lean() {
			t.Errorf("attempt %v, lean %v: want the context itself", got, got.Lean())
		}
		if got := pickFor(context.WithValue(tr.current.attempt, key{}, 1), t); got != want {
			t.Errorf("of a context inside the attempt: %v", got)
		}
	})
	t.Run("without", func(t *testing.T) {
		l := openLean(t, false)
		if !isLean(l) {
			t.Error("the RPC is not lean")
		}
		first, second := streamContexts(l, t)
		a := pickFor(first, t)
		if a == nil || a.Number() != 1 || !a.Lean() {
			t.Fatalf("the first pick is for %v: want attempt 1", a)
		}
		if again := pickFor(first, t); again != a {
			t.Error("a second pick with the same context is for another attempt")
		}
		a.Pick()
		_, _ = a.Picked(balancer.PickResult{}, status.Error(codes.Aborted, "scripted"))
		b := pickFor(second, t)
		if b.Number() != 2 || status.Code(b.LastFailure().Err) != codes.Aborted {
			t.Errorf("a pick with another context is for attempt %d after %v: want 2 after ABORTED", b.Number(), b.LastFailure())
		}
		other, _ := streamContexts(l, t)
		if c := pickFor(other, t); c.Number() != 3 {
			t.Errorf("one for another stream is for attempt %d: want 3", c.Number())
		}
		if again := pickFor(second, t); again != b {
			t.Error("another stream's attempt changes that of the first")
		}
	})
}

// TestOfAnotherChannel has contexts of a tracked RPC reach a channel that does not track
// its own.
func TestOfAnotherChannel(t *testing.T) {
	type key struct{}
	here := onChannel(channel(t).Target())
	info := func(ctx context.Context, method string) balancer.PickInfo {
		return balancer.PickInfo{Ctx: context.WithValue(ctx, key{}, 1), FullMethodName: method}
	}
	for _, lean := range []bool{false, true} {
		t.Run(fmt.Sprintf("lean %v", lean), func(t *testing.T) {
			l := openLean(t, false)
			l.lean = lean
			own, _ := streamContexts(l, t)
			if !lean {
				own = l.tag(own, method, true)
				l.begin(own.(*Attempt), leanBegin)
			}
			if a := ForPicker(info(own, method), onChannel("passthrough:///elsewhere")); lean && a != nil {
				t.Errorf("another channel picks for attempt %d", a.Number())
			}
			a := ForPicker(info(own, "/a/rewritten"), here)
			if a == nil || a.Number() != 1 {
				t.Fatalf("the channel itself picks for %v: want attempt 1", a)
			}
			a.Pick()
			if lean {
				return
			}
			inner, cancel := context.WithCancel(own)
			defer cancel()
			if a := ForPicker(info(inner, "/another/method"), here); a != nil {
				t.Error("an RPC of another method, made while the attempt is under way, is taken for it")
			}
			if got := ForPicker(info(inner, method), here); got != a {
				t.Error("a context that a stats handler has derived is not the attempt's")
			}
			if got := ForPicker(info(own, "/a/rewritten"), here); got != a {
				t.Error("a second pick with another method, as an interceptor may write, is not the attempt's")
			}
			rewritten := l.tag(inner, "/a/rewritten", true)
			rewritten.Pick()
			derived, cancel := context.WithCancel(rewritten)
			defer cancel()
			if got := ForPicker(info(derived, "/a/rewritten"), here); got != rewritten {
				t.Error("a derived context of an attempt of a method that an interceptor has written is not the attempt's")
			}
		})
	}
}

// TestForCredentials checks whose tokens are asked for.
func TestForCredentials(t *testing.T) {
	request := func(ctx context.Context, method string) context.Context {
		return credentials.NewContextWithRequestInfo(ctx, credentials.RequestInfo{Method: method})
	}
	l := openLean(t, false)
	for name, want := range map[string]bool{method: true, "/another/method": false} {
		if _, lean := ForCredentials(request(l, name)); lean != want {
			t.Errorf("%s is lean: %v", name, lean)
		}
	}
	rpc, _, _ := open(context.Background(), channel(t), method, opener)
	tr := newTrace(rpc, t)
	tr.run("tag s; begin; pick")
	a := FromContext(tr.current.attempt)
	inner, cancel := context.WithCancel(a)
	defer cancel()
	for _, tc := range []struct {
		name string
		ctx  context.Context
		want *Attempt
	}{
		{"the attempt's own", request(a, method), a},
		{"of a method that an interceptor has written", request(a, "/a/rewritten"), a},
		{"with a limit of its own", request(inner, method), a},
		{"of another RPC inside", request(inner, "/another/method"), nil},
		{"asked for by hand", inner, a},
		{"of no RPC", request(context.Background(), method), nil},
	} {
		if got, lean := ForCredentials(tc.ctx); got != tc.want || lean {
			t.Errorf("%s: attempt %v, lean %v", tc.name, got, lean)
		}
	}
}

// TestMethodsOfHedges has an interceptor run several streams at once, each of a method of
// its own. Contexts that are derived from their attempts' are theirs.
func TestMethodsOfHedges(t *testing.T) {
	rpc, l, _ := open(context.Background(), channel(t), method, opener)
	attempts := make(map[string]*Attempt)
	for i := range 2 * maxMethods {
		stream, _ := streamContexts(rpc, t)
		name := fmt.Sprintf("/a/method%d", i)
		attempts[name] = l.tag(stream, name, true)
		attempts[name].Pick()
	}
	for i := range 2 * maxMethods {
		name := fmt.Sprintf("/a/method%d", i)
		derived, cancel := context.WithCancel(attempts[name])
		defer cancel()
		got, _ := ForCredentials(credentials.NewContextWithRequestInfo(derived, credentials.RequestInfo{Method: name}))
		if want := i >= maxMethods; (got == attempts[name]) != want {
			t.Errorf("%s: attempt %v, want its own: %v (the latest %d methods are remembered)", name, got, want, maxMethods)
		}
	}
}

// uncomparable is a context as a stats handler may make one.
type uncomparable struct {
	context.Context
	labels map[string]string
}

// TestContextThatCannotBeCompared has attempts told apart all the same.
func TestContextThatCannotBeCompared(t *testing.T) {
	l := openLean(t, false)
	first, second := streamContexts(l, t)
	a := pickFor(uncomparable{first, nil}, t)
	if again := pickFor(uncomparable{first, nil}, t); again != a {
		t.Error("a second pick is for another attempt")
	}
	a.Pick()
	_, _ = a.Picked(balancer.PickResult{}, status.Error(codes.Aborted, "scripted"))
	if b := pickFor(uncomparable{second, nil}, t); b.Number() != 2 {
		t.Errorf("after the end of attempt 1 a pick is for attempt %d", b.Number())
	}
}

// TestPicked checks by what the end of an attempt is known that no stats handler sees.
func TestPicked(t *testing.T) {
	for _, tc := range []struct {
		name string
		wait bool
		err  error              // of the picker
		done *balancer.DoneInfo // with which gRPC-Go calls Done; nil: not yet
		want string
	}{
		{name: "picked"},
		{name: "it fails", done: &balancer.DoneInfo{Err: failure("ABORTED"), BytesSent: true}, want: "ended: Aborted"},
		{name: "it fails before anything is sent", done: &balancer.DoneInfo{Err: failure("UNAVAILABLE")}, want: "ended: Unavailable"},
		{name: "it succeeds", done: &balancer.DoneInfo{BytesSent: true, BytesReceived: true}, want: "ended: OK"},
		{name: "it ends when something was sent", done: &balancer.DoneInfo{BytesSent: true}, want: "ended: OK"},
		{name: "it ends when something was received", done: &balancer.DoneInfo{BytesReceived: true}, want: "ended: OK"},
		{name: "the connection was gone", done: &balancer.DoneInfo{}},
		{name: "the picker ends the RPC", err: failure("ABORTED"), want: "ended: Aborted"},
		{name: "the picker ends an RPC that waits", wait: true, err: failure("ABORTED"), want: "ended: Aborted"},
		{name: "the picker finds none", err: errOwn, want: "ended: Unavailable"},
		{name: "the picker finds none, and the RPC waits", wait: true, err: errOwn},
		{name: "the picker waits", err: balancer.ErrNoSubConnAvailable},
		{name: "the picker and the RPC wait", wait: true, err: balancer.ErrNoSubConnAvailable},
	} {
		for _, child := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s/child's Done %v", tc.name, child), func(t *testing.T) {
				l := openLean(t, tc.wait)
				ctx, _ := streamContexts(l, t)
				a := pickFor(ctx, t)
				a.Pick()
				var told []balancer.DoneInfo
				var pick balancer.PickResult
				if child {
					pick.Done = func(info balancer.DoneInfo) { told = append(told, info) }
				}
				result, err := a.Picked(pick, tc.err)
				if !errors.Is(err, tc.err) {
					t.Errorf("error %v: want the picker's own", err)
				}
				if tc.done != nil {
					result.Done(*tc.done)
					if child && (len(told) != 1 || !errors.Is(told[0].Err, tc.done.Err) || told[0].BytesSent != tc.done.BytesSent) {
						t.Errorf("the child's Done is told %v: want %v once", told, *tc.done)
					}
				}
				got := ""
				if a.ended != nil {
					got = "ended: OK"
					if a.outcome != nil {
						got = "ended: " + status.Code(a.outcome.Err).String()
					}
				}
				if got != tc.want {
					t.Errorf("the attempt has %q: want %q", got, tc.want)
				}
			})
		}
	}
}

// TestLeanOutlivesRPC checks what is known of an attempt that ends without an error when
// its RPC is over: a success, if the server has said something.
func TestLeanOutlivesRPC(t *testing.T) {
	for received, want := range map[bool]string{false: "1 none", true: "1 OK"} {
		synctest.Test(t, func(t *testing.T) {
			l := openLean(t, false)
			ctx, cancel := context.WithCancel(l)
			a, o := pickFor(ctx, t), &observer{ledger: l}
			a.Pick()
			a.Observe(o, 1)
			picked, _ := a.Picked(balancer.PickResult{}, nil)
			_ = l.result(nil)
			picked.Done(balancer.DoneInfo{BytesSent: true, BytesReceived: received})
			cancel()
			synctest.Wait()
			if got := strings.Join(o.told, " "); got != want {
				t.Errorf("received %v: told %q, want %q", received, got, want)
			}
		})
	}
}

// TestLeanWithoutTime has an RPC end by its deadline, before an attempt was sent or after
// that, and soon after a picker was asked or later.
func TestLeanWithoutTime(t *testing.T) {
	for _, tc := range []struct {
		left time.Duration // 0: there is no deadline
		sent bool
		want string
	}{
		{10*time.Millisecond - 1, false, "1 none"},
		{10 * time.Millisecond, false, "1 DeadlineExceeded"},
		{10*time.Millisecond - 1, true, "1 DeadlineExceeded"},
		{0, false, "1 DeadlineExceeded"},
	} {
		synctest.Test(t, func(t *testing.T) {
			l := openLean(t, false)
			ctx, cancel := context.WithCancel(l)
			if tc.left > 0 {
				ctx, cancel = context.WithTimeout(l, tc.left)
			}
			a, o := pickFor(ctx, t), &observer{ledger: l}
			a.Pick()
			a.Observe(o, 1)
			picked, _ := a.Picked(balancer.PickResult{}, nil)
			picked.Done(balancer.DoneInfo{Err: failure("DEADLINE_EXCEEDED"), BytesSent: tc.sent})
			cancel()
			_ = l.result(failure("DEADLINE_EXCEEDED"))
			if got := strings.Join(o.told, " "); got != tc.want {
				t.Errorf("%v, sent %v: told %q, want %q", tc.left, tc.sent, got, tc.want)
			}
		})
	}
}

// TestLeanFailFast checks by what it is known that an RPC waits for ready.
func TestLeanFailFast(t *testing.T) {
	config := func(wait bool) *grpc.ClientConn {
		cc := testkit.Dial(t, "passthrough:///x", grpc.WithDefaultServiceConfig(fmt.Sprintf(`{"methodConfig": [{"name": [{}], "waitForReady": %v}]}`, wait)))
		cc.Connect()
		testkit.Eventually(t, "a service config", func() bool { return cc.GetMethodConfig(method).WaitForReady != nil })
		return cc
	}
	none, waits, fails := channel(t), config(true), config(false)
	wait, fail := grpc.WaitForReady(true), grpc.WaitForReady(false)
	for _, tc := range []struct {
		name string
		cc   *grpc.ClientConn
		opts []grpc.CallOption
		want bool
	}{
		{"neither", none, nil, true},
		{"another option", none, []grpc.CallOption{grpc.UseCompressor("gzip")}, true},
		{"an option", none, []grpc.CallOption{wait}, false},
		{"the last option", none, []grpc.CallOption{wait, fail}, true},
		{"the config", waits, nil, false},
		{"the config, which says what is usual", fails, nil, true},
		{"an option against the config", waits, []grpc.CallOption{fail}, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, l, _ := open(context.Background(), tc.cc, method, opener)
			l.lean, l.failFast = true, failFastOption(tc.opts)
			ctx, _ := streamContexts(l, t)
			if got := pickFor(ctx, t).FailFast(); got != tc.want {
				t.Errorf("fails fast: %v, want %v", got, tc.want)
			}
		})
	}
}
