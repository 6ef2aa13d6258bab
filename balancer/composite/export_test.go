package composite

import "github.com/grpc-composite/grpc-composite/internal/testkit"

// What tests look into from outside the package, through the child policy that
// they drive.

// InFlight is how many attempts hold a place in the cluster of a child.
func InFlight(c *testkit.PolicyChild) int64 { return guardOf(c).inFlight.Load() }

// Waited tells whether an RPC waits for a place in the cluster of a child.
func Waited(c *testkit.PolicyChild) bool { return guardOf(c).waited.Load() }

// Resting tells whether the cluster of a child is in a cooldown.
func Resting(c *testkit.PolicyChild) bool { return guardOf(c).breaker.Resting() }

// Passes tells whether the cooldown of a child's cluster lets an attempt pass.
func Passes(c *testkit.PolicyChild) bool { return guardOf(c).breaker.Passes() }

func guardOf(c *testkit.PolicyChild) *guard { return c.CC.(*child).cluster.guard }
