//go:build unix

package program

import (
	"os/exec"
	"syscall"
)

// apart keeps a process from ending with the group of the one that starts it.
func apart(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} }
