//go:build !linux

package socket

import (
	"net"
	"os"
)

func short(path string) (address string, done func(), err error) { return path, func() {}, nil }

func private(address string) (*net.UnixListener, error) {
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: address, Net: "unix"})
	if err == nil {
		err = os.Chmod(address, 0o600)
	}
	return l, err
}
