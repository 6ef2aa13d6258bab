package breaker

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/grpc-composite/grpc-composite/internal/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

var usual = CodesOf(codes.Unavailable, codes.DeadlineExceeded, codes.ResourceExhausted)

// scripted drives a breaker by steps, which are words:
//
//	a          an attempt may pass, and is called a from then on
//	!          no attempt may pass
//	a=CODE     the attempt a ends
//	a=X|Y      it ends with one of these codes
//	a=         no server has seen it
//	a<         the attempt a is given back
//	fail*n     n attempts, one after another, pass and end with UNAVAILABLE
//	+10s       time passes
//	config=N   the config is replaced by the N-th
type scripted struct {
	t        *testing.T
	b        *Breaker
	configs  []*Config
	attempts map[string]Token
}

func (s *scripted) run(steps string) {
	s.t.Helper()
	for step := range strings.FieldsSeq(steps) {
		s.step(step)
		synctest.Wait()
		if s.b.Resting() && s.b.Passes() != (s.b.token().phase() == waiting) {
			s.t.Fatalf("after %s: Passes is %v", step, s.b.Passes())
		}
	}
}

func (s *scripted) step(step string) {
	s.t.Helper()
	name, code, isEnd := strings.Cut(step, "=")
	switch {
	case step == "!":
		if s.b.Passes() {
			s.t.Fatalf("after %v: Passes says that an attempt may pass", time.Now().Format("04:05"))
		}
		if _, ok := s.b.Allow(); ok {
			s.t.Fatalf("after %v: an attempt may pass", time.Now().Format("04:05"))
		}
	case step[0] == '+':
		d, err := time.ParseDuration(step[1:])
		if err != nil {
			s.t.Fatal(err)
		}
		time.Sleep(d)
	case name == "config":
		s.b.Configure(s.configs[code[0]-'0'])
	case isEnd:
		s.b.Settle(s.token(name), codesNamed(s.t, code)...)
	case strings.HasPrefix(step, "fail*"):
		var n int
		if _, err := fmt.Sscanf(step, "fail*%d", &n); err != nil {
			s.t.Fatal(err)
		}
		for range n {
			s.b.Settle(s.allow(step), codes.Unavailable)
		}
	case strings.HasSuffix(step, "<"):
		s.b.GiveBack(s.token(strings.TrimSuffix(step, "<")))
	default:
		s.attempts[step] = s.allow(step)
	}
}

func (s *scripted) allow(step string) Token {
	s.t.Helper()
	if !s.b.Passes() {
		s.t.Fatalf("%s at %v: Passes says that no attempt may pass", step, time.Now().Format("04:05"))
	}
	token, ok := s.b.Allow()
	if !ok {
		s.t.Fatalf("%s at %v: no attempt may pass", step, time.Now().Format("04:05"))
	}
	return token
}

func (s *scripted) token(name string) Token {
	s.t.Helper()
	token, ok := s.attempts[name]
	if !ok {
		s.t.Fatalf("no attempt %q", name)
	}
	return token
}

func codesNamed(t *testing.T, names string) []codes.Code {
	t.Helper()
	var list []codes.Code
	for name := range strings.FieldsFuncSeq(names, func(r rune) bool { return r == '|' }) {
		var code codes.Code
		if err := code.UnmarshalJSON([]byte(`"` + name + `"`)); err != nil {
			t.Fatal(err)
		}
		list = append(list, code)
	}
	return list
}

