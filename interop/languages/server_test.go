package languages

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/grpc-composite/grpc-composite/internal/testkit"
	"github.com/grpc-composite/grpc-composite/interop/internal/tool"
)

// startTime is how long a server may take to start. A JVM on a busy machine is
// slow.
const startTime = 2 * time.Minute

// server is a running server of a language.
type server struct {
	addr, version string

	cmd    *exec.Cmd
	stdin  io.WriteCloser
	lines  chan string // that it says, closed when it has ended
	stderr bytes.Buffer
	ended  chan struct{}
}

// start starts a server that ends with the test. A limit above 0 is how many calls
// the server takes at a time.
func (l *language) start(t testing.TB, limit int) *server {
	t.Helper()
	if err := l.make(); err != nil {
		t.Fatal(err)
	}
	s, err := l.launch(limit)
	if err != nil {
		t.Fatalf("%s server: %v", l.name, err)
	}
	t.Cleanup(func() {
		s.kill()
		if t.Failed() {
			t.Logf("%s server %s said:\n%s", l.name, s.addr, &s.stderr)
		}
	})
	return s
}

// launch starts a server and waits until it is ready.
func (l *language) launch(limit int) (*server, error) {
	s := &server{cmd: l.command(l.dir), lines: make(chan string, 64), ended: make(chan struct{})}
	if limit > 0 {
		s.cmd.Args = append(s.cmd.Args, strconv.Itoa(limit))
	}
	s.cmd.Stderr = &s.stderr
	tool.EndWithParent(s.cmd)
	var err error
	if s.stdin, err = s.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	stdout, err := s.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := s.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		defer close(s.ended)
		for scanner := bufio.NewScanner(stdout); scanner.Scan(); {
			s.lines <- scanner.Text()
		}
		close(s.lines)
		_ = s.cmd.Wait()
	}()
	line, err := s.listen("ready ", startTime)
	if err != nil {
		s.kill()
		return nil, fmt.Errorf("%w\n%s", err, &s.stderr)
	}
	port, version, _ := strings.Cut(line, " ")
	s.addr, s.version = "127.0.0.1:"+port, version
	return s, nil
}

// listen waits until the server says a line that begins so, and returns its rest.
func (s *server) listen(prefix string, patience time.Duration) (rest string, err error) {
	for timeout := time.After(patience); ; {
		select {
		case line, ok := <-s.lines:
			if !ok {
				return "", fmt.Errorf("it ended before it said %q", prefix)
			}
			if rest, found := strings.CutPrefix(line, prefix); found {
				return rest, nil
			}
		case <-timeout:
			return "", fmt.Errorf("it has not said %q within %v", prefix, patience)
		}
	}
}

// await waits until the server says a line.
func (s *server) await(t testing.TB, line string) {
	t.Helper()
	if _, err := s.listen(line, testkit.Patience); err != nil {
		t.Fatal(err)
	}
}

// tell sends the server a command.
func (s *server) tell(t testing.TB, command string) {
	t.Helper()
	if _, err := io.WriteString(s.stdin, command+"\n"); err != nil {
		t.Fatal(err)
	}
}

// kill ends the server at once, stopped or not.
func (s *server) kill() {
	_ = killGroup(s.cmd)
	<-s.ended
}

// pause stops the server where it is, or skips the test where that cannot be done.
func (s *server) pause(t testing.TB) {
	t.Helper()
	switch err := pause(s.cmd); {
	case errors.Is(err, errors.ErrUnsupported):
		t.Skip("a process cannot be stopped here")
	case err != nil:
		t.Fatal(err)
	}
}

func (s *server) target() string { return "passthrough:///" + s.addr }
