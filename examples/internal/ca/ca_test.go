package ca

import (
	"crypto/x509"
	"errors"
	"testing"
)

func TestCertificate(t *testing.T) {
	t.Parallel()
	one, err := New("One")
	if err != nil {
		t.Fatal(err)
	}
	two, err := New("Two")
	if err != nil {
		t.Fatal(err)
	}
	for _, host := range []string{"a.example", "127.0.0.1", "::1"} {
		cert, err := one.Certificate(host)
		if err != nil {
			t.Fatal(err)
		}
		if got := cert.Leaf.Issuer.CommonName; got != "One" {
			t.Errorf("%s: signed by %q: want One", host, got)
		}
		if _, err := cert.Leaf.Verify(x509.VerifyOptions{DNSName: host, Roots: one.Pool()}); err != nil {
			t.Errorf("%s: %v", host, err)
		}
		if _, err := cert.Leaf.Verify(x509.VerifyOptions{DNSName: host, Roots: two.Pool()}); !errors.As(err, new(x509.UnknownAuthorityError)) {
			t.Errorf("%s, with the other CA: %v: want an unknown authority", host, err)
		}
		if _, err := cert.Leaf.Verify(x509.VerifyOptions{DNSName: "b.example", Roots: one.Pool()}); !errors.As(err, new(x509.HostnameError)) {
			t.Errorf("%s, for another name: %v: want it refused", host, err)
		}
	}
}
