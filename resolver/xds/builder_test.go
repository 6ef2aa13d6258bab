package xds

import (
	"errors"
	"net/url"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/status"

	"github.com/grpc-composite/grpc-composite/balancer/composite"
	"github.com/grpc-composite/grpc-composite/internal/testkit"
)

// stub stands for gRPC's xDS resolver.
type stub struct {
	build func(target resolver.Target, cc resolver.ClientConn) error
}

func (stub) Scheme() string { return xdsScheme }

func (s stub) Build(target resolver.Target, cc resolver.ClientConn, _ resolver.BuildOptions) (resolver.Resolver, error) {
	return done{}, s.build(target, cc)
}

func dial(t *testing.T, target string, inner resolver.Builder, opts ...grpc.DialOption) *grpc.ClientConn {
	t.Helper()
	return testkit.Dial(t, target, append(append(composite.DialOptions(), grpc.WithResolvers(builder{inner})), opts...)...)
}

// TestErrorsReachRPCs has all RPCs fail at once, those that wait for ready too.
func TestErrorsReachRPCs(t *testing.T) {
	errBuild := errors.New("no bootstrap config")
	failing := stub{func(resolver.Target, resolver.ClientConn) error { return errBuild }}
	for _, tc := range []struct{ name, target, want string }{
		{"no query", "composite-xds:///svc", `composite-xds: target: query "": must have clusters or config; a target looks like "composite-xds:///service.example?clusters=primary,secondary"`},
		{"a config that the policy rejects", "composite-xds:///svc?config=" + url.QueryEscape(`{"clusters":[{"name":"a","attemptTimeout":"-1s"}]}`), `clusters[0].attemptTimeout: "-1s": must be positive`},
		{"no clusters in the config", "composite-xds:///svc?config={}", `clusters: must list at least one cluster`},
		{"clusters of the wrong type", `composite-xds:///svc?config={"clusters":["a"]}`, `composite-xds: target: query "config": `},
		{"a child policy of the wrong type", `composite-xds:///svc?config={"clusters":[{"name":"a","childPolicy":{"x":1}}]}`, `childPolicy`},
		{"gRPC's resolver cannot be built", "composite-xds:///svc?clusters=a", `composite-xds: no bootstrap config`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			cc := dial(t, tc.target, failing)
			for _, wait := range []bool{false, true} {
				start := time.Now()
				_, err := testkit.Unary(testkit.Context(t), cc, grpc.WaitForReady(wait))
				testkit.Contains(t, err, tc.want)
				if status.Code(err) == codes.DeadlineExceeded || time.Since(start) >= testkit.Patience {
					t.Errorf("wait for ready %v: %v: want the error at once", wait, err)
				}
			}
		})
	}
}

// TestServiceConfigIsDisabled has the option forbid what the target is. A target that
// is wrong is told even then.
func TestServiceConfigIsDisabled(t *testing.T) {
	for _, tc := range []struct{ name, query, want string }{
		{"a good target", "?clusters=a", "leave that option out"},
		{"a bad target", "", "must have clusters or config"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			cc := dial(t, "composite-xds:///svc"+tc.query, stub{}, grpc.WithDisableServiceConfig())
			testkit.Eventually(t, "the error", func() bool {
				_, err := testkit.Unary(testkit.Context(t), cc)
				return err != nil && strings.Contains(err.Error(), tc.want)
			})
		})
	}
}

// TestWithoutBootstrap uses gRPC's own resolver, which has no bootstrap config here.
func TestWithoutBootstrap(t *testing.T) {
	t.Setenv("GRPC_XDS_BOOTSTRAP", "")
	t.Setenv("GRPC_XDS_BOOTSTRAP_CONFIG", "")
	cc, err := grpc.NewClient("composite-xds:///svc?clusters=a", append(composite.DialOptions(), grpc.WithTransportCredentials(insecure.NewCredentials()))...)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cc.Close() }()
	_, err = testkit.Unary(testkit.Context(t), cc, grpc.WaitForReady(true))
	testkit.Contains(t, err, "composite-xds: xds: ", "bootstrap")
}

// TestBadBootstrap has the builder for tests say so in RPCs.
func TestBadBootstrap(t *testing.T) {
	t.Parallel()
	b, err := NewBuilderForTesting([]byte("no JSON"))
	if err != nil {
		t.Fatal(err)
	}
	cc := testkit.Dial(t, "composite-xds:///svc?clusters=a", append(composite.DialOptions(), grpc.WithResolvers(b))...)
	_, err = testkit.Unary(testkit.Context(t), cc, grpc.WaitForReady(true))
	testkit.Contains(t, err, "composite-xds: ", "bootstrap")
}
