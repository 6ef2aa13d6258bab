package attempt

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"strings"
	"testing"
	"testing/synctest"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"

	"github.com/grpc-composite/grpc-composite/internal/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

const method = "/test.Service/Method"

// channel returns a channel that goes nowhere and has a retry policy for these
// codes, or none.
func channel(t testing.TB, retryable ...string) *grpc.ClientConn {
	t.Helper()
	unreachable := grpc.WithContextDialer(func(context.Context, string) (net.Conn, error) {
		return nil, errors.New("unreachable")
	})
	if len(retryable) == 0 {
		return testkit.Dial(t, "passthrough:///x", unreachable)
	}
	config := fmt.Sprintf(`{"methodConfig": [{"name": [{}], "retryPolicy": {
		"maxAttempts": 3, "initialBackoff": "0.001s", "maxBackoff": "0.001s", "backoffMultiplier": 1,
		"retryableStatusCodes": ["%s"]}}]}`, strings.Join(retryable, `", "`))
	cc := testkit.Dial(t, "passthrough:///x", unreachable, grpc.WithDefaultServiceConfig(config))
	cc.Connect()
	testkit.Eventually(t, "a service config", func() bool { return cc.GetMethodConfig(method).RetryPolicy != nil })
	return cc
}

// trace drives the stats handler with the events that gRPC-Go makes, written as
// steps with a semicolon between them:
//
//	tag s1            the next attempt of the client stream s1 gets its context
//	tag again         by a second stats handler
//	on s1             the steps that follow are about the latest attempt of s1
//	begin             the attempt begins
//	begin transparent
//	pick              the picker works for it
//	header            a response header comes
//	end               it ends without an error
//	end UNAVAILABLE   it ends with one
//	close             its client stream is over
type trace struct {
	t        *testing.T
	rpc      context.Context
	streams  map[string]*traceStream
	current  *traceStream
	attempts []context.Context // that have begun, in order
}

type traceStream struct {
	ctx     context.Context
	cancel  context.CancelFunc
	attempt context.Context
}

// opener opens the ledgers of tests that need no interceptors.
var opener = new(Interceptors)

func newTrace(rpc context.Context, t *testing.T) *trace {
	t.Helper()
	tr := &trace{t: t, rpc: rpc, streams: make(map[string]*traceStream)}
	t.Cleanup(func() {
		for _, s := range tr.streams {
			s.cancel()
		}
	})
	return tr
}

func (tr *trace) run(steps string) {
	tr.t.Helper()
	for step := range strings.SplitSeq(steps, ";") {
		tr.step(strings.TrimSpace(step))
	}
}

func (tr *trace) step(step string) {
	tr.t.Helper()
	h := StatsHandler()
	verb, arg, _ := strings.Cut(step, " ")
	switch {
	case step == "tag again":
		if again := h.TagRPC(tr.current.attempt, &stats.RPCTagInfo{FullMethodName: method}); again != tr.current.attempt {
			tr.t.Errorf("a second handler made the context %v", again)
		}
	case verb == "tag":
		tr.current = tr.stream(arg)
		tr.current.attempt = h.TagRPC(tr.current.ctx, &stats.RPCTagInfo{FullMethodName: method, FailFast: true})
	case verb == "on":
		tr.current = tr.stream(arg)
	case verb == "begin":
		h.HandleRPC(tr.current.attempt, &stats.Begin{Client: true, IsTransparentRetryAttempt: arg == "transparent"})
		if n := len(tr.attempts); n == 0 || tr.attempts[n-1] != tr.current.attempt {
			tr.attempts = append(tr.attempts, tr.current.attempt)
		}
	case verb == "header":
		h.HandleRPC(tr.current.attempt, &stats.InHeader{Client: true})
	case verb == "pick":
		FromContext(tr.current.attempt).Pick()
	case verb == "end":
		h.HandleRPC(tr.current.attempt, &stats.End{Client: true, Error: failure(arg)})
	case verb == "close":
		tr.current.cancel()
	default:
		tr.t.Fatalf("step %q", step)
	}
}

