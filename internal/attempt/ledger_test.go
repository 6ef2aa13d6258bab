package attempt

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"
)

// TestOpen checks when an interceptor takes the ledger that it finds, as it must
// if dial options were given twice, and when it opens one of its own.
func TestOpen(t *testing.T) {
	one, two := channel(t), channel(t)
	used := func(ctx context.Context) context.Context {
		tr := newTrace(ctx, t)
		tr.run("tag s1; begin; pick")
		return tr.current.attempt
	}
	unused := func(ctx context.Context) context.Context { return ctx }
	for _, tc := range []struct {
		name   string
		inside func(context.Context) context.Context // where the second interceptor runs
		second bool                                  // on the second channel
		method string
		by     *Interceptors // that open the inner one
		same   bool
	}{
		{name: "dial options given twice", inside: unused, method: method, by: new(Interceptors), same: true},
		{name: "an RPC on the way, of the same channel and method", inside: unused, method: method},
		{name: "another channel", inside: unused, second: true, method: method},
		{name: "another method of the channel", inside: unused, method: "/test.Service/Other"},
		{name: "another channel, from inside an attempt", inside: used, second: true, method: method},
		{name: "the same channel and method, from inside an attempt", inside: used, method: method},
	} {
		t.Run(tc.name, func(t *testing.T) {
			outer, _, _ := open(WithStart(context.Background(), 7), one, method, opener)
			cc := one
			if tc.second {
				cc = two
			}
			inner, _, _ := open(tc.inside(outer), cc, tc.method, cmp.Or(tc.by, opener))
			if same := inner == outer; same != tc.same {
				t.Errorf("the same ledger: %v, want %v", same, tc.same)
			}
			want := "1"
			if tc.same {
				want = "7"
			}
			tr := newTrace(inner, t)
			tr.run("tag s1; begin")
			if got := tr.numbers(); got != want {
				t.Errorf("attempt %s: want %s", got, want)
			}
		})
	}
}

// TestNestedRPCInheritsNothing checks that neither attempt, start nor ledger of
// an RPC is visible to an RPC on another channel that is made with its context.
func TestNestedRPCInheritsNothing(t *testing.T) {
	type otherKey struct{}
	ctx := context.WithValue(WithStart(context.Background(), 7), otherKey{}, "kept")
	outer, outerLedger, _ := open(ctx, channel(t), method, opener)
	if got, ok := outer.Value(openKey).(*request); ok {
		t.Errorf("start %d is visible inside the RPC that it was for", got.start)
	}
	tr := newTrace(outer, t)
	tr.run("tag s1; begin; pick; end UNAVAILABLE; tag s1; begin; pick")
	if got, want := tr.numbers(), "7; 8 after 7 Unavailable"; got != want {
		t.Fatalf("outer attempts %s: want %s", got, want)
	}

	attempt := context.WithValue(tr.current.attempt, otherKey{}, "kept too")
	if got := FromContext(attempt); got == nil || got.Number() != 8 {
		t.Fatalf("attempt of a context inside the attempt: %v", got)
	}
	inner, innerLedger, _ := open(attempt, channel(t), method, opener)
	if got := FromContext(inner); got != nil {
		t.Errorf("attempt %d is visible in another channel's RPC", got.Number())
	}
	if got := inner.Value(attemptKey); innerLedger == outerLedger || got != innerLedger {
		t.Error("the ledger is visible in another channel's RPC")
	}
	if got := inner.Value(otherKey{}); got != "kept too" {
		t.Errorf("another value: %v", got)
	}
	nested := newTrace(inner, t)
	nested.run("tag s1; begin; pick; end ABORTED; tag s1; begin")
	if got, want := nested.numbers(), "1; 2 after 1 Aborted"; got != want {
		t.Errorf("nested attempts %s: want %s", got, want)
	}
	tr.run("end ABORTED; tag s1; begin")
	if got, want := tr.numbers(), "7; 8 after 7 Unavailable; 9 after 8 Aborted"; got != want {
		t.Errorf("outer attempts %s: want %s", got, want)
	}
}

// TestValuesOfTheCaller has the values of a caller's context found in the attempt's,
// whatever their keys are.
func TestValuesOfTheCaller(t *testing.T) {
	type key int
	ctx := context.WithValue(context.Background(), key(0), "the caller's")
	rpc, _, _ := open(ctx, channel(t), method, opener)
	tr := newTrace(rpc, t)
	tr.run("tag s; begin")
	if got := FromContext(tr.current.attempt).Value(key(0)); got != "the caller's" {
		t.Errorf("the value is %v", got)
	}
}

// TestStartForNestedRPC checks that a start that is given inside an RPC holds
// for the nested one, whatever the outer one had.
func TestStartForNestedRPC(t *testing.T) {
	outer, _, _ := open(WithStart(context.Background(), 7), channel(t), method, opener)
	inner, _, _ := open(WithStart(outer, 3), channel(t), method, opener)
	tr := newTrace(inner, t)
	tr.run("tag s1; begin")
	if got := tr.numbers(); got != "3" {
		t.Errorf("attempt %s: want 3", got)
	}
}

