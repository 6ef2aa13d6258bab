package chaos

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/grpc-composite/grpc-composite/internal/testkit"
	"github.com/grpc-composite/grpc-composite/interop/internal/tool"
)

// server is a server in a process of its own. One goroutine at a time may use it.
type server struct {
	serverSpec

	process *tool.Process
	stdin   io.Writer
	said    <-chan string
}

// start starts the process, and waits until it listens.
func (s *server) start(t testing.TB) {
	t.Helper()
	spec, err := json.Marshal(s.serverSpec)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0]) //nolint:gosec // the test binary itself
	cmd.Env = append(os.Environ(), serverEnv+"="+string(spec))
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	s.process, s.stdin = tool.Start(t, cmd), stdin
	said := make(chan string, 1)
	s.said = said
	go func() {
		for lines := bufio.NewScanner(stdout); lines.Scan(); {
			said <- lines.Text()
		}
	}()
	s.await(t, "ready")
}

// tell has the server carry out a command.
func (s *server) tell(t testing.TB, command string) {
	t.Helper()
	if _, err := fmt.Fprintln(s.stdin, command); err != nil {
		t.Errorf("server %s cannot be told %q: %v", s.Name, command, err)
		return
	}
	s.await(t, "done")
}

func (s *server) await(t testing.TB, line string) {
	t.Helper()
	select {
	case got := <-s.said:
		if got != line {
			t.Errorf("server %s says %q: want %q", s.Name, got, line)
		}
	case <-s.process.Done():
		t.Errorf("server %s has ended by itself", s.Name)
	case <-time.After(3 * testkit.Patience):
		t.Errorf("server %s does not say %q", s.Name, line)
	}
}

// kill ends the process at once, as kill -9 does.
func (s *server) kill(t testing.TB) {
	t.Helper()
	if p, err := os.FindProcess(s.process.PID); err == nil {
		_ = p.Kill()
	}
	<-s.process.Done()
}
