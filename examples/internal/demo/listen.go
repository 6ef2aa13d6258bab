package demo

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"sync/atomic"
)

// The ports to choose from. Port 0 would be simpler, but a port that the system
// has chosen may be given to another program while the server is down. These are
// below the range from which systems choose.
const (
	firstPort = 10000
	ports     = 22000
)

// nextPort is the port to try next, counted from firstPort. Each is tried once,
// so that no server gets another one's while that is down.
var nextPort atomic.Uint32

func init() { nextPort.Store(rand.Uint32N(ports)) } //nolint:gosec // a port is no secret

// listen opens a port: that of addr, or one of its own choice if addr is empty.
func listen(addr string) (net.Listener, error) {
	if addr != "" {
		return net.Listen("tcp", addr)
	}
	var errs []error
	for range 20 {
		port := firstPort + nextPort.Add(1)%ports
		lis, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err == nil {
			return lis, nil
		}
		errs = append(errs, err)
	}
	return nil, errors.Join(errs...)
}
