//go:build !(linux || darwin || freebsd || netbsd || openbsd)

package runs

import (
	"errors"
	"fmt"
)

// Tell tells nobody: this system has no sockets with a place in a folder.
func Tell(string, Told) {}

// Listener hears what hook runs tell; on this system there is none.
type Listener struct{}

// Listen fails: no run can tell anything on this system.
func Listen(string) (*Listener, error) {
	return nil, fmt.Errorf("listen for hook runs: %w", errors.ErrUnsupported)
}

// Hear hears nothing.
func (*Listener) Hear(func(Told), func()) error { return nil }

// Close does nothing.
func (*Listener) Close() error { return nil }