func TestBreaker(t *testing.T) {
	three := &Config{Failures: 3, Codes: usual, Time: 10 * time.Second, MaxTime: 60 * time.Second}
	one := &Config{Failures: 1, Codes: usual, Time: 10 * time.Second, MaxTime: 60 * time.Second}
	for _, tc := range []struct {
		name    string
		configs []*Config // the first holds from the beginning
		steps   string
	}{
		{"fewer failures than it takes", []*Config{three}, "fail*2 a b c"},
		{"as many as it takes", []*Config{three}, "fail*3 !"},
		{"one is enough", []*Config{one}, "fail*1 !"},
		{"in whatever order they began", []*Config{three}, "a b c c=UNAVAILABLE a=UNAVAILABLE b=UNAVAILABLE !"},
		{"all of the codes", []*Config{three}, "a b c a=UNAVAILABLE b=DEADLINE_EXCEEDED c=RESOURCE_EXHAUSTED !"},
		{"a success in between", []*Config{three}, "fail*2 a a=OK fail*2 a a=OK fail*3 !"},
		{"any other code is a success", []*Config{three}, "fail*2 a a=INTERNAL fail*2 a a=UNKNOWN fail*2 a a=NOT_FOUND fail*2 a"},
		{"a success that began before the failures", []*Config{three}, "a fail*2 a=OK fail*2 b"},
		{"CANCELLED is neither", []*Config{three}, "fail*2 a a=CANCELLED fail*1 !"},
		{"nor what was given back", []*Config{three}, "fail*2 a a< fail*1 !"},
		{"nor what no server has seen", []*Config{three}, "fail*2 a a= fail*1 !"},
		{"one of two failures", []*Config{three}, "fail*2 a a=UNAVAILABLE|RESOURCE_EXHAUSTED !"},
		{"one of two successes", []*Config{three}, "fail*2 a a=INTERNAL|ABORTED fail*2 b"},
		{"a failure or a success", []*Config{three}, "fail*2 a a=UNAVAILABLE|ABORTED fail*1 !"},
		{"a success or a failure", []*Config{three}, "fail*2 a a=ABORTED|UNAVAILABLE fail*1 !"},
		{"a probe's failure or success", []*Config{one}, "fail*1 +10s p1 p1=ABORTED|UNAVAILABLE p2 ! p2=UNAVAILABLE|RESOURCE_EXHAUSTED ! +20s p3 p3= p4 p4=OK a b"},
		{"zero of its config lets all pass", []*Config{nil}, "fail*100 a"},

		{"the rest lasts", []*Config{one}, "fail*1 +9.999s ! +1ms probe"},
		{"one probe at a time", []*Config{one}, "fail*1 +10s probe ! !"},
		{"a probe's success ends the rest", []*Config{one}, "fail*1 +10s probe probe=OK a b c"},
		{"so does another code", []*Config{one}, "fail*1 +10s probe probe=NOT_FOUND a b c"},
		{"a probe's failure starts the next", []*Config{three}, "fail*3 +10s probe probe=UNAVAILABLE ! +19.999s ! +1ms probe"},
		{"a probe that is cancelled gives its turn back", []*Config{one}, "fail*1 +10s p1 p1=CANCELLED p2 ! p2=OK a b"},
		{"so does one that was not made", []*Config{one}, "fail*1 +10s p1 p1< p2 ! p2< p3 p3=OK a b"},
		{"once", []*Config{one}, "fail*1 +10s p1 p1< p2 p1< p1=CANCELLED ! +10s p3"},
		{"a probe that never ends", []*Config{one}, "fail*1 +10s p1 +9.999s ! +1ms p2 ! +10s p3 !"},
		{"the turn is as long for one that follows a given back one", []*Config{one}, "fail*1 +10s p1 +5s p1< p2 +9.999s ! +1ms p3"},
		{"a probe whose turn has passed succeeds", []*Config{one}, "fail*1 +10s p1 +10s p2 p1=OK a b c"},
		{"and what the next one comes to no longer counts", []*Config{one}, "fail*1 +10s p1 +10s p2 p1=OK p2=UNAVAILABLE a b"},
		{"a probe whose turn has passed fails", []*Config{one}, "fail*1 +10s p1 +10s p2 p1=UNAVAILABLE ! +19.999s ! p2=OK ! +1ms p3"},
		{"a probe whose turn has passed to nobody fails", []*Config{one}, "fail*1 +10s p1 +10s p1=UNAVAILABLE ! +20s p2"},
		{"a probe of an earlier rest succeeds late", []*Config{one}, "fail*1 +10s p1 +10s p2 p2=UNAVAILABLE +20s p1=OK p3 !"},
		{"a probe of an earlier rest fails late", []*Config{one}, "fail*1 +10s p1 +10s p2 p2=OK fail*1 +20s p3 p1=UNAVAILABLE p3=OK a b"},

		{"failures that began before the rest", []*Config{three}, "a b c fail*3 +10s probe probe=OK a=UNAVAILABLE b=UNAVAILABLE c=UNAVAILABLE d e"},
		{"a success that began before the rest does not end it", []*Config{three}, "a fail*3 ! a=OK ! +10s a=OK probe !"},
		{"a failure that began before the rest does not prolong it", []*Config{one}, "a b fail*1 +5s a=UNAVAILABLE +5s b=UNAVAILABLE probe"},
		{"the count starts again after a rest", []*Config{three}, "fail*3 +10s probe probe=OK fail*2 a"},

		{"a relapse doubles the time", []*Config{one}, "fail*1 +10s a a=OK fail*1 +19.999s ! +1ms a a=OK fail*1 +39.999s ! +1ms a"},
		{"up to the longest", []*Config{one}, "fail*1 +10s a a=UNAVAILABLE +20s a a=UNAVAILABLE +40s a a=UNAVAILABLE +59.999s ! +1ms a a=UNAVAILABLE +59.999s ! +1ms a"},
		{"a rest within the longest time is a relapse", []*Config{one}, "fail*1 +10s a a=OK +60s fail*1 +19.999s ! +1ms a"},
		{"a rest after that is not", []*Config{one}, "fail*1 +10s a a=OK +60.001s fail*1 +9.999s ! +1ms a"},
		{"nor the one after it alone counts as before", []*Config{one}, "fail*1 +10s a a=OK fail*1 +20s a a=OK +61s fail*1 +10s a a=OK fail*1 +19.999s ! +1ms a"},
		{"a rest ends with a probe's success, however late that comes", []*Config{one}, "fail*1 +1h a a=OK +60s fail*1 +19.999s ! +1ms a"},
		{"a probe that fails however late is a relapse", []*Config{one}, "fail*1 +1h a a=UNAVAILABLE +19.999s ! +1ms a"},
		{"a longest time as long as the first", []*Config{{Failures: 1, Codes: usual, Time: time.Minute, MaxTime: time.Minute}}, "fail*1 +1m a a=UNAVAILABLE +59.999s ! +1ms a"},
		{"a longest time that is no double", []*Config{{Failures: 1, Codes: usual, Time: 10 * time.Second, MaxTime: 15 * time.Second}}, "fail*1 +10s a a=UNAVAILABLE +14.999s ! +1ms a a=UNAVAILABLE +14.999s ! +1ms a"},
		{"more relapses than a duration can be doubled", []*Config{{Failures: 1, Codes: usual, Time: 1, MaxTime: 1}, {Failures: 1, Codes: usual, Time: 1 << 60, MaxTime: 1<<63 - 1}}, "fail*1 " + strings.Repeat("+1ns a a=UNAVAILABLE ", 70) + "config=1 +1ns a a=UNAVAILABLE +1000h !"},
		{"times that do not fit a duration doubled", []*Config{{Failures: 1, Codes: usual, Time: 1<<63 - 1, MaxTime: 1<<63 - 1}}, "fail*1 +1000h !"},

		{"fewer failures by a new config", []*Config{three, one}, "fail*2 config=1 fail*1 !"},
		{"more failures by a new config", []*Config{one, three}, "config=1 fail*2 a"},
		{"a rest goes on under a new config", []*Config{one, {Failures: 1, Codes: usual, Time: time.Second, MaxTime: time.Second}}, "fail*1 config=1 +9.999s ! +1ms p1 +1s p2 p2=UNAVAILABLE +1s p3"},
		{"a probe's turn goes on under a new config", []*Config{one, {Failures: 1, Codes: usual, Time: time.Second, MaxTime: time.Second}}, "fail*1 +10s p1 config=1 +9.999s ! +1ms p2 +1s p3"},
		{"other codes by a new config", []*Config{three, {Failures: 1, Codes: CodesOf(codes.Internal), Time: 10 * time.Second, MaxTime: 60 * time.Second}}, "fail*2 config=1 fail*5 a a=INTERNAL !"},
		{"an attempt is judged by the config at its end", []*Config{one, {Failures: 1, Codes: CodesOf(codes.Internal), Time: 10 * time.Second, MaxTime: 60 * time.Second}}, "a b config=1 a=UNAVAILABLE c b=INTERNAL !"},
		{"no config any more", []*Config{one, nil}, "fail*1 ! config=1 a b fail*5 c"},
		{"no config any more while it is probed", []*Config{one, nil}, "fail*1 +10s p config=1 a b p=UNAVAILABLE c +1h d"},
		{"no config any more, and again one", []*Config{three, nil}, "fail*2 config=1 config=0 fail*2 a"},
		{"a new config knows of no relapse", []*Config{one, nil}, "fail*1 +10s a a=OK fail*1 config=1 config=0 a fail*1 +10s b"},
		{"what was picked before the config was gone", []*Config{one, nil}, "fail*1 +10s p1 config=1 a config=0 p1=UNAVAILABLE b a=OK c"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &scripted{t: t, b: &Breaker{}, configs: tc.configs, attempts: make(map[string]Token)}
				s.b.Configure(tc.configs[0])
				defer s.b.Close()
				s.run(tc.steps)
			})
		})
	}
}

