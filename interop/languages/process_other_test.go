//go:build !linux

package languages

import (
	"errors"
	"os/exec"
)

// endWithParent does nothing here: a server ends when its standard input is
// closed, which happens when this process ends.
func endWithParent(*exec.Cmd) {}

func killGroup(cmd *exec.Cmd) error { return cmd.Process.Kill() }

func pause(*exec.Cmd) error { return errors.ErrUnsupported }
