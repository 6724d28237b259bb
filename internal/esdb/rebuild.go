package esdb

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/google/uuid"

	"decklog/events"
	"decklog/internal/failure"
	"decklog/internal/sqlite"
)

// A rebuild fills a new mirror from the cluster's beginning, beside the one that
// serves, and puts it in that one's place. The new one never gets ahead: it is given
// what the old one has, so that at the moment of the change both have the same, and
// whoever reads sees no difference but that what was wrong is right.
//
// The new one lies in a file of its own until it is whole and on the disk, and takes
// the old one's name in one step. So whenever the process dies there is the old one
// or the new one, and a new one that was not finished is cleared away when the
// ledger is opened next.
//
// What only the old one knows goes over: what is still to be sent, the bodies that
// have to go, what was only counted.

const (
	// shutMax is how long readers are kept waiting while those who are inside leave.
	// If one stays longer the change is tried again later.
	shutMax = 200 * time.Millisecond
	// shutAgain is how much later at first, and shutAgainMax in the end.
	shutAgain    = 50 * time.Millisecond
	shutAgainMax = 5 * time.Second
	// tellEvery is how often somebody is told how far a rebuild is.
	tellEvery = time.Second
	// ringMax is how many events are looked at together when bells are rung late.
	ringMax = 500
)

// building is a mirror that is filled. What has no comment of its own is under
// Ledger.mu.
type building struct {
	l       *Ledger
	views   string // the file whose place it takes
	path    string // the file that it is in until then
	mirror  *sqlite.Ledger
	stalled chan struct{}
	end     context.CancelFunc // of the filling
	filled  chan error         // why it ended

	at       place
	has      bool
	position events.Position
	live     bool // it has had all that there was
}

// Rebuild makes the mirror anew from the cluster, beside the one that is read and
// brought up to date meanwhile, and then changes it for that one. It takes as long as
// it takes to read the whole ledger, and for that time as much room again on the
// disk. tell, which may be nil, is told how far it is, and can end it by an error.
//
// After an error the old mirror goes on.
func (l *Ledger) Rebuild(tell func(done, end events.Position) error) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("rebuild the views: %w", err)
		}
	}()
	l.mu.Lock()
	switch {
	case l.closed:
		err = errShut
	case errors.Is(l.failed, errOther):
		err = l.failed
	case l.failed == nil && !l.reached && l.why != nil:
		err = l.why
	case !l.rebuilding.CompareAndSwap(false, true):
		err = failure.New("rebuilding", "wait for the one that runs: decklog doctor says when it is done", errors.New("the views are being made anew already"))
	default:
		l.work.Add(1) // Close waits for it
	}
	l.mu.Unlock()
	if err != nil {
		return err
	}
	defer l.work.Done()
	defer l.rebuilding.Store(false)
	if tell == nil {
		tell = func(_, _ events.Position) error { return nil }
	}

	b := &building{l: l, views: l.views(), stalled: make(chan struct{}, 1), filled: make(chan error, 1)}
	b.path = besides(b.views)
	if err := removeMirror(b.path); err != nil {
		return err
	}
	if b.mirror, err = l.openMirror(b.path); err != nil {
		return errors.Join(err, removeMirror(b.path))
	}
	ctx, end := context.WithCancel(l.life)
	b.end = end
	go b.fill(ctx)
	changed := false
	defer func() {
		b.stop()
		if !changed {
			err = errors.Join(err, b.mirror.Close(), removeMirror(b.path))
		}
	}()
	for pause := shutAgain; ; pause = min(2*pause, shutAgainMax) {
		if err := b.hasAll(ctx, tell); err != nil {
			return err
		}
		if changed, err = b.change(ctx); changed || err != nil {
			return err
		}
		again := time.NewTimer(pause)
		select {
		case <-again.C:
		case <-ctx.Done():
			again.Stop()
		}
	}
}

