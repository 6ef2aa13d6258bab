package composite_test

import (
	"context"
	"crypto/tls"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"

	"github.com/grpc-composite/grpc-composite/balancer/composite"
	"github.com/grpc-composite/grpc-composite/internal/testkit"
)

// byCluster is short for what the two kinds of credentials are made of.
type (
	byCluster     = map[string]credentials.TransportCredentials
	callByCluster = map[string]credentials.PerRPCCredentials
)

// TestClustersWithCredentialsOfTheirOwn has five attempts of one RPC go through
// five kinds of credentials.
func TestClustersWithCredentialsOfTheirOwn(t *testing.T) {
	t.Parallel()
	one, two, clients := testkit.NewCA(t, "CA one"), testkit.NewCA(t, "CA two"), testkit.NewCA(t, "clients' CA")
	backends := []*testkit.Backend{
		startTLS(t, "one", one, "one.example"),
		startTLS(t, "two", two, "two.example"),
		testkit.Start(t, "mutual", serverTLS(&tls.Config{
			Certificates: []tls.Certificate{one.Server(t, "mutual.example")},
			ClientAuth:   tls.RequireAndVerifyClientCert,
			ClientCAs:    clients.Pool(),
		})),
		testkit.Start(t, "plain"),
		startTLS(t, "other", two, "other.example"),
	}
	for _, b := range backends[:4] {
		b.Script(testkit.U)
	}
	creds := composite.NewTransportCredentials(byCluster{
		"one":    trust(one),
		"two":    trust(two),
		"mutual": credentials.NewTLS(&tls.Config{RootCAs: one.Pool(), Certificates: []tls.Certificate{clients.Client(t, "me")}}),
		"plain":  insecure.NewCredentials(),
	}, trust(two))
	cc := dial(t, testkit.Service{Clusters: exampleClusters(backends...), Attempts: 5}, withCreds(creds))
	if got := call(t, cc); got != "other" {
		t.Errorf("answer from %s: want other", got)
	}
	if got := testkit.Counts(backends...); got != "1/1/1/1/1" {
		t.Errorf("calls %s: want 1/1/1/1/1", got)
	}
}

// TestRefusedHandshakes has clusters whose credentials do not fit their servers.
// The RPC's error says which and why, and a cluster after them works.
func TestRefusedHandshakes(t *testing.T) {
	one, two := testkit.NewCA(t, "CA one"), testkit.NewCA(t, "CA two")
	for _, tc := range []struct {
		name     string
		server   *tls.Config // nil: plaintext
		creds    byCluster
		fallback credentials.TransportCredentials
		want     []string
	}{
		{
			name:   "another CA",
			server: &tls.Config{Certificates: []tls.Certificate{one.Server(t, "a.example")}},
			creds:  byCluster{"a": trust(two), "b": insecure.NewCredentials()},
			want:   []string{"authentication handshake failed", "certificate signed by unknown authority"},
		},
		{
			name:   "another cluster's name",
			server: &tls.Config{Certificates: []tls.Certificate{one.Server(t, "b.example")}},
			creds:  byCluster{"a": trust(one), "b": insecure.NewCredentials()},
			want:   []string{"certificate is valid for b.example, not a.example"},
		},
		{
			// What the client hears of it depends on whether the server's alert
			// or the end of the connection arrives first.
			name:   "no client certificate",
			server: &tls.Config{Certificates: []tls.Certificate{one.Server(t, "a.example")}, ClientAuth: tls.RequireAnyClientCert},
			creds:  byCluster{"a": trust(one), "b": insecure.NewCredentials()},
		},
		{
			name:  "a server without TLS",
			creds: byCluster{"a": trust(one), "b": insecure.NewCredentials()},
			want:  []string{"authentication handshake failed", "first record does not look like a TLS handshake"},
		},
		{
			name:  "no entry and no fallback",
			creds: byCluster{"b": insecure.NewCredentials()},
			want:  []string{"cluster a has no transport credentials and there is no fallback: NewTransportCredentials has entries for b"},
		},
		{
			name:  "an entry that is nil",
			creds: byCluster{"a": nil, "b": insecure.NewCredentials()},
			want:  []string{"cluster a has no transport credentials and there is no fallback: NewTransportCredentials has entries for b"},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			var opts []grpc.ServerOption
			if tc.server != nil {
				opts = append(opts, serverTLS(tc.server))
			}
			a, b := testkit.Start(t, "a", opts...), testkit.Start(t, "b")
			creds := composite.NewTransportCredentials(tc.creds, tc.fallback)

			alone := dial(t, testkit.Service{Clusters: exampleClusters(a)}, withCreds(creds))
			_, err := testkit.Unary(testkit.Context(t), alone)
			checkError(t, err, codes.Unavailable, append(tc.want, "a skipped: transient failure")...)

			if got := call(t, dial(t, testkit.Service{Clusters: exampleClusters(a, b)}, withCreds(creds))); got != "b" {
				t.Errorf("answer from %s: want b", got)
			}
			if a.Count() != 0 {
				t.Error("an attempt has reached a")
			}
		})
	}
}

