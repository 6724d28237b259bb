//go:build unix

package classifier

import (
	"os/exec"
	"syscall"
)

// together makes a classifier the head of a process group, so that what it started
// ends with it.
func together(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
}
