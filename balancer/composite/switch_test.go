package composite_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/balancer"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/serviceconfig"

	"github.com/grpc-composite/grpc-composite/balancer/composite"
	"github.com/grpc-composite/grpc-composite/internal/testkit"
)

const (
	toPickFirst  = `{"loadBalancingConfig":[{"pick_first":{}}]}`
	toRoundRobin = `{"loadBalancingConfig":[{"round_robin":{}}]}`
)

// program is one that dials a server of its own and has a fallback only if its
// resolver says so.
type program struct {
	primary, fallback *testkit.Backend
	resolver          *testkit.Resolver
	cc                *grpc.ClientConn
}

// startProgram opens the program's channel, without a service config.
func startProgram(t *testing.T, opts ...grpc.DialOption) *program {
	t.Helper()
	backends := startAll(t, "primary", "fallback")
	p := &program{primary: backends[0], fallback: backends[1], resolver: testkit.NewResolver(t)}
	_ = p.resolver.Update(p.primary)
	p.cc = testkit.Dial(t, p.resolver.Target(), opts...)
	if got := call(t, p.cc); got != "primary" {
		t.Fatalf("answer from %s: want primary", got)
	}
	return p
}

// withFallback is the service config that gives the program its fallback.
func (p *program) withFallback() string {
	return testkit.Service{Attempts: 2, Clusters: []testkit.Cluster{
		patientCluster("primary", ""), patientCluster("fallback", p.fallback.Target()),
	}}.JSON()
}

// deliver has the resolver deliver a service config, or none if the text is
// empty, along with the primary server. It returns the error that came back.
func (p *program) deliver(config string) error {
	var parsed *serviceconfig.ParseResult
	if config != "" {
		parsed = p.resolver.Parse(config)
	}
	state := testkit.OneEndpoint(p.primary.Addr)
	state.ServiceConfig = parsed
	return p.resolver.UpdateState(state)
}

// mustDeliver is deliver for a service config that is in order.
func (p *program) mustDeliver(t *testing.T, config string) {
	t.Helper()
	if err := p.deliver(config); err != nil {
		t.Fatalf("%s: %v", config, err)
	}
}

// wantFallback checks that an RPC which the primary fails goes on to the
// fallback.
func (p *program) wantFallback(t *testing.T) {
	t.Helper()
	p.primary.Script(testkit.U)
	defer p.primary.Script(testkit.OK)
	if got := call(t, p.cc); got != "fallback" {
		t.Errorf("the primary is unavailable: answer from %s: want fallback", got)
	}
}

// load makes RPCs from several goroutines until stop is called, which returns how
// many there were. Each has to be answered by the primary.
func (p *program) load(t *testing.T) (stop func() int) {
	t.Helper()
	ctx, cancel := context.WithCancel(testkit.Context(t))
	var wg sync.WaitGroup
	var done atomic.Int32
	for i := range 8 {
		kind := rpcKinds[i%len(rpcKinds)]
		wg.Go(func() {
			for ctx.Err() == nil {
				if err := kind.call(testkit.Context(t), p.cc); err != nil {
					t.Errorf("%s: %v", kind.name, err)
					return
				}
				done.Add(1)
			}
		})
	}
	return func() int {
		cancel()
		wg.Wait()
		if got := p.fallback.Count(); got != 0 {
			t.Errorf("%d calls to the fallback: want none while the primary serves", got)
		}
		return int(done.Load())
	}
}

// awaitComposite waits until the channel's policy is the composite one, or until
// it is another. Only the composite one fails attempts past its list.
func (p *program) awaitComposite(t *testing.T, want bool) {
	t.Helper()
	testkit.Eventually(t, fmt.Sprintf("composite is the policy: %v", want), func() bool {
		_, err := testkit.Unary(composite.WithAttempt(testkit.Context(t), 3), p.cc)
		if err != nil {
			testkit.Contains(t, err, "past the end of the list of 2 (primary; fallback)")
		}
		return (err != nil) == want
	})
}

// TestProgramGetsAFallback switches a channel's policy while it is in use.
func TestProgramGetsAFallback(t *testing.T) {
	for _, tc := range []struct{ name, other string }{
		{"pick_first", toPickFirst},
		{"round_robin", toRoundRobin},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			p := startProgram(t, composite.DialOptions()...)
			stop := p.load(t)
			for range 20 {
				p.mustDeliver(t, p.withFallback())
				p.awaitComposite(t, true)
				p.mustDeliver(t, tc.other)
				p.awaitComposite(t, false)
			}
			for range 50 { // each replaced before it has done anything
				p.mustDeliver(t, p.withFallback())
				p.mustDeliver(t, tc.other)
			}
			p.mustDeliver(t, p.withFallback())
			p.awaitComposite(t, true)
			if n := stop(); n == 0 {
				t.Error("there was no load")
			}
			p.wantFallback(t)

			p.mustDeliver(t, tc.other)
			p.awaitComposite(t, false)
			p.primary.Script(testkit.U)
			checkError(t, unaryRPC(testkit.Context(t), p.cc), codes.Unavailable, "scripted")
		})
	}
}

