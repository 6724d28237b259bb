// Package sqlite is the ledger of one machine: a SQLite file that many
// processes append to and read at once.
//
// Beside ledger.db, and SQLite's own ledger.db-wal and ledger.db-shm, lie two
// small files. ledger.lock is the ticket of which each process holds the lock
// while it writes; it keeps the writers' turns fair. ledger.pulse is touched
// after each commit, so that a process that waits for events is woken. Neither
// holds anything: whoever deletes them loses fairness and promptness, no event.
//
// Nothing in a process that holds the ledger may open, read or close
// ledger.db, -wal or -shm by itself. On some systems the first such close drops
// the locks by which SQLite keeps processes apart, and an append is lost
// without a sign. Backups and inspections go through SQLite.
package sqlite

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"github.com/ncruces/go-sqlite3"

	"decklog/events"
	"decklog/internal/faults"
)

// ticketWaitMax is how long an Update waits for its turn among the processes.
// It is longer than busyTimeout: one holder that SQLite makes wait that long
// must not fail those behind it.
const ticketWaitMax = 15 * time.Second

// connectionsMax bounds the transactions of one Ledger that run at once, the
// writing one included.
const connectionsMax = 8

// Readers in the way of emptying the log hold up an Update for scrubWaitMax,
// and not the next before scrubEvery is over.
const (
	scrubWaitMax = 100 * time.Millisecond
	scrubEvery   = time.Second
)

var (
	errClosed = errors.New("the ledger is closed")
	errEnded  = errors.New("its transaction has ended")
	errView   = errors.New("a view only reads")
)

// Ledger is an [events.Ledger] in a SQLite file. Any number of goroutines may
// use it. Update calls wait for each other. A view reads one snapshot and holds
// up nobody, but while it runs the write-ahead log cannot shrink: it should read
// a page and end.
//
// The functions given to Update and View must not call the Ledger.
//
// After an Update whose outcome is unknown the Ledger answers nothing more than
// [events.ErrUnknown]: what the kernel could not make durable once it may call
// durable when asked again. Open the ledger anew.
type Ledger struct {
	path    string
	journal string
	mirror  bool
	project events.Projector

	writing     sync.Mutex // held by the one Update that runs
	ticket      ticket
	connections pool
	pulse       pulse
	watch       watch
	kept        kept
	groups      *groups // nil: each Update commits by itself
	onCommit    func(members, events int, took time.Duration)
	file        os.FileInfo // as it was opened, of a grouped ledger; else nil
	scrub       bool        // a body was dropped, and may still be in the write-ahead log
	inTheWay    time.Time   // when a reader last kept it there
}

var _ events.Ledger = (*Ledger)(nil)

// options are what a caller or a test may want otherwise.
type options struct {
	ticketWaitMax time.Duration
	busyTimeout   time.Duration // 0: busyTimeout
	lookEvery     time.Duration
	vfs           string // SQLite's layer to the system
	journal       string // empty for what the file system calls for
	groups        *Groups
	onCommit      func(members, events int, took time.Duration)
	mirror        bool
}

// Open opens the ledger at path, whose name should end in .db, and makes it
// when it is not there: its folder for nobody but its owner (0700), its files
// likewise (0600). Any number of processes may make it at the same time.
//
// The errors that a caller can tell apart are [events.ErrNewer],
// [events.ErrDamaged] (the file is something else), [events.ErrReadOnly],
// [events.ErrNoSpace] and [events.ErrLocked].
func Open(path string, project events.Projector, more ...Option) (*Ledger, error) {
	o := options{ticketWaitMax: ticketWaitMax, lookEvery: lookEvery, vfs: diskName, journal: faults.Journal()}
	for _, option := range more {
		option(&o)
	}
	if o.mirror && o.groups == nil {
		o.groups = &DefaultGroups
	}
	return open(path, project, o)
}

// Option makes [Open] differ from what suits most callers.
type Option func(*options)

// Patience is how long the ledger waits for other processes, for its turn and
// for their locks, before it answers [events.ErrLocked]. It is for a caller that
// would rather go on without the ledger than be held up.
func Patience(most time.Duration) Option {
	return func(o *options) { o.ticketWaitMax, o.busyTimeout = most, most }
}

