//go:build unix

package chaos

import (
	"syscall"
	"testing"
)

// halt stops the process where it is: the kernel goes on to accept connections and
// bytes for it.
func (s *server) halt(t testing.TB) {
	t.Helper()
	if err := syscall.Kill(s.process.PID, syscall.SIGSTOP); err != nil {
		t.Error(err)
	}
}

// proceed lets the process go on.
func (s *server) proceed(t testing.TB) {
	t.Helper()
	if err := syscall.Kill(s.process.PID, syscall.SIGCONT); err != nil {
		t.Error(err)
	}
}