// TestUntracked checks that the handler leaves RPCs without a ledger alone.
func TestUntracked(t *testing.T) {
	h, ctx := StatsHandler(), context.Background()
	if got := h.TagRPC(ctx, &stats.RPCTagInfo{FullMethodName: method}); got != ctx {
		t.Errorf("the context became %v", got)
	}
	h.HandleRPC(ctx, &stats.Begin{})
	h.HandleRPC(ctx, &stats.OutHeader{})
	h.HandleRPC(ctx, &stats.OutPayload{})
	h.HandleRPC(ctx, &stats.InHeader{})
	h.HandleRPC(ctx, &stats.InTrailer{})
	h.HandleRPC(ctx, &stats.End{})
	if got := FromContext(ctx); got != nil {
		t.Errorf("attempt %v", got)
	}
}

// TestFailFast checks that a picker can tell an RPC that waits for ready.
func TestFailFast(t *testing.T) {
	for _, want := range []bool{true, false} {
		rpc, _, _ := open(context.Background(), channel(t), method, opener)
		ctx := StatsHandler().TagRPC(rpc, &stats.RPCTagInfo{FailFast: want})
		if got := FromContext(ctx).FailFast(); got != want {
			t.Errorf("fail-fast %v: want %v", got, want)
		}
	}
}

// TestStreamsOneAfterAnother checks that a ledger forgets streams that are over,
// and only those.
func TestStreamsOneAfterAnother(t *testing.T) {
	rpc, l, _ := open(context.Background(), channel(t), method, opener)
	tr := newTrace(rpc, t)
	tr.run("tag open; begin; pick")
	for i := range 1000 {
		tr.run(fmt.Sprintf("tag s%d; begin; pick; end UNAVAILABLE; close", i))
	}
	heads := 0
	for a := l.heads; a != nil; a = a.sibling {
		heads++
	}
	if heads > 2 {
		t.Errorf("the ledger keeps %d streams: want the open one and the latest", heads)
	}
	tr.run("on open; end UNAVAILABLE; tag open; begin transparent")
	if got := FromContext(tr.current.attempt).Number(); got != 1 {
		t.Errorf("the transparent retry of attempt 1 is attempt %d", got)
	}
}

// TestStreamsThatSucceed has an interceptor make one stream after another within an RPC.
// How they have ended is told with the next one, as far as it is known, and the ledger
// keeps few of the others in mind.
func TestStreamsThatSucceed(t *testing.T) {
	for _, header := range []bool{false, true} {
		rpc, l, _ := open(context.Background(), channel(t), method, opener)
		tr, o := newTrace(rpc, t), &observer{ledger: l}
		for i := range 1000 {
			tr.run(fmt.Sprintf("tag s%d; begin; pick", i))
			FromContext(tr.current.attempt).Observe(o, uint64(i))
			if header {
				StatsHandler().HandleRPC(tr.current.attempt, &stats.InHeader{Client: true})
			}
			tr.run("end; close")
		}
		heads := 0
		for a := l.heads; a != nil; a = a.sibling {
			heads++
		}
		wantHeads, word := maxSilent+1, "none"
		if header {
			wantHeads, word = 1, "OK"
		}
		if heads != wantHeads || len(o.told) != 1000-heads || !strings.HasSuffix(o.told[0], word) {
			t.Errorf("header %v: the ledger keeps %d streams, and has told of %d, first %q: want %d, and the others, %s", header, heads, len(o.told), o.told[0], wantHeads, word)
		}
	}
}

