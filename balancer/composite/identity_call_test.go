package composite_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/balancer"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/grpc-composite/grpc-composite/balancer/composite"
	"github.com/grpc-composite/grpc-composite/internal/testkit"
)

// token is call credentials that send a value, or an error.
type token struct {
	value  string
	err    error
	secure bool          // require transport security
	hold   chan struct{} // unless nil, each token takes as long as this is open
	asked  chan string   // unless nil, is told for which URI a token is asked
}

func (k *token) RequireTransportSecurity() bool { return k.secure }

func (k *token) GetRequestMetadata(ctx context.Context, uri ...string) (map[string]string, error) {
	if k.asked != nil {
		k.asked <- fmt.Sprint(uri)
	}
	if k.hold != nil {
		select {
		case <-k.hold:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return map[string]string{"authorization": k.value}, k.err
}

// callOptions are the two ways to give call credentials.
var callOptions = []struct {
	name string
	give func(creds credentials.PerRPCCredentials) ([]grpc.DialOption, []grpc.CallOption)
}{
	{"of the channel", func(creds credentials.PerRPCCredentials) ([]grpc.DialOption, []grpc.CallOption) {
		return []grpc.DialOption{grpc.WithPerRPCCredentials(creds)}, nil
	}},
	{"of the call", func(creds credentials.PerRPCCredentials) ([]grpc.DialOption, []grpc.CallOption) {
		return nil, []grpc.CallOption{grpc.PerRPCCredentials(creds)}
	}},
}

// TestTokensGoToTheirOwnClusters has one RPC try four clusters, of which two have
// an entry.
func TestTokensGoToTheirOwnClusters(t *testing.T) {
	for _, kind := range []struct {
		name string
		call rpc
	}{{"unary", unaryRPC}, {"bidi", bidiRPC}, {"upload", upload}, {"download", download}} {
		for _, way := range callOptions {
			t.Run(kind.name+"/"+way.name, func(t *testing.T) {
				t.Parallel()
				backends := startAll(t, "none", "one", "two", "last")
				for _, b := range backends[:3] {
					b.Script(testkit.U)
				}
				dialOpts, callOpts := way.give(composite.NewPerRPCCredentials(callByCluster{"one": &token{value: "1"}, "two": &token{value: "2"}, "last": nil}))
				cc := dial(t, testkit.Service{Clusters: patient(backends), Attempts: 4}, dialOpts...)
				if err := kind.call(testkit.Context(t), cc, callOpts...); err != nil {
					t.Error(err)
				}
				wantSeen(t, "authorization", backends, "[]", "[1]", "[2]", "[]")
			})
		}
	}
}

// TestTokensUnderLoad has many RPCs at once start at every attempt.
func TestTokensUnderLoad(t *testing.T) {
	t.Parallel()
	backends := startAll(t, "1", "2", "3")
	entries := make(callByCluster)
	for _, b := range backends {
		entries[b.Name] = &token{value: b.Name}
		b.Respond(func(n int, call testkit.Call) testkit.Reply {
			if got := fmt.Sprint(call.Metadata["authorization"]); got != "["+call.Backend+"]" {
				t.Errorf("server %s has seen the token %s", call.Backend, got)
			}
			if n%2 == 0 {
				return testkit.U
			}
			return testkit.OK
		})
	}
	cc := dial(t, testkit.Service{Clusters: patient(backends), Attempts: 5, More: map[string]any{"overflow": "ROUND_ROBIN"}},
		grpc.WithPerRPCCredentials(composite.NewPerRPCCredentials(entries)))
	var wg sync.WaitGroup
	for i := range 12 {
		wg.Go(func() {
			for range 25 {
				ctx := composite.WithAttempt(testkit.Context(t), i%3+1)
				if err := unaryRPC(ctx, cc); err != nil && status.Code(err) != codes.Unavailable {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
}

// TestTokenThatRequiresSecurity has such tokens for a cluster without security
// and for one with TLS.
func TestTokenThatRequiresSecurity(t *testing.T) {
	ca := testkit.NewCA(t, "test CA")
	for _, way := range callOptions {
		for _, tc := range []struct {
			name      string
			retryable string
			code      codes.Code
			errors    []string
			tokens    string // that the cluster with TLS sees
		}{
			{"the attempt fails", "UNAVAILABLE", codes.Unauthenticated, []string{`composite: cluster "plain": its call credentials require transport security`}, ""},
			{"the next cluster is used", "UNAUTHENTICATED", codes.OK, nil, "[s]"},
		} {
			t.Run(way.name+"/"+tc.name, func(t *testing.T) {
				t.Parallel()
				backends := []*testkit.Backend{testkit.Start(t, "plain"), startTLS(t, "secure", ca, "secure.example")}
				dialOpts, callOpts := way.give(composite.NewPerRPCCredentials(callByCluster{
					"plain":  &token{value: "p", secure: true},
					"secure": &token{value: "s", secure: true},
				}))
				dialOpts = append(dialOpts, withCreds(composite.NewTransportCredentials(byCluster{"secure": trust(ca)}, insecure.NewCredentials())))
				cc := dial(t, testkit.Service{Clusters: exampleClusters(backends...), Attempts: 2, Retryable: []string{tc.retryable}}, dialOpts...)
				checkError(t, unaryRPC(testkit.Context(t), cc, callOpts...), tc.code, tc.errors...)
				wantSeen(t, "authorization", backends, "", tc.tokens)
			})
		}
	}
}

// TestNewClientWithATokenThatRequiresSecurity opens channels to which gRPC's own
// check of such tokens would not do justice: it looks at the channel's
// credentials, not at each cluster's.
func TestNewClientWithATokenThatRequiresSecurity(t *testing.T) {
	ca := testkit.NewCA(t, "test CA")
	for _, tc := range []struct {
		name  string
		creds credentials.TransportCredentials
		call  credentials.PerRPCCredentials
		code  codes.Code
	}{
		{"a token of each cluster, no security", insecure.NewCredentials(), composite.NewPerRPCCredentials(callByCluster{"secure": &token{value: "s", secure: true}}), codes.Unavailable},
		{"a token of each cluster, insecure fallback", composite.NewTransportCredentials(byCluster{"secure": trust(ca)}, insecure.NewCredentials()), composite.NewPerRPCCredentials(callByCluster{"secure": &token{value: "s", secure: true}}), codes.OK},
		{"a token of all, insecure fallback", composite.NewTransportCredentials(byCluster{"secure": trust(ca)}, insecure.NewCredentials()), &token{value: "s", secure: true}, codes.OK},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			secure := startTLS(t, "secure", ca, "secure.example")
			cc := dial(t, testkit.Service{Clusters: exampleClusters(secure)}, withCreds(tc.creds), grpc.WithPerRPCCredentials(tc.call))
			checkError(t, unaryRPC(testkit.Context(t), cc), tc.code)
			if tc.code == codes.OK {
				wantSeen(t, "authorization", []*testkit.Backend{secure}, "[s]")
			}
		})
	}
}

// TestSlowTokenSource holds up the RPCs of one cluster and no other's.
func TestSlowTokenSource(t *testing.T) {
	t.Parallel()
	backends := startAll(t, "slow", "quick")
	slow := &token{value: "late", hold: make(chan struct{}), asked: make(chan string, 1)}
	cc := dial(t, testkit.Service{Clusters: patient(backends)},
		grpc.WithPerRPCCredentials(composite.NewPerRPCCredentials(callByCluster{"slow": slow, "quick": &token{value: "now"}})))
	ctx := testkit.Context(t)
	held := make(chan error, 1)
	go func() { held <- unaryRPC(ctx, cc) }()
	<-slow.asked
	if err := unaryRPC(composite.WithAttempt(ctx, 2), cc); err != nil {
		t.Error(err)
	}
	wantSeen(t, "authorization", backends, "", "[now]")
	close(slow.hold)
	if err := <-held; err != nil {
		t.Error(err)
	}
	wantSeen(t, "authorization", backends, "[late]", "[now]")
}

// TestFailingTokenSource fails the attempts of its own cluster, and the retry
// policy goes on. The codes are what gRPC-Go makes of such errors.
func TestFailingTokenSource(t *testing.T) {
	for _, tc := range []struct {
		name string
		err  error
		want map[string]codes.Code // by callOptions' names
	}{
		{"a plain error", errors.New("token server is down"), map[string]codes.Code{"of the channel": codes.Unauthenticated, "of the call": codes.Internal}},
		{"a status", status.Error(codes.Unavailable, "token server is down"), map[string]codes.Code{"of the channel": codes.Unavailable, "of the call": codes.Unavailable}},
		{"a status that gRFC A54 forbids", status.Error(codes.NotFound, "token server is down"), map[string]codes.Code{"of the channel": codes.Internal, "of the call": codes.Internal}},
	} {
		for _, way := range callOptions {
			t.Run(tc.name+"/"+way.name, func(t *testing.T) {
				t.Parallel()
				backends := startAll(t, "bad", "good")
				dialOpts, callOpts := way.give(composite.NewPerRPCCredentials(callByCluster{"bad": &token{err: tc.err}, "good": &token{value: "g"}}))
				alone := dial(t, testkit.Service{Clusters: patient(backends)}, dialOpts...)
				err := unaryRPC(testkit.Context(t), alone, callOpts...)
				checkError(t, err, tc.want[way.name], `composite: cluster "bad": its call credentials: `, "token server is down")

				cc := dial(t, testkit.Service{Clusters: patient(backends), Attempts: 2, Retryable: []string{"UNAVAILABLE", "UNAUTHENTICATED", "INTERNAL"}}, dialOpts...)
				if err := unaryRPC(testkit.Context(t), cc, callOpts...); err != nil {
					t.Error(err)
				}
				wantSeen(t, "authorization", backends, "", "[g]")
			})
		}
	}
}

// TestTokenSourceThatHangs has an attempt end by its time while its token is asked for:
// the next one goes on.
func TestTokenSourceThatHangs(t *testing.T) {
	for _, way := range callOptions {
		t.Run(way.name, func(t *testing.T) {
			t.Parallel()
			backends := startAll(t, "a", "b")
			stuck := &token{value: "late", hold: make(chan struct{})}
			dialOpts, callOpts := way.give(composite.NewPerRPCCredentials(callByCluster{"a": stuck}))
			cc := dial(t, goingOn(timed(cutAfter, patient(backends)...)...), dialOpts...)
			trail, err := record(testkit.Context(t), t, cc, unaryRPC, callOpts...)
			checkError(t, err, codes.OK)
			if got := story(trail); got != "1 a DeadlineExceeded unsent; 2 b OK committed" || !strings.Contains(trail.Attempts[0].Message, "took longer than its attemptTimeout") {
				t.Errorf("trail %v: want an attempt on a that took too long, and one on b", trail)
			}
			ctx, cancel := context.WithTimeout(testkit.Context(t), cutAfter/2)
			defer cancel()
			checkError(t, unaryRPC(ctx, cc, callOpts...), codes.DeadlineExceeded)
		})
	}
}

func TestTokensInNestedClusters(t *testing.T) {
	t.Parallel()
	backends := startAll(t, "own", "outers", "none")
	for _, b := range backends[:2] {
		b.Script(testkit.U)
	}
	inner := testkit.Service{Clusters: patient(backends[:2])}
	cc := dial(t, testkit.Service{Attempts: 3, Clusters: []testkit.Cluster{
		nestedPatiently("N", inner), relisted("N"), patientCluster("none", backends[2].Target()),
	}}, grpc.WithPerRPCCredentials(composite.NewPerRPCCredentials(callByCluster{"own": &token{value: "o"}, "N": &token{value: "n"}})))
	if err := unaryRPC(testkit.Context(t), cc); err != nil {
		t.Error(err)
	}
	wantSeen(t, "authorization", backends, "[o]", "[n]", "[]")
}

// TestTokenOfAClusterThatWasLeft has an attempt choose a cluster inside another,
// which cannot take it, and go on to the next: the token is not the first one's.
func TestTokenOfAClusterThatWasLeft(t *testing.T) {
	t.Parallel()
	policy := testkit.NewPolicy(t)
	policy.OnUpdate = func(c *testkit.PolicyChild, _ balancer.ClientConnState) error {
		c.Report(connectivity.Ready, errors.New("full"))
		return nil
	}
	left := patientCluster("left", "passthrough:///unused")
	left.More["childPolicy"] = policy.Config()
	b := testkit.Start(t, "b")
	cc := dial(t, testkit.Service{Clusters: []testkit.Cluster{
		nestedPatiently("N", testkit.Service{Clusters: []testkit.Cluster{left}}), patientCluster("b", b.Target()),
	}}, grpc.WithPerRPCCredentials(composite.NewPerRPCCredentials(callByCluster{"left": &token{value: "l"}, "N": &token{value: "n"}})))
	if err := unaryRPC(testkit.Context(t), cc); err != nil {
		t.Error(err)
	}
	wantSeen(t, "authorization", []*testkit.Backend{b}, "[]")
}

// TestTokensOutsideClusters has channels with another policy, on which no
// attempt goes to a cluster.
func TestTokensOutsideClusters(t *testing.T) {
	for _, tc := range []struct {
		name string
		opts []grpc.DialOption
	}{
		{"without the dial options", nil},
		{"with the dial options", composite.DialOptions()},
	} {
		for _, way := range callOptions {
			t.Run(tc.name+"/"+way.name, func(t *testing.T) {
				t.Parallel()
				a := testkit.Start(t, "a")
				dialOpts, callOpts := way.give(composite.NewPerRPCCredentials(callByCluster{"a": &token{value: "a"}, "": &token{value: "nobody's"}}))
				cc := testkit.Dial(t, a.Target(), append(dialOpts, tc.opts...)...)
				if err := unaryRPC(testkit.Context(t), cc, callOpts...); err != nil {
					t.Error(err)
				}
				wantSeen(t, "authorization", []*testkit.Backend{a}, "[]")
			})
		}
	}
}

// TestTokenSourceIsToldTheClustersName checks what is said to a source of tokens
// that are good for one server.
func TestTokenSourceIsToldTheClustersName(t *testing.T) {
	t.Parallel()
	backends := startAll(t, "a", "b")
	backends[0].Script(testkit.U)
	asked := make(chan string, 2)
	cc := dial(t, testkit.Service{Clusters: exampleClusters(backends...), Attempts: 2},
		grpc.WithPerRPCCredentials(composite.NewPerRPCCredentials(callByCluster{"a": &token{asked: asked}, "b": &token{asked: asked}})))
	if err := unaryRPC(testkit.Context(t), cc); err != nil {
		t.Error(err)
	}
	for _, want := range []string{"[https://a.example/grpc.testing.TestService]", "[https://b.example/grpc.testing.TestService]"} {
		if got := <-asked; got != want {
			t.Errorf("a token is asked for %s: want %s", got, want)
		}
	}
}
