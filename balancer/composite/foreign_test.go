package composite_test

import (
	"context"
	"slices"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	testpb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/stats"

	"github.com/grpc-composite/grpc-composite/balancer/composite"
	"github.com/grpc-composite/grpc-composite/internal/testkit"
)

// empty makes an RPC of another method than those of other tests.
func empty(ctx context.Context, cc *grpc.ClientConn) error {
	_, err := testpb.NewTestServiceClient(cc).EmptyCall(ctx, &testpb.Empty{})
	return err
}

// untracked is a channel with the policy and without DialOptions, on another target than
// most.
func untracked(t *testing.T, s testkit.Service) *grpc.ClientConn {
	t.Helper()
	return testkit.Dial(t, "composite:", grpc.WithDefaultServiceConfig(s.JSON()))
}

// callsOut are call credentials that make an RPC of their own on the way.
type callsOut struct {
	token

	call func(ctx context.Context) error
}

func (c *callsOut) GetRequestMetadata(ctx context.Context, uri ...string) (map[string]string, error) {
	if err := c.call(ctx); err != nil {
		return nil, err
	}
	return c.token.GetRequestMetadata(ctx, uri...)
}

// TestUntrackedChannelInAnInterceptor has an interceptor call on a channel that forgot
// its options, with the context of an RPC whose attempts are counted.
func TestUntrackedChannelInAnInterceptor(t *testing.T) {
	for name, opts := range map[string][]composite.Option{"with a handler": nil, "lean": {composite.LeanCounting()}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			backends := startScripted(t, "OK OK OK")
			other := untracked(t, testkit.Service{Clusters: patient(backends[2:])})
			calling := func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoker grpc.UnaryInvoker, opts ...grpc.CallOption) error {
				checkError(t, unaryRPC(ctx, other), codes.Internal, "composite.DialOptions()")
				return invoker(ctx, method, req, reply, cc, opts...)
			}
			s := testkit.Service{Clusters: patient(backends[:2]), Attempts: 2}
			cc := testkit.Dial(t, "composite:///", append(composite.DialOptions(opts...), grpc.WithDefaultServiceConfig(s.JSON()), grpc.WithChainUnaryInterceptor(calling))...)
			checkError(t, unaryRPC(testkit.Context(t), cc), codes.OK)
			if got := testkit.Counts(backends...); got != "1/0/0" {
				t.Errorf("calls %s: want 1/0/0", got)
			}
		})
	}
}

// TestUntrackedChannelInCredentials has call credentials do so, with the context of the
// attempt that they are for.
func TestUntrackedChannelInCredentials(t *testing.T) {
	for name, s := range map[string]func(testkit.Service) *grpc.ClientConn{
		"another target": func(s testkit.Service) *grpc.ClientConn { return untracked(t, s) },
		"the same target": func(s testkit.Service) *grpc.ClientConn {
			return testkit.Dial(t, "composite:///", grpc.WithDefaultServiceConfig(s.JSON()))
		},
	} {
		t.Run(name, func(t *testing.T) {
			backends := startScripted(t, "OK OK")
			other := s(testkit.Service{Clusters: []testkit.Cluster{{Name: "elsewhere", Target: backends[1].Target()}}})
			creds := &callsOut{call: func(ctx context.Context) error {
				checkError(t, empty(ctx, other), codes.Internal, "composite.DialOptions()")
				return nil
			}}
			cc := dial(t, testkit.Service{Clusters: patient(backends[:1])}, grpc.WithPerRPCCredentials(creds))
			var trail composite.Trail
			checkError(t, unaryRPC(testkit.Context(t), cc, composite.RecordTrail(&trail)), codes.OK)
			checkStory(t, trail, "1 a OK committed", backends[0])
		})
	}
}

// TestTokensStayOnTheirChannel has call credentials make an RPC on a channel with
// another policy, and credentials by cluster.
func TestTokensStayOnTheirChannel(t *testing.T) {
	a, issuer := testkit.Start(t, "a"), testkit.Start(t, "issuer")
	secret := func() grpc.DialOption {
		return grpc.WithPerRPCCredentials(composite.NewPerRPCCredentials(callByCluster{"a": &token{value: "secret"}}))
	}
	other := testkit.Dial(t, issuer.Target(), secret())
	fetching := &callsOut{token: token{value: "fetched"}, call: func(ctx context.Context) error { return unaryRPC(ctx, other) }}
	cc := dial(t, testkit.Service{Clusters: testkit.Clusters(a)}, grpc.WithPerRPCCredentials(composite.NewPerRPCCredentials(map[string]credentials.PerRPCCredentials{"a": fetching})))
	checkError(t, bidiRPC(testkit.Context(t), cc), codes.OK)
	if got := a.Calls()[0].Metadata["authorization"]; len(got) != 1 || got[0] != "fetched" {
		t.Errorf("the cluster got the token %q: want its own", got)
	}
	if got := issuer.Calls()[0].Metadata["authorization"]; len(got) > 0 {
		t.Errorf("the channel without clusters sent the token %q", got)
	}
}