// TestStreamsAtOnce has many streams of one ledger make attempts at once, some of
// which are transparent or begun twice, and checks that no number is missing or
// shared.
func TestStreamsAtOnce(t *testing.T) {
	const streams, attempts = 16, 60
	rpc, _, _ := open(context.Background(), channel(t, "UNAVAILABLE"), method, opener)
	h, info := StatsHandler(), &stats.RPCTagInfo{FullMethodName: method}
	begin := func(ctx context.Context, transparent bool) (context.Context, int) {
		ctx = h.TagRPC(ctx, info)
		h.HandleRPC(ctx, &stats.Begin{IsTransparentRetryAttempt: transparent})
		return ctx, FromContext(ctx).Number()
	}
	var mu sync.Mutex
	var numbers []int
	var wg sync.WaitGroup
	for range streams {
		wg.Go(func() {
			ctx, cancel := context.WithCancel(rpc)
			defer cancel()
			for i := range attempts {
				attempt, number := begin(ctx, false)
				if i%3 == 1 {
					// The first of two that begin: it is not picked for.
					var again int
					if attempt, again = begin(ctx, false); again != number {
						t.Errorf("attempt %d became %d when it began twice", number, again)
					}
				}
				FromContext(attempt).Pick()
				h.HandleRPC(attempt, &stats.End{Error: failure("UNAVAILABLE")})
				if i%3 == 2 {
					var again int
					if attempt, again = begin(ctx, true); again != number {
						t.Errorf("attempt %d became %d in a transparent retry", number, again)
					}
					FromContext(attempt).Pick()
					h.HandleRPC(attempt, &stats.End{})
				}
				mu.Lock()
				numbers = append(numbers, number)
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	slices.Sort(numbers)
	for i, n := range numbers {
		if n != i+1 {
			t.Fatalf("number %d of %d is %d", i+1, len(numbers), n)
		}
	}
}

// TestOneAllocation checks that counting costs an RPC of one attempt a single
// allocation: the ledger.
func TestOneAllocation(t *testing.T) {
	cc := channel(t)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	h, info, begin, end := StatsHandler(), &stats.RPCTagInfo{FullMethodName: method}, &stats.Begin{}, &stats.End{}
	got := testing.AllocsPerRun(1000, func() {
		rpc, _, _ := open(ctx, cc, method, opener)
		attempt := h.TagRPC(rpc, info)
		h.HandleRPC(attempt, begin)
		a := FromContext(attempt)
		a.Pick()
		if a.Number() != 1 {
			t.Errorf("attempt %d", a.Number())
		}
		h.HandleRPC(attempt, end)
	})
	if got != 1 {
		t.Errorf("%v allocations: want 1", got)
	}
}

// illegal is what gRPC-Go makes of a picker's error whose code it does not
// allow.
func illegal(err error) error {
	return status.Errorf(codes.Internal, "received picker error with illegal status: %v", err)
}

func TestIsReplacement(t *testing.T) {
	ended := status.Error(codes.Aborted, "past the end")
	for _, tc := range []struct {
		name string
		err  error
		want bool
	}{
		{"what gRPC-Go makes of it", illegal(ended), true},
		{"that, wrapped", fmt.Errorf("max retries exhausted: %w", illegal(ended)), true},
		{"the error itself", ended, false},
		{"another code with the same text", status.Error(codes.Unavailable, ended.Error()), false},
		{"INTERNAL of another picker error", illegal(errors.New("other")), false},
		{"a server's INTERNAL", status.Error(codes.Internal, "bug"), false},
		{"no status", errors.New(ended.Error()), false},
		{"the end of a stream", io.EOF, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := isReplacement(tc.err, ended); got != tc.want {
				t.Errorf("isReplacement(%v) = %v: want %v", tc.err, got, tc.want)
			}
		})
	}
}

func TestResult(t *testing.T) {
	ended, earlier := status.Error(codes.Aborted, "past the end"), status.Error(codes.DataLoss, "earlier")
	other := status.Error(codes.Internal, "bug")
	for _, tc := range []struct {
		name  string
		ended []error // what pickers ended the RPC with, one stream each
		err   error
		want  error
	}{
		{"success", nil, nil, nil},
		{"success after all", []error{ended}, nil, nil},
		{"no picker's error", nil, other, other},
		{"a picker's error that was replaced", []error{ended}, illegal(ended), ended},
		{"another error", []error{ended}, other, other},
		{"the end of a stream", []error{ended}, io.EOF, io.EOF},
		{"the later one of two", []error{earlier, ended}, illegal(ended), ended},
		{"the earlier one of two that hedge", []error{earlier, ended}, illegal(earlier), earlier},
	} {
		t.Run(tc.name, func(t *testing.T) {
			rpc, l, _ := open(context.Background(), channel(t), method, opener)
			tr := newTrace(rpc, t)
			for i, err := range tc.ended {
				tr.run(fmt.Sprintf("tag s%d; begin; pick", i))
				FromContext(tr.current.attempt).EndRPC(err)
			}
			if got := l.result(tc.err); !errors.Is(got, tc.want) {
				t.Errorf("result(%v) = %v: want %v", tc.err, got, tc.want)
			}
		})
	}
}

// TestReplacedFailure checks that an attempt whose picker's error gRPC-Go
// replaced failed with the picker's error, not with what came in its place.
func TestReplacedFailure(t *testing.T) {
	ended := status.Error(codes.Aborted, "past the end")
	rpc, _, _ := open(context.Background(), channel(t), method, opener)
	tr := newTrace(rpc, t)
	tr.run("tag s1; begin; pick")
	FromContext(tr.current.attempt).EndRPC(ended)
	StatsHandler().HandleRPC(tr.current.attempt, &stats.End{Error: illegal(ended)})
	tr.run("close; tag s2; begin")
	if got, want := tr.numbers(), "1; 2 after 1 Aborted"; got != want {
		t.Errorf("attempts %s: want %s", got, want)
	}
}
