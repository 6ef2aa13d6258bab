package composite

import (
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/balancer"
	"google.golang.org/grpc/resolver"

	"github.com/grpc-composite/grpc-composite/internal/testkit"
)

// loggedBench is a bench whose lines in the log are known by its channel's target,
// which has user info that they must not have.
type loggedBench struct {
	*bench
	prefix string
	before int // lines that an earlier run of the same test has left
}

func newLoggedBench(t *testing.T) *loggedBench {
	t.Helper()
	target := resolver.Target{URL: url.URL{Scheme: "test", Path: "/user:secret@" + t.Name()}}
	b := &bench{t: t, channel: &fakeChannel{}, policy: testkit.NewPolicy(t)}
	prefix := fmt.Sprintf("INFO: [composite] channel %q: ", "test:///***@"+t.Name())
	before := len(Infos.With(prefix))
	b.b = builder{}.Build(b.channel, balancer.BuildOptions{Target: target})
	t.Cleanup(b.b.Close)
	return &loggedBench{b, prefix, before}
}

// lines are those that the channel has logged, without what names it.
func (b *loggedBench) lines() []string {
	synctest.Wait()
	var lines []string
	for _, line := range Infos.With(b.prefix)[b.before:] {
		lines = append(lines, strings.TrimSpace(line[strings.Index(line, b.prefix)+len(b.prefix):]))
	}
	return lines
}

func (b *loggedBench) wantLines(want ...string) {
	b.t.Helper()
	if got := b.lines(); !slices.Equal(got, want) {
		b.t.Errorf("logged\n\t%s\nwant\n\t%s", strings.Join(got, "\n\t"), strings.Join(want, "\n\t"))
	}
}

// TestLogTellsTheCause has a cluster change in all ways, slowly.
func TestLogTellsTheCause(t *testing.T) {
	var b *loggedBench
	var child *testkit.PolicyChild
	slow := testkit.NewResolver(t)
	own := func(more map[string]any) {
		more["childPolicy"] = b.policy.Config()
		_ = b.configure(resolver.State{}, testkit.Cluster{Name: "a", Target: slow.Target(), More: more})
	}
	for _, tc := range []struct {
		name  string
		steps []func()
		want  []string
	}{
		{
			name: "up, down, and up again",
			steps: []func(){
				func() { _ = b.update(nil); child = b.policy.Child(t, 0) },
				func() { child.Report(ready, nil) },
				func() { noteError(child, errors.New("connection reset")); child.Report(failure, errDown) },
				func() { child.Report(connecting, balancer.ErrNoSubConnAvailable) }, // no host all the same
				func() { child.Report(ready, nil) },
				func() { child.Report(connecting, balancer.ErrNoSubConnAvailable) },
			},
			want: []string{
				`cluster "a": idle -> connecting: CONNECTING`,
				`cluster "a": connecting -> has a host: READY`,
				`cluster "a": has a host -> no host: transient failure ("connection reset")`,
				`cluster "a": no host -> has a host: READY`,
				`cluster "a": has a host -> connecting: CONNECTING`,
			},
		},
		{
			name: "no time left, then a failure",
			steps: []func(){
				func() { _ = b.update(map[string]any{"connectTimeout": "1s"}); time.Sleep(time.Second) },
				func() { b.policy.Child(t, 0).Report(failure, errDown) },
			},
			want: []string{
				`cluster "a": idle -> connecting: CONNECTING`,
				`cluster "a": connecting -> no host: connect timeout after 1s`,
				`cluster "a": no host: transient failure`,
			},
		},
		{
			name: "an answer that the child refuses",
			steps: []func(){
				func() {
					b.policy.OnUpdate = func(*testkit.PolicyChild, balancer.ClientConnState) error { return errDown }
					_ = b.update(nil)
				},
			},
			want: []string{`cluster "a": idle -> no host: transient failure ("down")`},
		},
		{
			name: "no endpoints",
			steps: []func(){
				func() { own(map[string]any{}) },
				func() {
					b.policy.OnUpdate = func(*testkit.PolicyChild, balancer.ClientConnState) error { return balancer.ErrBadResolverState }
					_ = slow.UpdateAddrs()
				},
			},
			want: []string{
				`cluster "a": idle -> connecting: waiting for endpoints`,
				`cluster "a": connecting -> no host: no endpoints ("` + slow.Target() + ` resolved to none")`,
			},
		},
		{
			name: "a name that cannot be resolved",
			steps: []func(){
				func() { slow = testkit.NewResolver(t); own(map[string]any{}) },
				func() { slow.Fail(errors.New("no such name")) },
			},
			want: []string{
				`cluster "a": idle -> connecting: waiting for endpoints`,
				`cluster "a": connecting -> no host: transient failure ("no such name")`,
			},
		},
		{
			name: "lazy",
			steps: []func(){
				func() { _ = b.update(map[string]any{"lazy": true}) },
				func() { _ = b.pick(); b.policy.Child(t, 0).Report(ready, nil) },
				func() { time.Sleep(31 * time.Minute) },
			},
			want: []string{
				`cluster "a": idle -> connecting: an attempt needs it, or Connect was called`,
				`cluster "a": connecting -> has a host: READY`,
				`cluster "a": has a host -> idle: no attempt needs it`,
			},
		},
		{
			name: "passed over for a while",
			steps: []func(){
				func() { _ = b.update(map[string]any{"failbackDelay": "60s"}); child = b.policy.Child(t, 0) },
				func() { child.Report(ready, nil) },
				func() { child.Report(failure, errDown) },
				func() { child.Report(ready, nil) },
				func() { time.Sleep(time.Minute) },
			},
			want: []string{
				`cluster "a": idle -> connecting: CONNECTING`,
				`cluster "a": connecting -> has a host: READY`,
				`cluster "a": has a host -> no host: transient failure`,
				`cluster "a": no host -> has a host: READY, and passed over until it has had a host for 1m0s`,
				`cluster "a": has a host: READY`,
			},
		},
		{
			name: "another name in the config",
			steps: []func(){
				func() { _ = b.update(nil) },
				func() { b.policy.Child(t, 0).Report(ready, nil) },
				func() {
					_ = b.configure(resolver.State{}, testkit.Cluster{Name: "b", More: map[string]any{"childPolicy": b.policy.Config()}})
				},
				func() { b.b.Close() },
			},
			want: []string{
				`cluster "a": idle -> connecting: CONNECTING`,
				`cluster "a": connecting -> has a host: READY`,
				`cluster "b": idle -> connecting: CONNECTING`,
				`cluster "a": removed from the config`,
			},
		},
		{
			name: "inside another",
			steps: []func(){
				func() {
					inner := testkit.Service{Clusters: []testkit.Cluster{{Name: "c", More: map[string]any{"childPolicy": b.policy.Config()}}}}
					_ = b.configure(testkit.OneEndpoint("127.0.0.1:1"), testkit.Cluster{Name: "a", More: map[string]any{"childPolicy": []any{map[string]any{"composite": inner.Policy()}}}})
				},
				func() { b.policy.Child(t, 0).Report(ready, nil) },
			},
			want: []string{
				`cluster "c" in "a": idle -> connecting: CONNECTING`,
				`cluster "a": idle -> connecting: CONNECTING`,
				`cluster "a": connecting -> has a host: READY`,
				`cluster "c" in "a": connecting -> has a host: READY`,
			},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b = newLoggedBench(t)
				for _, step := range tc.steps {
					step()
					time.Sleep(100 * time.Millisecond)
				}
				b.wantLines(tc.want...)
			})
		})
	}
}

