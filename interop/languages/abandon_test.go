package languages

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"

	"github.com/grpc-composite/grpc-composite/internal/testkit"
)

// abandonEnv tells the test binary to start servers of the language that it
// names, and to wait to be killed.
const abandonEnv = "LANGUAGES_ABANDON"

// abandonServers starts a server, and another one that is stopped where it is, says
// their addresses and never ends.
func abandonServers(name string) error {
	for _, l := range languages {
		if l.name != name {
			continue
		}
		if err := l.make(); err != nil {
			return err
		}
		running, err := l.launch(0)
		if err != nil {
			return err
		}
		halted, err := l.launch(0)
		if err != nil {
			return err
		}
		if runtime.GOOS == "linux" {
			if err := pause(halted.cmd); err != nil {
				return err
			}
		}
		fmt.Println(running.addr, halted.addr)
	}
	select {}
}

// TestServersEndWithTheTest kills a test in the middle: no server outlives it,
// though none of its cleanups ran.
func TestServersEndWithTheTest(t *testing.T) {
	tally := newTally(t)
	for _, l := range chosen() {
		t.Run(l.name, func(t *testing.T) {
			t.Parallel()
			tally.ready(t, l)
			cmd := exec.Command(os.Args[0], fmt.Sprintf("-rust=%v", *withRust)) //nolint:gosec // the test binary itself
			cmd.Env = append(os.Environ(), abandonEnv+"="+l.name)
			cmd.Stderr = os.Stderr
			stdout, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			line, err := bufio.NewReader(stdout).ReadString('\n')
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
			if err != nil {
				t.Fatalf("it started no servers: %v", err)
			}
			for _, addr := range strings.Fields(line) {
				testkit.Eventually(t, "the server on "+addr+" has ended", func() bool {
					conn, err := net.Dial("tcp", addr)
					if err == nil {
						_ = conn.Close()
					}
					return err != nil
				})
			}
		})
	}
}
