package composite

import (
	"testing"

	"google.golang.org/grpc/balancer"
)

// TestRPCsThatWaitShareTheError has RPCs find no host one after the other, as those do
// that wait and ask each new picker: they must not cost a text each.
func TestRPCsThatWaitShareTheError(t *testing.T) {
	p := tableOf(64, 64, nil)
	pick := func() error {
		_, err := p.Pick(balancer.PickInfo{FullMethodName: "/service/Method", Ctx: firstAttempt(t)})
		return err
	}
	first := pick()
	if first == nil {
		t.Fatal("a pick without a host")
	}
	if again := pick(); again != first { //nolint:errorlint // the same, and not one like it
		t.Errorf("another error: %v", again)
	}
	p.policy.causes.Add(1)
	if again := pick(); again == first { //nolint:errorlint // the same, and not one like it
		t.Error("the old error, after causes have changed")
	}
	info := balancer.PickInfo{FullMethodName: "/service/Method", Ctx: firstAttempt(t)}
	allocs := testing.AllocsPerRun(100, func() {
		if _, err := p.Pick(info); err == nil {
			t.Fatal("a pick without a host")
		}
	})
	if allocs != 0 {
		t.Errorf("a pick without a host makes %v allocations: want none", allocs)
	}
}
