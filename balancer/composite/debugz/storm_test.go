package debugz_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	testpb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/stats"

	"github.com/grpc-composite/grpc-composite/balancer/composite"
	"github.com/grpc-composite/grpc-composite/balancer/composite/debugz"
	"github.com/grpc-composite/grpc-composite/internal/inspect"
	"github.com/grpc-composite/grpc-composite/internal/testkit"
)

var stormRPCs = flag.Int("storm", 20, "how many RPCs each of the callers of TestStorm makes")

// TestStorm has everything on at once, for the race detector: attempts of one RPC that
// run at once, some of which outlive it, while others are picked for; trails, metrics
// and the page; and configs that change all the time. In the end all have counted the
// same attempts, and no fewer than streams were opened.
func TestStorm(t *testing.T) {
	t.Parallel()
	handler := debugz.Handler()
	var clusters []testkit.Cluster
	for _, name := range []string{"a", "b", "c", "d"} {
		b := testkit.Start(t, name)
		b.Respond(func(int, testkit.Call) testkit.Reply { return stormReply() })
		clusters = append(clusters, testkit.Clusters(b)...)
	}
	configs := stormConfigs(clusters)
	r, metrics, attempts := testkit.NewResolver(t), testkit.NewMetrics(), &curious{opened: make(map[string]int64)}
	var losers sync.WaitGroup
	cc := testkit.Dial(t, r.Target(), slices.Concat(composite.DialOptions(), []grpc.DialOption{
		metrics.DialOption(), grpc.WithStatsHandler(attempts), grpc.WithChainUnaryInterceptor(hedging(&losers)),
	})...)
	cc.Connect()
	testkit.Eventually(t, "a resolver", func() bool { return r.Parse("{}") != nil })
	change := func() {
		_ = r.UpdateState(resolver.State{ServiceConfig: r.Parse(configs[rand.IntN(len(configs))])})
	}
	change()

	stop := make(chan struct{})
	var others sync.WaitGroup
	repeat := func(f func()) {
		others.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					f()
				}
			}
		})
	}
	repeat(func() { change(); time.Sleep(time.Millisecond) })
	repeat(func() { get(t, handler, "/") })
	repeat(func() { get(t, handler, "/?format=json") })

	var callers sync.WaitGroup
	for range 16 {
		callers.Go(func() {
			for range *stormRPCs {
				stormRPC(t, cc)
			}
		})
	}
	callers.Wait()
	losers.Wait()
	close(stop)
	others.Wait()

	// Streams that were abandoned end on goroutines of gRPC's.
	for _, name := range []string{"a", "b"} { // which all configs have
		var counts string
		testkit.Eventually(t, "all have counted the same attempts of "+name, func() bool {
			c, _ := find(inspect.Now(), r.Target())
			shown, recorded := shownPicks(c, name), recordedPicks(metrics, name)
			attempts.mu.Lock()
			defer attempts.mu.Unlock()
			counts = fmt.Sprintf("%s: the page has %d, metrics have %d, of which %d have a stream", name, shown, recorded, attempts.opened[name])
			return shown == recorded && recorded >= attempts.opened[name]
		})
		t.Log(counts)
	}
}

func shownPicks(c inspect.Channel, cluster string) (n int64) {
	for _, c := range c.Clusters {
		if c.Name == cluster {
			for _, p := range c.Picks {
				n += int64(p.Count) //nolint:gosec // few
			}
		}
	}
	return n
}

func recordedPicks(m *testkit.Metrics, cluster string) (n int64) {
	for key, count := range m.Counts() {
		if strings.HasPrefix(key, "picks "+cluster+" ") {
			n += count
		}
	}
	return n
}

// stormReply is what a server does next.
func stormReply() testkit.Reply {
	switch rand.IntN(8) {
	case 0, 1:
		return testkit.U
	case 2:
		return testkit.Reply{Code: codes.Unavailable, Headers: true}
	case 3:
		return testkit.Reply{Code: codes.ResourceExhausted}
	case 4:
		return testkit.Reply{Delay: 30 * time.Millisecond}
	default:
		return testkit.OK
	}
}

