package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/resolver"

	"github.com/grpc-composite/grpc-composite/balancer/composite"
	"github.com/grpc-composite/grpc-composite/internal/testkit"
)

// weighEnv makes the program open channels, and say what they weigh: in a process of
// its own, in which there is nothing else.
const weighEnv = "BENCH_WEIGH"

// Kinds of what is weighed.
const (
	flat  = "round_robin" // one channel with all endpoints
	split = "channels"    // a channel for each cluster
)

// scale is what to weigh.
type scale struct {
	Kind      string
	Channels  int
	Clusters  int    // of each channel
	Endpoints int    // of each cluster; 0: it has an address, and is lazy
	Server    string // where connections lead to; "": they do not come about
	Connect   bool   // has lazy channels make a connection
}

// weight is what came out, of all channels together.
type weight struct {
	Bytes, Goroutines int
}

// weighApart weighs in another process.
func weighApart(ctx context.Context, t *host, s scale) weight {
	cmd := exec.CommandContext(ctx, os.Args[0]) //nolint:gosec // the program itself
	cmd.Env = append(os.Environ(), weighEnv+"="+mustJSON(s))
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	var w weight
	if err == nil {
		err = json.Unmarshal(out, &w)
	}
	if err != nil {
		t.Fatalf("%+v: %v: %s", s, err, out)
	}
	return w
}

// weigh is the process.
func weigh(text string) error {
	var s scale
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		return err
	}
	return within(func(t *host) {
		one := s
		one.Channels, one.Clusters, one.Endpoints = 1, min(s.Clusters, 1), min(s.Endpoints, 1)
		if err := within(func(t *host) { one.open(t) }); err != nil { // what is made once is not theirs
			t.Fatal(err)
		}
		before := footprint()
		s.open(t)
		after := footprint()
		fmt.Println(mustJSON(weight{after.Bytes - before.Bytes, after.Goroutines - before.Goroutines}))
	})
}

// footprint waits until goroutines no longer come and go.
func footprint() weight {
	const steady = 300 * time.Millisecond
	for n, since := runtime.NumGoroutine(), time.Now(); time.Since(since) < steady; time.Sleep(10 * time.Millisecond) {
		if now := runtime.NumGoroutine(); now != n {
			n, since = now, time.Now()
		}
	}
	runtime.GC()
	runtime.GC() // pools live for two
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return weight{int(m.HeapAlloc + m.StackInuse), runtime.NumGoroutine()} //nolint:gosec // far below 2^63
}

// dialer counts connections, which lead to a server, or do not come about until the
// channel gives up.
type dialer struct {
	server string
	dialed atomic.Int64
}

func (d *dialer) dial(ctx context.Context, _ string) (net.Conn, error) {
	if d.server == "" {
		d.dialed.Add(1)
		<-ctx.Done()
		return nil, ctx.Err()
	}
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", d.server)
	if err == nil {
		d.dialed.Add(1)
	}
	return conn, err
}

// open opens the channels, and waits for their connections, or the lack of them.
func (s scale) open(t *host) {
	d := &dialer{server: s.Server}
	want := 0
	for range s.Channels {
		for _, cc := range s.channels(t, d) {
			if s.Endpoints > 0 || s.Connect {
				cc.Connect()
			}
		}
		want += s.Clusters * s.Endpoints
		if s.Connect {
			want++
		}
	}
	testkit.Eventually(t, "all connections are made", func() bool { return d.dialed.Load() == int64(want) })
}

// channels opens those that make one of the things to compare.
func (s scale) channels(t *host, d *dialer) (ccs []*grpc.ClientConn) {
	switch s.Kind {
	case ours:
		return []*grpc.ClientConn{s.composite(t, d)}
	case flat:
		var all resolver.State
		for i := range s.Clusters {
			all.Endpoints = append(all.Endpoints, testkit.ManyEndpoints(i, s.Endpoints).Endpoints...)
		}
		return []*grpc.ClientConn{dialState(t, d, all)}
	case split:
		for i := range s.Clusters {
			ccs = append(ccs, dialState(t, d, testkit.ManyEndpoints(i, s.Endpoints)))
		}
		return ccs
	case bare:
		return []*grpc.ClientConn{testkit.Dial(t, target("nowhere"), grpc.WithContextDialer(d.dial))}
	default:
		t.Fatalf("kind %q", s.Kind)
		return nil
	}
}

const roundRobin = `{"loadBalancingConfig": [{"round_robin": {}}]}`

func dialState(t *host, d *dialer, state resolver.State) *grpc.ClientConn {
	r := testkit.NewResolver(t)
	if err := r.UpdateState(state); err != nil {
		t.Fatal(err)
	}
	return testkit.Dial(t, r.Target(), grpc.WithDefaultServiceConfig(roundRobin), grpc.WithContextDialer(d.dial))
}

// composite opens a channel whose clusters are lazy if they have no endpoints here.
func (s scale) composite(t *host, d *dialer) *grpc.ClientConn {
	var list []any
	if s.Endpoints == 0 {
		for i := range s.Clusters {
			list = append(list, map[string]any{"name": fmt.Sprint(i), "target": target("nowhere"), "lazy": true})
		}
	} else {
		var resolvers []*testkit.Resolver
		resolvers, list = resolverClusters(t, s.Clusters)
		for i, r := range resolvers {
			if err := r.UpdateState(testkit.ManyEndpoints(i, s.Endpoints)); err != nil {
				t.Fatal(err)
			}
		}
	}
	config := mustJSON(map[string]any{"loadBalancingConfig": []any{map[string]any{composite.Name: map[string]any{"clusters": list}}}})
	return testkit.Dial(t, "composite:///", append(composite.DialOptions(),
		grpc.WithDefaultServiceConfig(config), grpc.WithContextDialer(d.dial))...)
}