func TestSwappedCAs(t *testing.T) {
	t.Parallel()
	one, two := testkit.NewCA(t, "CA one"), testkit.NewCA(t, "CA two")
	backends := []*testkit.Backend{startTLS(t, "one", one, "one.example"), startTLS(t, "two", two, "two.example")}
	cc := dial(t, testkit.Service{Clusters: exampleClusters(backends...)},
		withCreds(composite.NewTransportCredentials(byCluster{"one": trust(two), "two": trust(one)}, nil)))
	_, err := testkit.Unary(testkit.Context(t), cc)
	checkError(t, err, codes.Unavailable, `one skipped: transient failure ("`, `two skipped: transient failure ("`, "unknown authority")
	if got := testkit.Counts(backends...); got != "0/0" {
		t.Errorf("calls %s: want none", got)
	}
}

// TestSharedTLSConfig has two clusters share a config while connections come and
// go, and each server be asked for by its own name alone.
func TestSharedTLSConfig(t *testing.T) {
	t.Parallel()
	ca := testkit.NewCA(t, "test CA")
	shared := &tls.Config{RootCAs: ca.Pool()}
	same := credentials.NewTLS(shared)
	for _, tc := range []struct {
		name  string
		creds credentials.TransportCredentials
	}{
		{"credentials for each cluster", composite.NewTransportCredentials(byCluster{"a": credentials.NewTLS(shared), "b": credentials.NewTLS(shared)}, nil)},
		{"the same credentials for both", composite.NewTransportCredentials(byCluster{"a": same, "b": same}, nil)},
		{"a fallback", composite.NewTransportCredentials(nil, same)},
		{"the channel's", same},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			var handshakes atomic.Int32
			var backends []*testkit.Backend
			for _, name := range []string{"a", "b"} {
				backends = append(backends, testkit.Start(t, name,
					grpc.KeepaliveParams(keepalive.ServerParameters{MaxConnectionAge: 20 * time.Millisecond, MaxConnectionAgeGrace: testkit.Patience}),
					serverTLS(&tls.Config{
						Certificates: []tls.Certificate{ca.Server(t, name+".example")},
						VerifyConnection: func(state tls.ConnectionState) error {
							handshakes.Add(1)
							if want := name + ".example"; state.ServerName != want {
								t.Errorf("%s is asked for by the name %q", want, state.ServerName)
							}
							return nil
						},
					})))
			}
			backends[0].Script(testkit.U)
			cc := dial(t, testkit.Service{Clusters: exampleClusters(backends...), Attempts: 2}, withCreds(tc.creds))
			var wg sync.WaitGroup
			for range 4 {
				wg.Go(func() {
					for handshakes.Load() < 20 {
						if err := unaryRPC(testkit.Context(t), cc); err != nil {
							t.Error(err)
							return
						}
					}
				})
			}
			wg.Wait()
		})
	}
	if shared.ServerName != "" {
		t.Errorf("the config's ServerName has become %q", shared.ServerName)
	}
}

