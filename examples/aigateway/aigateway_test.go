package main

import (
	"io"
	"maps"
	"regexp"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/status"

	"github.com/grpc-composite/grpc-composite/examples/internal/demo"
	"github.com/grpc-composite/grpc-composite/internal/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// command runs the command with arguments.
func command(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	return testkit.Command(testkit.Context(t), run, args...)
}

func TestRun(t *testing.T) {
	t.Parallel()
	code, stdout, stderr := command(t)
	if code != demo.ExitOK || stderr != "" {
		t.Fatalf("exit code %d, stderr %q: want %d and nothing, after:\n%s", code, stderr, demo.ExitOK, stdout)
	}
	want := []string{
		"1. One prompt", "preferred, attempt 1: " + answerText,
		"2. A burst of 12 prompts", "answered: [1-9][0-9]* by preferred, [1-9][0-9]* by fallback-a, [1-9][0-9]* by fallback-b; failed: 0",
		"3. preferred is down", `answered: 0 by preferred, \d+ by fallback-a, \d+ by fallback-b; failed: 0`,
		"All went as it should: not one prompt failed",
	}
	text := strings.Join(strings.Fields(stdout), " ")
	if !regexp.MustCompile(strings.Join(want, ".*")).MatchString(text) {
		t.Errorf("want in this order: %q, in:\n%s", want, stdout)
	}
	rows := regexp.MustCompile(`(?m)^ +\d+  (\S+) +(\S+) +\d  +\d+\.\d\d ms  +9$`).FindAllStringSubmatch(stdout, -1)
	if len(rows) != 16 {
		t.Errorf("%d rows: want 12 and 4, in:\n%s", len(rows), stdout)
	}
	versions := map[string]string{"preferred": "2026-09", "fallback-a": "v3", "fallback-b": "v1beta"}
	for _, row := range rows {
		if row[2] != versions[row[1]] {
			t.Errorf("%s saw the version %s: want %s", row[1], row[2], versions[row[1]])
		}
	}
}

func TestHelp(t *testing.T) {
	t.Parallel()
	if code, stdout, stderr := command(t, "-h"); code != demo.ExitOK || stdout != usage || stderr != "" {
		t.Errorf("exit code %d, stdout %q, stderr %q: want %d and the usage", code, stdout, stderr, demo.ExitOK)
	}
}

// start starts providers and opens a channel to them.
func start(t *testing.T) (*providers, *grpc.ClientConn) {
	t.Helper()
	p, err := startProviders()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.stop)
	cc, err := dial(p.preferred.Addr, p.fallbackA.Addr, p.fallbackB.Addr, p.tls)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cc.Close() })
	cc.Connect()
	testkit.AwaitState(t, cc, connectivity.Ready) // however busy the machine is
	return p, cc
}

// TestKeys has one provider's key sent to another: the example would end there,
// since UNAUTHENTICATED is not retried.
func TestKeys(t *testing.T) {
	t.Parallel()
	p, _ := start(t)
	for _, tc := range []struct {
		name string
		opts []grpc.DialOption
		code codes.Code
	}{
		{"its own", []grpc.DialOption{grpc.WithPerRPCCredentials(apiKey("key-of-fallback-a"))}, codes.OK},
		{"another's", []grpc.DialOption{grpc.WithPerRPCCredentials(apiKey("key-of-preferred"))}, codes.Unauthenticated},
		{"none", nil, codes.Unauthenticated},
		{"two", []grpc.DialOption{grpc.WithPerRPCCredentials(apiKey("key-of-fallback-a")), grpc.WithPerRPCCredentials(apiKey("key-of-preferred"))}, codes.Unauthenticated},
	} {
		cc := testkit.Dial(t, "passthrough:///"+p.fallbackA.Addr, append(tc.opts, grpc.WithTransportCredentials(p.tls))...)
		if _, err := ask(testkit.Context(t), cc, prompt, func(answer, string) {}); status.Code(err) != tc.code {
			t.Errorf("%s: error %v: want %v", tc.name, err, tc.code)
		}
	}
	p.preferred.key = "changed"
	cc, err := dial(p.preferred.Addr, p.fallbackA.Addr, p.fallbackB.Addr, p.tls)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cc.Close() })
	_, err = burst(testkit.Context(t), demo.NewOutput(io.Discard), cc, 2)
	testkit.Contains(t, err, "prompt 1 failed", "prompt 2 failed", `preferred does not know the key "Bearer key-of-preferred"`)
}

// TestLongPrompt has a prompt that gRPC would not keep for a retry by default.
func TestLongPrompt(t *testing.T) {
	t.Parallel()
	p, cc := start(t)
	p.preferred.Unavailable.Store(true)
	ctx := testkit.Context(t)
	testkit.Eventually(t, "an answer by fallback-a", func() bool {
		a, err := ask(ctx, cc, strings.Repeat("x", 1<<20), func(answer, string) {})
		if err != nil {
			t.Fatal(err)
		}
		return a.provider == "fallback-a" && a.attempt == 2
	})
}

// TestTokens checks that tokens come one by one.
func TestTokens(t *testing.T) {
	t.Parallel()
	_, cc := start(t)
	var tokens []string
	var times []time.Time
	a, err := ask(testkit.Context(t), cc, prompt, func(_ answer, text string) {
		tokens, times = append(tokens, text), append(times, time.Now())
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(tokens, ""); got != answerText || len(tokens) != 9 {
		t.Errorf("tokens %q: want 9, which make %q", tokens, answerText)
	}
	if took := times[len(times)-1].Sub(times[0]); took < tokenPause {
		t.Errorf("all tokens came within %v: want them one by one", took)
	}
	if a.firstToken <= 0 || a.version != "2026-09" {
		t.Errorf("%+v: want a time and the version", a)
	}
}

func TestBucket(t *testing.T) {
	t.Parallel()
	b := newBucket(2, time.Second)
	start := time.Unix(0, 0)
	got := make(map[time.Duration]int)
	for _, after := range []time.Duration{0, 0, 0, 900 * time.Millisecond, time.Second, time.Second, time.Hour, time.Hour, time.Hour} {
		if b.take(start.Add(after)) {
			got[after]++
		}
	}
	if want := map[time.Duration]int{0: 2, time.Second: 1, time.Hour: 2}; !maps.Equal(got, want) {
		t.Errorf("taken %v: want %v", got, want)
	}
	if got := b.String(); got != "2 prompts at once, then one each 1s" {
		t.Errorf("%q", got)
	}
}
