package debugz_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/status"

	"github.com/grpc-composite/grpc-composite/balancer/composite"
	"github.com/grpc-composite/grpc-composite/balancer/composite/debugz"
	"github.com/grpc-composite/grpc-composite/internal/inspect"
	"github.com/grpc-composite/grpc-composite/internal/testkit"
)

func readFile(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func TestHeaders(t *testing.T) {
	t.Parallel()
	h := debugz.Handler()
	for _, tc := range []struct {
		name, method, url string
		code              int
		contentType       string
		allow             string
		body              string // in it
	}{
		{name: "the page", method: "GET", url: "/debug/composite", code: 200, contentType: "text/html; charset=utf-8", body: "<!doctype html>"},
		{name: "at any path", method: "GET", url: "/x/y/", code: 200, contentType: "text/html; charset=utf-8", body: "<!doctype html>"},
		{name: "JSON", method: "GET", url: "/?format=json", code: 200, contentType: "application/json; charset=utf-8", body: `"channels"`},
		{name: "HEAD", method: "HEAD", url: "/", code: 200, contentType: "text/html; charset=utf-8"},
		{name: "HEAD of JSON", method: "HEAD", url: "/?format=json", code: 200, contentType: "application/json; charset=utf-8"},
		{name: "POST", method: "POST", url: "/", code: 405, allow: "GET, HEAD", contentType: "text/plain; charset=utf-8"},
		{name: "DELETE", method: "DELETE", url: "/?format=json", code: 405, allow: "GET, HEAD", contentType: "text/plain; charset=utf-8"},
		{name: "OPTIONS", method: "OPTIONS", url: "/", code: 405, allow: "GET, HEAD", contentType: "text/plain; charset=utf-8"},
		{name: "another format", method: "GET", url: "/?format=%3Cscript%3E", code: 400, contentType: "text/plain; charset=utf-8", body: `"<script>": must be json`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			answer := httptest.NewRecorder()
			h.ServeHTTP(answer, httptest.NewRequestWithContext(context.Background(), tc.method, tc.url, nil))
			header := answer.Header()
			if answer.Code != tc.code || !strings.Contains(answer.Body.String(), tc.body) {
				t.Errorf("%d %q: want %d and %q", answer.Code, answer.Body, tc.code, tc.body)
			}
			for name, want := range map[string]string{
				"Content-Type": tc.contentType, "Allow": tc.allow, "Cache-Control": "no-store",
				"X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer", "X-Frame-Options": "DENY",
				"Cross-Origin-Resource-Policy": "same-origin", "Cross-Origin-Opener-Policy": "same-origin",
				"Access-Control-Allow-Origin": "",
			} {
				if got := header.Get(name); got != want {
					t.Errorf("%s: %q, want %q", name, got, want)
				}
			}
			policy := header.Get("Content-Security-Policy")
			for _, part := range []string{"default-src 'none'", "script-src 'sha256-", "style-src 'sha256-", "connect-src 'self'", "base-uri 'none'", "form-action 'none'", "frame-ancestors 'none'"} {
				if !strings.Contains(policy, part) {
					t.Errorf("Content-Security-Policy %q: want %s", policy, part)
				}
			}
			if strings.Contains(policy, "unsafe") {
				t.Errorf("Content-Security-Policy %q", policy)
			}
		})
	}
}

// TestPage: what the JSON says, the page says, with script and without.
func TestPage(t *testing.T) {
	t.Parallel()
	h := debugz.Handler()
	a, b := testkit.Start(t, "alpha"), testkit.Start(t, "beta")
	cc, target := dial(t, testkit.Service{Attempts: 2, Clusters: testkit.Clusters(a, b)})
	await(t, target, "both connect", func(c inspect.Channel) bool { return conditions(c) == "has a host, has a host" })
	a.Script(testkit.U)
	if _, err := testkit.Unary(testkit.Context(t), cc); err != nil {
		t.Fatal(err)
	}
	page := get(t, h, "/").Body.String()
	for _, part := range []string{
		`<noscript><meta http-equiv="refresh"`, `<a href="?">Reload</a>`, `<a href="?format=json">`, `<html lang="en">`,
		target, "RPCs go to alpha.", "<b>Attempt 1</b>", "<b>Attempt 2</b>", "if it has no host", "has a host",
		a.Addr, b.Target(), "READY", "/grpc.testing.TestService/UnaryCall", "scripted",
	} {
		if !strings.Contains(page, part) {
			t.Errorf("the page lacks %q", part)
		}
	}
	for _, part := range []string{` style="`, " onclick", "http://", "https://", "javascript:"} {
		if strings.Contains(page, part) {
			t.Errorf("the page has %q", part)
		}
	}
	a.Stop()
	await(t, target, "alpha is gone", func(c inspect.Channel) bool { return strings.HasPrefix(conditions(c), "no host") })
	if page := get(t, h, "/").Body.String(); !strings.Contains(page, "RPCs go to beta: alpha is passed over (transient failure).") {
		t.Error("the page does not say where RPCs go")
	}
}

