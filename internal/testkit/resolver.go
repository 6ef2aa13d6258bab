package testkit

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/serviceconfig"
)

// EmptyTarget is a target that resolves to no endpoints.
const EmptyTarget = "testkit-empty:///"

func init() { resolver.Register(emptyBuilder{}) }

type emptyBuilder struct{}

func (emptyBuilder) Scheme() string { return "testkit-empty" }

func (emptyBuilder) Build(_ resolver.Target, cc resolver.ClientConn, _ resolver.BuildOptions) (resolver.Resolver, error) {
	_ = cc.UpdateState(resolver.State{}) // the error is the point
	return nopResolver{}, nil
}

type nopResolver struct{}

func (nopResolver) ResolveNow(resolver.ResolveNowOptions) {}
func (nopResolver) Close()                                {}

// Resolver is a resolver that a test drives, with a target of its own. It keeps
// the last state and delivers it to whoever is built later. Its methods are safe
// for concurrent use.
type Resolver struct {
	id string

	mu       sync.Mutex
	conns    map[*resolverConn]bool
	last     *resolver.State
	err      error
	buildErr error
	slow     time.Duration

	built, closed, asked atomic.Int32
}

// scheme is registered once, since gRPC's registry must not change while
// channels are in use.
const scheme = "testkit"

var (
	resolvers   sync.Map // id to *Resolver
	resolverIDs atomic.Int64
)

func init() { resolver.Register(byID{}) }

type byID struct{}

func (byID) Scheme() string { return scheme }

func (byID) Build(target resolver.Target, cc resolver.ClientConn, opts resolver.BuildOptions) (resolver.Resolver, error) {
	r, ok := resolvers.Load(target.Endpoint())
	if !ok {
		return nil, fmt.Errorf("testkit: no resolver %q", target.Endpoint())
	}
	return r.(*Resolver).build(cc, opts)
}

// NewResolver makes a resolver.
func NewResolver(t testing.TB) *Resolver {
	t.Helper()
	r := &Resolver{id: fmt.Sprintf("resolver-%d", resolverIDs.Add(1)), conns: make(map[*resolverConn]bool)}
	resolvers.Store(r.id, r)
	t.Cleanup(func() { resolvers.Delete(r.id) })
	return r
}

// Target is a target that the resolver resolves.
func (r *Resolver) Target() string { return scheme + ":///" + r.id }

func (r *Resolver) build(cc resolver.ClientConn, _ resolver.BuildOptions) (resolver.Resolver, error) {
	r.mu.Lock()
	last, err, buildErr, slow := r.last, r.err, r.buildErr, r.slow
	conn := &resolverConn{r: r, cc: cc}
	if buildErr == nil {
		r.built.Add(1)
		r.conns[conn] = true
	}
	r.mu.Unlock()
	time.Sleep(slow)
	switch {
	case buildErr != nil:
		return nil, buildErr
	case err != nil:
		cc.ReportError(err)
	case last != nil:
		_ = cc.UpdateState(*last)
	}
	return conn, nil
}

// FailBuilds makes Build return an error, or nil to stop that.
func (r *Resolver) FailBuilds(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.buildErr = err
}

// SlowBuilds makes Build take its time.
func (r *Resolver) SlowBuilds(d time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.slow = d
}

// Authority is what a channel with the resolver's target is called.
func (r *Resolver) Authority() string { return r.id }

// OneEndpoint is a state of one endpoint with several addresses.
func OneEndpoint(addrs ...string) resolver.State {
	var e resolver.Endpoint
	for _, addr := range addrs {
		e.Addresses = append(e.Addresses, resolver.Address{Addr: addr})
	}
	return resolver.State{Endpoints: []resolver.Endpoint{e}}
}

// Update delivers servers, and returns the error that came back.
func (r *Resolver) Update(backends ...*Backend) error {
	addrs := make([]string, len(backends))
	for i, b := range backends {
		addrs[i] = b.Addr
	}
	return r.UpdateAddrs(addrs...)
}

// UpdateAddrs delivers addresses, each an endpoint of its own.
func (r *Resolver) UpdateAddrs(addrs ...string) error {
	state := resolver.State{Endpoints: []resolver.Endpoint{}}
	for _, addr := range addrs {
		state.Endpoints = append(state.Endpoints, resolver.Endpoint{Addresses: []resolver.Address{{Addr: addr}}})
	}
	return r.UpdateState(state)
}

// UpdateState delivers a state, and returns the error that came back.
func (r *Resolver) UpdateState(state resolver.State) error {
	var errs []error
	for _, conn := range r.set(func() { r.last, r.err = &state, nil }) {
		errs = append(errs, conn.cc.UpdateState(state))
	}
	return errors.Join(errs...)
}

// Fail reports an error.
func (r *Resolver) Fail(err error) {
	for _, conn := range r.set(func() { r.err = err }) {
		conn.cc.ReportError(err)
	}
}

// Parse parses a service config for the channel that the resolver serves. It
// returns nil if the channel has no resolver: it is idle or closed.
func (r *Resolver) Parse(text string) *serviceconfig.ParseResult {
	for _, conn := range r.set(func() {}) {
		return conn.cc.ParseServiceConfig(text)
	}
	return nil
}

func (r *Resolver) set(f func()) []*resolverConn {
	r.mu.Lock()
	defer r.mu.Unlock()
	f()
	var conns []*resolverConn
	for conn := range r.conns {
		conns = append(conns, conn)
	}
	return conns
}

// Built is how often the resolver was built.
func (r *Resolver) Built() int { return int(r.built.Load()) }

// Open is how many of those have not been closed.
func (r *Resolver) Open() int { return int(r.built.Load() - r.closed.Load()) }

// Asked is how often ResolveNow was called.
func (r *Resolver) Asked() int { return int(r.asked.Load()) }

type resolverConn struct {
	r  *Resolver
	cc resolver.ClientConn
}

func (c *resolverConn) ResolveNow(resolver.ResolveNowOptions) { c.r.asked.Add(1) }

func (c *resolverConn) Close() {
	c.r.closed.Add(1)
	c.r.mu.Lock()
	defer c.r.mu.Unlock()
	delete(c.r.conns, c)
}
