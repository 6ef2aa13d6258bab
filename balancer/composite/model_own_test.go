package composite_test

import (
	"fmt"

	"google.golang.org/grpc/balancer"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/status"

	"github.com/grpc-composite/grpc-composite/internal/testkit"
)

// newOwnPolicy is a child policy that reports what the world says.
func (w *modelWorld) newOwnPolicy(s *modelServers) *testkit.Policy {
	p := testkit.NewPolicy(w.t)
	p.OnUpdate = func(c *testkit.PolicyChild, _ balancer.ClientConnState) error {
		s.mu.Lock()
		says := s.site.Says
		if !s.gone[c] {
			s.child = c
		}
		s.mu.Unlock()
		reportModelState(c, says)
		return nil
	}
	p.OnEvent = func(c *testkit.PolicyChild, method string) {
		s.mu.Lock()
		defer s.mu.Unlock()
		if method == "Close" && s.child == c {
			s.child = nil
		}
	}
	return p
}

func reportModelState(c *testkit.PolicyChild, says string) {
	plain := fmt.Errorf("the policy's own error")
	switch says {
	case "plain":
		c.Report(connectivity.Ready, plain)
	case "drop":
		c.Report(connectivity.Ready, status.Error(codes.ResourceExhausted, "dropped"))
	case "queue":
		c.Report(connectivity.Ready, balancer.ErrNoSubConnAvailable)
	case "failure":
		c.Report(connectivity.TransientFailure, plain)
	case "connecting":
		c.Report(connectivity.Connecting, balancer.ErrNoSubConnAvailable)
	default:
		c.Report(connectivity.Connecting, plain)
	}
}
