package chaos

import (
	"net"
	"sync"
	"sync/atomic"
)

// gate is a server's listener. It stays while the gRPC servers behind it replace one
// another, and does to connections what no gRPC server does. Its methods are safe for
// concurrent use.
type gate struct {
	lis  net.Listener
	cuts atomic.Bool // writes are cut in the middle

	mu      sync.Mutex
	hole    bool // connections are accepted, and nobody serves them
	held    []net.Conn
	open    map[*gateConn]bool
	current *feed
}

func newGate(lis net.Listener) *gate {
	return &gate{lis: lis, open: make(map[*gateConn]bool)}
}

// accept has connections go to the listener that next has returned last.
func (g *gate) accept() {
	for {
		conn, err := g.lis.Accept()
		if err != nil {
			return
		}
		g.pass(conn)
	}
}

func (g *gate) pass(conn net.Conn) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.hole {
		g.held = append(g.held, conn)
		return
	}
	c := &gateConn{Conn: conn, gate: g}
	g.open[c] = true
	select {
	case g.current.conns <- c:
	default:
		go func() { _ = c.Close() }() // more than anybody wants
	}
}

// next returns a listener for a gRPC server, which gets the connections from now on.
func (g *gate) next() net.Listener {
	f := &feed{addr: g.lis.Addr(), conns: make(chan net.Conn, 128), closed: make(chan struct{})}
	g.mu.Lock()
	previous := g.current
	g.current = f
	g.mu.Unlock()
	for previous != nil { // what it has not taken
		select {
		case conn := <-previous.conns:
			f.conns <- conn
		default:
			previous = nil
		}
	}
	return f
}

// swallow resets all connections, and has the new ones wait for ever, or ends that.
func (g *gate) swallow(on bool) {
	g.mu.Lock()
	g.hole = on
	held := g.held
	g.held = nil
	g.mu.Unlock()
	for _, conn := range held {
		_ = conn.Close()
	}
	if on {
		g.drop()
	}
}

// drop resets all connections.
func (g *gate) drop() {
	g.mu.Lock()
	var open []*gateConn
	for c := range g.open {
		open = append(open, c)
	}
	g.mu.Unlock()
	for _, c := range open {
		c.reset()
	}
}

// feed is the part of a gate that one gRPC server listens on.
type feed struct {
	addr   net.Addr
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func (f *feed) Accept() (net.Conn, error) {
	select {
	case conn := <-f.conns:
		return conn, nil
	case <-f.closed:
		return nil, net.ErrClosed
	}
}

func (f *feed) Close() error {
	f.once.Do(func() { close(f.closed) })
	return nil
}

func (f *feed) Addr() net.Addr { return f.addr }

type gateConn struct {
	net.Conn
	gate *gate
}

// Write writes all of b, or half of it and then a reset. What is short has no
// message in it.
func (c *gateConn) Write(b []byte) (int, error) {
	const short = 512
	if len(b) > short && c.gate.cuts.Load() {
		n, _ := c.Conn.Write(b[:len(b)/2])
		c.reset()
		return n, net.ErrClosed
	}
	return c.Conn.Write(b)
}

func (c *gateConn) reset() {
	if tcp, ok := c.Conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = c.Close()
}

func (c *gateConn) Close() error {
	c.gate.mu.Lock()
	delete(c.gate.open, c)
	c.gate.mu.Unlock()
	return c.Conn.Close()
}
