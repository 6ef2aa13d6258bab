package testkit

import (
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc/balancer"
	"google.golang.org/grpc/balancer/base"
	"google.golang.org/grpc/balancer/pickfirst"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/serviceconfig"
)

// policyName is the child policy that tests drive. Its config is {"id": "..."}.
const policyName = "testkit_policy"

var (
	policies  sync.Map // id to *Policy
	policyIDs atomic.Int64
)

func init() { balancer.Register(policyBuilder{}) }

// Policy is a child policy that a test drives: by hooks that run inside the calls
// it gets, and by Report. Set the hooks before it is built. Its methods are safe
// for concurrent use.
type Policy struct {
	id string

	// OnUpdate is called for new endpoints, and its error is returned.
	OnUpdate func(c *PolicyChild, s balancer.ClientConnState) error
	// OnEvent is called for everything else, with the method's name.
	OnEvent func(c *PolicyChild, method string)

	mu       sync.Mutex
	children []*PolicyChild
}

// NewPolicy makes a policy of which each instance reports nothing by itself.
func NewPolicy(t testing.TB) *Policy {
	t.Helper()
	p := &Policy{id: fmt.Sprintf("policy-%d", policyIDs.Add(1))}
	policies.Store(p.id, p)
	t.Cleanup(func() { policies.Delete(p.id) })
	return p
}

// Config is a value for a cluster's field "childPolicy".
func (p *Policy) Config() []any {
	return []any{map[string]any{policyName: map[string]any{"id": p.id}}}
}

// Child returns the i-th instance, which it waits for.
func (p *Policy) Child(t testing.TB, i int) *PolicyChild {
	t.Helper()
	var child *PolicyChild
	Eventually(t, fmt.Sprintf("instance %d of a policy", i), func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		if i >= len(p.children) {
			return false
		}
		child = p.children[i]
		return true
	})
	return child
}

// PolicyChild is an instance of a policy.
type PolicyChild struct {
	policy *Policy
	CC     balancer.ClientConn

	calls   atomic.Int32 // calls that are being made now
	overlap atomic.Bool  // calls were made at the same time
	closed  atomic.Bool
	exits   atomic.Int32
	updates atomic.Int32
	inner   balancer.Balancer // connects, if the test wants connections
}

// Report reports a state, with a picker that returns err.
func (c *PolicyChild) Report(state connectivity.State, err error) {
	c.ReportPicker(state, base.NewErrPicker(err))
}

// ReportPicker reports a state and a picker.
func (c *PolicyChild) ReportPicker(state connectivity.State, p balancer.Picker) {
	c.CC.UpdateState(balancer.State{ConnectivityState: state, Picker: p})
}

// Closed tells whether the instance was closed.
func (c *PolicyChild) Closed() bool { return c.closed.Load() }

// Overlapped tells whether calls into the instance were ever made at the same
// time.
func (c *PolicyChild) Overlapped() bool { return c.overlap.Load() }

// ExitIdles is how often ExitIdle was called.
func (c *PolicyChild) ExitIdles() int { return int(c.exits.Load()) }

// Updates is how often endpoints were delivered.
func (c *PolicyChild) Updates() int { return int(c.updates.Load()) }

// Connect hands the endpoints to a pick_first of the instance's own, which
// reports for it from then on.
func (c *PolicyChild) Connect(s balancer.ClientConnState) error {
	if c.inner == nil {
		c.inner = balancer.Get(pickfirst.Name).Build(c.CC, balancer.BuildOptions{})
	}
	s.BalancerConfig = nil
	return c.inner.UpdateClientConnState(s)
}

func (c *PolicyChild) call() func() {
	if c.calls.Add(1) > 1 {
		c.overlap.Store(true)
	}
	return func() { c.calls.Add(-1) }
}

func (c *PolicyChild) event(method string) {
	if c.policy.OnEvent != nil {
		c.policy.OnEvent(c, method)
	}
}

// UpdateClientConnState is called by the composite policy.
func (c *PolicyChild) UpdateClientConnState(s balancer.ClientConnState) error {
	defer c.call()()
	c.updates.Add(1)
	if c.policy.OnUpdate != nil {
		return c.policy.OnUpdate(c, s)
	}
	return nil
}

// ResolverError is called by the composite policy.
func (c *PolicyChild) ResolverError(err error) {
	defer c.call()()
	if c.inner != nil {
		c.inner.ResolverError(err)
	}
	c.event("ResolverError")
}

// UpdateSubConnState is deprecated.
func (c *PolicyChild) UpdateSubConnState(balancer.SubConn, balancer.SubConnState) {
	defer c.call()()
	c.event("UpdateSubConnState")
}

// ExitIdle is called by the composite policy.
func (c *PolicyChild) ExitIdle() {
	defer c.call()()
	c.exits.Add(1)
	if c.inner != nil {
		c.inner.ExitIdle()
	}
	c.event("ExitIdle")
}

// Close is called by the composite policy.
func (c *PolicyChild) Close() {
	defer c.call()()
	if c.inner != nil {
		c.inner.Close()
	}
	c.event("Close")
	c.closed.Store(true)
}

type policyBuilder struct{}

func (policyBuilder) Name() string { return policyName }

type policyConfig struct {
	serviceconfig.LoadBalancingConfig `json:"-"`

	ID string `json:"id"`
}

func (policyBuilder) ParseConfig(data json.RawMessage) (serviceconfig.LoadBalancingConfig, error) {
	var cfg policyConfig
	if err := json.Unmarshal(data, &cfg); err != nil {
		return nil, err
	}
	if _, ok := policies.Load(cfg.ID); !ok {
		return nil, fmt.Errorf("testkit: no policy %q", cfg.ID)
	}
	return cfg, nil
}

// Build returns an instance that finds out with its first config whose it is.
func (policyBuilder) Build(cc balancer.ClientConn, _ balancer.BuildOptions) balancer.Balancer {
	return &lateChild{PolicyChild: PolicyChild{policy: &Policy{}, CC: cc}}
}

// lateChild is an instance that has not seen its config yet.
type lateChild struct{ PolicyChild }

func (c *lateChild) UpdateClientConnState(s balancer.ClientConnState) error {
	cfg, ok := s.BalancerConfig.(policyConfig)
	if !ok {
		return errors.New("testkit: a config of another policy")
	}
	p, ok := policies.Load(cfg.ID)
	if !ok {
		return fmt.Errorf("testkit: no policy %q", cfg.ID)
	}
	policy := p.(*Policy)
	if c.policy != policy {
		c.policy = policy
		policy.mu.Lock()
		policy.children = append(policy.children, &c.PolicyChild)
		policy.mu.Unlock()
	}
	return c.PolicyChild.UpdateClientConnState(s)
}
