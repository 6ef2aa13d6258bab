package main

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/stats"

	"github.com/grpc-composite/grpc-composite/balancer/composite"
	"github.com/grpc-composite/grpc-composite/internal/testkit"
)

// setup is what a contender has to reach.
type setup struct {
	// addrs are servers, each a cluster, in the order of attempts.
	addrs []string
	// up is the first of them that answers.
	up string
	// backoff is between two attempts, 20 % more or less; 0: none, or as little as
	// the contender can.
	backoff time.Duration
	// connectTimeout is a cluster's; 0: the contender's default.
	connectTimeout time.Duration
	// envoy is an address where Envoy does all this, and route the authority that
	// it takes it by. "" if there is no Envoy.
	envoy, route string
}

// Names of contenders that others are compared with.
const (
	bare      = "bare"
	handler   = "handler"
	ours      = "composite"
	lean      = "lean"
	loopName  = "loop"
	envoyName = "envoy"
)

// contender is a way to make RPCs.
type contender struct {
	name, title string
	// open makes what RPCs are made by. It is closed when t ends.
	open func(t testing.TB, s setup) grpc.ClientConnInterface
}

var contenders = []contender{
	{bare, "a bare channel", newBare},
	{handler, "a bare channel with an empty stats handler", newHandler},
	{ours, "the policy composite", newComposite},
	{lean, "the policy composite with LeanCounting", newLean},
	{loopName, "a loop over a channel for each cluster", newLoop},
	{"middleware", "go-grpc-middleware's retry, with a switch of channels", newMiddleware},
	{"failsafe", "failsafe-go's retry policy, with a switch of channels", newFailsafe},
	{envoyName, "a bare channel to an Envoy with a composite cluster", newEnvoy},
}

func newBare(t testing.TB, s setup) grpc.ClientConnInterface {
	t.Helper()
	return testkit.Dial(t, target(s.up))
}

func newHandler(t testing.TB, s setup) grpc.ClientConnInterface {
	t.Helper()
	return testkit.Dial(t, target(s.up), grpc.WithStatsHandler(emptyHandler{}))
}

func newComposite(t testing.TB, s setup) grpc.ClientConnInterface {
	t.Helper()
	return dialComposite(t, s)
}

func newLean(t testing.TB, s setup) grpc.ClientConnInterface {
	t.Helper()
	return dialComposite(t, s, composite.LeanCounting())
}

func dialComposite(t testing.TB, s setup, opts ...composite.Option) grpc.ClientConnInterface {
	t.Helper()
	dialOptions := append(composite.DialOptions(opts...), grpc.WithDefaultServiceConfig(serviceConfig(s)))
	return testkit.Dial(t, "composite:///", dialOptions...)
}

func newEnvoy(t testing.TB, s setup) grpc.ClientConnInterface {
	t.Helper()
	return testkit.Dial(t, target(s.envoy), grpc.WithAuthority(s.route))
}

func target(addr string) string { return "passthrough:///" + addr }

// emptyHandler is a stats handler that does nothing: what it costs is gRPC-Go's own.
type emptyHandler struct{}

func (emptyHandler) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context   { return ctx }
func (emptyHandler) HandleRPC(context.Context, stats.RPCStats)                         {}
func (emptyHandler) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }
func (emptyHandler) HandleConn(context.Context, stats.ConnStats)                       {}

// leastBackoff is as good as none: gRPC wants a back-off above 0.
const leastBackoff = time.Nanosecond

// serviceConfig has an attempt for each cluster.
func serviceConfig(s setup) string {
	var clusters []any
	for i, addr := range s.addrs {
		cluster := map[string]any{"name": fmt.Sprint(i), "target": target(addr)}
		if s.connectTimeout > 0 {
			cluster["connectTimeout"] = seconds(s.connectTimeout)
		}
		clusters = append(clusters, cluster)
	}
	backoff := seconds(max(s.backoff, leastBackoff))
	return mustJSON(map[string]any{
		"loadBalancingConfig": []any{map[string]any{composite.Name: map[string]any{"clusters": clusters}}},
		"methodConfig": []any{map[string]any{
			"name": []any{map[string]any{}},
			"retryPolicy": map[string]any{
				"maxAttempts": len(s.addrs), "initialBackoff": backoff, "maxBackoff": backoff,
				"backoffMultiplier": 1, "retryableStatusCodes": []any{"UNAVAILABLE"},
			},
		}},
	})
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.9fs", d.Seconds()) }

func mustJSON(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err) // maps of text and numbers can always be written
	}
	return string(text)
}
