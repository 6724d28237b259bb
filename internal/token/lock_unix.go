//go:build unix && !aix && !solaris

package token

import (
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"decklog/events"
)

// lockPatience bounds the wait for another process, which holds the lock for a
// few milliseconds.
const lockPatience = 10 * time.Second

// lock takes the lock of a file, which is made where it is missing, and gives
// what gives it back. A holder that does not let go is [events.ErrLocked].
func lock(path string) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	// Such a wait cannot be ended: one that was given up closes the file when its
	// turn comes at last, and so passes it on.
	turn, gone := make(chan error), make(chan struct{})
	go func() {
		err := flock(f)
		select {
		case turn <- err:
		case <-gone:
			f.Close()
		}
	}()
	timer := time.NewTimer(lockPatience)
	defer timer.Stop()
	select {
	case err := <-turn:
		if err != nil && !errors.Is(err, syscall.ENOLCK) && !errors.Is(err, syscall.EOPNOTSUPP) {
			return nil, errors.Join(fmt.Errorf("lock %s: %w", path, err), f.Close())
		}
		return func() { f.Close() }, nil
	case <-timer.C:
		close(gone)
		return nil, fmt.Errorf("lock %s: waited %s: %w", path, lockPatience, events.ErrLocked)
	}
}

func flock(f *os.File) error {
	for {
		if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); !errors.Is(err, syscall.EINTR) {
			return err
		}
	}
}