// TestTokenOfARewrittenMethod has an interceptor make another method of the RPC's, whose
// attempts, and tokens, are its own all the same.
func TestTokenOfARewrittenMethod(t *testing.T) {
	rewriting := grpc.WithChainUnaryInterceptor(func(ctx context.Context, _ string, req, reply any, cc *grpc.ClientConn, invoker grpc.UnaryInvoker, opts ...grpc.CallOption) error {
		return invoker(ctx, testpb.TestService_UnaryCall_FullMethodName, req, reply, cc, opts...)
	})
	derives := grpc.WithStatsHandler(new(deriving))
	secret := grpc.WithPerRPCCredentials(composite.NewPerRPCCredentials(callByCluster{"a": &token{value: "secret"}}))
	old := func(ctx context.Context, cc *grpc.ClientConn) error {
		return cc.Invoke(ctx, "/old.TestService/UnaryCall", &testpb.SimpleRequest{}, &testpb.SimpleResponse{})
	}
	for name, more := range map[string][]grpc.DialOption{"no other handler": nil, "one that derives a context": {derives}} {
		t.Run(name, func(t *testing.T) {
			a := testkit.Start(t, "a")
			cc := dial(t, testkit.Service{Clusters: testkit.Clusters(a)}, append(more, rewriting, secret)...)
			for range 2 { // which wait for a connection, and do not
				checkError(t, old(testkit.Context(t), cc), codes.OK)
			}
			for _, c := range a.Calls() {
				if got := c.Metadata["authorization"]; !slices.Equal(got, []string{"secret"}) {
					t.Errorf("the token %q was sent: want the cluster's", got)
				}
			}
		})
	}
	t.Run("lean", func(t *testing.T) {
		a := testkit.Start(t, "a")
		cc := dialLean(t, testkit.Service{Clusters: testkit.Clusters(a)}, rewriting, secret)
		checkError(t, old(testkit.Context(t), cc), codes.Internal, "NewPerRPCCredentials needs composite.DialOptions() without LeanCounting")
	})
}

// labelling is a stats handler that gives each attempt's context a value.
type labelling struct{ *deriving }

func (labelling) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context {
	type label struct{}
	return context.WithValue(ctx, label{}, 1)
}

// TestPoolOfChannels has an interceptor hand RPCs to another channel, which counts their
// attempts: with LeanCounting only if it has the same target.
func TestPoolOfChannels(t *testing.T) {
	for _, tc := range []struct {
		name, target string
		opts         []composite.Option
		code         codes.Code
	}{
		{"of the same target", "composite:///", nil, codes.OK},
		{"of another", "composite:", nil, codes.OK},
		{"of the same target, lean", "composite:///", []composite.Option{composite.LeanCounting()}, codes.OK},
		{"of another, lean", "composite:", []composite.Option{composite.LeanCounting()}, codes.Internal},
	} {
		t.Run(tc.name, func(t *testing.T) {
			backends := startScripted(t, "U OK")
			s := testkit.Service{Clusters: patient(backends), Attempts: 2}
			open := func(target string, more ...grpc.DialOption) *grpc.ClientConn {
				return testkit.Dial(t, target, append(append(composite.DialOptions(tc.opts...), grpc.WithDefaultServiceConfig(s.JSON()), grpc.WithStatsHandler(labelling{})), more...)...)
			}
			member := open(tc.target)
			cc := open("composite:///", grpc.WithChainUnaryInterceptor(func(ctx context.Context, method string, req, reply any, _ *grpc.ClientConn, invoker grpc.UnaryInvoker, opts ...grpc.CallOption) error {
				return invoker(ctx, method, req, reply, member, opts...)
			}))
			checkError(t, unaryRPC(testkit.Context(t), cc), tc.code)
		})
	}
}

// TestRPCOnTheWay has an interceptor make an RPC of the same method on the same channel,
// as a probe, before the RPC proper, which is at its first attempt all the same.
func TestRPCOnTheWay(t *testing.T) {
	type probing struct{}
	for name, opts := range map[string][]grpc.DialOption{"dial options once": nil, "and those of another call": composite.DialOptions()} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			backends := startAll(t, "a", "b")
			var probe, trail composite.Trail
			probes := func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoker grpc.UnaryInvoker, opts ...grpc.CallOption) error {
				if ctx.Value(probing{}) == nil {
					checkError(t, unaryRPC(context.WithValue(ctx, probing{}, true), cc, composite.RecordTrail(&probe)), codes.OK)
				}
				return invoker(ctx, method, req, reply, cc, opts...)
			}
			cc := dial(t, testkit.Service{Clusters: testkit.Clusters(backends...), Attempts: 2}, append(opts, grpc.WithChainUnaryInterceptor(probes))...)
			checkError(t, unaryRPC(testkit.Context(t), cc, composite.RecordTrail(&trail)), codes.OK)
			for _, got := range []composite.Trail{probe, trail} {
				checkStory(t, got, "1 a OK committed", backends...)
			}
		})
	}
}
