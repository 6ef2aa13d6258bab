package chaos

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials"
	testpb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/resolver"

	"github.com/grpc-composite/grpc-composite/balancer/composite"
	"github.com/grpc-composite/grpc-composite/internal/testkit"
)

// clusterNames are the clusters in the order that the config has while nobody
// changes it.
var clusterNames = []string{"a", "b", "c"}

const (
	serversOfCluster = 3

	connectTimeout = 500 * time.Millisecond
	attemptTimeout = time.Second
	attempts       = 3
	// rpcDeadline leaves time for all attempts, and for connecting in each.
	rpcDeadline = attempts*(attemptTimeout+connectTimeout) + 6*time.Second
)

// world is the servers, and the channel to them.
type world struct {
	t       *testing.T
	names   *nameServer
	cas     map[string]*testkit.CA // by cluster
	rogue   *testkit.CA            // that nobody trusts
	clients *testkit.CA
	client  *testkit.Rotating // the client's certificate
	tiers   map[string][]*server
	byAddr  map[string]*server
	ports   map[string]string // by cluster
	cc      *grpc.ClientConn
	direct  map[string][]*grpc.ClientConn // by cluster, a bare channel to each server
	config  *liveConfig
}

func newWorld(t *testing.T) *world {
	t.Helper()
	if testkit.Loopback() == "127.0.0.1" {
		t.Skip("needs loopback addresses besides 127.0.0.1, as Linux has: run it there")
	}
	w := &world{
		t: t, names: startNameServer(t),
		cas: make(map[string]*testkit.CA), rogue: testkit.NewCA(t, "rogue CA"), clients: testkit.NewCA(t, "clients' CA"),
		tiers: make(map[string][]*server), byAddr: make(map[string]*server), ports: make(map[string]string),
		direct: make(map[string][]*grpc.ClientConn),
	}
	w.client = testkit.NewRotating(w.clients.Client(t, "client"))
	for _, cluster := range clusterNames {
		w.startCluster(cluster)
	}
	w.dial()
	return w
}

// startCluster starts servers that use one port on addresses of their own.
func (w *world) startCluster(cluster string) {
	w.t.Helper()
	w.cas[cluster] = testkit.NewCA(w.t, cluster+"'s CA")
	var ips []string
	for i := range serversOfCluster {
		ip := testkit.Loopback()
		if i == 0 {
			w.ports[cluster] = freePort(w.t, ip)
		}
		ips = append(ips, ip)
		s := &server{serverSpec: serverSpec{
			Cluster: cluster, Name: fmt.Sprintf("%s/%d", cluster, i),
			Addr: net.JoinHostPort(ip, w.ports[cluster]), Dir: w.t.TempDir(),
		}}
		w.write(s, clientsFile, w.clients.PEM())
		w.certify(s, w.cas[cluster])
		s.start(w.t)
		w.tiers[cluster], w.byAddr[s.Addr] = append(w.tiers[cluster], s), s
	}
	w.names.announce(dnsName(cluster), ips)
}

func freePort(t *testing.T, ip string) string {
	t.Helper()
	lis, err := net.Listen("tcp", net.JoinHostPort(ip, "0"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = lis.Close() }()
	_, port, err := net.SplitHostPort(lis.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return port
}

// dnsName is the name of a cluster. It is rooted, so that the search list of the
// machine does not matter.
func dnsName(cluster string) string { return cluster + ".chaos.test." }

// certify gives the server a new certificate.
func (w *world) certify(s *server, ca *testkit.CA) {
	w.t.Helper()
	cert := ca.Server(w.t, s.Cluster+".chaos.test")
	key, err := x509.MarshalPKCS8PrivateKey(cert.PrivateKey)
	if err != nil {
		w.t.Fatal(err)
	}
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert.Certificate[0]})
	w.write(s, certFile, append(text, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key})...))
}

// write replaces a file in one step, since servers read it at any time.
func (w *world) write(s *server, name string, text []byte) {
	w.t.Helper()
	path := filepath.Join(s.Dir, name)
	if err := os.WriteFile(path+".new", text, 0o600); err != nil {
		w.t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		w.t.Fatal(err)
	}
}

