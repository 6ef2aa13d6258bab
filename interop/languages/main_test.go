// Package languages tests composite channels against servers of gRPC's
// implementations in other languages.
package languages

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/grpc-composite/grpc-composite/internal/testkit"
	"github.com/grpc-composite/grpc-composite/interop/internal/tool"
)

var (
	withRust = flag.Bool("rust", false, "test the server in Rust too, whose build takes minutes")
	update   = flag.Bool("update", false, "write the measured columns of the table to README.md")
)

func TestMain(m *testing.M) {
	if os.Getenv(goServerEnv) != "" {
		exitWith(serveGo())
	}
	flag.Parse()
	if name := os.Getenv(abandonEnv); name != "" {
		exitWith(abandonServers(name))
	}
	testkit.Main(m)
}

func exitWith(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// tally is what became of the languages in one test.
type tally struct {
	mu      sync.Mutex
	tested  []string
	skipped []string
}

// newTally has the closing line printed when the test has ended.
func newTally(t *testing.T) *tally {
	t.Helper()
	c := &tally{}
	t.Cleanup(func() {
		line := fmt.Sprintf("%s: servers tested: %d (%s), skipped: %d (%s)", t.Name(),
			len(c.tested), strings.Join(c.tested, ", "), len(c.skipped), strings.Join(c.skipped, ", "))
		if !*withRust {
			line += ", not asked for: Rust (-rust)"
		}
		fmt.Println(line)
	})
	return c
}

// ready makes the language's server, or ends the test for want of a tool.
func (c *tally) ready(t *testing.T, l *language) {
	t.Helper()
	err := l.make()
	c.mu.Lock()
	if err == nil {
		c.tested = append(c.tested, l.name)
	} else {
		c.skipped = append(c.skipped, l.name)
	}
	c.mu.Unlock()
	if err == nil {
		return
	}
	if missing, ok := errors.AsType[*missingProgramError](err); ok {
		tool.Missing(t, missing.command, missing.install, err)
	}
	tool.Missing(t, "the server in "+l.name, "a connection to its registry of packages, and this test again", err)
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	return line
}
