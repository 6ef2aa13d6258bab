package xds

import (
	"testing"

	"github.com/grpc-composite/grpc-composite/internal/testkit"
)

// TestFailover has clusters fail, go down and come back, in a channel whose route
// names the first of them alone.
func TestFailover(t *testing.T) {
	t.Parallel()
	m := newMesh(t, "a", "b", "c")
	cc := m.dial(t, patient("a", "b", "c"))
	expect(t, cc, "a")
	m.backends["a"].Script(testkit.U)
	expect(t, cc, "a b")
	m.backends["b"].Script(testkit.U)
	expect(t, cc, "a b c")
	m.backends["c"].Script(testkit.U)
	got, err := way(t, cc)
	testkit.Contains(t, err, "scripted", "attempt 3 c")
	if got != "a b c" {
		t.Errorf("the call went %q: want all three", got)
	}
	m.backends["a"].Stop()
	m.backends["b"].Script(testkit.OK)
	await(t, cc, "-a b")
	m.backends["a"].Script(testkit.OK)
	m.backends["a"].Restart(t)
	await(t, cc, "a")
}
