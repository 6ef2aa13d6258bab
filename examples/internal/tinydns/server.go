// Package tinydns is a DNS server for examples: UDP on loopback, A and TXT
// records, and nothing else.
package tinydns

import (
	"fmt"
	"net"
	"net/netip"
	"strings"
	"sync"
)

// Server answers for the names that it is given, and knows no others. Its methods
// are safe for concurrent use.
type Server struct {
	conn net.PacketConn
	done chan struct{} // closed when the server has come to its end

	mu   sync.Mutex // guards the records
	addr map[string]netip.Addr
	text map[string]string
}

// Start starts a server without records.
func Start() (*Server, error) {
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("tinydns: %w", err)
	}
	s := &Server{conn: conn, done: make(chan struct{}), addr: make(map[string]netip.Addr), text: make(map[string]string)}
	go s.serve()
	return s, nil
}

// Addr is the server's host:port.
func (s *Server) Addr() string { return s.conn.LocalAddr().String() }

// Stop stops the server.
func (s *Server) Stop() {
	_ = s.conn.Close()
	<-s.done
}

// SetA sets the A record of a name: its IPv4 address.
func (s *Server) SetA(name, ip string) error {
	addr, err := netip.ParseAddr(ip)
	if err != nil || !addr.Is4() {
		return fmt.Errorf("tinydns: %s: %q: must be an IPv4 address", name, ip)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.addr[strings.ToLower(name)] = addr
	return nil
}

// SetTXT sets the TXT record of a name.
func (s *Server) SetTXT(name, text string) error {
	if len(text) > maxText {
		return fmt.Errorf("tinydns: %s: a text of %d bytes: must be %d at the most", name, len(text), maxText)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.text[strings.ToLower(name)] = text
	return nil
}

func (s *Server) serve() {
	defer close(s.done)
	buf := make([]byte, maxMessage)
	for {
		n, from, err := s.conn.ReadFrom(buf)
		if err != nil {
			return // the server has stopped
		}
		q, err := parseQuery(buf[:n])
		if err != nil {
			continue // whoever sent it asks again, or gives up
		}
		_, _ = s.conn.WriteTo(q.reply(s.answer(q)), from)
	}
}

// answer looks up what a query asks for. Known tells whether there is such a
// name; a name may be known and have no record of the kind.
func (s *Server) answer(q query) (data []byte, known bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	addr, hasAddr := s.addr[q.name]
	text, hasText := s.text[q.name]
	switch {
	case q.kind == typeA && hasAddr:
		data = addr.AsSlice()
	case q.kind == typeTXT && hasText:
		data = textData(text)
	}
	return data, hasAddr || hasText
}
