package dns

import (
	"context"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/keepalive"

	"github.com/grpc-composite/grpc-composite/balancer/composite"
	"github.com/grpc-composite/grpc-composite/internal/testkit"
)

// TestRollingRestart replaces the servers of primary one by one, each at a new
// address, while RPCs go on: none of them fails.
func TestRollingRestart(t *testing.T) {
	for policy, more := range policies {
		t.Run(policy, func(t *testing.T) {
			t.Parallel()
			ns, pods := startNameServer(t), startPods(t, "a", "b", "c", "d")
			ns.announce(t, pods[:2]...)
			c := dial(t, ns.target(t, pods[0]), more)
			c.await(t, expected(policy, "a", "b")...)
			ns.announce(t, pods[1], pods[2])
			pods[0].GracefulStop()
			c.await(t, expected(policy, "b", "c")...)
			ns.announce(t, pods[2], pods[3])
			pods[1].GracefulStop()
			c.await(t, expected(policy, "c", "d")...)
		})
	}
}

// expected are those of the servers that a policy uses.
func expected(policy string, names ...string) []string {
	if policy == "pick_first" {
		return names[:1]
	}
	return names
}

// TestRecordsVanishUnnoticed takes away the records of servers that live on. gRPC
// asks DNS only after a connection was lost, so they stay in use, and a server that
// limits the age of its connections is how it gets to know.
func TestRecordsVanishUnnoticed(t *testing.T) {
	t.Run("connections live on", func(t *testing.T) {
		t.Parallel()
		ns, pods := startNameServer(t), startPods(t, "a")
		ns.announce(t, pods...)
		c := dial(t, ns.target(t, pods[0]), nil)
		c.await(t, "a")
		asked := ns.questions()
		ns.announce(t)
		for range 100 {
			if got := c.call(t); got != "a" {
				t.Fatalf("answer from %s: want a", got)
			}
		}
		if got := ns.questions(); got != asked {
			t.Errorf("DNS was asked %d times more: want none", got-asked)
		}
	})
	t.Run("connections of limited age", func(t *testing.T) {
		t.Parallel()
		ns := startNameServer(t)
		aging := testkit.StartOn(t, "a", testkit.Loopback(), grpc.KeepaliveParams(keepalive.ServerParameters{MaxConnectionAge: 50 * time.Millisecond}))
		ns.announce(t, aging)
		c := dial(t, ns.target(t, aging), nil)
		c.await(t, "a")
		ns.announce(t)
		c.await(t, "fallback")
		ns.announce(t, aging)
		c.await(t, "a")
	})
}

// TestStreamOutlivesItsRecord has a stream on a server that leaves DNS: the stream
// goes on to its end, and new RPCs go to the next cluster.
func TestStreamOutlivesItsRecord(t *testing.T) {
	t.Parallel()
	ns, pods := startNameServer(t), startPods(t, "a", "b")
	ns.announce(t, pods...)
	c := dial(t, ns.target(t, pods[0]), nil)
	c.await(t, "a", "b")
	streams := make(map[string]*talk)
	testkit.Eventually(t, "a stream on each server", func() bool {
		s := openTalk(t, c.cc)
		streams[s.say(t)] = s
		return len(streams) == 2
	})
	ns.answer(nxdomain)
	pods[0].Stop()
	c.await(t, "fallback")
	for range 10 {
		if got := streams["b"].say(t); got != "b" {
			t.Fatalf("the stream is answered by %q: want b", got)
		}
	}
	streams["b"].end(t)
}

// TestChannelsOwnName has the channel's own target as first cluster.
func TestChannelsOwnName(t *testing.T) {
	for _, reply := range []reply{nxdomain, nodata} {
		t.Run(reply.String(), func(t *testing.T) {
			t.Parallel()
			ns, pods := startNameServer(t), startPods(t, "a", "b")
			ns.announce(t, pods...)
			fallback := testkit.Start(t, "fallback")
			service := testkit.Service{Clusters: append([]testkit.Cluster{{Name: "primary"}}, testkit.Clusters(fallback)...), Attempts: 2}
			c := client{testkit.Dial(t, ns.target(t, pods[0]), append(composite.DialOptions(), grpc.WithDefaultServiceConfig(service.JSON()))...), fallback}
			c.await(t, "a", "b")
			ns.answer(reply)
			pods[0].Stop()
			c.awaitSkip(t, "no_endpoints")
			ns.announce(t, pods[1])
			c.await(t, "b")
		})
	}
}

// TestNoRPCFails makes calls all the time while servers and records come and go.
func TestNoRPCFails(t *testing.T) {
	t.Parallel()
	ns, pods := startNameServer(t), startPods(t, "a", "b")
	ns.announce(t, pods...)
	c := dial(t, ns.target(t, pods[0]), nil)
	c.await(t, "a", "b")

	ctx, cancel := context.WithCancel(testkit.Context(t))
	failed := make(chan error, 1)
	go func() {
		defer close(failed)
		for ctx.Err() == nil {
			if _, err := testkit.Unary(testkit.Context(t), c.cc); err != nil {
				failed <- err
				return
			}
		}
	}()
	for i, reply := range []reply{nxdomain, servfail, nodata, silence} {
		stopped := pods[i%2]
		ns.answer(reply)
		asked := ns.questions()
		stopped.GracefulStop()
		testkit.Eventually(t, "DNS is asked", func() bool { return ns.questions() > asked })
		stopped.Restart(t)
		ns.announce(t, pods...)
		c.await(t, "a", "b")
	}
	cancel()
	if err := <-failed; err != nil {
		t.Errorf("an RPC failed: %v", err)
	}
}

// TestTargetString has the DNS name in a target of the scheme "composite:".
func TestTargetString(t *testing.T) {
	t.Parallel()
	ns, pods := startNameServer(t), startPods(t, "a")
	ns.answer(nxdomain)
	fallback := testkit.Start(t, "fallback")
	target := "composite:///primary=" + ns.target(t, pods[0]) + ",fallback=" + fallback.Target() + "?connectTimeout=20s"
	c := client{testkit.Dial(t, target, composite.DialOptions()...), fallback}
	c.await(t, "fallback")
	ns.announce(t, pods...)
	c.await(t, "a")
}
