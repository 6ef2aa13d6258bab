package tool

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/grpc-composite/grpc-composite/internal/testkit"
)

// roleEnv makes the test binary something that a test needs: a process that never
// ends by itself, or a test that is interrupted while it has one.
const roleEnv = "TOOL_TEST_ROLE"

func TestMain(m *testing.M) {
	if os.Getenv(roleEnv) == "endless" {
		<-time.After(time.Hour) // should all else fail
		return
	}
	testkit.Main(m)
}

func endless() *exec.Cmd {
	cmd := exec.Command(os.Args[0]) //nolint:gosec // the test binary itself
	cmd.Env = append(os.Environ(), roleEnv+"=endless")
	return cmd
}

// alive tells whether a process is there, and has not ended as a zombie does.
func alive(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	_, rest, _ := strings.Cut(string(stat), ") ")
	return !strings.HasPrefix(rest, "Z")
}

func onLinux(t *testing.T) {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("what this is about is Linux's")
	}
}

func TestProcessEndsWithTheTest(t *testing.T) {
	onLinux(t)
	var p *Process
	t.Run("test", func(t *testing.T) {
		p = Start(t, endless())
		if !alive(p.PID) {
			t.Error("the process does not run")
		}
	})
	<-p.Done()
	if alive(p.PID) {
		t.Error("the process outlives its test")
	}
}

// TestInterrupted is a test binary that is killed while it has a process, in the
// role that says so.
func TestInterrupted(t *testing.T) {
	if os.Getenv(roleEnv) == "interrupted" {
		fmt.Println("process", Start(t, endless()).PID)
		select {}
	}
	onLinux(t)
	for _, signal := range []syscall.Signal{syscall.SIGINT, syscall.SIGKILL} {
		cmd := exec.Command(os.Args[0], "-test.run", "^TestInterrupted$") //nolint:gosec // the test binary itself
		cmd.Env = append(os.Environ(), roleEnv+"=interrupted")
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		line, _ := bufio.NewReader(out).ReadString('\n')
		pid, err := strconv.Atoi(strings.TrimSpace(strings.TrimPrefix(line, "process")))
		if err != nil || !alive(pid) {
			t.Fatalf("the test says %q, and has no process", line)
		}
		_ = cmd.Process.Signal(signal)
		_ = cmd.Wait() // it was interrupted
		for end := time.Now().Add(20 * time.Second); alive(pid); time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				if p, err := os.FindProcess(pid); err == nil {
					_ = p.Kill()
				}
				t.Fatalf("%v: the process outlives its test", signal)
			}
		}
	}
}