func TestCredentialsInNestedClusters(t *testing.T) {
	t.Parallel()
	one, two := testkit.NewCA(t, "CA one"), testkit.NewCA(t, "CA two")
	backends := []*testkit.Backend{
		startTLS(t, "own", one, "own.example"),
		startTLS(t, "outers", two, "outers.example"),
		testkit.Start(t, "fallback"),
	}
	inner := testkit.Service{Clusters: exampleClusters(backends[:2]...)}
	forever := map[string]any{"overflow": "ROUND_ROBIN"} // the attempt is the third for the innermost list, too
	deeper := testkit.Service{Clusters: exampleClusters(backends[2]), More: forever}
	for _, b := range backends[:2] {
		b.Script(testkit.U)
	}
	cc := dial(t, testkit.Service{Attempts: 3, Clusters: []testkit.Cluster{
		nestedPatiently("N", inner), relisted("N"),
		nestedPatiently("M", testkit.Service{Clusters: []testkit.Cluster{nestedPatiently("D", deeper)}, More: forever}),
	}}, withCreds(composite.NewTransportCredentials(byCluster{"own": trust(one), "N": trust(two)}, insecure.NewCredentials())))
	if err := unaryRPC(testkit.Context(t), cc); err != nil {
		t.Error(err)
	}
	if got := testkit.Counts(backends...); got != "1/1/1" {
		t.Errorf("calls %s: want 1/1/1", got)
	}
}

// TestOutsideClusters uses the credentials on a channel without clusters.
func TestOutsideClusters(t *testing.T) {
	t.Parallel()
	ca := testkit.NewCA(t, "test CA")
	a := startTLS(t, "a", ca, "a.example")
	for _, policy := range []string{"pick_first", "round_robin"} {
		config := grpc.WithDefaultServiceConfig(`{"loadBalancingConfig":[{"` + policy + `":{}}]}`)
		creds := composite.NewTransportCredentials(byCluster{"a": insecure.NewCredentials()}, trust(ca))
		if got := call(t, testkit.Dial(t, named(a, "a.example"), config, withCreds(creds))); got != "a" {
			t.Errorf("%s: answer from %s: want a", policy, got)
		}
		none := composite.NewTransportCredentials(byCluster{"a": trust(ca)}, nil)
		_, err := testkit.Unary(testkit.Context(t), testkit.Dial(t, named(a, "a.example"), config, withCreds(none)))
		checkError(t, err, codes.Unavailable, "no transport credentials for connections outside clusters")
	}
}

// cloneCounter counts the clones that were made of credentials.
type cloneCounter struct {
	credentials.TransportCredentials
	clones *atomic.Int32
}

func (c cloneCounter) Clone() credentials.TransportCredentials {
	c.clones.Add(1)
	return cloneCounter{c.TransportCredentials.Clone(), c.clones}
}

// TestClonedCredentials has a clone do what the original does, and share what has
// been reported.
func TestClonedCredentials(t *testing.T) {
	t.Parallel()
	name := ghost()
	one, two := testkit.NewCA(t, "CA one"), testkit.NewCA(t, "CA two")
	backends := []*testkit.Backend{startTLS(t, "one", one, "one.example"), startTLS(t, "two", two, "two.example")}
	var clones atomic.Int32
	original := composite.NewTransportCredentials(byCluster{"one": cloneCounter{trust(one), &clones}, "none": nil, name: insecure.NewCredentials()}, cloneCounter{trust(two), &clones})
	for _, creds := range []credentials.TransportCredentials{original.Clone(), original} {
		if got := clones.Load(); got != 2 {
			t.Errorf("%d clones: want one of the entry and one of the fallback", got)
		}
		backends[0].Script(testkit.U)
		cc := dial(t, testkit.Service{Clusters: exampleClusters(backends...), Attempts: 2}, withCreds(creds))
		if got := call(t, cc); got != "two" {
			t.Errorf("answer from %s: want two", got)
		}
	}
	if got := warnings.with(name); len(got) != 1 {
		t.Errorf("warnings %q: want one", got)
	}
}

// TestCredentialsAreForClients tells what the credentials cannot do.
func TestCredentialsAreForClients(t *testing.T) {
	creds := composite.NewTransportCredentials(nil, nil)
	ours, theirs := net.Pipe()
	defer func() { _, _ = ours.Close(), theirs.Close() }()
	_, _, err := creds.ServerHandshake(ours)
	testkit.Contains(t, err, "are for clients")
	_, _, err = creds.ClientHandshake(context.Background(), "x", ours)
	testkit.Contains(t, err, "give NewTransportCredentials a fallback")
	testkit.Contains(t, creds.OverrideServerName("x"), "use grpc.WithAuthority") //nolint:staticcheck // deprecated, and callable all the same
}