// fill brings all that the cluster has to the new mirror.
func (b *building) fill(ctx context.Context) {
	l := b.l
	var why error
	l.subscribe(ctx, func() *projector {
		l.mu.Lock()
		defer l.mu.Unlock()
		return &projector{l: l, at: b.at, has: b.has, target: target{
			view: b.mirror.View, write: b.write, stalled: b.stalled, may: b.may, landed: b.landed, live: b.isLive,
			checked: func() {}, subscribed: func(place) {}, coming: func(int) {}, seen: func(place) {},
		}}
	}, func(err error) (hopeless bool) {
		var own ofMirror
		if err, hopeless = explained(err); hopeless || errors.As(err, &own) {
			why = err
			return true
		}
		l.change(func() { b.live = false })
		return false
	})
	if why == nil {
		why = errShut
	}
	b.filled <- why
}

// stop ends the filling, and waits for that.
func (b *building) stop() {
	b.end()
	b.filled <- <-b.filled // it may be asked again
}

func (b *building) write(do func(sqlite.Mirror) error) error {
	return b.mirror.Bring(do)
}

// may gives how many of these appends the old mirror has. Where that one is not
// brought up to date any more, the new one goes on alone.
func (b *building) may(ctx context.Context, groups [][]arrival) (n int, err error) {
	b.passes("filling")
	err = b.l.when(ctx, func() bool {
		if b.l.failed != nil {
			n = len(groups)
		}
		for n < len(groups) && !groups[n][len(groups[n])-1].at.after(b.l.at) {
			n++
		}
		return n > 0
	})
	return n, err
}

func (b *building) landed(recorded []events.Recorded, _ []uuid.UUID, at place) {
	b.l.change(func() {
		b.at, b.has = at, true
		if n := len(recorded); n > 0 {
			b.position = recorded[n-1].Position
		}
	})
}

func (b *building) isLive(time.Time) { b.l.change(func() { b.live = true }) }

// hasAll waits until the new mirror has what the old one has.
func (b *building) hasAll(ctx context.Context, tell func(done, end events.Position) error) error {
	l := b.l
	every := time.NewTicker(tellEvery)
	defer every.Stop()
	for {
		l.mu.Lock()
		done, all, changed := b.position, !l.at.after(b.at), l.changed
		if l.failed != nil {
			all = b.live
		}
		l.mu.Unlock()
		if all {
			return tell(done, done)
		}
		select {
		case <-changed:
		case <-every.C:
			end, err := l.ends()
			if err != nil {
				end = 0 // it may be what is damaged
			}
			if err := tell(done, max(done, end)); err != nil {
				return err
			}
			select {
			case b.stalled <- struct{}{}: // it is asked whether nothing comes any more
			default:
			}
		case err := <-b.filled:
			b.filled <- err
			return err
		}
	}
}

// change puts the new mirror in the old one's place, where all readers leave in time.
func (b *building) change(ctx context.Context) (changed bool, err error) {
	l := b.l
	b.passes("filled")
	if !l.gate.close(shutMax) {
		return false, nil
	}
	defer l.gate.open()
	_, failed := l.state()
	was, there, err := l.checkpointOf(l.mirror.View)
	switch {
	case failed != nil:
	case err != nil:
		return false, err
	case there:
		// What the old one had last is told to the new one only now.
		soon, cancel := context.WithTimeout(ctx, shutMax)
		defer cancel()
		if l.when(soon, func() bool { return b.at == was.At }) != nil {
			return false, nil
		}
	}
	b.stop()
	if err := b.takeOver(failed == nil); err != nil {
		return false, err
	}
	if failed != nil {
		if err := b.ring(); err != nil {
			return false, err
		}
	}
	b.passes("taken over")
	// From here on there is no mirror, until one of them is opened again.
	closing := errors.Join(b.mirror.Close(), l.mirror.Close())
	b.passes("closed")
	err = replace(b.path, b.views, b.passes)
	if err != nil {
		err = errors.Join(err, closing)
	}
	b.passes("replaced")
	mirror, opening := l.openMirror(l.address.Views)
	if opening != nil {
		opening = failure.New("views_broken", "look at the disk of the views, and start decklog serve again; nothing is lost", ofMirror{opening})
		l.change(func() { l.failed, l.live, l.since = opening, false, time.Now() })
		return true, errors.Join(err, opening)
	}
	l.mirror = mirror
	if err != nil {
		return true, errors.Join(err, removeMirror(b.path)) // both are closed
	}
	_ = removeMirror(b.path) // what lay beside it; else it is cleared away at the next opening
	if failed != nil {
		l.change(func() { l.at, l.has, l.seen, l.failed, l.since = b.at, b.has, b.at, nil, time.Now() })
		l.work.Go(l.follow)
	}
	return true, nil
}

