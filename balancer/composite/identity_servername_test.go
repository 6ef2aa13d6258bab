package composite_test

import (
	"crypto/tls"
	"testing"

	"google.golang.org/grpc/credentials"

	"github.com/grpc-composite/grpc-composite/balancer/composite"
	"github.com/grpc-composite/grpc-composite/internal/testkit"
)

// TestServerNameOfATLSConfig has credentials that know a name for a server, as
// they do when it is reached by an address: that is what the server is called
// and verified by, with its own credentials and no other's.
func TestServerNameOfATLSConfig(t *testing.T) {
	ca := testkit.NewCA(t, "test CA")
	pinned := credentials.NewTLS(&tls.Config{RootCAs: ca.Pool(), ServerName: "pinned.example"})
	entry := composite.NewTransportCredentials(byCluster{"it": pinned}, trust(ca))
	for _, tc := range []struct {
		name      string
		creds     credentials.TransportCredentials
		cluster   func(it *testkit.Backend) testkit.Cluster // nil: with a target
		it, other string                                    // names
	}{
		{name: "an entry's", creds: entry, it: "pinned.example", other: "other.example"},
		{name: "the fallback's", creds: composite.NewTransportCredentials(byCluster{"other": trust(ca)}, pinned), it: "pinned.example", other: "other.example"},
		{name: "the channel's", creds: pinned, it: "pinned.example", other: "pinned.example"},
		{
			name: "a cluster without a target", creds: entry,
			cluster: func(*testkit.Backend) testkit.Cluster { return patientCluster("it", "") },
			it:      "pinned.example", other: "other.example",
		},
		{
			name: "a resolver's name for an address wins", creds: entry,
			cluster: func(it *testkit.Backend) testkit.Cluster {
				return patientCluster("it", addressWithName(t, it.Addr, "set.example"))
			},
			it: "set.example", other: "other.example",
		},
		{
			name: "a cluster inside another", creds: entry,
			cluster: func(it *testkit.Backend) testkit.Cluster {
				return nestedPatiently("it", testkit.Service{
					Clusters: []testkit.Cluster{patientCluster("inner", named(it, "inner.example"))},
					More:     map[string]any{"overflow": "ROUND_ROBIN"},
				})
			},
			it: "pinned.example", other: "other.example",
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			it, other := startTLS(t, "it", ca, tc.it), startTLS(t, "other", ca, tc.other)
			other.Script(testkit.U)
			cluster := patientCluster("it", named(it, "it.example"))
			if tc.cluster != nil {
				cluster = tc.cluster(it)
			}
			cc := dialTarget(t, named(it, "channel.example"), testkit.Service{
				Clusters: []testkit.Cluster{patientCluster("other", named(other, "other.example")), cluster},
				Attempts: 2,
			}, withCreds(tc.creds))
			call(t, cc)
			wantSeen(t, ":authority", []*testkit.Backend{it, other}, "["+tc.it+"]", "["+tc.other+"]")
		})
	}
}