// stormConfigs all have the clusters a and b, each with its own server and no other.
func stormConfigs(c []testkit.Cluster) []string {
	with := func(c testkit.Cluster, more map[string]any) testkit.Cluster {
		c.More = more
		return c
	}
	a, b := c[0], c[1]
	guarded := with(a, map[string]any{
		"cooldown": map[string]any{"consecutiveFailures": 3, "time": "0.01s"}, "maxRequests": 8,
		"attemptTimeout": "0.02s", "avoidPreviousHosts": 2, "metadata": map[string]any{"x-cluster": "a"},
	})
	nested := testkit.Cluster{Name: "n", Target: testkit.EmptyTarget, More: map[string]any{
		"childPolicy": []any{map[string]any{"composite": testkit.Service{Clusters: []testkit.Cluster{c[2], with(c[3], map[string]any{"maxRequests": 2})}}.Policy()}},
	}}
	var texts []string
	for _, s := range []testkit.Service{
		{Clusters: []testkit.Cluster{guarded, b, nested}, More: map[string]any{"progression": "NEXT_CLUSTER", "overflow": "ROUND_ROBIN"}},
		{Clusters: []testkit.Cluster{b, a}},
		{Clusters: []testkit.Cluster{with(c[2], map[string]any{"lazy": true}), with(b, map[string]any{"failbackDelay": "0.01s", "maxRequests": 2}), guarded}, More: map[string]any{"overflow": "USE_LAST_CLUSTER"}},
		{Clusters: []testkit.Cluster{nested, {Name: "down", Target: "passthrough:///" + testkit.ClosedPort}, a, b}, More: map[string]any{"noHost": "FAIL_REQUEST"}},
	} {
		s.Attempts, s.Retryable = 4, []string{"UNAVAILABLE", "DEADLINE_EXCEEDED"}
		texts = append(texts, s.JSON())
	}
	return texts
}

// hedging is an interceptor that makes up to three of each unary RPC at once, and
// returns what the first says that succeeds. Some of the others it cancels, some it
// waits for, and some are left alone.
func hedging(losers *sync.WaitGroup) grpc.UnaryClientInterceptor {
	return func(ctx context.Context, method string, req, _ any, cc *grpc.ClientConn, invoker grpc.UnaryInvoker, opts ...grpc.CallOption) (err error) {
		n, way := 1+rand.IntN(3), rand.IntN(3)
		ctx, cancel := context.WithCancel(ctx)
		var all sync.WaitGroup
		errs := make(chan error, n)
		for range n {
			all.Go(func() { errs <- invoker(ctx, method, req, &testpb.SimpleResponse{}, cc, opts...) })
		}
		if way == 0 {
			all.Wait()
		}
		for range n {
			if err = <-errs; err == nil {
				break
			}
		}
		if way == 1 {
			cancel()
		}
		losers.Go(func() {
			all.Wait()
			cancel()
		})
		return err
	}
}

// stormRPC makes an RPC, of any kind.
func stormRPC(t *testing.T, cc *grpc.ClientConn) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), testkit.Patience)
	if rand.IntN(4) == 0 {
		ctx, cancel = context.WithTimeout(ctx, time.Duration(rand.IntN(20))*time.Millisecond)
	}
	// Hedges that outlive the RPC go on, and so do not end with the RPC's context.
	late := rand.IntN(2) == 0
	if late {
		context.AfterFunc(ctx, cancel)
	} else {
		defer cancel()
	}
	if rand.IntN(4) == 0 {
		ctx = composite.WithClusters(ctx, "b", "a", "b")
	}
	if rand.IntN(8) == 0 {
		ctx = composite.WithAttempt(ctx, 1+rand.IntN(6))
	}
	opts := []grpc.CallOption{grpc.WaitForReady(rand.IntN(4) == 0)}
	var trail composite.Trail
	if rand.IntN(2) == 0 {
		opts = append(opts, composite.RecordTrail(&trail))
	}
	var err error
	if rand.IntN(3) == 0 {
		err = stormStream(ctx, cc, opts...)
	} else {
		_, err = testkit.Unary(ctx, cc, opts...)
	}
	if err == errAbandoned { //nolint:errorlint // our own
		return // nobody may read the trail yet
	}
	if again, ok := composite.TrailFromError(err); ok && len(trail.Attempts) > 0 && story(again) != story(trail) {
		t.Errorf("%v has the trail %v: want the recorded one, %v", err, again, trail)
	}
}

var errAbandoned = errors.New("abandoned")

func story(t composite.Trail) string {
	text := ""
	for _, a := range t.Attempts {
		text += fmt.Sprint(a.Number, a.Cluster, a.Code, a.Transparent)
	}
	return text
}

// stormStream sends and receives for a while. What it leaves behind ends with ctx.
func stormStream(ctx context.Context, cc *grpc.ClientConn, opts ...grpc.CallOption) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := testpb.NewTestServiceClient(cc).FullDuplexCall(ctx, opts...)
	if err != nil {
		return err
	}
	for range rand.IntN(3) {
		if err := stream.Send(&testpb.StreamingOutputCallRequest{}); err != nil {
			break
		}
	}
	if rand.IntN(4) == 0 {
		return errAbandoned
	}
	_ = stream.CloseSend()
	for {
		if _, err := stream.Recv(); err != nil {
			return err
		}
	}
}

// curious is a stats handler that asks for each attempt at all times, and counts those
// whose streams were opened, by cluster.
type curious struct {
	mu     sync.Mutex
	opened map[string]int64
}

func (*curious) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context { return ctx }

func (c *curious) HandleRPC(ctx context.Context, e stats.RPCStats) {
	info, _ := composite.AttemptFromContext(ctx)
	if _, ok := e.(*stats.OutHeader); ok {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.opened[info.Cluster]++
	}
}

func (*curious) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }

func (*curious) HandleConn(context.Context, stats.ConnStats) {}