// OnCommit has a function called after each commit that appended: of how many
// Update calls it was made, how many events they appended, and how long the commit
// itself took, which is nearly all of it waiting for the disk. The function must be
// quick, and must not call the Ledger.
func OnCommit(call func(members, events int, took time.Duration)) Option {
	return func(o *options) { o.onCommit = call }
}

func open(path string, project events.Projector, o options) (*Ledger, error) {
	path, err := makeFile(path)
	if err != nil {
		return nil, fmt.Errorf("open ledger: %w", explain(err))
	}
	if o.journal == "" {
		if o.journal, err = journalFor(filepath.Dir(path)); err != nil {
			return nil, fmt.Errorf("open ledger: %w", explain(err))
		}
	}
	beside := strings.TrimSuffix(path, ".db")
	l := &Ledger{
		path:    path,
		journal: o.journal,
		mirror:  o.mirror,
		project: project,
		ticket:  ticket{path: beside + ".lock", waitMax: o.ticketWaitMax},
		pulse:   pulse(beside + ".pulse"),

		onCommit: o.onCommit,
	}
	if o.groups != nil {
		l.groups = &groups{bounds: *o.groups, ahead: newAhead(), ends: newEnds()}
		if l.file, err = os.Stat(path); err != nil {
			return nil, fmt.Errorf("open ledger: %w", explain(err))
		}
	}
	l.connections.init(func() (*connection, error) { return connect(path, o) })
	l.watch.init(l.end, o.lookEvery)

	if err := l.prepare(); err != nil {
		l.Close()
		return nil, fmt.Errorf("open ledger %s: %w", path, err)
	}
	return l, nil
}

// JournalMode is how SQLite keeps a commit whole: "wal", or "delete" on a file
// system that other machines may share, where a write-ahead log is not safe.
// With "delete" a commit waits for the views that run, and is three to four
// times slower.
func (l *Ledger) JournalMode() string { return l.journal }

// InPlace says whether the ledger's file is still the one that was opened: a file
// that was removed or moved away goes on taking events, and nobody else ever sees
// them. The error is [events.ErrDamaged].
func (l *Ledger) InPlace() error {
	if l.file == nil {
		return nil
	}
	if now, err := os.Stat(l.path); err != nil || !os.SameFile(l.file, now) {
		return fmt.Errorf("the file %s was removed, moved or replaced since it was opened: %w", l.path, events.ErrDamaged)
	}
	return nil
}

// View calls fn with a snapshot. An error of fn is returned as it is.
func (l *Ledger) View(fn func(events.Reader) error) (err error) {
	defer l.guard(&err)()
	c, err := l.connections.lend()
	if err != nil {
		return fmt.Errorf("view ledger: %w", err)
	}
	defer l.connections.giveBack(c)
	if err := c.exec("BEGIN"); err != nil {
		return fmt.Errorf("view ledger: %w", err)
	}
	r := &reader{c: c, kept: l.kept.take()}
	defer r.end()
	if err := fn(r); err != nil {
		return err
	}
	l.kept.giveBack(r.kept)
	return nil
}

// Update calls fn once. It has the outcomes that [events.Ledger] promises. An
// error of fn is returned as it is, and like a panic of fn it rolls everything
// back.
//
// When a body was dropped, Update tries to empty the write-ahead log, the last
// place that holds the body's bytes. A reader may be in the way; then a later
// Update tries again, and at the latest the last process to close the ledger.
func (l *Ledger) Update(fn func(events.Tx) error) (err error) {
	if l.groups != nil {
		return l.updateInGroup(fn)
	}
	defer l.guard(&err)()
	c, err := l.beginWriting()
	if err != nil {
		return fmt.Errorf("update ledger: %w", err)
	}
	defer l.endWriting(c)
	t := &tx{reader: &reader{c: c, kept: l.kept.take()}, project: l.project}
	defer t.end()
	if err := fn(t); err != nil {
		return err
	}
	err = t.alive()
	if err == nil {
		err = l.commit(c, commit{members: 1, events: t.appended, last: t.last, dropped: t.dropped})
	}
	if err != nil {
		return fmt.Errorf("update ledger: %w", err)
	}
	l.kept.giveBack(t.kept)
	return nil
}

