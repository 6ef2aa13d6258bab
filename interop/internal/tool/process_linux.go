package tool

import (
	"os/exec"
	"syscall"
)

// EndWithParent has the system kill the process when its parent is gone. It gets a
// process group of its own, so that an interrupt reaches it in no other way.
func EndWithParent(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
