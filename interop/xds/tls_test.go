package xds

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"os"
	"path/filepath"
	"testing"

	cluster "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	matcher "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	xdscreds "google.golang.org/grpc/credentials/xds"

	"github.com/grpc-composite/grpc-composite/balancer/composite"
	"github.com/grpc-composite/grpc-composite/internal/testkit"
)

// certProvider is a provider of a bootstrap config that has an authority's
// certificate.
func certProvider(t testing.TB, ca *testkit.CA) map[string]any {
	t.Helper()
	// A certificate of the authority's own is not to be had, but its pool has it.
	leaf := ca.Server(t, "unused.example")
	chains, err := leaf.Leaf.Verify(x509.VerifyOptions{Roots: ca.Pool()})
	if err != nil {
		t.Fatal(err)
	}
	root := chains[0][len(chains[0])-1]
	file := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: root.Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	return map[string]any{"plugin_name": "file_watcher", "config": map[string]any{"ca_certificate_file": file}}
}

// secured has a cluster's servers verified against a provider's authority, and by
// one of their names.
func secured(t testing.TB, c *cluster.Cluster, provider, name string) *cluster.Cluster {
	t.Helper()
	return validated(t, c, &tlsv3.CertificateValidationContext{
		CaCertificateProviderInstance: &tlsv3.CertificateProviderPluginInstance{InstanceName: provider},
		//nolint:staticcheck // deprecated, and the only one that gRPC reads
		MatchSubjectAltNames: []*matcher.StringMatcher{{MatchPattern: &matcher.StringMatcher_Exact{Exact: name}}},
	})
}

func validated(t testing.TB, c *cluster.Cluster, validation *tlsv3.CertificateValidationContext) *cluster.Cluster {
	t.Helper()
	c.TransportSocket = &core.TransportSocket{Name: "envoy.transport_sockets.tls", ConfigType: &core.TransportSocket_TypedConfig{
		TypedConfig: pack(t, &tlsv3.UpstreamTlsContext{CommonTlsContext: &tlsv3.CommonTlsContext{
			ValidationContextType: &tlsv3.CommonTlsContext_ValidationContext{ValidationContext: validation},
		}}),
	}}
	return c
}

// secureMesh has two clusters with an authority each, "ca-a" and "ca-b", and a
// plaintext one, c.
func secureMesh(t testing.TB) (m *mesh, providers map[string]any) {
	t.Helper()
	m = newMesh(t, "a", "b", "c")
	providers = make(map[string]any)
	for _, name := range []string{"a", "b"} {
		ca := testkit.NewCA(t, "ca-"+name)
		providers["ca-"+name] = certProvider(t, ca)
		m.backends[name] = testkit.Start(t, name, grpc.Creds(credentials.NewTLS(&tls.Config{
			MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{ca.Server(t, name+".example")},
		})))
		m.change(t, func(r *resources) {
			r.put(secured(t, newCluster(name), "ca-"+name, name+".example"), newEndpoints(t, name, []*testkit.Backend{m.backends[name]}))
		})
	}
	return m, providers
}

func xdsCredentials(t testing.TB) credentials.TransportCredentials {
	t.Helper()
	creds, err := xdscreds.NewClientCredentials(xdscreds.ClientOptions{FallbackCreds: insecure.NewCredentials()})
	if err != nil {
		t.Fatal(err)
	}
	return creds
}

// TestTLSOfEachCluster has the control plane give each cluster an authority and a
// name to verify, or none, and change them while connections are open.
func TestTLSOfEachCluster(t *testing.T) {
	xds := xdsCredentials(t)
	for _, tc := range []struct {
		name  string
		creds credentials.TransportCredentials
	}{
		{"the channel's credentials", xds},
		{"the fallback of NewTransportCredentials", composite.NewTransportCredentials(nil, xds)},
		{"entries of NewTransportCredentials", composite.NewTransportCredentials(map[string]credentials.TransportCredentials{"a": xds, "b": xds}, insecure.NewCredentials())},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			m, providers := secureMesh(t)
			cc := m.dialWith(t, patient("a", "b", "c"), providers, grpc.WithTransportCredentials(tc.creds))
			expect(t, cc, "a")
			m.backends["a"].Script(testkit.U)
			expect(t, cc, "a b")
			m.backends["b"].Script(testkit.U)
			expect(t, cc, "a b c")
			m.backends["a"].Script(testkit.OK)
			m.backends["b"].Script(testkit.OK)

			m.change(t, func(r *resources) { r.put(secured(t, newCluster("a"), "ca-b", "a.example")) })
			testkit.Eventually(t, "the wrong authority for a", func() bool {
				m.backends["a"].Stop() // what is connected stays so
				m.backends["a"].Restart(t)
				got, err := way(t, cc)
				return got == "-a b" && err == nil
			})
			m.change(t, func(r *resources) { r.put(secured(t, newCluster("a"), "ca-a", "a.example")) })
			await(t, cc, "a")
		})
	}
}

// TestWrongName has the control plane name another server than the one that there
// is.
func TestWrongName(t *testing.T) {
	t.Parallel()
	m, providers := secureMesh(t)
	m.change(t, func(r *resources) {
		r.put(secured(t, newCluster("a"), "ca-a", "other.example"), secured(t, newCluster("b"), "ca-a", "b.example"))
	})
	cc := m.dialWith(t, patient("a", "b"), providers, grpc.WithTransportCredentials(xdsCredentials(t)))
	got, err := way(t, cc)
	if err == nil {
		t.Fatalf("the call went %q: want an error", got)
	}
	testkit.Contains(t, err, "a skipped: transient failure", "received SANs", "b skipped: transient failure", "unknown authority")
}

// TestTypedNamesAreIgnored shows a trap of gRPC's: of the fields that name servers it
// reads the one that Envoy deprecates, and verifies no name at all by the other.
func TestTypedNamesAreIgnored(t *testing.T) {
	t.Parallel()
	m, providers := secureMesh(t)
	m.change(t, func(r *resources) {
		r.put(validated(t, newCluster("a"), &tlsv3.CertificateValidationContext{
			CaCertificateProviderInstance: &tlsv3.CertificateProviderPluginInstance{InstanceName: "ca-a"},
			MatchTypedSubjectAltNames: []*tlsv3.SubjectAltNameMatcher{{
				SanType: tlsv3.SubjectAltNameMatcher_DNS,
				Matcher: &matcher.StringMatcher{MatchPattern: &matcher.StringMatcher_Exact{Exact: "other.example"}},
			}},
		}))
	})
	cc := m.dialWith(t, patient("a", "b"), providers, grpc.WithTransportCredentials(xdsCredentials(t)))
	expect(t, cc, "a")
}

// TestUnknownProvider has the control plane name an authority that the client's
// bootstrap config lacks. gRPC rejects the resource.
func TestUnknownProvider(t *testing.T) {
	t.Parallel()
	m, providers := secureMesh(t)
	m.change(t, func(r *resources) { r.put(secured(t, newCluster("a"), "nobody", "a.example"), newRoutes("b", nil)) })
	cc := m.dialWith(t, patient("a", "b"), providers, grpc.WithTransportCredentials(xdsCredentials(t)))
	expect(t, cc, "-a b")
	m.awaitRejection(t, "nobody")
}
