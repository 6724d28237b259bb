//go:build unix

package program

import (
	"fmt"
	"os"
	"os/exec"
	"syscall"

	"decklog/internal/classifier"
)

// Daemon becomes decklogd, in this very process: the harness that started
// it is then decklogd's parent, by which its session is found.
func Daemon(args ...string) error {
	program, err := exec.LookPath(classifier.Beside(classifier.Daemon))
	if err == nil {
		err = syscall.Exec(program, append([]string{program}, args...), os.Environ())
	}
	return fmt.Errorf("run %s: %w", classifier.Daemon, err)
}
