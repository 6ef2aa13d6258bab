package languages

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

func killGroup(cmd *exec.Cmd) error {
	return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
}

// pause stops a process where it is: the kernel goes on to accept connections and
// bytes for it. All its threads have stopped when pause returns.
func pause(cmd *exec.Cmd) error {
	if err := syscall.Kill(-cmd.Process.Pid, syscall.SIGSTOP); err != nil {
		return err
	}
	for {
		running, err := runningThreads(cmd.Process.Pid)
		if err != nil || running == 0 {
			return err
		}
		time.Sleep(time.Millisecond)
	}
}

func runningThreads(pid int) (int, error) {
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
	if err != nil {
		return 0, err
	}
	running := 0
	for _, file := range files {
		stat, err := os.ReadFile(file)
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
			continue // a thread that has just ended
		}
		if err != nil {
			return 0, err
		}
		// The state follows the name, which is in parentheses.
		if _, state, _ := strings.Cut(string(stat), ") "); !strings.HasPrefix(state, "T") {
			running++
		}
	}
	return running, nil
}
