package testkit

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"

	"google.golang.org/grpc"
	testpb "google.golang.org/grpc/interop/grpc_testing"
)

// processEnv tells a test binary to be a server.
const processEnv = "TESTKIT_SERVER"

// StartProcess starts a healthy server in a process of its own, so that its work
// is not counted as the client's, and returns its address. The process ends with
// the test, or with its parent, whichever comes first.
func StartProcess(t testing.TB) (addr string) {
	t.Helper()
	cmd := exec.Command(os.Args[0]) //nolint:gosec // the test binary itself
	cmd.Env = append(os.Environ(), processEnv+"=1")
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = stdin.Close()
		_ = cmd.Wait()
	})
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		t.Fatalf("the server process said nothing: %v", err)
	}
	return strings.TrimSpace(line)
}

// serveProcess is the server process: it prints its address, and serves until
// its standard input is closed.
func serveProcess() error {
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	server := grpc.NewServer()
	testpb.RegisterTestServiceServer(server, &Backend{Name: "process"})
	fmt.Println(lis.Addr())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		server.Stop()
	}()
	return server.Serve(lis)
}
