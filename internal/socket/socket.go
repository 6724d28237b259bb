// Package socket reaches unix sockets whose paths are longer than a socket's
// address may be: a ledger's folder may lie as deep as it likes. It knows nothing
// of what is said through them.
package socket

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"os"
	"syscall"
)

// pathBytesMax is what the address of a unix socket holds everywhere.
const pathBytesMax = 100

// Dial connects to the socket at a path.
func Dial(ctx context.Context, path string) (net.Conn, error) {
	address, done, err := short(path)
	if err != nil {
		return nil, err
	}
	defer done()
	return (&net.Dialer{}).DialContext(ctx, "unix", address)
}

// ErrInUse says that somebody listens at the path.
var ErrInUse = errors.New("another process listens there")

// Listen makes a socket that nobody but its owner can open, from the moment on
// that it is there. One on which nobody listens is left of a process that died,
// and goes; where somebody does, also one who is too busy to answer, it is
// [ErrInUse].
func Listen(path string) (net.Listener, error) {
	c, err := Dial(context.Background(), path)
	switch {
	case err == nil:
		_ = c.Close()
		return nil, ErrInUse
	case errors.Is(err, syscall.ECONNREFUSED):
		if info, err := os.Lstat(path); err == nil && info.Mode()&fs.ModeSocket != 0 {
			if err := os.Remove(path); err != nil {
				return nil, err
			}
		}
	case errors.Is(err, syscall.EAGAIN):
		return nil, ErrInUse // it has more callers than it can queue
	}
	address, done, err := short(path)
	if err != nil {
		return nil, err
	}
	l, err := private(address)
	if err != nil {
		done()
		return nil, err
	}
	l.SetUnlinkOnClose(false) // by the path that it has for everybody
	made, err := os.Lstat(path)
	if err != nil {
		_ = l.Close()
		done()
		return nil, err
	}
	return &listener{UnixListener: l, path: path, made: made, done: done}, nil
}

type listener struct {
	*net.UnixListener
	path string
	made os.FileInfo
	done func()
}

func (l *listener) Close() error {
	err := l.UnixListener.Close()
	if err == nil {
		// Somebody may have removed it, and another may listen there by now.
		if now, err := os.Lstat(l.path); err == nil && os.SameFile(l.made, now) {
			_ = os.Remove(l.path)
		}
		l.done()
	}
	return err
}
