package composite_test

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc/balancer"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/serviceconfig"
)

// modelWatchName is a child policy that has another one do the work, and tells the
// test what that has reported: the test goes on when the channel has noticed what
// the test did. To find out by RPCs would change what the test is about.
const modelWatchName = "model_watch"

var (
	modelWatches   sync.Map // id to *modelWatch
	modelWatchIDs  atomic.Int64
	errNotReported = fmt.Errorf("nothing was reported")
)

func init() { balancer.Register(modelWatchBuilder{}) }

// modelWatch is the test's end of it, for one cluster. It is safe for concurrent
// use.
type modelWatch struct {
	id     string
	policy string

	mu     sync.Mutex
	latest *modelWatched // nil: there is none, or it was closed
	state  balancer.State
	hosts  map[balancer.SubConn]string // their addresses
}

func newModelWatch(t testing.TB, policy string) *modelWatch {
	t.Helper()
	w := &modelWatch{id: fmt.Sprint(modelWatchIDs.Add(1)), policy: policy}
	modelWatches.Store(w.id, w)
	t.Cleanup(func() { modelWatches.Delete(w.id) })
	return w
}

// config is a value for a cluster's field "childPolicy".
func (w *modelWatch) config() []any {
	return []any{map[string]any{modelWatchName: map[string]any{"id": w.id}}}
}

// reported returns the policy's state, and the addresses that its picker sends
// RPCs to.
func (w *modelWatch) reported() (state connectivity.State, hosts map[string]bool, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.latest == nil || w.state.Picker == nil {
		return 0, nil, errNotReported
	}
	hosts = make(map[string]bool)
	if w.state.ConnectivityState != connectivity.Ready {
		return w.state.ConnectivityState, hosts, nil
	}
	for range 16 { // some policies pick at random
		result, err := w.state.Picker.Pick(balancer.PickInfo{Ctx: context.Background()})
		if err != nil {
			return connectivity.Ready, hosts, err
		}
		hosts[w.hosts[result.SubConn]] = true
		if result.Done != nil {
			result.Done(balancer.DoneInfo{})
		}
	}
	return connectivity.Ready, hosts, nil
}

// forget has the policy's reports not count any more. Those of the next instance
// will.
func (w *modelWatch) forget() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.latest = nil
}

type modelWatchConfig struct {
	serviceconfig.LoadBalancingConfig `json:"-"`

	ID string `json:"id"`
}

type modelWatchBuilder struct{}

func (modelWatchBuilder) Name() string { return modelWatchName }

func (modelWatchBuilder) ParseConfig(data json.RawMessage) (serviceconfig.LoadBalancingConfig, error) {
	var cfg modelWatchConfig
	err := json.Unmarshal(data, &cfg)
	return cfg, err
}

func (modelWatchBuilder) Build(cc balancer.ClientConn, opts balancer.BuildOptions) balancer.Balancer {
	return &modelWatched{ClientConn: cc, opts: opts}
}

// modelWatched is an instance of the policy, and the ClientConn of the one that
// does the work.
type modelWatched struct {
	balancer.ClientConn

	opts   balancer.BuildOptions
	watch  *modelWatch
	policy balancer.Balancer // with the first config
	config serviceconfig.LoadBalancingConfig
}

func (p *modelWatched) UpdateClientConnState(s balancer.ClientConnState) error {
	if p.policy == nil {
		w, ok := modelWatches.Load(s.BalancerConfig.(modelWatchConfig).ID)
		if !ok {
			return balancer.ErrBadResolverState
		}
		p.watch = w.(*modelWatch)
		p.watch.mu.Lock()
		p.watch.latest, p.watch.state, p.watch.hosts = p, balancer.State{}, make(map[balancer.SubConn]string)
		p.watch.mu.Unlock()
		builder := balancer.Get(p.watch.policy)
		p.policy = builder.Build(p, p.opts)
		if parser, ok := builder.(balancer.ConfigParser); ok {
			var err error
			if p.config, err = parser.ParseConfig([]byte("{}")); err != nil {
				return err
			}
		}
	}
	s.BalancerConfig = p.config
	return p.policy.UpdateClientConnState(s)
}

// UpdateState passes a report on first: it is in force when the test sees it.
func (p *modelWatched) UpdateState(s balancer.State) {
	p.ClientConn.UpdateState(s)
	p.watch.mu.Lock()
	defer p.watch.mu.Unlock()
	if p.watch.latest == p {
		p.watch.state = s
	}
}

func (p *modelWatched) NewSubConn(addrs []resolver.Address, opts balancer.NewSubConnOptions) (balancer.SubConn, error) {
	sc, err := p.ClientConn.NewSubConn(addrs, opts)
	if err == nil {
		p.watch.mu.Lock()
		p.watch.hosts[sc] = addrs[0].Addr
		p.watch.mu.Unlock()
	}
	return sc, err
}

func (p *modelWatched) ResolverError(err error) {
	if p.policy != nil {
		p.policy.ResolverError(err)
	}
}

func (p *modelWatched) UpdateSubConnState(balancer.SubConn, balancer.SubConnState) {}

func (p *modelWatched) ExitIdle() {
	if p.policy != nil {
		p.policy.ExitIdle()
	}
}

func (p *modelWatched) Close() {
	if p.policy == nil {
		return
	}
	p.watch.mu.Lock()
	if p.watch.latest == p {
		p.watch.latest = nil
	}
	p.watch.mu.Unlock()
	p.policy.Close()
}