// closeAndWait has the client stream be over, and what follows from that be done. The test
// runs in a synctest bubble.
func (tr *trace) closeAndWait() {
	tr.t.Helper()
	tr.step("close")
	synctest.Wait()
}

func (tr *trace) stream(name string) *traceStream {
	s := tr.streams[name]
	if s == nil {
		s = &traceStream{}
		s.ctx, s.cancel = context.WithCancel(tr.rpc)
		tr.streams[name] = s
	}
	return s
}

// numbers describes the attempts that have begun: "1; 2 after 1 UNAVAILABLE".
func (tr *trace) numbers() string {
	var parts []string
	for _, ctx := range tr.attempts {
		a := FromContext(ctx)
		part := fmt.Sprint(a.Number())
		if a.Transparent() {
			part += " transparent"
		}
		if f := a.LastFailure(); f != nil {
			part += fmt.Sprintf(" after %d", f.Number)
			if f.Err == nil {
				part += " unreported"
			}
			part += " " + f.Status().Code().String()
		}
		parts = append(parts, part)
	}
	return strings.Join(parts, "; ")
}

// failure is an error with the code of that name, or nil for "".
func failure(name string) error {
	if name == "" {
		return nil
	}
	var c codes.Code
	if err := c.UnmarshalJSON([]byte(`"` + name + `"`)); err != nil {
		panic(err) // a mistake in a trace
	}
	return status.Error(c, "scripted")
}

