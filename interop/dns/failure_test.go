package dns

import (
	"testing"

	"google.golang.org/grpc"

	"github.com/grpc-composite/grpc-composite/balancer/composite"
	"github.com/grpc-composite/grpc-composite/internal/testkit"
)

// TestFailureEmptiesOrKeeps has two servers, of which one stops, which makes gRPC
// ask again, and a DNS server that fails then. What gRPC's dns resolver takes for
// "no such name" empties the cluster, the living server included: RPCs go on to the
// next cluster, none of them fails, and they come back with the records. What it
// takes for the DNS server's own trouble leaves the endpoints as they are.
func TestFailureEmptiesOrKeeps(t *testing.T) {
	for _, tc := range []struct {
		reply reply
		keeps bool
	}{
		{nxdomain, false},
		{nodata, false},
		{refused, false},
		{servfail, true},
		{silence, true},
	} {
		for policy, more := range policies {
			t.Run(tc.reply.String()+"/"+policy, func(t *testing.T) {
				t.Parallel()
				ns, pods := startNameServer(t), startPods(t, "a", "b")
				ns.announce(t, pods...)
				c := dial(t, ns.target(t, pods[0]), more)
				used, other := pods[0], pods[1]
				if policy == "round_robin" {
					c.await(t, "a", "b")
				} else {
					c.await(t, "a")
				}
				ns.answer(tc.reply)
				asked := ns.questions()
				used.Stop()
				if tc.keeps {
					// No lookup asks more than four times, so the first is over.
					testkit.Eventually(t, "a lookup fails and the next begins", func() bool { return ns.questions() > asked+4 })
					c.await(t, other.Name)
					other.Stop()
					c.awaitSkip(t, "transient_failure")
					other.Restart(t) // and is connected to without any help from DNS
					c.await(t, other.Name)
				} else {
					c.awaitSkip(t, "no_endpoints")
					used.Restart(t) // and is not known any more
					for range 10 {
						if got := c.call(t); got != "fallback" {
							t.Fatalf("answer from %s: want fallback", got)
						}
					}
				}
				ns.announce(t, other)
				c.await(t, other.Name)
			})
		}
	}
}

// TestNoDNSServer has a DNS server that is stopped and started again.
func TestNoDNSServer(t *testing.T) {
	t.Parallel()
	ns, pods := startNameServer(t), startPods(t, "a", "b")
	ns.announce(t, pods...)
	c := dial(t, ns.target(t, pods[0]), nil)
	c.await(t, "a", "b")
	ns.stop()
	pods[0].Stop()
	c.await(t, "b") // the endpoints are kept
	pods[1].Stop()
	c.awaitSkip(t, "transient_failure")
	pods[0].Restart(t)
	c.await(t, "a")
	ns.restart(t)
	ns.announce(t, pods[1])
	pods[0].Stop()
	pods[1].Restart(t)
	c.await(t, "b")
}

// TestFailureFromTheStart has a DNS server that fails from the first question on:
// the first RPC goes to the next cluster, at once or when primary has had its
// connectTimeout, and primary is used when its records are there.
func TestFailureFromTheStart(t *testing.T) {
	for _, tc := range []struct {
		reply          reply
		connectTimeout string
		reason         string
	}{
		{nxdomain, "20s", "no_endpoints"},
		{nodata, "20s", "no_endpoints"},
		{refused, "20s", "no_endpoints"},
		{servfail, "20s", "transient_failure"},
		{silence, "20s", "transient_failure"}, // when gRPC gives up
		{silence, "0.05s", "connect_timeout"},
	} {
		t.Run(tc.reply.String()+"/"+tc.connectTimeout, func(t *testing.T) {
			t.Parallel()
			ns, pods := startNameServer(t), startPods(t, "a")
			ns.answer(tc.reply)
			c := dial(t, ns.target(t, pods[0]), map[string]any{"connectTimeout": tc.connectTimeout})
			var trail composite.Trail
			if got := c.call(t, composite.RecordTrail(&trail)); got != "fallback" {
				t.Errorf("answer from %s: want fallback", got)
			}
			if a := trail.Attempts; len(a) != 1 || len(a[0].Skipped) != 1 || a[0].Skipped[0].Reason != tc.reason {
				t.Errorf("trail %+v: want one attempt that passed over primary: %s", a, tc.reason)
			}
			ns.announce(t, pods...)
			c.await(t, "a")
		})
	}
}

// TestErrorNamesTheDNSFailure checks what an RPC is told when the only other
// cluster is down, too.
func TestErrorNamesTheDNSFailure(t *testing.T) {
	for reply, want := range map[reply]string{
		nxdomain: "primary skipped: no endpoints",
		servfail: "server misbehaving",
		silence:  "i/o timeout",
	} {
		t.Run(reply.String(), func(t *testing.T) {
			t.Parallel()
			ns, pods := startNameServer(t), startPods(t, "a")
			ns.answer(reply)
			c := dial(t, ns.target(t, pods[0]), nil)
			c.call(t)
			c.stopFallback(t)
			_, err := testkit.Unary(testkit.Context(t), c.cc)
			testkit.Contains(t, err, "no_healthy_upstream", want, "fallback skipped: transient failure")
		})
	}
}

// TestWaitForReadyOutlastsTheFailure has an RPC that waits while no cluster has a
// host, since DNS has forgotten one and the other is down.
func TestWaitForReadyOutlastsTheFailure(t *testing.T) {
	for _, reply := range []reply{nxdomain, servfail} {
		t.Run(reply.String(), func(t *testing.T) {
			t.Parallel()
			ns, pods := startNameServer(t), startPods(t, "a")
			ns.answer(reply)
			c := dial(t, ns.target(t, pods[0]), nil)
			c.call(t)
			c.stopFallback(t)
			answered := make(chan string, 1)
			ctx := testkit.Context(t)
			go func() {
				got, _ := testkit.Unary(ctx, c.cc, grpc.WaitForReady(true))
				answered <- got
			}()
			ns.announce(t, pods...)
			if got := <-answered; got != "a" {
				t.Errorf("answer from %q: want a", got)
			}
		})
	}
}
