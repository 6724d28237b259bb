//go:build linux || darwin || freebsd || netbsd || openbsd

package runs

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"
)

// Tell sends what a run tells to whoever listens in the ledger's folder. It does
// not wait, and gives no error: nothing that comes of it is worth a hook's while.
func Tell(folder string, t Told) {
	text := t.text()
	if folder == "" || text == nil {
		return
	}
	to, done, err := address(folder)
	if err != nil {
		return
	}
	defer done()
	fd, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_DGRAM, 0)
	if err != nil {
		return
	}
	_ = syscall.Sendto(fd, text, syscall.MSG_DONTWAIT, to)
	_ = syscall.Close(fd)
}

// address is that of the socket in a folder. A path that is too long for an
// address is written shorter, where the system has a way; done ends that.
func address(folder string) (to *syscall.SockaddrUnix, done func(), err error) {
	path := filepath.Join(folder, SocketName)
	if len(path) < len(syscall.RawSockaddrUnix{}.Path) {
		return &syscall.SockaddrUnix{Name: path}, func() {}, nil
	}
	if runtime.GOOS != "linux" {
		return nil, nil, fmt.Errorf("the path %s is too long for a socket", path)
	}
	fd, err := syscall.Open(folder, syscall.O_RDONLY|syscall.O_DIRECTORY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return nil, nil, err
	}
	return &syscall.SockaddrUnix{Name: "/proc/self/fd/" + strconv.Itoa(fd) + "/" + SocketName}, func() { _ = syscall.Close(fd) }, nil
}

// Listener hears what hook runs tell.
type Listener struct {
	socket *os.File
	path   string
	made   os.FileInfo // of the socket's name, when it was made
}

// Listen begins to hear the runs of the ledger in a folder. A socket that a
// process left which is no more is replaced; with one that listens it fails with
// ErrListening. Two that begin in the same moment may both believe that they
// listen: then the later one does.
func Listen(folder string) (*Listener, error) {
	l, err := listen(folder)
	if err != nil {
		return nil, fmt.Errorf("listen for hook runs: %w", err)
	}
	return l, nil
}

func listen(folder string) (*Listener, error) {
	at, done, err := address(folder)
	if err != nil {
		return nil, err
	}
	defer done()
	path := filepath.Join(folder, SocketName)
	if err := vacate(path, at); err != nil {
		return nil, err
	}
	fd, err := socket()
	if err != nil {
		return nil, err
	}
	socket := os.NewFile(uintptr(fd), path) // which does not block, so it can be closed while it is read
	if err := syscall.Bind(fd, at); err != nil {
		return nil, errors.Join(err, socket.Close())
	}
	if err := os.Chmod(path, 0o600); err != nil {
		return nil, errors.Join(err, socket.Close())
	}
	made, err := os.Lstat(path)
	if err != nil {
		return nil, errors.Join(err, socket.Close())
	}
	return &Listener{socket: socket, path: path, made: made}, nil
}

// vacate makes room for a socket of ours.
func vacate(path string, at *syscall.SockaddrUnix) error {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil
	case err != nil:
		return err
	case info.Mode().Type() != os.ModeSocket:
		return fmt.Errorf("%s is no socket", path)
	}
	fd, err := socket()
	if err != nil {
		return err
	}
	defer syscall.Close(fd)
	switch err := syscall.Connect(fd, at); {
	case err == nil:
		return ErrListening
	case errors.Is(err, syscall.ECONNREFUSED):
		return os.Remove(path)
	default:
		return err
	}
}

// socket makes one that does not block, and that no program which this one
// starts gets.
func socket() (fd int, err error) {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	if fd, err = syscall.Socket(syscall.AF_UNIX, syscall.SOCK_DGRAM, 0); err != nil {
		return fd, err
	}
	syscall.CloseOnExec(fd)
	if err := syscall.SetNonblock(fd, true); err != nil {
		return fd, errors.Join(err, syscall.Close(fd))
	}
	return fd, nil
}

// Hear gives what runs tell, one after the other, until the listener is closed;
// then it returns nil. wrong is called for what is nothing that a run tells.
func (l *Listener) Hear(told func(Told), wrong func()) error {
	b := make([]byte, toldBytesMax+1)
	for {
		n, err := l.socket.Read(b)
		switch {
		case errors.Is(err, os.ErrClosed):
			return nil
		case err != nil && !errors.Is(err, io.EOF): // an end is a datagram without a byte
			return fmt.Errorf("hear hook runs: %w", err)
		}
		if t, ok := parse(b[:n]); ok {
			told(t)
		} else {
			wrong()
		}
	}
}

// Close ends the hearing, and takes the socket away if it is still this one's.
func (l *Listener) Close() error {
	if now, err := os.Lstat(l.path); err == nil && os.SameFile(now, l.made) {
		_ = os.Remove(l.path)
	}
	return l.socket.Close()
}
