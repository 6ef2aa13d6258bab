package testkit

import (
	"fmt"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc"
)

var loopbacks atomic.Uint32

// Loopback returns a loopback address that no other caller gets, if the system has
// such addresses, as Linux does. A server that is stopped can lose its port to
// another one, which then gets its calls: not so on an address of its own.
func Loopback() string {
	if !hasLoopbacks() {
		return "127.0.0.1"
	}
	return loopback(os.Getpid()<<12 + int(loopbacks.Add(1))) // 4096 for each program
}

func loopback(n int) string { return fmt.Sprintf("127.%d.%d.%d", 64+n>>16%128, n>>8%256, n%256) }

var hasLoopbacks = sync.OnceValue(func() bool {
	lis, err := net.Listen("tcp", net.JoinHostPort(loopback(0), "0"))
	if err == nil {
		_ = lis.Close()
	}
	return err == nil
})

// StartOn is Start for a server on a loopback address.
func StartOn(t testing.TB, name, host string, opts ...grpc.ServerOption) *Backend {
	t.Helper()
	return StartAt(t, name, net.JoinHostPort(host, "0"), opts...)
}

// StartAt is Start for a server on an address with its port.
func StartAt(t testing.TB, name, addr string, opts ...grpc.ServerOption) *Backend {
	t.Helper()
	b := &Backend{Name: name, opts: opts}
	b.listen(t, addr)
	t.Cleanup(b.Stop)
	return b
}
