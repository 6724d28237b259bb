package notes

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/fsnotify/fsnotify"

	"decklog/events"
)

// wakesFolder holds a file for each session that somebody listens for: its lock
// says that one does, and its text up to where the session was told of its mail.
const wakesFolder = "wakes"

// Listener is the one process that listens for a session's mail.
type Listener struct{ f *os.File }

// Listen makes this process the session's listener; nil when another is. The
// process that ends, however it does, is it no more.
func (n *Notes) Listen(s events.SessionID) (*Listener, error) {
	path, err := n.beside(wakesFolder, s)
	if err != nil {
		return nil, fmt.Errorf("listen for session: %w", err)
	}
	if err := os.Mkdir(filepath.Dir(path), 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, fmt.Errorf("listen for session: %w", err)
	}
	for {
		f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil {
			return nil, fmt.Errorf("listen for session: %w", err)
		}
		if !tryLock(f) {
			return nil, f.Close()
		}
		if isAt(f, path) {
			return &Listener{f}, nil
		}
		f.Close() // its last listener took it away
	}
}

// isAt says whether a file is the one that lies under a name now.
func isAt(f *os.File, path string) bool {
	mine, err := f.Stat()
	if err != nil {
		return false
	}
	there, err := os.Lstat(path)
	return err == nil && os.SameFile(mine, there)
}

// positionBytes hold any position.
const positionBytes = 20

// Told is up to where the session was told of what came to wait, by this listener
// or the one before it; 0 when it never was, or it cannot be read.
func (l *Listener) Told() events.Position {
	var b [positionBytes]byte
	n, _ := l.f.ReadAt(b[:], 0)
	told, err := strconv.ParseInt(strings.TrimSpace(string(b[:n])), 10, 64)
	if err != nil {
		return 0
	}
	return events.Position(told)
}

// Tell notes that the session is told of what came to wait up to a position. It
// is written before the telling: a session that is not woken is told of its mail
// by its next prompt, and one that is woken twice pays for it.
func (l *Listener) Tell(p events.Position) error {
	if _, err := l.f.WriteAt(fmt.Appendf(nil, "%-*d", positionBytes, p), 0); err != nil {
		return fmt.Errorf("note what the session is told of: %w", err)
	}
	return nil
}

// Close ends the listening. Another process may listen now.
func (l *Listener) Close() error { return l.f.Close() }

// Gone ends the listening for a session that has ended.
func (l *Listener) Gone() error { return errors.Join(os.Remove(l.f.Name()), l.f.Close()) }

// Watch tells, until it is ended, when something was noted of a session. Where the
// system has no watch to give it never does.
func (n *Notes) Watch(s events.SessionID) (stirred <-chan struct{}, end func()) {
	path, err := n.path(s)
	if err != nil {
		return nil, func() {}
	}
	watcher, err := fsnotify.NewWatcher()
	if err != nil {
		return nil, func() {}
	}
	folder := filepath.Dir(path)
	if err := os.Mkdir(folder, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, func() { watcher.Close() }
	}
	if watcher.Add(folder) != nil {
		return nil, func() { watcher.Close() }
	}
	told, over := make(chan struct{}, 1), make(chan struct{})
	go func() {
		defer close(over)
		for {
			select {
			case e, open := <-watcher.Events:
				if !open {
					return
				}
				if e.Name != path {
					continue
				}
			case _, open := <-watcher.Errors:
				if !open {
					return
				}
			}
			select {
			case told <- struct{}{}:
			default: // it is told already
			}
		}
	}()
	return told, func() {
		watcher.Close()
		<-over
	}
}

// beside is a session's file in a folder beside the ledger.
func (n *Notes) beside(folder string, s events.SessionID) (string, error) {
	note, err := n.path(s)
	if err != nil {
		return "", err
	}
	return filepath.Join(n.dir, folder, filepath.Base(note)), nil
}
