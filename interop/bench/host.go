package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
)

// host lets a program use what is made for tests: servers, channels and an Envoy
// that end with it. As in a test, Fatal and its like end the goroutine's work; they
// may be called by the goroutine that called [within] alone.
type host struct {
	testing.TB // for its unexported method; nothing else of it is called

	mu       sync.Mutex
	cleanups []func()
}

// failure is what Fatal panics with, and skip what Skip does.
type (
	failure struct{ text string }
	skip    struct{ text string }
)

func (f failure) Error() string { return f.text }
func (s skip) Error() string    { return s.text }

// within calls f, and then ends all that f has started. It returns what f failed
// with, or was skipped for.
func within(f func(t *host)) error {
	t := &host{}
	defer t.end()
	return caught(func() { f(t) })
}

// caught returns what f failed with, or was skipped for.
func caught(f func()) (err error) {
	defer func() {
		switch p := recover().(type) {
		case nil:
		case failure:
			err = p
		case skip:
			err = p
		default:
			panic(p)
		}
	}()
	f()
	return nil
}

func (t *host) end() {
	for {
		t.mu.Lock()
		n := len(t.cleanups)
		if n == 0 {
			t.mu.Unlock()
			return
		}
		f := t.cleanups[n-1]
		t.cleanups = t.cleanups[:n-1]
		t.mu.Unlock()
		f()
	}
}

func (t *host) Cleanup(f func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.cleanups = append(t.cleanups, f)
}

func (*host) Helper()                          {}
func (*host) Name() string                     { return "bench" }
func (*host) Context() context.Context         { return context.Background() }
func (*host) Fatal(args ...any)                { panic(failure{sprint(args)}) }
func (*host) Fatalf(format string, a ...any)   { panic(failure{fmt.Sprintf(format, a...)}) }
func (t *host) Error(args ...any)              { t.Fatal(args...) }
func (t *host) Errorf(format string, a ...any) { t.Fatalf(format, a...) }
func (*host) Skipf(format string, a ...any)    { panic(skip{fmt.Sprintf(format, a...)}) }

func (t *host) TempDir() string {
	dir, err := os.MkdirTemp("", "bench")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

func sprint(args []any) string { return strings.TrimSuffix(fmt.Sprintln(args...), "\n") }