func TestCodes(t *testing.T) {
	set := CodesOf(codes.Unavailable, codes.Unauthenticated, codes.Unknown)
	for c := range codes.Code(64) {
		want := slices.Contains([]codes.Code{codes.Unavailable, codes.Unauthenticated, codes.Unknown}, c)
		if got := set.Has(c); got != want {
			t.Errorf("code %d: %v, want %v", c, got, want)
		}
	}
}

// TestOneProbeOfMany has 64 callers ask at once, again and again, when a rest is
// over.
func TestOneProbeOfMany(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b Breaker
		b.Configure(&Config{Failures: 1, Codes: usual, Time: time.Second, MaxTime: time.Second})
		defer b.Close()
		token, _ := b.Allow()
		b.Settle(token, codes.Unavailable)
		for round := range 200 {
			time.Sleep(time.Second)
			synctest.Wait()
			probe := oneOf(t, &b)
			switch round % 3 {
			case 0: // never ends
			case 1:
				b.Settle(probe, codes.Unavailable)
			case 2:
				b.GiveBack(probe)
				b.Settle(oneOf(t, &b), codes.Unavailable)
			}
		}
	})
}

// oneOf has 64 callers ask at once, and returns the one token that they get.
func oneOf(t *testing.T, b *Breaker) Token {
	t.Helper()
	var passed atomic.Int32
	var probe atomic.Uint64
	var wg sync.WaitGroup
	start := make(chan struct{})
	for range 64 {
		wg.Go(func() {
			<-start
			if token, ok := b.Allow(); ok {
				passed.Add(1)
				probe.Store(uint64(token))
			}
		})
	}
	close(start)
	wg.Wait()
	if got := passed.Load(); got != 1 {
		t.Fatalf("%d attempts of 64 have passed: want 1", got)
	}
	return Token(probe.Load())
}