// TestHostile: nothing that others say becomes markup, or tells a secret.
func TestHostile(t *testing.T) {
	t.Parallel()
	h := debugz.Handler()
	const markup = `</script></style><script>alert("x")</script><img src=x onerror='alert(1)'>`
	a := testkit.Start(t, markup)
	a.Script(testkit.Reply{Code: codes.Unavailable, Message: markup + " user:hunter2@host"})
	long := strings.Repeat("long ", 50)
	s := testkit.Service{Attempts: 3, Clusters: []testkit.Cluster{
		{Name: markup, Target: a.Target()},
		{Name: "user:hunter2@secret", Target: "dns://user:hunter2@127.0.0.1:1/" + testkit.ClosedPort},
		{Name: long, Target: "passthrough:///user:hunter2@" + testkit.ClosedPort},
	}}
	cc, target := dial(t, s)
	await(t, target, "the first connects", func(c inspect.Channel) bool {
		return c.Clusters[0].Condition == "has a host" && c.Clusters[2].Condition == "no host"
	})
	if _, err := testkit.Unary(testkit.Context(t), cc); err == nil {
		t.Fatal("no error")
	}
	await(t, target, "the trail", func(c inspect.Channel) bool { return len(c.Trails) == 1 })
	for _, url := range []string{"/", "/?format=json"} {
		body := get(t, h, url).Body.String()
		for _, part := range []string{"<script>alert", "<img", "hunter2", "</script></style>"} {
			if strings.Contains(body, part) {
				t.Errorf("GET %s: the answer has %q", url, part)
			}
		}
		if !strings.Contains(body, "***@") || !strings.Contains(body, "alert(") {
			t.Errorf("GET %s: the answer lacks what it must hide, or escape", url)
		}
	}
}

// TestLimits: what is shown is bounded, whatever there is.
func TestLimits(t *testing.T) {
	t.Parallel()
	h := debugz.Handler()
	a, b := testkit.Start(t, "a"), testkit.Start(t, "b")
	r := testkit.NewResolver(t)
	var state resolver.State
	for range 3 * inspect.MaxEndpoints {
		e := resolver.Endpoint{}
		for range 2 * inspect.MaxAddresses {
			e.Addresses = append(e.Addresses, resolver.Address{Addr: a.Addr})
		}
		state.Endpoints = append(state.Endpoints, e)
	}
	if err := r.UpdateState(state); err != nil {
		t.Fatal(err)
	}
	message := strings.Repeat("m", 100*inspect.MaxText)
	a.Script(testkit.Reply{Code: codes.Unavailable, Message: message})
	s := testkit.Service{Attempts: 40, Clusters: []testkit.Cluster{
		{Name: "a", Target: r.Target(), More: map[string]any{"attempts": 39, "childPolicy": []any{map[string]any{"pick_first": map[string]any{}}}}},
		{Name: "b", Target: b.Target()},
	}}
	cc, target := dial(t, s)
	await(t, target, "both connect", func(c inspect.Channel) bool { return conditions(c) == "has a host, has a host" })
	for range inspect.MaxTrails + 5 {
		if got, err := testkit.Unary(testkit.Context(t), cc, grpc.MaxCallRecvMsgSize(1<<20)); got != "b" {
			t.Fatalf("%q answers: %v", got, err)
		}
	}
	c, _ := find(process(t, h), target)
	endpoints := c.Clusters[0].Endpoints
	if len(endpoints) != inspect.MaxEndpoints || c.Clusters[0].EndpointsOmitted != 2*inspect.MaxEndpoints {
		t.Errorf("%d endpoints, %d omitted", len(endpoints), c.Clusters[0].EndpointsOmitted)
	}
	if e := endpoints[0]; len(e.Addresses) != inspect.MaxAddresses || e.Omitted != inspect.MaxAddresses {
		t.Errorf("endpoint %+v", e)
	}
	if len(c.Trails) != inspect.MaxTrails {
		t.Fatalf("%d trails", len(c.Trails))
	}
	trail := c.Trails[0]
	if len(trail.Attempts) != inspect.MaxAttempts || trail.Omitted != 40-inspect.MaxAttempts || len(trail.Attempts[0].Message) != inspect.MaxText {
		t.Errorf("a trail has %d attempts, %d omitted, and a message of %d bytes", len(trail.Attempts), trail.Omitted, len(trail.Attempts[0].Message))
	}
	if first, last := trail.Attempts[0].Number, trail.Attempts[inspect.MaxAttempts-1]; first != 1 || last.Number != 40 || last.Cluster != "b" {
		t.Errorf("a trail goes from %d to %d %s", first, last.Number, last.Cluster)
	}
	page := get(t, h, "/").Body.String()
	if !strings.Contains(page, "32 attempts from the middle are left out") || !strings.Contains(page, "and 100 more") {
		t.Error("the page does not say what it leaves out")
	}
}

