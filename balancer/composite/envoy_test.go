package composite_test

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/grpc-composite/grpc-composite/internal/testkit"
)

// envoyScenario is one entry of testdata/envoy-vectors.json, whose field "about"
// explains the format.
type envoyScenario struct {
	ID                       int
	List                     []string
	NoHosts, TwoHosts        []string
	MaxAttempts              int
	Retryable                []string
	SkipClustersWithoutHosts bool
	AttemptTimeoutMs         int // only if some server hangs
	Calls                    []struct {
		Replies  map[string][]string
		Hits     []string
		Code     string
		TimedOut bool
	}
}

// TestEnvoyVectors replays what a real Envoy's composite cluster did, over real
// servers. Every sequence of clusters and every final code is the same.
//
// Envoy's per-try timeout is the attemptTimeout of every cluster here. The one
// deliberate difference: a call whose last attempt took too long has the code
// DEADLINE_EXCEEDED, where Envoy says UNAVAILABLE. Scenarios in which servers hang
// run in a bubble, so that no other server is late just because the machine is
// busy. The others are repeated with lean counting.
func TestEnvoyVectors(t *testing.T) {
	data, err := os.ReadFile("testdata/envoy-vectors.json")
	if err != nil {
		t.Fatal(err)
	}
	var vectors struct {
		Format    string
		Scenarios []envoyScenario
	}
	if err := json.Unmarshal(data, &vectors); err != nil {
		t.Fatal(err)
	}
	if vectors.Format != "composite-vectors/1" || len(vectors.Scenarios) != 330 {
		t.Fatalf("format %q, %d scenarios: want composite-vectors/1 and 330", vectors.Format, len(vectors.Scenarios))
	}
	for _, s := range vectors.Scenarios {
		t.Run(fmt.Sprint(s.ID), func(t *testing.T) {
			t.Parallel()
			if s.AttemptTimeoutMs == 0 {
				replayEnvoy(t, s, dial, testkit.Start)
				replayEnvoy(t, s, dialLean, testkit.Start)
				return
			}
			synctest.Test(t, func(t *testing.T) {
				net := newBubbleNet()
				replayEnvoy(t, s, dial, net.start, net.dialer())
			})
		})
	}
}

// envoyRun is what a scenario's servers share: the replies of the call at hand,
// and the hits it has made.
type envoyRun struct {
	mu      sync.Mutex
	replies map[string][]string
	seen    map[string]int
	hits    []string
}

func (r *envoyRun) begin(replies map[string][]string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.replies, r.seen, r.hits = replies, make(map[string]int), nil
}

// end returns the hits of a call.
func (r *envoyRun) end() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.hits
}

func (r *envoyRun) respond(cluster string) testkit.Reply {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.hits = append(r.hits, cluster)
	r.seen[cluster]++
	list := r.replies[cluster]
	return envoyReply(list[min(r.seen[cluster], len(list))-1])
}

func envoyReply(text string) testkit.Reply {
	if text == "HANG" {
		return hang
	}
	name, headers := strings.CutPrefix(text, "HEADERS+")
	return testkit.Reply{Code: code(name), Message: "scripted", Headers: headers}
}

// code is the code with a service config's name for it.
func code(name string) codes.Code {
	var c codes.Code
	if err := c.UnmarshalJSON([]byte(`"` + name + `"`)); err != nil {
		panic(err) // a mistake in the vectors
	}
	return c
}

// dialer opens a channel with a service config.
type dialer func(t testing.TB, s testkit.Service, opts ...grpc.DialOption) *grpc.ClientConn

// replayEnvoy makes a scenario's calls on a channel with options of its own, to
// servers that start starts.
func replayEnvoy(t *testing.T, s envoyScenario, dial dialer, start func(t testing.TB, name string, opts ...grpc.ServerOption) *testkit.Backend, opts ...grpc.DialOption) {
	t.Helper()
	var run envoyRun
	service := testkit.Service{
		More: map[string]any{"noHost": "FAIL_REQUEST", "skipClustersWithoutHosts": s.SkipClustersWithoutHosts},
	}
	if len(s.Retryable) > 0 {
		service.Attempts, service.Retryable = s.MaxAttempts, s.Retryable
	}
	targets := make(map[string]string)
	for _, name := range s.List {
		if _, ok := targets[name]; ok {
			service.Clusters = append(service.Clusters, testkit.Cluster{Name: name})
			continue
		}
		hosts := 1
		switch {
		case slices.Contains(s.NoHosts, name):
			hosts = 0
		case slices.Contains(s.TwoHosts, name):
			hosts = 2
		}
		r := testkit.NewResolver(t)
		var backends []*testkit.Backend
		for i := range hosts {
			b := start(t, fmt.Sprintf("%s-%d", name, i))
			b.Respond(func(int, testkit.Call) testkit.Reply { return run.respond(name) })
			backends = append(backends, b)
		}
		_ = r.Update(backends...)
		targets[name] = r.Target()
		cluster := testkit.Cluster{Name: name, Target: targets[name]}
		if s.AttemptTimeoutMs > 0 {
			cluster = timed(time.Duration(s.AttemptTimeoutMs)*time.Millisecond, cluster)[0]
		}
		service.Clusters = append(service.Clusters, cluster)
	}

	cc := dial(t, service, opts...)
	for i, call := range s.Calls {
		run.begin(call.Replies)
		_, err := testkit.Unary(testkit.Context(t), cc)
		want := code(call.Code)
		if call.TimedOut {
			want = codes.DeadlineExceeded
		}
		if got := status.Code(err); got != want {
			t.Errorf("call %d: code %v (%v): want %v", i, got, err, want)
		}
		if got := run.end(); !slices.Equal(got, call.Hits) {
			t.Errorf("call %d: hits %v: want %v", i, got, call.Hits)
		}
	}
}
