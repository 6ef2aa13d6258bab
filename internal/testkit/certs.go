package testkit

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"sync/atomic"
	"testing"
	"time"
)

// CA is a certificate authority of a test's own, which has no files. Its methods
// are safe for concurrent use.
type CA struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// NewCA makes an authority. Its name is in the errors of those who do not trust
// it.
func NewCA(t testing.TB, name string) *CA {
	t.Helper()
	template := newTemplate(name)
	template.IsCA, template.BasicConstraintsValid = true, true
	template.KeyUsage = x509.KeyUsageCertSign
	key := newKey(t)
	return &CA{cert: sign(t, template, template, key, key), key: key}
}

// Pool returns a pool that has this authority alone.
func (ca *CA) Pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(ca.cert)
	return pool
}

// PEM returns the authority's certificate as a file has it.
func (ca *CA) PEM() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: ca.cert.Raw})
}

// Server issues a certificate for a server that is called by any of names, each
// a host name or an IP address.
func (ca *CA) Server(t testing.TB, names ...string) tls.Certificate {
	t.Helper()
	template := newTemplate(names[0])
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	for _, name := range names {
		if ip := net.ParseIP(name); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, name)
		}
	}
	return ca.issue(t, template)
}

// Client issues a certificate for a client, whose name is the subject's common
// name.
func (ca *CA) Client(t testing.TB, name string) tls.Certificate {
	t.Helper()
	template := newTemplate(name)
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	return ca.issue(t, template)
}

func (ca *CA) issue(t testing.TB, template *x509.Certificate) tls.Certificate {
	t.Helper()
	key := newKey(t)
	cert := sign(t, template, ca.cert, key, ca.key)
	return tls.Certificate{Certificate: [][]byte{cert.Raw}, PrivateKey: key, Leaf: cert}
}

// Rotating holds a certificate that a test replaces while it is in use. Its
// methods are safe for concurrent use.
type Rotating struct {
	current atomic.Pointer[tls.Certificate]
}

// NewRotating holds a first certificate.
func NewRotating(cert tls.Certificate) *Rotating {
	r := &Rotating{}
	r.Set(cert)
	return r
}

// Set replaces the certificate, for the handshakes that begin from now on.
func (r *Rotating) Set(cert tls.Certificate) { r.current.Store(&cert) }

// ForServer is a value of tls.Config.GetCertificate.
func (r *Rotating) ForServer(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	return r.current.Load(), nil
}

// ForClient is a value of tls.Config.GetClientCertificate.
func (r *Rotating) ForClient(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
	return r.current.Load(), nil
}

var serialNumbers atomic.Int64

func newTemplate(name string) *x509.Certificate {
	now := time.Now()
	return &x509.Certificate{
		SerialNumber: big.NewInt(serialNumbers.Add(1)),
		Subject:      pkix.Name{CommonName: name},
		NotBefore:    now.Add(-time.Hour),
		NotAfter:     now.Add(time.Hour),
		KeyUsage:     x509.KeyUsageDigitalSignature,
	}
}

func newKey(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// sign makes a certificate for the holder of key.
func sign(t testing.TB, template, issuer *x509.Certificate, key, issuerKey *ecdsa.PrivateKey) *x509.Certificate {
	t.Helper()
	der, err := x509.CreateCertificate(rand.Reader, template, issuer, &key.PublicKey, issuerKey)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return cert
}
