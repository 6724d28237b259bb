package sqlite

import (
	"context"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/fsnotify/fsnotify"

	"decklog/events"
)

// lookEvery is how soon a commit is seen whose writer died before it touched
// the pulse, or whose touch the kernel had no watch for.
const lookEvery = time.Second

// Wait returns nil once the ledger's end lies after the given position,
// whichever process appended, or the context's error when that comes first. A
// waiter is woken; it does not poll, and while the watch can be relied on it does
// not look either: any number of waiters cost one look a commit.
func (l *Ledger) Wait(ctx context.Context, after events.Position) error {
	if l.watch.start(string(l.pulse)) {
		// Look only now: what is committed from here on wakes the watch.
		end, err := l.watch.look()
		if err != nil {
			return fmt.Errorf("wait for the ledger: %w", err)
		}
		l.watch.looked(end)
	}
	for {
		end, changed, err := l.watch.seen()
		switch {
		case err != nil:
			return fmt.Errorf("wait for the ledger: %w", err)
		case end > after:
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// pulse is the path of the file that a writer touches after a commit. Who waits
// makes it; where it is not there, nobody does. That a touch fails does not
// matter: the waiters look every lookEvery anyway.
type pulse string

func (p pulse) ring() {
	now := time.Now()
	os.Chtimes(string(p), now, now)
}

// watch knows how far the ledger is known to reach, and tells all waiters of
// one process with a single look for each touch of the pulse.
type watch struct {
	look      func() (events.Position, error)
	lookEvery time.Duration

	mu      sync.Mutex
	end     events.Position
	err     error         // of the last look, or that the ledger is closed
	changed chan struct{} // closed, and replaced, with each change of these
	stop    chan struct{} // nil until somebody waits
	stopped chan struct{}
	closed  bool
	sure    bool // somebody has looked since the pulse is watched: nothing is missed
	blind   bool // the pulse is not watched
	// news is for the goroutine that wakes the waiters: to wake ten thousand takes
	// longer than to append, and who appends holds the ledger's turn.
	news chan struct{}
}

func (w *watch) init(look func() (events.Position, error), every time.Duration) {
	w.look, w.lookEvery = look, every
	w.changed, w.news = make(chan struct{}), make(chan struct{}, 1)
}

// seen is how far the ledger was seen to reach, and what is closed when it is
// seen to have changed.
func (w *watch) seen() (events.Position, <-chan struct{}, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.end, w.changed, w.err
}

// saw notes a look, or a commit of this process, and has the waiters told.
func (w *watch) saw(end events.Position, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed || err == nil && w.err == nil && end <= w.end {
		return
	}
	w.end, w.err = max(w.end, end), err
	if w.stop == nil {
		return // nobody waits yet
	}
	select {
	case w.news <- struct{}{}:
	default: // it is told already, and will look at what is so then
	}
}

// looked notes the look of a waiter.
func (w *watch) looked(end events.Position) {
	w.saw(end, nil)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sure = !w.blind
}

// tell wakes all who wait.
func (w *watch) tell() {
	w.mu.Lock()
	told := w.changed
	w.changed = make(chan struct{})
	w.mu.Unlock()
	close(told)
}

// start watches the pulse from now until close, and says whether a waiter has to
// look for himself. Where the kernel has no watch left to give, all have to, and
// only the looks at lookEvery remain.
func (w *watch) start(pulse string) (look bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.stop == nil && !w.closed {
		w.stop, w.stopped = make(chan struct{}), make(chan struct{})
		watcher := watchFile(pulse)
		w.blind = watcher == nil
		go w.follow(watcher, w.stop, w.stopped)
	}
	return !w.sure
}

// watchFile watches a file, which it makes if need be; nil when it cannot.
func watchFile(path string) *fsnotify.Watcher {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		return nil
	}
	f.Close()
	watcher, err := fsnotify.NewWatcher()
	if err != nil {
		return nil
	}
	if err := watcher.Add(path); err != nil {
		watcher.Close()
		return nil
	}
	return watcher
}

func (w *watch) follow(watcher *fsnotify.Watcher, stop, stopped chan struct{}) {
	defer close(stopped)
	var touched chan fsnotify.Event
	var missed chan error
	if watcher != nil {
		defer watcher.Close()
		touched, missed = watcher.Events, watcher.Errors
	}
	tick := time.NewTicker(w.lookEvery)
	defer tick.Stop()
	for {
		select {
		case <-stop:
			return
		case _, open := <-touched:
			if !open {
				touched, missed = nil, nil
				w.lose()
			}
		case <-missed:
		case <-tick.C:
		case <-w.news:
			w.tell()
			continue
		}
		w.saw(w.look())
	}
}

// lose notes that the pulse is watched no more.
func (w *watch) lose() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sure, w.blind = false, true
}

// close ends the watch, and tells the waiters.
func (w *watch) close() {
	w.mu.Lock()
	stop, stopped := w.stop, w.stopped
	first := !w.closed
	if first {
		w.closed, w.err = true, errClosed
		if stop != nil {
			close(stop)
		}
	}
	w.mu.Unlock()
	if first {
		w.tell()
	}
	if stopped != nil {
		<-stopped
	}
}