func TestTraces(t *testing.T) {
	unavailable := channel(t, "UNAVAILABLE")
	several := channel(t, "UNAVAILABLE", "ABORTED")
	none := channel(t)
	start := func(n int) *int { return &n }
	for _, tc := range []struct {
		name  string
		cc    *grpc.ClientConn // default: retries UNAVAILABLE
		start *int
		trace string
		want  string
	}{
		{
			name:  "one attempt",
			trace: "tag s1; begin; pick; end",
			want:  "1",
		},
		{
			name:  "a retry by the policy advances",
			trace: "tag s1; begin; pick; end UNAVAILABLE; tag s1; begin; pick; end ABORTED; tag s1; begin; pick; end",
			want:  "1; 2 after 1 Unavailable; 3 after 2 Aborted",
		},
		{
			name:  "a pick that is repeated in one attempt does not advance",
			trace: "tag s1; begin; pick; pick; pick; end UNAVAILABLE; tag s1; begin; pick; pick; end",
			want:  "1; 2 after 1 Unavailable",
		},
		{
			name:  "a transparent retry does not advance",
			trace: "tag s1; begin; pick; end UNAVAILABLE; tag s1; begin transparent; pick; end",
			want:  "1; 1 transparent",
		},
		{
			name:  "nor does it if Send noticed that the stream was refused",
			trace: "tag s1; begin; pick; end; tag s1; begin transparent; pick; end",
			want:  "1; 1 transparent",
		},
		{
			name:  "several transparent retries do not advance",
			trace: "tag s1; begin; pick; end UNAVAILABLE; tag s1; begin transparent; pick; end UNAVAILABLE; tag s1; begin transparent; pick; end",
			want:  "1; 1 transparent; 1 transparent",
		},
		{
			name:  "a retry by the policy after a transparent one is attempt 2",
			trace: "tag s1; begin; pick; end UNAVAILABLE; tag s1; begin transparent; pick; end UNAVAILABLE; tag s1; begin; pick; end",
			want:  "1; 1 transparent; 2 after 1 Unavailable",
		},
		{
			name:  "a transparent retry of attempt 2 remembers how attempt 1 failed",
			trace: "tag s1; begin; pick; end ABORTED; tag s1; begin; pick; end UNAVAILABLE; tag s1; begin transparent; pick; end",
			want:  "1; 2 after 1 Aborted; 2 transparent after 1 Aborted",
		},
		{
			name:  "begun twice after a failed pick",
			trace: "tag s1; begin; pick; end UNAVAILABLE; tag s1; begin; tag s1; begin; pick; end",
			want:  "1; 2 after 1 Unavailable; 2 after 1 Unavailable",
		},
		{
			name:  "begun twice after each of several failed picks",
			trace: "tag s1; begin; pick; end UNAVAILABLE; tag s1; begin; tag s1; begin; pick; end ABORTED; tag s1; begin; tag s1; begin; pick; end",
			want:  "1; 2 after 1 Unavailable; 2 after 1 Unavailable; 3 after 2 Aborted; 3 after 2 Aborted",
		},
		{
			name:  "begun twice after a transparent retry, of which the second does not say that it is transparent",
			trace: "tag s1; begin; pick; end UNAVAILABLE; tag s1; begin transparent; tag s1; begin; pick; end",
			want:  "1; 1 transparent; 1 transparent",
		},
		{
			name:  "begun twice after each of several transparent retries",
			trace: "tag s1; begin; pick; end UNAVAILABLE; tag s1; begin transparent; tag s1; begin; pick; end UNAVAILABLE; tag s1; begin transparent; tag s1; begin; pick; end UNAVAILABLE; tag s1; begin; tag s1; begin; pick; end",
			want:  "1; 1 transparent; 1 transparent; 1 transparent; 1 transparent; 2 after 1 Unavailable; 2 after 1 Unavailable",
		},
		{
			name:  "an attempt that ended before it was picked for counts",
			trace: "tag s1; begin; end UNAVAILABLE; tag s1; begin; pick; end",
			want:  "1; 2 after 1 Unavailable",
		},
		{
			name:  "an attempt that was picked for counts, though it has not ended",
			trace: "tag s1; begin; pick; tag s1; begin; pick; end",
			want:  "1; 2 after 1 unreported Unavailable",
		},
		{
			name:  "a new stream of an interceptor that retries advances",
			trace: "tag s1; begin; pick; end UNAVAILABLE; close; tag s2; begin; pick; end ABORTED; close; tag s3; begin; pick; end",
			want:  "1; 2 after 1 Unavailable; 3 after 2 Aborted",
		},
		{
			name:  "a new stream after a success has no failure before it",
			trace: "tag s1; begin; pick; end UNAVAILABLE; tag s1; begin; pick; end; close; tag s2; begin; pick; end",
			want:  "1; 2 after 1 Unavailable; 3",
		},
		{
			name:  "a new stream goes on after the policy's retries",
			trace: "tag s1; begin; pick; end UNAVAILABLE; tag s1; begin; pick; end ABORTED; close; tag s2; begin; pick; end UNAVAILABLE; tag s2; begin; tag s2; begin; pick; end",
			want:  "1; 2 after 1 Unavailable; 3 after 2 Aborted; 4 after 3 Unavailable; 4 after 3 Unavailable",
		},
		{
			name:  "a new stream after one that was given up before its pick",
			trace: "tag s1; begin; end CANCELLED; close; tag s2; begin; pick; end",
			want:  "1; 2 after 1 Canceled",
		},
		{
			name:  "two streams at once have each their own numbers and failures",
			trace: "tag s1; begin; tag s2; begin; pick; on s1; pick; end UNAVAILABLE; on s2; end ABORTED; tag s1; begin; tag s2; begin",
			want:  "1; 2; 3 after 1 Unavailable; 4 after 2 Aborted",
		},
		{
			name:  "two streams at once, tagged before either begins",
			trace: "tag s1; tag s2; begin; on s1; begin",
			want:  "1; 2",
		},
		{
			name:  "a transparent retry beside another stream does not advance",
			trace: "tag s1; begin; pick; tag s2; begin; pick; on s1; end UNAVAILABLE; tag s1; begin transparent; on s2; end UNAVAILABLE; tag s2; begin transparent",
			want:  "1; 2; 1 transparent; 2 transparent",
		},
		{
			name:  "begun twice, with an attempt of another stream in between",
			trace: "tag s1; begin; pick; end UNAVAILABLE; tag s1; begin; tag s2; begin; pick; tag s1; begin; pick; end",
			want:  "1; 2 after 1 Unavailable; 3 after 1 Unavailable; 2 after 1 Unavailable",
		},
		{
			name:  "a stream that is over does not disturb one that is not",
			trace: "tag s1; begin; pick; tag s2; begin; pick; end; close; tag s3; begin; on s1; end ABORTED; tag s1; begin",
			want:  "1; 2; 3; 4 after 1 Aborted",
		},
		{
			name:  "the caller's start",
			start: start(5),
			trace: "tag s1; begin; pick; end UNAVAILABLE; tag s1; begin transparent; tag s1; begin; pick; end UNAVAILABLE; tag s1; begin; close; tag s2; begin",
			want:  "5; 5 transparent; 5 transparent; 6 after 5 Unavailable; 7 after 5 Unavailable",
		},
		{
			name:  "a start of 0 is the picker's to refuse",
			start: start(0),
			trace: "tag s1; begin; pick; end INTERNAL",
			want:  "0",
		},
		{
			name:  "and so is a negative one",
			start: start(math.MinInt),
			trace: "tag s1; begin; pick; end INTERNAL",
			want:  fmt.Sprint(math.MinInt),
		},
		{
			name:  "the largest start does not wrap",
			start: start(math.MaxInt),
			trace: "tag s1; begin; pick; end UNAVAILABLE; tag s1; begin; pick; end",
			want:  fmt.Sprintf("%d; %[1]d after %[1]d Unavailable", math.MaxInt),
		},
		{
			name:  "two stats handlers",
			trace: "tag s1; tag again; begin; begin; pick; end UNAVAILABLE; end UNAVAILABLE; tag s1; tag again; begin; begin; pick; end; end",
			want:  "1; 2 after 1 Unavailable",
		},
		{
			name:  "two stats handlers and a transparent retry that is begun twice",
			trace: "tag s1; tag again; begin; begin; pick; end UNAVAILABLE; end UNAVAILABLE; tag s1; tag again; begin transparent; begin transparent; tag s1; tag again; begin; begin; pick; end; end",
			want:  "1; 1 transparent; 1 transparent",
		},
		{
			name:  "the first of two ends counts",
			trace: "tag s1; begin; pick; end ABORTED; end UNAVAILABLE; tag s1; begin",
			want:  "1; 2 after 1 Aborted",
		},
		{
			name:  "a failure that Send noticed has the only retryable code",
			trace: "tag s1; begin; pick; end; tag s1; begin; pick; end",
			want:  "1; 2 after 1 unreported Unavailable",
		},
		{
			name:  "a failure that Send noticed is unknown if several codes are retryable",
			cc:    several,
			trace: "tag s1; begin; pick; end; tag s1; begin; pick; end",
			want:  "1; 2 after 1 unreported Unknown",
		},
		{
			name:  "a failure that Send noticed is unknown without a retry policy",
			cc:    none,
			trace: "tag s1; begin; pick; end; tag s1; begin; pick; end",
			want:  "1; 2 after 1 unreported Unknown",
		},
		{
			name:  "a failure that Send noticed is known to all later attempts",
			trace: "tag s1; begin; pick; end; tag s1; begin; tag s2; begin; tag s1; begin; pick",
			want:  "1; 2 after 1 unreported Unavailable; 3 after 1 unreported Unavailable; 2 after 1 unreported Unavailable",
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			cc := tc.cc
			if cc == nil {
				cc = unavailable
			}
			ctx := context.Background()
			if tc.start != nil {
				ctx = WithStart(ctx, *tc.start)
			}
			rpc, _, _ := open(ctx, cc, method, opener)
			tr := newTrace(rpc, t)
			tr.run(tc.trace)
			if got := tr.numbers(); got != tc.want {
				t.Errorf("attempts %s\nwant %s", got, tc.want)
			}
		})
	}
}
