package sqlite

import (
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"decklog/events"
)

// ticket is the turn to write. The processes queue for it in the kernel, by a
// lock on a file of its own. SQLite's own lock keeps writers apart without it,
// but lets them in by chance: one of four was seen to get a single commit while
// another got four thousand.
//
// It is for one goroutine at a time.
type ticket struct {
	path    string
	waitMax time.Duration
	file    *os.File
}

// take waits for the turn, and for longer than waitMax with [events.ErrLocked].
func (t *ticket) take() error {
	if t.file == nil {
		f, err := os.OpenFile(t.path, os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil {
			return fmt.Errorf("take ticket: %w", explain(err))
		}
		t.file = f
	}
	err := flock(t.file, unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		err = t.queue()
	}
	switch {
	case errors.Is(err, unix.ENOLCK), errors.Is(err, unix.ENOSYS), errors.Is(err, unix.EOPNOTSUPP):
		return nil // a file system without such locks has SQLite's alone
	case err != nil:
		return fmt.Errorf("take ticket: %w", err)
	}
	return nil
}

// queue waits in a goroutine, since a wait for this lock cannot be ended. One
// that was given up closes the file when its turn comes at last, and so passes
// it on.
func (t *ticket) queue() error {
	f, turn, gone := t.file, make(chan error), make(chan struct{})
	go func() {
		err := flock(f, unix.LOCK_EX)
		select {
		case turn <- err:
		case <-gone:
			f.Close()
		}
	}()
	timer := time.NewTimer(t.waitMax)
	defer timer.Stop()
	select {
	case err := <-turn:
		return err
	case <-timer.C:
		t.file = nil
		close(gone)
		return fmt.Errorf("waited %s: %w", t.waitMax, events.ErrLocked)
	}
}

func (t *ticket) giveBack() { flock(t.file, unix.LOCK_UN) }

func (t *ticket) close() {
	if t.file != nil {
		t.file.Close()
		t.file = nil
	}
}

func flock(f *os.File, how int) error {
	for {
		if err := unix.Flock(int(f.Fd()), how); err != unix.EINTR {
			return err
		}
	}
}