// TestDurations has the page show durations of all sizes.
func TestDurations(t *testing.T) {
	t.Parallel()
	h := debugz.Handler()
	a := testkit.Start(t, "a")
	var s testkit.Service
	texts := map[string]string{
		"0s":            "0 µs",
		"0.000250s":     "250 µs",
		"0.025s":        "25 ms",
		"2.5s":          "2.5 s",
		"90s":           "1m30s",
		"315576000000s": "2562047h47m16.854775807s", // the longest that Go has
	}
	for d := range texts {
		s.Clusters = append(s.Clusters, testkit.Cluster{Name: "for " + d, Target: a.Target(), More: map[string]any{"connectTimeout": d}})
	}
	_, target := dial(t, s)
	await(t, target, "the policy", func(c inspect.Channel) bool { return len(c.Clusters) == len(texts) })
	page := get(t, h, "/").Body.String()
	for d, text := range texts {
		if !strings.Contains(page, "connect timeout "+text+"<") {
			t.Errorf("the page does not show the connectTimeout %s as %q", d, text)
		}
	}
}

// TestLiveChannels fetches the page while channels open, change and close.
func TestLiveChannels(t *testing.T) {
	t.Parallel()
	a, b := testkit.Start(t, "a"), testkit.Start(t, "b")
	configs := []string{
		testkit.Service{Attempts: 2, Clusters: testkit.Clusters(a, b)}.JSON(),
		testkit.Service{Attempts: 2, Clusters: testkit.Clusters(b, a), More: map[string]any{"overflow": "ROUND_ROBIN"}}.JSON(),
		testkit.Service{Clusters: testkit.Clusters(b)}.JSON(),
	}
	a.Respond(func(n int, _ testkit.Call) testkit.Reply {
		if n%3 == 0 {
			return testkit.U
		}
		return testkit.OK
	})
	stop := make(chan struct{})
	var watchers, workers sync.WaitGroup
	for _, url := range []string{"/", "/?format=json"} {
		watchers.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					get(t, debugz.Handler(), url)
				}
			}
		})
	}
	for range 4 {
		workers.Go(func() {
			for range 5 {
				r := testkit.NewResolver(t)
				cc := testkit.Dial(t, r.Target(), append(composite.DialOptions(), grpc.WithDefaultServiceConfig(configs[0]))...)
				cc.Connect()
				for i := range 6 {
					_ = r.UpdateState(resolver.State{ServiceConfig: r.Parse(configs[i%len(configs)])})
					if _, err := testkit.Unary(testkit.Context(t), cc); err != nil && status.Code(err) != codes.Unavailable {
						t.Error(err)
					}
				}
				_ = cc.Close()
			}
		})
	}
	workers.Wait()
	close(stop)
	watchers.Wait()
}

// TestNothingBeforeHandler: nothing is counted before there is a handler, and all
// is from then on, on channels that were there before, too. It needs a process of
// its own.
func TestNothingBeforeHandler(t *testing.T) {
	const alone = "DEBUGZ_ALONE"
	if os.Getenv(alone) == "" {
		t.Parallel()
		cmd := exec.CommandContext(testkit.Context(t), os.Args[0], "-test.run=^TestNothingBeforeHandler$") //nolint:gosec // the test binary itself
		cmd.Env = append(os.Environ(), alone+"=1")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v:\n%s", err, out)
		}
		return
	}
	a, b, c := testkit.Start(t, "a"), testkit.Start(t, "b"), testkit.Start(t, "c")
	inner := testkit.Service{Clusters: testkit.Clusters(b, c)}
	cc, target := dial(t, testkit.Service{Attempts: 3, Clusters: []testkit.Cluster{
		{Name: "a", Target: a.Target()},
		{Name: "N", More: map[string]any{"childPolicy": []any{map[string]any{"composite": inner.Policy()}}}},
	}})
	a.Script(testkit.U)
	testkit.AwaitServer(t, cc, "c")
	if channel, ok := find(inspect.Now(), target); !ok || counted(channel) != "a, N" || len(channel.Trails) != 0 || inspect.Watching() {
		t.Fatalf("before: %+v", channel)
	}
	h := debugz.Handler()
	if got, err := testkit.Unary(testkit.Context(t), cc); got != "c" {
		t.Fatalf("%q answers: %v", got, err)
	}
	channel, _ := find(process(t, h), target)
	expect(t, "counts", counted(channel), "a 1:1, N 2:1")
	expect(t, "trails", told(channel), "OK: 1 a UNAVAILABLE 2 N OK")
	first := process(t, h).Since
	if again := process(t, debugz.Handler()).Since; first.IsZero() || !again.Equal(first) {
		t.Errorf("counted since %v, and for the second handler since %v", first, again)
	}
}

// TestOverNetwork asks over HTTP, as a browser does.
func TestOverNetwork(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(debugz.Handler())
	defer server.Close()
	resp, err := server.Client().Head(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK || resp.ContentLength == 0 {
		t.Errorf("HEAD: %s, %d bytes", resp.Status, resp.ContentLength)
	}
}