func (b *building) passes(step string) {
	if b.l.step != nil {
		b.l.step(step)
	}
}

// takeOver brings to the new mirror what only the old one knows. While it was filled
// it noted every body that ever had to go; where both have the same events the old
// one knows better which of them still have to.
func (b *building) takeOver(same bool) error {
	notes := map[string][]byte{}
	type tally struct {
		key   string
		count int
		since events.Time
	}
	var tallies []tally
	err := b.l.mirror.View(func(r events.Reader) error {
		old := r.(sqlite.Noted)
		err := old.Notes("", func(key string, value []byte) { notes[key] = value })
		if err == nil {
			err = old.Tallies(func(key string, count int, since events.Time) { tallies = append(tallies, tally{key, count, since}) })
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("read what is still to be sent: %w; to go on without it take the file away", err)
	}
	delete(notes, checkpointKey)
	return b.write(func(m sqlite.Mirror) error {
		var gone []string
		if same {
			if err := m.Notes(dropKey, func(key string, _ []byte) { gone = append(gone, key) }); err != nil {
				return err
			}
		}
		for _, key := range gone {
			if err := m.Note(key, nil); err != nil {
				return err
			}
		}
		for key, value := range notes {
			if err := m.Note(key, value); err != nil {
				return err
			}
		}
		for _, t := range tallies {
			if _, _, err := m.Tally(t.key, t.count, t.since); err != nil {
				return err
			}
		}
		return nil
	})
}

// ring does for the events that the old mirror lacks what is done in each transaction
// that brings some.
func (b *building) ring() error {
	if b.l.hook == nil {
		return nil
	}
	var from events.Position
	_ = b.l.mirror.View(func(r events.Reader) (err error) { // where it cannot tell, for all
		from, err = r.End()
		return err
	})
	return b.mirror.View(func(r events.Reader) error {
		for {
			page, err := r.All(from+1, ringMax)
			if err != nil || len(page) == 0 {
				return err
			}
			if err := b.l.hook(r, page); err != nil {
				return err
			}
			from = page[len(page)-1].Position
		}
	})
}

// when waits until something is so of what is under mu.
func (l *Ledger) when(ctx context.Context, is func() bool) error {
	for {
		l.mu.Lock()
		yes, changed := is(), l.changed
		l.mu.Unlock()
		if yes {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// views is the mirror's file, whatever links lead there.
func (l *Ledger) views() string {
	if real, err := filepath.EvalSymlinks(l.address.Views); err == nil {
		return real
	}
	return l.address.Views
}

// besides is the file in which a new mirror is filled.
func besides(views string) string { return strings.TrimSuffix(views, ".db") + ".new.db" }

// removeMirror takes a mirror away that nobody has open.
func removeMirror(path string) error {
	for _, suffix := range []string{"-wal", "-shm", "-journal", ""} {
		if err := os.Remove(path + suffix); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("clear away a rebuild: %w", err)
		}
	}
	for _, suffix := range []string{".lock", ".pulse"} {
		if err := os.Remove(strings.TrimSuffix(path, ".db") + suffix); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("clear away a rebuild: %w", err)
		}
	}
	return nil
}

// replace gives a closed mirror another one's name, durably. Neither may have a log
// beside it: it would be taken for that of the file that has the name then.
func replace(path, views string, passes func(string)) error {
	for _, file := range []string{path, views} {
		for _, suffix := range []string{"-wal", "-journal"} {
			if _, err := os.Stat(file + suffix); !errors.Is(err, fs.ErrNotExist) {
				return fmt.Errorf("change the views for the new ones: another process has %s open, or its disk fails: %w", file, events.ErrLocked)
			}
		}
	}
	if err := syncFile(path); err != nil {
		return err
	}
	passes("synced")
	if err := os.Rename(path, views); err != nil {
		return fmt.Errorf("change the views for the new ones: %w", err)
	}
	passes("renamed")
	return syncFile(filepath.Dir(views))
}

// syncFile makes a file, or a folder's names, durable.
func syncFile(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("sync %s: %w", path, err)
	}
	defer f.Close()
	if err := f.Sync(); err != nil {
		return fmt.Errorf("sync %s: %w", path, err)
	}
	return nil
}
