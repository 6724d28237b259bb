package socket

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"syscall"
)

// short is an address by which the socket is reached, and what to call when it
// was: a long path is reached through its folder, opened.
func short(path string) (address string, done func(), err error) {
	if len(path) <= pathBytesMax {
		return path, func() {}, nil
	}
	f, err := os.Open(filepath.Dir(path))
	if err != nil {
		return "", nil, err
	}
	return fmt.Sprintf("/proc/self/fd/%d/%s", f.Fd(), filepath.Base(path)), func() { _ = f.Close() }, nil
}

func private(address string) (*net.UnixListener, error) {
	old := syscall.Umask(0o177)
	defer syscall.Umask(old)
	return net.ListenUnix("unix", &net.UnixAddr{Name: address, Net: "unix"})
}
