package dns

import (
	"net"
	"sync"
	"testing"

	"github.com/miekg/dns"

	"github.com/grpc-composite/grpc-composite/internal/testkit"
)

// reply is how a name server answers for a name.
type reply int

const (
	hosts    reply = iota // with the name's records
	nxdomain              // there is no such name
	nodata                // there is, but without addresses
	servfail              // the server's own servers are down
	refused               // the server does not want to
	silence               // nothing
)

var replies = map[reply]string{hosts: "hosts", nxdomain: "NXDOMAIN", nodata: "an empty answer", servfail: "SERVFAIL", refused: "REFUSED", silence: "silence"}

func (r reply) String() string { return replies[r] }

// nameServer is a DNS server with one name, in the manner of a headless service:
// each server behind it has an A record, and all use the same port. Its methods are
// safe for concurrent use.
type nameServer struct {
	addr   string
	server *dns.Server

	mu      sync.Mutex
	reply   reply
	records []string
	asked   int
}

// name is the name that a nameServer knows. It is rooted, so that the search list
// of the machine does not matter.
const name = "primary.default.svc.cluster.test."

func startNameServer(t *testing.T) *nameServer {
	t.Helper()
	s := &nameServer{}
	s.listen(t, "127.0.0.1:0")
	t.Cleanup(s.stop)
	return s
}

func (s *nameServer) listen(t *testing.T, addr string) {
	t.Helper()
	conn, err := net.ListenPacket("udp", addr)
	if err != nil {
		t.Fatal(err)
	}
	s.addr = conn.LocalAddr().String()
	s.server = &dns.Server{PacketConn: conn, Handler: dns.HandlerFunc(s.serve)}
	started := make(chan struct{})
	s.server.NotifyStartedFunc = func() { close(started) }
	go func() { _ = s.server.ActivateAndServe() }()
	<-started
}

// stop leaves nothing that listens on the server's port.
func (s *nameServer) stop() { _ = s.server.Shutdown() }

// restart starts the server again, on the port that it had.
func (s *nameServer) restart(t *testing.T) {
	t.Helper()
	s.listen(t, s.addr)
}

func (s *nameServer) serve(w dns.ResponseWriter, query *dns.Msg) {
	s.mu.Lock()
	s.asked++
	reply, records := s.reply, s.records
	s.mu.Unlock()

	m := new(dns.Msg)
	m.SetReply(query)
	m.Authoritative = true
	question := query.Question[0]
	switch {
	case reply == silence:
		return
	case reply == servfail:
		m.Rcode = dns.RcodeServerFailure
	case reply == refused:
		m.Rcode = dns.RcodeRefused
	case reply == nxdomain || question.Name != name:
		m.Rcode = dns.RcodeNameError
	case reply == hosts && question.Qtype == dns.TypeA:
		for _, ip := range records {
			m.Answer = append(m.Answer, &dns.A{
				Hdr: dns.RR_Header{Name: name, Rrtype: dns.TypeA, Class: dns.ClassINET},
				A:   net.ParseIP(ip),
			})
		}
	}
	_ = w.WriteMsg(m) // who asked may have gone
}

// answer sets how questions are answered from now on.
func (s *nameServer) answer(r reply) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reply = r
}

// announce has the records of these servers in all answers from now on.
func (s *nameServer) announce(t *testing.T, pods ...*testkit.Backend) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reply, s.records = hosts, nil
	for _, p := range pods {
		host, _, err := net.SplitHostPort(p.Addr)
		if err != nil {
			t.Fatal(err)
		}
		s.records = append(s.records, host)
	}
}

// questions is how often the server was asked.
func (s *nameServer) questions() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked
}

// target is a gRPC target for the name, with the port of the servers behind it.
func (s *nameServer) target(t *testing.T, pod *testkit.Backend) string {
	t.Helper()
	_, port, err := net.SplitHostPort(pod.Addr)
	if err != nil {
		t.Fatal(err)
	}
	return "dns://" + s.addr + "/" + name + ":" + port
}

// startPods starts servers that use one port on addresses of their own.
func startPods(t *testing.T, names ...string) []*testkit.Backend {
	t.Helper()
	pods := []*testkit.Backend{testkit.StartOn(t, names[0], testkit.Loopback())}
	_, port, err := net.SplitHostPort(pods[0].Addr)
	if err != nil {
		t.Fatal(err)
	}
	for _, podName := range names[1:] {
		host := testkit.Loopback()
		if host == "127.0.0.1" {
			t.Skip("needs loopback addresses besides 127.0.0.1, as Linux has: run it there")
		}
		pods = append(pods, testkit.StartAt(t, podName, net.JoinHostPort(host, port)))
	}
	return pods
}
