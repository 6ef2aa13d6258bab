package composite_test

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

	"github.com/grpc-composite/grpc-composite/internal/testkit"
)

// proxyEnv tells a test that it runs in a process of its own.
const proxyEnv = "TEST_HTTPS_PROXY"

// TestHTTPSProxy runs in a process of its own, since Go looks for HTTPS_PROXY
// once.
func TestHTTPSProxy(t *testing.T) {
	if os.Getenv(proxyEnv) == "" {
		t.Parallel()
		cmd := exec.CommandContext(testkit.Context(t), os.Args[0], "-test.run", "^TestHTTPSProxy$") //nolint:gosec // the test binary itself
		cmd.Env = append(os.Environ(), proxyEnv+"=1")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return
	}
	proxy := startProxy(t)
	for name, value := range map[string]string{"HTTPS_PROXY": "http://" + proxy.addr, "NO_PROXY": "", "no_proxy": ""} {
		t.Setenv(name, value)
	}
	backends := []*testkit.Backend{testkit.StartOn(t, "a", "127.0.0.1"), testkit.StartOn(t, "b", "127.0.0.1")}
	backends[0].Script(testkit.U)
	var targets []string
	for _, b := range backends {
		_, port, err := net.SplitHostPort(b.Addr)
		if err != nil {
			t.Fatal(err)
		}
		// This machine, by an address that is not exempt from the proxy.
		targets = append(targets, "0.0.0.0:"+port)
	}
	own := func(target, fallback string) []grpc.DialOption {
		s := testkit.Service{Attempts: 2, Clusters: []testkit.Cluster{patientCluster("a", target), patientCluster("b", fallback)}}
		return []grpc.DialOption{grpc.WithDefaultServiceConfig(s.JSON())}
	}
	for _, tc := range []struct {
		name, target string
		opts         []grpc.DialOption
		want         codes.Code
		text         string // in the error
		proxied      int    // connections
	}{
		// That the proxy is in force at all.
		{name: "a plain channel", target: "passthrough:///" + targets[1], proxied: 1},

		{name: "clusters in the target", target: "composite:///" + strings.Join(targets, ",") + "?connectTimeout=20s"},
		// What follows looks like a host and port, and has gRPC prepare for the proxy.
		{name: "one cluster in the target", target: "composite:///" + targets[1] + "?connectTimeout=20s"},
		{name: "an error in the target", target: "composite:///" + targets[1] + "?a=b", want: codes.Unavailable, text: `query "a=b": must be one of`},
		{name: "clusters with targets", target: "composite:///", opts: own(targets[0], targets[1])},
		{name: "a cluster with the channel's own target", target: "passthrough:///" + targets[0], opts: own("", targets[1]), proxied: 1},
	} {
		for _, wait := range []bool{false, true} {
			before := proxy.count.Load()
			cc := dialInline(t, tc.target, tc.opts...)
			err := unaryRPC(testkit.Context(t), cc, grpc.WaitForReady(wait))
			if tc.text == "" {
				checkError(t, err, tc.want)
			} else {
				checkError(t, err, tc.want, tc.text)
			}
			if got := int(proxy.count.Load() - before); got != tc.proxied {
				t.Errorf("%s: %d connections by the proxy: want %d", tc.name, got, tc.proxied)
			}
			if err := cc.Close(); err != nil {
				t.Error(err)
			}
		}
	}

	t.Run("tags get lost", func(t *testing.T) {
		// gRPC makes new endpoints of those that the proxy leads to, and leaves
		// out their attributes.
		r := testkit.NewResolver(t)
		state := taggedState("0:a 1:b", backends)
		_ = r.UpdateState(state)
		cc := dialTarget(t, r.Target(), withoutTargets("a", "b"))
		wantServers(t, cc, 2, "b") // by addresses that are exempt

		state = taggedState("0:a 1:b", backends) // what was delivered must not change
		for i := range state.Endpoints {
			state.Endpoints[i].Addresses[0].Addr = targets[i]
		}
		_ = r.UpdateState(state)
		testkit.Eventually(t, "the endpoints have lost their tags", func() bool {
			_, err := callSlot(t, cc, 2)
			return err != nil && strings.Contains(err.Error(), "no endpoints")
		})

		direct := dialTarget(t, r.Target(), withoutTargets("a", "b"), grpc.WithNoProxy())
		wantServers(t, direct, 2, "b")
	})
}

// proxy is an HTTP proxy that counts the connections that it was asked for.
type proxy struct {
	addr  string
	count atomic.Int32
}

func startProxy(t *testing.T) *proxy {
	t.Helper()
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{addr: lis.Addr().String()}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			conn, err := lis.Accept()
			if err != nil {
				return
			}
			p.count.Add(1)
			wg.Go(func() {
				if err := connect(conn); err != nil {
					t.Errorf("proxy: %v", err)
				}
			})
		}
	})
	t.Cleanup(func() { _ = lis.Close(); wg.Wait() })
	return p
}

// connect serves one CONNECT request until either side ends it.
func connect(client net.Conn) error {
	defer func() { _ = client.Close() }()
	r := bufio.NewReader(client)
	req, err := http.ReadRequest(r)
	if err != nil {
		return err
	}
	if req.Method != http.MethodConnect {
		return errors.New("not a CONNECT: " + req.Method)
	}
	server, err := net.Dial("tcp", req.Host)
	if err != nil {
		return err
	}
	defer func() { _ = server.Close() }()
	if _, err := io.WriteString(client, "HTTP/1.1 200 OK\r\n\r\n"); err != nil {
		return err
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		_, _ = io.Copy(server, r) // ends with either connection
		_ = server.Close()
	})
	_, _ = io.Copy(client, server)
	_ = client.Close()
	wg.Wait()
	return nil
}
