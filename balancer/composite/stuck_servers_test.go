package composite_test

import (
	"context"
	"fmt"
	"net"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/grpc-composite/grpc-composite/balancer/composite"
	"github.com/grpc-composite/grpc-composite/internal/testkit"
)

// flap listens on an address, says an HTTP/2 preface on each connection, and ends
// it: a proxy whose backend is gone.
func flap(t *testing.T, addr string) (stop func()) {
	t.Helper()
	var lis net.Listener
	testkit.Eventually(t, "the address is free", func() bool {
		var err error
		lis, err = net.Listen("tcp", addr)
		return err == nil
	})
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := lis.Accept()
			if err != nil {
				return
			}
			_, _ = conn.Write([]byte{0, 0, 0, 4, 0, 0, 0, 0, 0}) // SETTINGS
			_ = conn.Close()
		}
	}()
	return func() {
		_ = lis.Close()
		<-done
	}
}

func ringHash(more map[string]any) map[string]any {
	settings := map[string]any{"childPolicy": []any{map[string]any{"ring_hash_experimental": map[string]any{"requestHashHeader": "h"}}}}
	for k, v := range more {
		settings[k] = v
	}
	return settings
}

// TestClusterComesBackAfterFlapping has a server that is replaced by one whose
// connections end at once, and returns.
func TestClusterComesBackAfterFlapping(t *testing.T) {
	for _, tc := range []struct {
		name string
		more map[string]any
	}{
		{"pick_first", map[string]any{"connectTimeout": "0.02s", "childPolicy": []any{map[string]any{"pick_first": map[string]any{}}}}},
		{"lazy pick_first", map[string]any{"connectTimeout": "0.02s", "lazy": true, "childPolicy": []any{map[string]any{"pick_first": map[string]any{}}}}},
		{"ring_hash", ringHash(map[string]any{"connectTimeout": "0.02s"})},
		{"lazy ring_hash", ringHash(map[string]any{"connectTimeout": "0.02s", "lazy": true})},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			a, b := testkit.Start(t, "a"), testkit.Start(t, "b")
			s := testkit.Service{Clusters: testkit.Clusters(a, b)}
			s.Clusters[0].More = tc.more
			cc := dial(t, s, fastReconnect())
			testkit.AwaitServer(t, cc, "a")
			for range 3 {
				a.Stop()
				stop := flap(t, a.Addr)
				for range 20 {
					_, _ = testkit.Unary(testkit.Context(t), cc)
				}
				stop()
				a.Restart(t)
				testkit.AwaitServer(t, cc, "a")
			}
		})
	}
}

// TestLazyPolicyThatConnectsWhenPicked has nothing pick from the cluster when it
// is asked to connect.
func TestLazyPolicyThatConnectsWhenPicked(t *testing.T) {
	for _, connectTimeout := range []string{"0s", "0.1s"} {
		for name, first := range map[string]func(cc *grpc.ClientConn){
			"an RPC that waits": func(*grpc.ClientConn) {},
			"Connect":           func(cc *grpc.ClientConn) { cc.Connect() },
			"an RPC that gives up": func(cc *grpc.ClientConn) {
				ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
				defer cancel()
				_, _ = testkit.Unary(ctx, cc)
			},
		} {
			t.Run(fmt.Sprintf("%s, asked by %s", connectTimeout, name), func(t *testing.T) {
				t.Parallel()
				backends := startAll(t, "a", "b")
				r := testkit.NewResolver(t)
				s := testkit.Service{Clusters: testkit.Clusters(backends...)}
				s.Clusters[0].Target = r.Target()
				s.Clusters[0].More = ringHash(map[string]any{"lazy": true, "connectTimeout": connectTimeout})
				cc := dial(t, s)
				first(cc)
				_ = r.Update(backends[0])
				testkit.AwaitServer(t, cc, "a")
			})
		}
	}
}

// TestInterceptorThatMakesAnotherRPC has an interceptor call the channel again,
// with a start of its own.
func TestInterceptorThatMakesAnotherRPC(t *testing.T) {
	t.Parallel()
	type again struct{}
	inner := func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoker grpc.UnaryInvoker, opts ...grpc.CallOption) error {
		if ctx.Value(again{}) != nil {
			return invoker(ctx, method, req, reply, cc, opts...)
		}
		return cc.Invoke(composite.WithAttempt(context.WithValue(ctx, again{}, true), 2), method, req, reply, opts...)
	}
	cc := dial(t, testkit.Service{Clusters: testkit.Clusters(startAll(t, "a", "b")...)}, grpc.WithChainUnaryInterceptor(inner))
	if got := call(t, cc); got != "b" {
		t.Errorf("answer from %s: want b", got)
	}
}
