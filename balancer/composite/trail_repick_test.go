package composite_test

import (
	"errors"
	"strings"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc/balancer"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/resolver"

	"github.com/grpc-composite/grpc-composite/balancer/composite"
	"github.com/grpc-composite/grpc-composite/internal/testkit"
)

// fixedPicker counts its picks, all of which have one result.
type fixedPicker struct {
	result balancer.PickResult
	err    error
	picks  atomic.Int32
}

func (p *fixedPicker) Pick(balancer.PickInfo) (balancer.PickResult, error) {
	p.picks.Add(1)
	return p.result, p.err
}

// unreadyCluster is a cluster whose child policy picks a connection that is not
// ready.
func unreadyCluster(t testing.TB, name string) (testkit.Cluster, *fixedPicker, *testkit.Policy) {
	t.Helper()
	picker := &fixedPicker{}
	c, policy := policyCluster(t, name, picker)
	policy.OnUpdate = func(c *testkit.PolicyChild, _ balancer.ClientConnState) error {
		sc, err := c.CC.NewSubConn([]resolver.Address{{Addr: testkit.ClosedPort}}, balancer.NewSubConnOptions{})
		if err != nil {
			return err
		}
		picker.result.SubConn = sc
		c.ReportPicker(connectivity.Ready, picker)
		return nil
	}
	return c, picker, policy
}

// TestTrailOfRepeatedPicks checks that the trail has what an attempt's last pick
// came to, not what earlier ones did. The cluster p picks a connection that is not
// ready, or waits, until the test goes on.
func TestTrailOfRepeatedPicks(t *testing.T) {
	for _, tc := range []struct {
		name  string
		waits bool
		// list is the list of clusters: a is closed until it is restarted, b is healthy.
		list string
		then func(t *testing.T, p *testkit.PolicyChild, a *testkit.Backend)
		want string
	}{
		{
			name: "a connection that is not ready, then no host", list: "p b",
			then: func(_ *testing.T, p *testkit.PolicyChild, _ *testkit.Backend) {
				p.Report(connectivity.TransientFailure, errors.New("down"))
			},
			want: "1 b OK committed past p:transient_failure",
		},
		{
			name: "a wait, then no host", list: "p b", waits: true,
			then: func(_ *testing.T, p *testkit.PolicyChild, _ *testkit.Backend) {
				p.Report(connectivity.TransientFailure, errors.New("down"))
			},
			want: "1 b OK committed past p:transient_failure",
		},
		{
			name: "a connection that is not ready, then an error", list: "p b",
			then: func(_ *testing.T, p *testkit.PolicyChild, _ *testkit.Backend) {
				p.Report(connectivity.Ready, errors.New("cannot pick"))
			},
			want: "1 b OK committed past p:pick_error",
		},
		{
			name: "a skip, then none", list: "a p b",
			then: func(t *testing.T, _ *testkit.PolicyChild, a *testkit.Backend) {
				t.Helper()
				a.Restart(t)
			},
			want: "1 a OK committed",
		},
		{
			name: "a skip, then another one", list: "a p b",
			then: func(_ *testing.T, p *testkit.PolicyChild, _ *testkit.Backend) {
				p.Report(connectivity.TransientFailure, errors.New("down"))
			},
			want: "1 b OK committed past a:transient_failure,p:transient_failure",
		},
	} {
		for _, kind := range trailKinds {
			t.Run(tc.name+"/"+kind.name, func(t *testing.T) {
				t.Parallel()
				p, picker, policy := unreadyCluster(t, "p")
				if tc.waits {
					picker.err = balancer.ErrNoSubConnAvailable
				}
				backends := startAnswering(t, "OK OK")
				backends[0].Stop()
				byName := map[string]testkit.Cluster{"p": p}
				for _, c := range testkit.Clusters(backends...) {
					byName[c.Name] = c
				}
				var s testkit.Service
				for name := range strings.FieldsSeq(tc.list) {
					s.Clusters = append(s.Clusters, byName[name])
				}
				cc := dial(t, s)
				if err := unaryRPC(composite.WithClusters(testkit.Context(t), "b"), cc); err != nil {
					t.Fatal(err) // b is connected
				}
				over := make(chan struct{})
				go func() {
					defer close(over)
					testkit.Eventually(t, "a pick", func() bool { return picker.picks.Load() > 0 })
					tc.then(t, policy.Child(t, 0), backends[0])
				}()
				trail, err := record(testkit.Context(t), t, cc, kind.call)
				<-over
				checkError(t, err, codes.OK)
				checkStory(t, trail, tc.want, backends...)
			})
		}
	}
}