// Settled calls fn with the last state of the ledger, all of it durable, which
// it stays until fn returns: nobody appends meanwhile. It is never part of a
// group, in which it would see what may yet be undone. An error of fn is returned
// as it is.
func (l *Ledger) Settled(fn func(events.Reader) error) (err error) {
	defer l.guard(&err)()
	c, err := l.beginWriting()
	if err != nil {
		return fmt.Errorf("settle ledger: %w", err)
	}
	defer l.endWriting(c)
	kept := l.writersKept()
	r := &reader{c: c, kept: kept.take()}
	defer r.end()
	if err := fn(r); err != nil {
		return err
	}
	kept.giveBack(r.kept)
	return nil
}

// beginWriting begins a write transaction: it takes the turn among the calls of
// this process, then among the processes, then SQLite's own lock.
func (l *Ledger) beginWriting() (*connection, error) {
	var (
		c             *connection
		ticket, begun bool
	)
	l.writing.Lock()
	defer func() {
		if begun {
			return
		}
		if ticket {
			l.ticket.giveBack()
		}
		if c != nil {
			l.giveBackWriter(c)
		}
		l.writing.Unlock()
	}()
	c, err := l.lendWriter()
	if err != nil {
		return nil, err
	}
	if !l.alone() {
		if err := l.ticket.take(); err != nil {
			return nil, err
		}
		ticket = true
	}
	if err := l.begin(c); err != nil {
		return nil, err
	}
	begun = true
	faults.Point("began")
	return c, nil
}

func (l *Ledger) begin(c *connection) error {
	if c.goesOn = c.open; c.open {
		c.open = false
		return nil
	}
	if l.alone() {
		return c.exec("BEGIN")
	}
	return c.exec("BEGIN IMMEDIATE")
}

// endWriting ends it, without a trace if it was not committed.
func (l *Ledger) endWriting(c *connection) {
	defer l.writing.Unlock()
	if !l.alone() {
		defer l.ticket.giveBack()
	}
	defer l.giveBackWriter(c)
	if !c.open {
		c.rollback()
	}
}

// alone says that no other process writes to the file, and in this one nothing but
// what writing keeps apart. So there is nobody to wait for, and a transaction can
// begin without SQLite's own lock until it writes.
func (l *Ledger) alone() bool { return l.mirror && l.journal == journalWAL }

// lendWriter lends the connection that a write transaction has. Groups have one
// of their own, so that no view keeps them waiting.
func (l *Ledger) lendWriter() (*connection, error) {
	if l.groups == nil {
		return l.connections.lend()
	}
	if err := l.connections.refused(); err != nil || l.groups.writer != nil {
		return l.groups.writer, err
	}
	c, err := l.connections.connect()
	if err != nil {
		return nil, err
	}
	if err := c.forGroups(); err != nil {
		c.close() // the next one is made anew
		return nil, err
	}
	l.groups.writer = c
	return c, nil
}

func (l *Ledger) giveBackWriter(c *connection) {
	switch {
	case l.groups == nil:
		l.connections.giveBack(c)
	case !c.open && !c.db.GetAutocommit():
		l.groups.writer = nil
		c.close() // it could not roll back
	}
}

// writersKept is what the fold knows of the rows, for who writes.
func (l *Ledger) writersKept() *kept {
	if l.groups != nil {
		return &l.groups.kept // the views would take it away
	}
	return &l.kept
}

// commit is a write transaction that is to become durable.
type commit struct {
	members int // how many Update calls
	events  int // how many they appended
	last    events.Position
	dropped bool // a body
}

// commit makes a transaction durable, and tells those who wait.
func (l *Ledger) commit(c *connection, what commit) error {
	faults.Point("before-commit")
	began := time.Now()
	switch err := c.commit(); {
	case err == nil:
		faults.Point("after-commit")
	case errors.Is(err, sqlite3.FULL), errors.Is(err, sqlite3.BUSY):
		return fmt.Errorf("commit: %w", explain(err)) // SQLite is sure that it did not commit
	default:
		err = fmt.Errorf("commit: %w: %w", events.ErrUnknown, explain(err))
		l.connections.refuse(err)
		l.watch.saw(0, err)
		return err
	}
	if what.events > 0 {
		if l.onCommit != nil {
			l.onCommit(what.members, what.events, time.Since(began))
		}
		if !l.alone() {
			l.pulse.ring()
		}
		faults.Point("pulse-rung")
		l.watch.saw(what.last, nil)
	}
	l.scrub = l.scrub || what.dropped
	if l.scrub && time.Since(l.inTheWay) > scrubEvery {
		faults.Point("before-scrub")
		if l.scrub = c.emptyLog() != nil; l.scrub {
			l.inTheWay = time.Now()
		}
	}
	return nil
}