// TestLogIsNotFlooded has a cluster change a thousand times a second. All changes
// are told, most of them by their number.
func TestLogIsNotFlooded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const seconds, changes = 35, 35 * 1000
		b := newLoggedBench(t)
		_ = b.update(nil)
		child := b.policy.Child(t, 0)
		for i := range changes - 1 { // the first has been
			time.Sleep(time.Millisecond)
			if i%2 == 0 {
				child.Report(ready, nil)
			} else {
				child.Report(failure, errDown)
			}
		}
		time.Sleep(logWindow)
		lines := b.lines()
		if most := (seconds/10 + 1) * (logLines + 1); len(lines) > most {
			t.Errorf("%d lines: want %d at most", len(lines), most)
		}
		told, more := 0, regexp.MustCompile(`^(cluster "a": .*) \.\.\. and (\d+) more changes in the last 10s$`)
		for _, line := range lines {
			if m := more.FindStringSubmatch(line); m != nil {
				n, _ := strconv.Atoi(m[2])
				told += n
			} else {
				told++
			}
		}
		if told != changes {
			t.Errorf("%d changes are told: want %d", told, changes)
		}
		if last := lines[len(lines)-1]; !strings.HasPrefix(last, `cluster "a": has a host: READY ... and `) {
			t.Errorf("the last line is %q: want the condition by then", last)
		}

		time.Sleep(time.Hour)
		before := len(b.lines())
		child.Report(failure, errDown)
		if got := b.lines()[before:]; len(got) != 1 {
			t.Errorf("after a quiet hour a change has the lines %q: want one", got)
		}
	})
}

// TestLogEndsWithTheChannel closes a channel that has more to tell.
func TestLogEndsWithTheChannel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newLoggedBench(t)
		_ = b.update(nil)
		child := b.policy.Child(t, 0)
		for range 20 {
			child.Report(ready, nil)
			child.Report(failure, errDown)
		}
		b.b.Close()
		time.Sleep(time.Hour)
		if got := b.lines(); len(got) != logLines {
			t.Errorf("logged %q: want no more than %d lines", got, logLines)
		}
	})
}

// noteError has a connection of a child fail.
func noteError(c *testkit.PolicyChild, err error) { c.CC.(*child).noteConnectionError(err) }
