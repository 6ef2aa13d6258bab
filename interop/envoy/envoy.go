package envoy

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/grpc-composite/grpc-composite/internal/testkit"
	"github.com/grpc-composite/grpc-composite/interop/internal/tool"
)

// Envoy is a running Envoy. Its methods are safe for concurrent use.
type Envoy struct {
	Admin string // address of its admin interface
	Addr  string // where it takes calls

	dir     string
	process *tool.Process
	cc      *grpc.ClientConn
}

// Start starts an Envoy, and waits until it takes calls. It uses loopback alone,
// and ends with the test.
func Start(t testing.TB, c Config) *Envoy {
	t.Helper()
	path := Binary(t)
	e := &Envoy{dir: t.TempDir()}
	if err := e.write(c); err != nil {
		t.Fatal(err)
	}
	log, err := os.Create(e.logFile())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = log.Close() })
	//nolint:gosec // the Envoy that was installed or named
	cmd := exec.Command(path,
		"--config-path", e.configFile(),
		"--admin-address-path", e.adminFile(),
		"--concurrency", "1", // all calls see the same hosts
		"--disable-hot-restart", // several may run at once
		"--log-level", "warning",
	)
	cmd.Stdout, cmd.Stderr = log, log
	e.process = tool.Start(t, cmd)
	e.await(t)
	e.Addr = e.listener(t)
	e.cc = testkit.Dial(t, "passthrough:///"+e.Addr, grpc.WithDisableRetry())
	return e
}

// PID is the number of its process.
func (e *Envoy) PID() int { return e.process.PID }

// Route returns a channel to Envoy whose calls take the route of that name. It
// makes no retries of its own.
func (e *Envoy) Route(name string) grpc.ClientConnInterface { return route{e.cc, name} }

type route struct {
	cc   *grpc.ClientConn
	name string
}

func (r route) Invoke(ctx context.Context, method string, args, reply any, opts ...grpc.CallOption) error {
	return r.cc.Invoke(ctx, method, args, reply, append(opts, grpc.CallAuthority(r.name))...)
}

func (r route) NewStream(ctx context.Context, desc *grpc.StreamDesc, method string, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	return r.cc.NewStream(ctx, desc, method, append(opts, grpc.CallAuthority(r.name))...)
}

// CheckAlive fails the test if Envoy has ended, which a call takes for a failure
// of the server.
func (e *Envoy) CheckAlive(t testing.TB) {
	t.Helper()
	select {
	case <-e.process.Done():
		t.Fatalf("Envoy has ended: %s", e.log())
	default:
	}
}

func (e *Envoy) configFile() string { return filepath.Join(e.dir, "envoy.json") }
func (e *Envoy) adminFile() string  { return filepath.Join(e.dir, "admin") }
func (e *Envoy) logFile() string    { return filepath.Join(e.dir, "log") }

// write writes the files that Envoy reads.
func (e *Envoy) write(c Config) error {
	if err := os.MkdirAll(filepath.Dir(endpointFile(e.dir, "")), 0o750); err != nil {
		return err
	}
	for _, cluster := range c.Clusters {
		if !cluster.Changing {
			continue
		}
		if err := writeHosts(e.dir, cluster); err != nil {
			return fmt.Errorf("hosts of %s: %w", cluster.Name, err)
		}
	}
	text, err := json.Marshal(c.bootstrap(e.dir))
	if err != nil {
		return err
	}
	return os.WriteFile(e.configFile(), text, 0o600)
}

// await waits until Envoy has read its hosts and listens.
func (e *Envoy) await(t testing.TB) {
	t.Helper()
	for end := time.Now().Add(3 * testkit.Patience); ; time.Sleep(5 * time.Millisecond) {
		e.CheckAlive(t)
		if addr, err := os.ReadFile(e.adminFile()); err == nil && len(addr) > 0 {
			e.Admin = string(addr)
			if text, err := e.get("/ready"); err == nil && bytes.Equal(bytes.TrimSpace(text), []byte("LIVE")) {
				return
			}
		}
		if time.Now().After(end) {
			t.Fatalf("Envoy does not become ready: %s", e.log())
		}
	}
}

// listener asks for the address that the system has given to the listener.
func (e *Envoy) listener(t testing.TB) string {
	t.Helper()
	text, err := e.get("/listeners?format=json")
	if err != nil {
		t.Fatal(err)
	}
	var listeners struct {
		Statuses []struct {
			Address struct {
				Socket struct {
					Address string
					Port    int `json:"port_value"`
				} `json:"socket_address"`
			} `json:"local_address"`
		} `json:"listener_statuses"`
	}
	if err := json.Unmarshal(text, &listeners); err != nil || len(listeners.Statuses) != 1 {
		t.Fatalf("Envoy's listeners: %s", text)
	}
	socket := listeners.Statuses[0].Address.Socket
	return socket.Address + ":" + strconv.Itoa(socket.Port)
}

// get asks the admin interface.
func (e *Envoy) get(path string) ([]byte, error) {
	client := http.Client{Timeout: testkit.Patience, Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Get("http://" + e.Admin + path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", path, resp.Status)
	}
	return text, err
}

// log is the end of what Envoy has logged.
func (e *Envoy) log() []byte {
	text, err := os.ReadFile(e.logFile())
	if err != nil {
		return []byte(err.Error())
	}
	return text[max(0, len(text)-4096):]
}

func duration(d time.Duration) string { return strconv.FormatFloat(d.Seconds(), 'f', -1, 64) + "s" }