// Close waits for the transactions that run, ends all waiting, and closes the
// ledger. The last process to close it moves the write-ahead log into the file,
// so that the next to open it starts at once. A second Close does nothing.
func (l *Ledger) Close() (err error) {
	defer l.guard(&err)()
	l.watch.close()
	l.connections.refuse(errClosed)
	l.writing.Lock()
	defer l.writing.Unlock()
	defer l.ticket.close()
	faults.Point("closing")
	if l.groups != nil {
		l.groups.movers.Wait()
		if c := l.groups.writer; c != nil {
			err = c.close()
			l.groups.writer = nil
		}
	}
	if err := errors.Join(err, l.connections.close()); err != nil {
		return fmt.Errorf("close ledger: %w", err)
	}
	return nil
}

// guard makes an error of a fault of memory. The index of the write-ahead log is
// a file that SQLite works on as memory, so a disk that cannot give a page of it
// has no other way to say so; unguarded it would end the process, with the exit
// code by which a hook forbids its harness to go on. The connection is lost, and
// its locks with it until the process ends, which it should do soon.
func (l *Ledger) guard(err *error) (end func()) {
	before := debug.SetPanicOnFault(true)
	return func() {
		debug.SetPanicOnFault(before)
		switch p := recover().(type) {
		case nil:
		case addressed:
			*err = l.faulted(p)
		default:
			panic(p)
		}
	}
}

// addressed is what a fault of memory panics with.
type addressed interface{ Addr() uintptr }

// faulted ends the use of the ledger after a fault of memory.
func (l *Ledger) faulted(p addressed) error {
	err := fmt.Errorf("%w: the log's index cannot be read: %v", events.ErrUnknown, p)
	l.connections.refuse(err)
	l.watch.saw(0, err)
	return err
}

// kept is what the fold knows of the rows, from one transaction to the next that
// takes it. One that fails does not give it back.
type kept struct {
	mu   sync.Mutex
	fold any
}

func (k *kept) take() any {
	k.mu.Lock()
	defer k.mu.Unlock()
	fold := k.fold
	k.fold = nil
	return fold
}

func (k *kept) giveBack(fold any) {
	fold = ended(fold, false)
	k.mu.Lock()
	defer k.mu.Unlock()
	k.fold = fold
}

// ended tells a fold how a unit of work ended, and gives it where it can go on.
func ended(fold any, undone bool) any {
	switch f, is := fold.(events.Fold); {
	case is && f.Ended(undone), !is && !undone:
		return fold
	}
	return nil
}

func (l *Ledger) end() (end events.Position, err error) {
	err = l.View(func(r events.Reader) error {
		end, err = r.End()
		return err
	})
	return end, err
}

// makeFile makes an empty file at path for its owner alone, and the folder it
// lies in, unless they are there. SQLite would give it the rights of any new
// file. The path it returns has no symbolic links, so that all processes put
// the files beside the ledger into one folder.
func makeFile(path string) (string, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	for range 2 {
		var f *os.File
		// Never without O_EXCL: another Ledger in this process may have it open.
		f, err = os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
		switch {
		case err == nil:
			f.Close()
		case errors.Is(err, os.ErrExist):
		case errors.Is(err, os.ErrNotExist):
			if err := makeFolder(filepath.Dir(path)); err != nil {
				return "", err
			}
			continue
		default:
			return "", err
		}
		return filepath.EvalSymlinks(path)
	}
	return "", err
}

// makeFolder makes a folder with those above it, durably: a commit is worth
// nothing in a folder that a power cut takes away.
func makeFolder(folder string) error {
	var missing []string
	for above := folder; ; above = filepath.Dir(above) {
		if _, err := os.Stat(above); err == nil {
			break
		}
		missing = append(missing, above)
	}
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return err
	}
	for _, made := range missing {
		f, err := os.Open(filepath.Dir(made))
		if err != nil {
			return err
		}
		err = f.Sync()
		f.Close()
		if err != nil {
			return err
		}
	}
	return nil
}
