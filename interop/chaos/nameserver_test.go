package chaos

import (
	"net"
	"sync"
	"testing"
	"time"

	"github.com/miekg/dns"
)

// answer is how a nameServer answers for a name.
type answer struct {
	rcode  int
	empty  bool          // no addresses
	silent bool          // nothing
	after  time.Duration // how late
}

// nameServer is a DNS server. Its methods are safe for concurrent use.
type nameServer struct {
	addr string

	mu      sync.Mutex
	answers map[string]answer // by name; what is not there has its records
	records map[string][]string
	waiting sync.WaitGroup
}

func startNameServer(t *testing.T) *nameServer {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &nameServer{addr: conn.LocalAddr().String(), answers: make(map[string]answer), records: make(map[string][]string)}
	started := make(chan struct{})
	server := &dns.Server{PacketConn: conn, Handler: dns.HandlerFunc(s.serve), NotifyStartedFunc: func() { close(started) }}
	s.waiting.Go(func() { _ = server.ActivateAndServe() })
	<-started
	t.Cleanup(func() {
		_ = server.Shutdown()
		s.waiting.Wait()
	})
	return s
}

func (s *nameServer) serve(w dns.ResponseWriter, query *dns.Msg) {
	question := query.Question[0]
	s.mu.Lock()
	how, records := s.answers[question.Name], s.records[question.Name]
	s.mu.Unlock()
	if how.silent {
		return
	}
	m := new(dns.Msg)
	m.SetRcode(query, how.rcode)
	m.Authoritative = true
	if question.Qtype == dns.TypeA && how.rcode == dns.RcodeSuccess && !how.empty {
		for _, ip := range records {
			m.Answer = append(m.Answer, &dns.A{
				Hdr: dns.RR_Header{Name: question.Name, Rrtype: dns.TypeA, Class: dns.ClassINET},
				A:   net.ParseIP(ip),
			})
		}
	}
	<-time.After(how.after)
	_ = w.WriteMsg(m) // who asked may have gone
}

// answer sets how questions for a name are answered from now on.
func (s *nameServer) answer(name string, how answer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answers[name] = how
}

// announce sets the addresses of a name.
func (s *nameServer) announce(name string, ips []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.records[name] = ips
}
