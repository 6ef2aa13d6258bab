package tinydns

import (
	"bytes"
	"context"
	"errors"
	"net"
	"slices"
	"strings"
	"testing"

	"github.com/grpc-composite/grpc-composite/internal/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// TestLookup asks with Go's own client. Names end with a dot, so that it does not
// try them with the domains of the system's configuration.
func TestLookup(t *testing.T) {
	t.Parallel()
	s, err := Start()
	if err != nil {
		t.Fatal(err)
	}
	defer s.Stop()
	client := &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, s.Addr())
	}}
	ctx := testkit.Context(t)
	if err := errors.Join(s.SetA("A.example", "127.0.0.2"), s.SetTXT("b.example", "short")); err != nil {
		t.Fatal(err)
	}

	if got, err := client.LookupHost(ctx, "a.EXAMPLE."); err != nil || !slices.Equal(got, []string{"127.0.0.2"}) {
		t.Errorf("addresses %q, error %v: want 127.0.0.2", got, err)
	}
	if err := s.SetA("a.example", "127.0.0.3"); err != nil {
		t.Fatal(err)
	}
	if got, err := client.LookupHost(ctx, "a.example."); err != nil || !slices.Equal(got, []string{"127.0.0.3"}) {
		t.Errorf("addresses %q, error %v: want the new one", got, err)
	}
	for _, text := range []string{"", "short", strings.Repeat("x", 255), strings.Repeat("y", 256), strings.Repeat("z", maxText)} {
		if err := s.SetTXT("b.example", text); err != nil {
			t.Fatal(err)
		}
		if got, err := client.LookupTXT(ctx, "b.example."); err != nil || !slices.Equal(got, []string{text}) {
			t.Errorf("texts %q, error %v: want %q", got, err, text)
		}
	}
	var dnsErr *net.DNSError
	if _, err := client.LookupTXT(ctx, "a.example."); !errors.As(err, &dnsErr) || !dnsErr.IsNotFound || dnsErr.IsTemporary {
		t.Errorf("TXT of a name without: %v: want none found", err)
	}
	if _, err := client.LookupHost(ctx, "c.example."); !errors.As(err, &dnsErr) || !dnsErr.IsNotFound || dnsErr.IsTemporary {
		t.Errorf("an unknown name: %v: want none found", err)
	}
}

func TestBadRecords(t *testing.T) {
	t.Parallel()
	s, err := Start()
	if err != nil {
		t.Fatal(err)
	}
	defer s.Stop()
	testkit.Contains(t, s.SetA("a.example", "::1"), `a.example: "::1": must be an IPv4 address`)
	testkit.Contains(t, s.SetA("a.example", "localhost"), "must be an IPv4 address")
	testkit.Contains(t, s.SetTXT("a.example", strings.Repeat("x", maxText+1)), "must be 900 at the most")
}

// TestParseQuery cuts a query short at each byte, and spoils it.
func TestParseQuery(t *testing.T) {
	t.Parallel()
	question := append([]byte("\x01a\x07Example\x00"), 0, typeTXT, 0, classIN)
	message := append([]byte{1, 2, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0}, question...)
	q, err := parseQuery(append(message, "what comes after it"...))
	if err != nil || q.name != "a.example" || q.kind != typeTXT || !bytes.Equal(q.question, question) || !bytes.Equal(q.id, []byte{1, 2}) {
		t.Errorf("%+v, error %v: want the query", q, err)
	}
	for n := range message {
		if _, err := parseQuery(message[:n:n]); err == nil {
			t.Errorf("%d bytes of %d: no error", n, len(message))
		}
	}
	for name, spoil := range map[string]func(m []byte){
		"a reply":       func(m []byte) { m[2] |= 0x80 },
		"no question":   func(m []byte) { m[5] = 0 },
		"two questions": func(m []byte) { m[5] = 2 },
		"another class": func(m []byte) { m[len(m)-1] = 3 },
		"a long label":  func(m []byte) { m[headerSize] = 63 },
	} {
		m := bytes.Clone(message)
		spoil(m)
		if _, err := parseQuery(m); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
