//go:build unix

package program

import (
	"os/signal"
	"syscall"
)

// ignoreClosedPipes lets a write to a pipe that nobody reads fail with an error.
// Otherwise it would end the process, and a hook must end well.
func ignoreClosedPipes() { signal.Ignore(syscall.SIGPIPE) }