// dial opens the composite channel, and those that bypass it.
func (w *world) dial() {
	w.t.Helper()
	creds := make(map[string]credentials.TransportCredentials)
	for _, cluster := range clusterNames {
		creds[cluster] = credentials.NewTLS(&tls.Config{RootCAs: w.cas[cluster].Pool(), GetClientCertificate: w.client.ForClient})
	}
	quick := grpc.WithConnectParams(grpc.ConnectParams{
		Backoff:           backoff.Config{BaseDelay: 50 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: 500 * time.Millisecond},
		MinConnectTimeout: 3 * time.Second,
	})
	w.config = &liveConfig{world: w, resolver: testkit.NewResolver(w.t), order: clusterNames, policies: make(map[string]string)}
	if err := w.config.resolver.UpdateState(resolver.State{Endpoints: []resolver.Endpoint{}}); err != nil {
		w.t.Fatal(err)
	}
	opts := append(composite.DialOptions(), quick,
		grpc.WithTransportCredentials(composite.NewTransportCredentials(creds, nil)),
		grpc.WithDefaultServiceConfig(w.config.json()))
	w.cc = testkit.Dial(w.t, w.config.resolver.Target(), opts...)
	w.cc.Connect()
	for cluster, servers := range w.tiers {
		for _, s := range servers {
			w.direct[cluster] = append(w.direct[cluster], testkit.Dial(w.t, "passthrough:///"+s.Addr, quick,
				grpc.WithTransportCredentials(creds[cluster]), grpc.WithAuthority(cluster+".chaos.test")))
		}
	}
}

// liveConfig is the channel's service config, which changes. One goroutine at a time
// may change it; version is safe for concurrent use.
type liveConfig struct {
	world    *world
	resolver *testkit.Resolver
	order    []string
	policies map[string]string // of clusters, if not round_robin

	changes atomic.Int64 // odd while one is under way
	mu      sync.Mutex   // guards inForce
	inForce []string
}

// json is the service config.
func (c *liveConfig) json() string {
	var clusters []testkit.Cluster
	for _, name := range c.order {
		more := map[string]any{
			"connectTimeout": seconds(connectTimeout), "attemptTimeout": seconds(attemptTimeout),
			"metadata": map[string]any{clusterKey: name},
		}
		if p := c.policies[name]; p != "" {
			more["childPolicy"] = []any{map[string]any{p: map[string]any{}}}
		}
		target := "dns://" + c.world.names.addr + "/" + dnsName(name) + ":" + c.world.ports[name]
		clusters = append(clusters, testkit.Cluster{Name: name, Target: target, More: more})
	}
	c.mu.Lock()
	c.inForce = slices.Clone(c.order)
	c.mu.Unlock()
	return testkit.Service{Clusters: clusters, Attempts: attempts, Retryable: []string{"UNAVAILABLE", "DEADLINE_EXCEEDED"}}.JSON()
}

func seconds(d time.Duration) string { return fmt.Sprintf("%gs", d.Seconds()) }

// apply has the channel use what the fields say.
func (c *liveConfig) apply() {
	c.world.t.Helper()
	c.changes.Add(1)
	defer c.changes.Add(1)
	parsed := c.resolver.Parse(c.json())
	if parsed == nil {
		c.world.t.Error("the channel has no resolver")
		return
	}
	if err := c.resolver.UpdateState(resolver.State{Endpoints: []resolver.Endpoint{}, ServiceConfig: parsed}); err != nil {
		c.world.t.Errorf("a new config: %v", err)
	}
}

// version tells which config is in force, and its order. It is odd while that
// changes.
func (c *liveConfig) version() (version int64, order []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.changes.Load(), c.inForce
}

// unused are the servers that do not answer though the channel makes enough RPCs for
// all, on each cluster.
func (w *world) unused() []string {
	var unused []string
	for _, cluster := range clusterNames {
		used := make(map[string]bool)
		for range 2 * serversOfCluster {
			ctx, cancel := context.WithTimeout(composite.WithClusters(context.Background(), cluster), rpcDeadline)
			r, _ := unary(ctx, testpb.NewTestServiceClient(w.cc))
			cancel()
			used[r.server] = true
		}
		for _, s := range w.tiers[cluster] {
			if !used[s.Name] {
				unused = append(unused, s.Name)
			}
		}
	}
	return unused
}

// ips are the addresses of the cluster's servers.
func (w *world) ips(cluster string) []string {
	var ips []string
	for _, s := range w.tiers[cluster] {
		host, _, _ := net.SplitHostPort(s.Addr) // it is one
		ips = append(ips, host)
	}
	return ips
}
