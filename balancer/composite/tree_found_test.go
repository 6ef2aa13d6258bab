package composite

import (
	"testing"
	"testing/synctest"
	"time"
)

// The tests of this file are about what TestTrees has found.

// treeNestings are the ways to have a lazy cluster in a tree.
var treeNestings = map[string]func(c *treeCluster) *treeCluster{
	"flat": func(c *treeCluster) *treeCluster { return c },
	"inside": func(c *treeCluster) *treeCluster {
		return &treeCluster{name: "N", connectTimeout: "1s", clusters: []*treeCluster{c}}
	},
	"below": func(c *treeCluster) *treeCluster {
		return &treeCluster{name: "N", connectTimeout: "1s", clusters: []*treeCluster{c}, below: true}
	},
}

// eagerTreeLeaf is a leaf that connects by itself, and lazyTreeLeaf one that does when an
// attempt comes to it.
func eagerTreeLeaf(server string) *treeCluster {
	return &treeCluster{name: "leaf-" + server, leaf: treeRoundRobin, server: server, connectTimeout: "1s"}
}

func lazyTreeLeaf(server string) *treeCluster {
	return &treeCluster{name: "lazy-" + server, leaf: treePickFirst, server: server, connectTimeout: "1s", lazy: true}
}

// foundTree has f play with a tree of these clusters. Of its servers, s0 is in this state,
// and all others are down.
func foundTree(t *testing.T, s0 treeServer, clusters []*treeCluster, f func(p *treePlay)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		p := &treePlay{t: t, begin: time.Now(), story: new([]string)}
		servers := make(map[string]treeServer)
		for _, name := range treeServers {
			servers[name] = treeDown
		}
		servers["s0"] = s0
		p.start(&treeCluster{name: "the tree", clusters: clusters}, servers)
		defer p.close()
		f(p)
	})
}

// TestOutageLongerThanLazySleep has a lazy cluster be down for an hour, and then up again:
// RPCs alone bring it back, be it the first cluster, which Connect reaches, or not.
func TestOutageLongerThanLazySleep(t *testing.T) {
	for name, nesting := range treeNestings {
		for place, before := range map[string][]*treeCluster{"first": nil, "second": {eagerTreeLeaf("s1")}} {
			t.Run(name+"/"+place, func(t *testing.T) {
				foundTree(t, treeDown, append(before, nesting(lazyTreeLeaf("s0"))), func(p *treePlay) {
					rpc := treeRPC{number: 1, deadline: time.Minute}
					if server, err := p.call(rpc); err == nil {
						p.t.Errorf("answer from %q, which is down", server)
					}
					p.sleep(time.Hour)
					p.set("s0", treeUp)
					_, _ = p.call(rpc) // may come to a policy that still says why it failed
					p.sleep(10 * time.Second)
					if server, err := p.call(rpc); server != "s0" {
						p.t.Errorf("answer from %q, error %v: want one from s0", server, err)
					}
				})
			})
		}
	}
}

// TestLazyClusterAfterASleeperThatIsDown has an attempt be on its way to a lazy cluster
// that is up, past another that is down and was put to sleep: both are asked to connect.
func TestLazyClusterAfterASleeperThatIsDown(t *testing.T) {
	for name, nesting := range treeNestings {
		t.Run(name, func(t *testing.T) {
			n := treeNestings["below"](eagerTreeLeaf("s1"))
			n.clusters = append(n.clusters, nesting(lazyTreeLeaf("s2")), lazyTreeLeaf("s0"))
			foundTree(t, treeUp, []*treeCluster{n}, func(p *treePlay) {
				rpc := treeRPC{number: 1, deadline: time.Minute, wait: true}
				_, _ = p.call(rpc)
				p.sleep(70 * time.Minute)
				rpc.wait = false
				if server, err := p.call(rpc); server != "s0" {
					p.t.Errorf("answer from %q, error %v: want one from s0", server, err)
				}
			})
		})
	}
}
