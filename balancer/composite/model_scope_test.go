package composite_test

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
)

// modelScope is a test inside a test: what it opens is closed when it ends, and
// what fails is told, and is no failure of the test around it.
type modelScope struct {
	testing.TB

	mu       sync.Mutex
	cleanups []func()
	failures []string
}

// run runs f, and returns what failed.
func (s *modelScope) run(f func()) string {
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	<-done
	for _, cleanup := range slices.Backward(s.cleanups) {
		cleanup()
	}
	return strings.Join(s.failures, "\n")
}

func (s *modelScope) Helper() {}

func (s *modelScope) Cleanup(f func()) { s.cleanups = append(s.cleanups, f) }

func (s *modelScope) Errorf(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failures = append(s.failures, fmt.Sprintf(format, args...))
}

func (s *modelScope) Fatalf(format string, args ...any) {
	s.Errorf(format, args...)
	runtime.Goexit()
}

func (s *modelScope) Fatal(args ...any) { s.Fatalf("%s", fmt.Sprint(args...)) }
