package breaker

import (
	"math"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
)

// FuzzBreaker has a sequence of events happen to a breaker, on a fake clock, and
// compares what it lets pass with a model that keeps every attempt and knows the
// rules as the documentation has them.
//
// Each byte is an event: the low bits say which, the high bits of what.
func FuzzBreaker(f *testing.F) {
	const (
		allow   = 0
		fail    = 1
		succeed = 2
		cancel  = 3
		give    = 4
		second  = 5
		minute  = 6
		setup   = 7
	)
	f.Add([]byte{allow, fail, allow, fail, allow, fail, allow})
	f.Add([]byte{allow, fail, allow, fail, minute, allow, succeed, allow, allow})
	f.Add([]byte{allow, fail, allow, fail, minute, allow, fail, minute, allow, fail, minute, allow, cancel, allow})
	f.Add([]byte{allow, allow, allow, fail, fail, second, fail, minute, allow, minute, allow, succeed, fail, allow})
	f.Add([]byte{setup | 1<<3, allow, fail, second, allow, second, allow, second, succeed, allow})
	f.Add([]byte{setup | 1<<3, allow, fail, second | 9<<3, allow, give, allow, fail, second | 9<<3, setup, allow, second, fail})
	f.Add([]byte{setup | 2<<3, allow, fail, fail, setup | 1<<3, fail, allow, fail, setup | 2<<3, allow, setup | 1<<3, allow})
	f.Fuzz(func(t *testing.T, events []byte) {
		if len(events) > 80 {
			return
		}
		synctest.Test(t, func(t *testing.T) {
			p := &pair{t: t}
			p.configure(0)
			defer p.breaker.Close()
			for _, e := range events {
				arg := int(e >> 3)
				switch e & 7 {
				case allow:
					p.allow()
				case fail:
					p.settle(arg, codes.Unavailable)
				case succeed:
					p.settle(arg, codes.OK)
				case cancel:
					p.settle(arg, codes.Canceled)
				case give:
					p.giveBack(arg)
				case second:
					time.Sleep(time.Duration(arg+1) * time.Second)
				case minute:
					time.Sleep(time.Duration(arg+1) * time.Minute)
				case setup:
					p.configure(arg)
				}
				synctest.Wait()
				p.compare()
			}
		})
	})
}

// fuzzConfigs are those that a breaker is configured with; nil turns it off.
var fuzzConfigs = []*Config{
	{Failures: 2, Codes: usual, Time: 10 * time.Second, MaxTime: 300 * time.Second},
	{Failures: 1, Codes: usual, Time: 1 * time.Second, MaxTime: 5 * time.Second},
	nil,
	{Failures: 3, Codes: usual, Time: 60 * time.Second, MaxTime: 60 * time.Second},
}

// pair is a breaker and its model, which the same things happen to.
type pair struct {
	t       *testing.T
	breaker Breaker
	model   model
	tokens  []Token // of the attempts in the model
}

func (p *pair) configure(n int) {
	cfg := fuzzConfigs[n%len(fuzzConfigs)]
	p.breaker.Configure(cfg)
	p.model.configure(cfg)
}

func (p *pair) allow() {
	token, ok := p.breaker.Allow()
	if want := p.model.allow(); ok != want {
		p.t.Fatalf("an attempt may pass: %v, want %v (%+v)", ok, want, p.model)
	}
	if ok {
		p.tokens = append(p.tokens, token)
	}
}

func (p *pair) settle(n int, code codes.Code) {
	if len(p.tokens) == 0 {
		return
	}
	n %= len(p.tokens)
	p.breaker.Settle(p.tokens[n], code)
	p.model.settle(n, code)
}

func (p *pair) giveBack(n int) {
	if len(p.tokens) == 0 {
		return
	}
	n %= len(p.tokens)
	p.breaker.GiveBack(p.tokens[n])
	p.model.giveBack(n)
}

func (p *pair) compare() {
	passes, resting := p.model.passes(), p.model.resting()
	if got := p.breaker.Passes(); got != passes {
		p.t.Fatalf("an attempt would pass: %v, want %v (%+v)", got, passes, p.model)
	}
	if got := p.breaker.Resting(); got != resting {
		p.t.Fatalf("it rests: %v, want %v (%+v)", got, resting, p.model)
	}
}

// model is a breaker that looks at the clock when it is asked, and numbers its
// rests and the times between them, its periods.
type model struct {
	config   *Config
	period   int       // even between rests, odd in one
	over     time.Time // when the time of this rest is over
	turn     int       // the attempt whose turn it is, if turnEnds has not come
	turnEnds time.Time
	failures int64
	rests    int // each a relapse of the one before
	lastEnd  time.Time
	attempts []int // the period that each was picked in
}

func (m *model) resting() bool { return m.period%2 == 1 }

func (m *model) passes() bool {
	now := time.Now()
	return !m.resting() || !now.Before(m.over) && !now.Before(m.turnEnds)
}

func (m *model) allow() bool {
	if !m.passes() {
		return false
	}
	if m.resting() {
		m.turn, m.turnEnds = len(m.attempts), time.Now().Add(m.config.Time)
	}
	m.attempts = append(m.attempts, m.period)
	return true
}

func (m *model) giveBack(n int) {
	if m.resting() && m.attempts[n] == m.period && m.turn == n {
		m.turnEnds = time.Time{}
	}
}

func (m *model) settle(n int, code codes.Code) {
	failed := m.config != nil && m.config.Codes.Has(code)
	switch {
	case code == codes.Canceled:
		m.giveBack(n)
	case m.config == nil, m.attempts[n] != m.period:
	case m.resting() && !failed:
		m.period++
		m.failures, m.lastEnd = 0, time.Now()
	case m.resting():
		m.period++
		m.rest(true)
	case !failed:
		m.failures = 0
	default:
		m.failures++
		if m.failures >= m.config.Failures {
			m.rest(m.rests > 0 && time.Since(m.lastEnd) <= m.config.MaxTime)
		}
	}
}

func (m *model) rest(relapse bool) {
	m.rests++
	if !relapse {
		m.rests = 1
	}
	seconds := m.config.Time.Seconds() * math.Pow(2, float64(m.rests-1))
	seconds = min(seconds, m.config.MaxTime.Seconds())
	m.period++
	m.failures = 0
	m.over, m.turnEnds = time.Now().Add(time.Duration(seconds)*time.Second), time.Time{}
}

func (m *model) configure(cfg *Config) {
	if cfg == nil {
		if m.resting() {
			m.period++
		}
		m.failures, m.rests = 0, 0
	}
	m.config = cfg
}
