package tool

import (
	"os/exec"
	"runtime"
	"testing"
)

// Process is a process that ends with the test that started it, or with the test
// binary if that is interrupted.
type Process struct {
	PID  int
	done chan struct{}
}

// Start starts a process.
func Start(t testing.TB, cmd *exec.Cmd) *Process {
	t.Helper()
	EndWithParent(cmd)
	p := &Process{done: make(chan struct{})}
	started := make(chan error)
	go func() {
		// The system ends the process when the thread that started it ends.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		defer close(p.done)
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait() // tests kill it
		}
	}()
	if err := <-started; err != nil {
		t.Fatal(err)
	}
	p.PID = cmd.Process.Pid
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // an error means that it has ended
		<-p.done
	})
	return p
}

// Done is closed when the process has ended.
func (p *Process) Done() <-chan struct{} { return p.done }
