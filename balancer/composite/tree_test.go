package composite

import (
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/balancer"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

var (
	treesSeed   = flag.Uint64("trees.seed", 1, "seed of the first tree of TestTrees, from which the next ones count on; 0: a random one")
	treesNumber = flag.Int("trees.number", 0, "number of trees of TestTrees; 0: 2,000, or 800 with the race detector, or 400 if the test is to be short")
)

// treesSize is how many trees to make, and the seed of the first.
func treesSize() (seed uint64, number int) {
	seed, number = *treesSeed, 2_000
	if seed == 0 {
		seed = rand.Uint64()
	}
	switch {
	case *treesNumber > 0:
		number = *treesNumber
	case testing.Short():
		number = 400
	case RaceEnabled:
		number = 800
	}
	return seed, number
}

// TestTrees has random things happen to random trees of clusters, whose policies are
// composite ones, or have those below them, on a fake clock. It checks that each RPC
// ends, and is answered by the first cluster that can; that nothing is done in an hour
// without RPCs; and that all is closed at the end.
func TestTrees(t *testing.T) {
	seed, number := treesSize()
	t.Logf("to repeat it: -run TestTrees -trees.seed %d -trees.number %d", seed, number)
	var next atomic.Int64
	for worker := range runtime.GOMAXPROCS(0) {
		t.Run(fmt.Sprint("worker ", worker+1), func(w *testing.T) {
			w.Parallel()
			for i := next.Add(1); i <= int64(number) && !t.Failed(); i = next.Add(1) {
				playTree(w, seed+uint64(i)-1) //nolint:gosec // it counts from 1
				forgetLog()
			}
		})
	}
}

// treePatience is how long a tree may take by the clock on the wall: many times what it
// does. One that takes longer waits for a lock, which no fake clock notices.
const treePatience = 2 * time.Minute

// playTree makes the tree of a seed, and has things happen to it.
func playTree(t *testing.T, seed uint64) {
	t.Helper()
	hangs := time.AfterFunc(treePatience, func() {
		debug.SetTraceback("all")
		panic(fmt.Sprintf("-trees.seed %d -trees.number 1 does not end", seed))
	})
	defer hangs.Stop()
	var story []string
	ended := false
	defer func() {
		if !ended { // also if the fake clock finds that all wait for each other
			t.Logf("to repeat it: -run TestTrees -trees.seed %d -trees.number 1\n%s", seed, strings.Join(story, "\n"))
		}
	}()
	synctest.Test(t, func(t *testing.T) {
		p := newTreePlay(t, seed, &story)
		defer p.close()
		for range 3 + p.r.IntN(6) {
			for range 1 + p.r.IntN(6) {
				p.event()
			}
			if p.r.IntN(2) == 0 {
				p.probe()
			}
		}
		p.probe()
		p.checkRest()
	})
	ended = true
}

// treePlay is a tree, what surrounds it, and what has happened to it. The test alone uses
// it.
type treePlay struct {
	t          *testing.T
	r          *rand.Rand
	generator  treeGenerator
	tree       *treeCluster
	world      *treeWorld
	channel    *treeChannel
	policy     *compositeBalancer
	background sync.WaitGroup // RPCs
	begin      time.Time
	story      *[]string // what has happened, by line
}

// newTreePlay makes a tree, and delivers its config.
func newTreePlay(t *testing.T, seed uint64, story *[]string) *treePlay {
	t.Helper()
	r := rand.New(rand.NewPCG(seed, 1))
	p := &treePlay{t: t, r: r, generator: newTreeGenerator(r), begin: time.Now(), story: story}
	servers := make(map[string]treeServer)
	for _, name := range treeServers {
		servers[name] = p.generator.server()
	}
	p.note("servers %v, a tree of the kind %+v", servers, p.generator.kind)
	p.start(p.generator.tree(), servers)
	return p
}

// start builds the policy, and delivers its first config.
func (p *treePlay) start(tree *treeCluster, servers map[string]treeServer) {
	p.tree, p.world = tree, &treeWorld{servers: servers}
	p.channel = newTreeChannel(p.world)
	p.policy = builder{}.Build(p.channel, balancer.BuildOptions{}).(*compositeBalancer)
	p.deliver()
}

// deliver delivers the tree's config.
func (p *treePlay) deliver() {
	p.t.Helper()
	text, err := json.Marshal(p.tree.service().Policy())
	if err != nil {
		p.t.Fatal(err)
	}
	cfg, err := builder{}.ParseConfig(text)
	if err != nil {
		p.t.Fatalf("%v in %s", err, text)
	}
	p.note("config %v", p.tree)
	if err := p.policy.UpdateClientConnState(balancer.ClientConnState{BalancerConfig: cfg}); err != nil {
		p.t.Fatalf("config: %v", err)
	}
}

// note adds a line to the story that a failure tells.
func (p *treePlay) note(format string, args ...any) {
	*p.story = append(*p.story, fmt.Sprintf("%12v ", time.Since(p.begin))+fmt.Sprintf(format, args...))
}

// treeTimes are how long time goes on.
var treeTimes = []time.Duration{time.Millisecond, 50 * time.Millisecond, 500 * time.Millisecond, 5 * time.Second, 45 * time.Minute}

// event has something happen.
func (p *treePlay) event() {
	p.t.Helper()
	switch p.r.IntN(7) {
	case 0, 1:
		p.set(oneOf(p.r, treeServers), p.generator.server())
	case 2:
		p.sleep(oneOf(p.r, treeTimes))
	case 3:
		p.callInBackground()
	case 4:
		p.note("Connect")
		p.policy.ExitIdle()
	case 5:
		p.tree = p.generator.change(p.tree, false)
		p.deliver()
	case 6:
		p.note("all come to rest")
		synctest.Wait()
	}
}

// set has a server's state change.
func (p *treePlay) set(name string, state treeServer) {
	p.note("server %s: %s", name, state)
	p.world.set(name, state)
}

// sleep has time go on.
func (p *treePlay) sleep(d time.Duration) {
	p.note("%v go by", d)
	time.Sleep(d)
}

// callInBackground makes an RPC whose attempt takes a while, and may fail.
func (p *treePlay) callInBackground() {
	rpc := treeRPC{
		number: 1 + p.r.IntN(2), wait: p.r.IntN(2) == 0, deadline: 20 * time.Second,
		takes: time.Duration(p.r.IntN(4000)) * time.Millisecond,
	}
	if p.r.IntN(3) == 0 {
		rpc.result = status.Error(codes.Unavailable, "scripted")
	}
	p.note("in the background, %v", rpc)
	p.background.Go(func() { _, _ = p.channel.call(p.t, rpc) })
}

// call makes an RPC, and tells which server answers.
func (p *treePlay) call(rpc treeRPC) (server string, err error) {
	p.t.Helper()
	server, err = p.channel.call(p.t, rpc)
	p.note("%v: answer from %q, error %v", rpc, server, err)
	return server, err
}

// close ends the policy when all RPCs have ended, and checks that the leaves end with it.
func (p *treePlay) close() {
	p.t.Helper()
	p.background.Wait()
	p.policy.Close()
	if n := len(p.world.leaves); n > 0 {
		p.t.Errorf("%d policies are not closed", n)
	}
}
