package testkit

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"
)

// Main runs a package's tests and fails if goroutines of this module or of gRPC
// are left when all are done. Call it from TestMain.
func Main(m *testing.M) {
	if os.Getenv(processEnv) != "" {
		if err := serveProcess(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	code := m.Run()
	if code == 0 {
		if left := leaked(10 * time.Second); len(left) > 0 {
			fmt.Fprintf(os.Stderr, "%d goroutines leaked:\n\n%s\n", len(left), strings.Join(left, "\n\n"))
			code = 1
		}
	}
	os.Exit(code)
}

// leaked returns the stacks of the goroutines that are still there after the
// patience is over.
func leaked(patience time.Duration) []string {
	for end := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		left := suspects()
		if len(left) == 0 || time.Now().After(end) {
			return left
		}
	}
}

// suspects returns the stacks of all goroutines but the one that asks and those
// that Go's own packages keep.
func suspects() []string {
	buf := make([]byte, 1<<20)
	for n := runtime.Stack(buf, true); n == len(buf); n = runtime.Stack(buf, true) {
		buf = make([]byte, 2*len(buf))
	}
	stacks := strings.Split(strings.TrimRight(string(buf[:strings.IndexByte(string(buf), 0)]), "\n"), "\n\n")
	var left []string
	for _, stack := range stacks[1:] {
		if strings.Contains(stack, "google.golang.org/grpc") || strings.Contains(stack, "grpc-composite") {
			left = append(left, stack)
		}
	}
	return left
}
