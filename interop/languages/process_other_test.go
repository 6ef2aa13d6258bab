//go:build !linux

package languages

import (
	"errors"
	"os/exec"
)

func killGroup(cmd *exec.Cmd) error { return cmd.Process.Kill() }

func pause(*exec.Cmd) error { return errors.ErrUnsupported }