// TestServiceConfigStays has a resolver that delivers a service config once: gRPC
// keeps it until there is another.
func TestServiceConfigStays(t *testing.T) {
	t.Parallel()
	p := startProgram(t, composite.DialOptions()...)
	p.mustDeliver(t, p.withFallback())
	p.awaitComposite(t, true)
	for range 3 {
		p.mustDeliver(t, "")
		p.awaitComposite(t, true)
		p.wantFallback(t)
	}
	p.primary = testkit.Start(t, "new primary")
	p.mustDeliver(t, "")
	if got := call(t, p.cc); got != "new primary" {
		t.Errorf("answer from %s: want the new primary", got)
	}
	p.wantFallback(t)
}

// badConfigs are service configs that gRPC does not accept.
var badConfigs = []struct{ name, config string }{
	{"not JSON", `{`},
	{"no clusters", `{"loadBalancingConfig":[{"composite":{"clusters":[]}}]}`},
	{"a bad target", `{"loadBalancingConfig":[{"composite":{"clusters":[{"name":"primary","target":"xds:///x"}]}}]}`},
	{"no policy that there is", `{"loadBalancingConfig":[{"fastest":{}}]}`},
	{"a bad retry policy", `{"loadBalancingConfig":[{"composite":{"clusters":[{"name":"primary"}]}}],"methodConfig":[{"name":[{}],"retryPolicy":{"maxAttempts":1}}]}`},
}

// TestBadConfigKeepsTheOldOne checks that a service config which is not accepted
// changes nothing, while the endpoints that come with it are used.
func TestBadConfigKeepsTheOldOne(t *testing.T) {
	for _, tc := range badConfigs {
		for _, before := range []string{"composite", "no service config"} {
			t.Run(tc.name+"/after "+before, func(t *testing.T) {
				t.Parallel()
				p := startProgram(t, composite.DialOptions()...)
				hadFallback := before == "composite"
				if hadFallback {
					p.mustDeliver(t, p.withFallback())
				}
				p.awaitComposite(t, hadFallback)
				p.primary = testkit.Start(t, "new primary")
				if err := p.deliver(tc.config); !errors.Is(err, balancer.ErrBadResolverState) {
					t.Errorf("error %v: want that the state is bad", err)
				}
				testkit.AwaitServer(t, p.cc, "new primary")
				p.awaitComposite(t, hadFallback)
				if hadFallback {
					p.wantFallback(t)
				}
			})
		}
	}
}

// TestBadFirstConfig has a channel that never had another.
func TestBadFirstConfig(t *testing.T) {
	for _, kind := range inlineKinds {
		t.Run(kind.name, func(t *testing.T) {
			t.Parallel()
			p := &program{primary: testkit.Start(t, "primary"), fallback: testkit.Start(t, "fallback"), resolver: testkit.NewResolver(t)}
			state := testkit.OneEndpoint(p.primary.Addr)
			state.ServiceConfig = &serviceconfig.ParseResult{Err: errors.New("composite: clusters: must list at least one cluster")}
			_ = p.resolver.UpdateState(state)
			p.cc = dialInline(t, p.resolver.Target())
			err := kind.call(testkit.Context(t), p.cc, grpc.WaitForReady(kind.wait))
			checkError(t, err, codes.Unavailable, "error parsing service config: composite: clusters: must list at least one cluster")
			p.mustDeliver(t, p.withFallback())
			p.awaitComposite(t, true)
			p.wantFallback(t)
		})
	}
}

// TestProgramWithoutDialOptions gets a composite policy that it is not built for,
// and is well again without it.
func TestProgramWithoutDialOptions(t *testing.T) {
	t.Parallel()
	p := startProgram(t)
	p.mustDeliver(t, p.withFallback())
	for _, kind := range inlineKinds {
		testkit.Eventually(t, "an error, for "+kind.name, func() bool {
			err := kind.call(testkit.Context(t), p.cc, grpc.WaitForReady(kind.wait))
			if err != nil {
				checkError(t, err, codes.Internal, "composite.DialOptions()")
			}
			return err != nil
		})
	}
	if got := p.fallback.Count(); got != 0 {
		t.Errorf("%d calls to the fallback: want none", got)
	}
	p.mustDeliver(t, toPickFirst)
	testkit.AwaitServer(t, p.cc, "primary")
}
