//go:build !unix

package program

import (
	"errors"
	"fmt"
	"os"
	"os/exec"

	"decklog/internal/classifier"
)

// Daemon runs decklogd, and ends as it ends.
func Daemon(args ...string) error {
	cmd := exec.Command(classifier.Beside(classifier.Daemon), args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	err := cmd.Run()
	var exit *exec.ExitError
	if err == nil || errors.As(err, &exit) {
		os.Exit(cmd.ProcessState.ExitCode())
	}
	return fmt.Errorf("run %s: %w", classifier.Daemon, err)
}