// TestStorm has 64 callers pass, settle and give back while the config changes.
// What has to hold in the end is that the breaker still works.
func TestStorm(t *testing.T) {
	var b Breaker
	cfg := &Config{Failures: 2, Codes: usual, Time: time.Microsecond, MaxTime: time.Millisecond}
	b.Configure(cfg)
	var wg sync.WaitGroup
	for i := range 64 {
		wg.Go(func() {
			for n := range 500 {
				token, ok := b.Allow()
				switch {
				case !ok:
				case (i+n)%5 == 0:
					b.GiveBack(token)
				case (i+n)%5 == 1:
					b.Settle(token, codes.Canceled)
				case (i+n)%5 == 2:
					b.Settle(token, codes.OK)
				default:
					b.Settle(token, codes.Unavailable)
				}
				if i == 0 && n%50 == 0 {
					b.Configure(nil)
					b.Configure(cfg)
				}
			}
		})
	}
	wg.Wait()
	testkit.Eventually(t, "the breaker lets an attempt pass", func() bool {
		token, ok := b.Allow()
		if ok {
			b.Settle(token, codes.OK)
		}
		return ok && !b.Resting()
	})
	for range 2 {
		token, ok := b.Allow()
		if !ok {
			t.Fatal("a breaker that does not rest stops an attempt")
		}
		b.Settle(token, codes.Unavailable)
	}
	if !b.Resting() {
		t.Error("two failures in a row: want a rest")
	}
	b.Close()
	if b.Resting() {
		t.Error("a closed breaker rests")
	}
}
