package chaos

import (
	"fmt"
	"testing"
	"time"

	"github.com/grpc-composite/grpc-composite/internal/testkit"
)

// TestFaults has the faults that a cluster cannot bear come to all of the first one,
// and looks for what they do to RPCs: that a run is good says nothing otherwise.
func TestFaults(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes half a minute")
	}
	r := newRig(t)
	defer close(r.end)
	defer r.run()()
	for _, k := range []kind{kill, halt, hole, reset, wrongCert, dnsEmpty, dnsNXDomain, reorder, remove} {
		t.Run(string(k), func(t *testing.T) {
			before := r.report.elsewhere()
			for d := attemptTimeout / 2; r.report.elsewhere() == before; d *= 2 {
				if d > testkit.Patience {
					t.Fatal("all RPCs are served by the first cluster")
				}
				r.faults.phase([]fault{{For: d, Kind: k, Servers: []int{0, 1, 2}}})
			}
			awaitBack(t, r.load, time.Now())
		})
	}
}

// elsewhere is how many RPCs were not served by the first attempt, on the first
// cluster.
func (r *report) elsewhere() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := 0
	for route, count := range r.routes {
		if route != fmt.Sprintf("%s, attempt 1", clusterNames[0]) {
			n += count
		}
	}
	return n
}
