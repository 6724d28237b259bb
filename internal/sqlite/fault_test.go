package sqlite

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ncruces/go-sqlite3"
	"github.com/ncruces/go-sqlite3/vfs"
	"golang.org/x/sys/unix"

	"decklog/events"
)

// faulty is the system, but that writing and syncing the log can be made to fail.
type faulty struct {
	vfs.VFSFilename
	onWrite, onSync atomic.Pointer[error]
}

type faultyLog struct {
	vfs.File
	of *faulty
}

func (f *faulty) OpenFilename(name *vfs.Filename, flags vfs.OpenFlag) (vfs.File, vfs.OpenFlag, error) {
	file, flags, err := f.VFSFilename.OpenFilename(name, flags)
	if err == nil && flags&vfs.OPEN_WAL != 0 {
		file = faultyLog{file, f}
	}
	return file, flags, err
}

func (l faultyLog) WriteAt(p []byte, off int64) (int, error) {
	if err := l.of.onWrite.Load(); err != nil {
		return 0, *err
	}
	return l.File.WriteAt(p, off)
}

func (l faultyLog) Sync(flags vfs.SyncFlag) error {
	if err := l.of.onSync.Load(); err != nil {
		return *err
	}
	return l.File.Sync(flags)
}

// onFaulty opens a ledger on a system that can be made to fail.
func onFaulty(t *testing.T) (*Ledger, *faulty) {
	t.Helper()
	return onFaultyIn(t, testOptions())
}

func onFaultyIn(t *testing.T, o options) (*Ledger, *faulty) {
	t.Helper()
	f := &faulty{VFSFilename: vfs.Find("os").(vfs.VFSFilename)}
	vfs.Register("faulty", disk{f})
	t.Cleanup(func() { vfs.Unregister("faulty") })
	o.journal, o.vfs = journalWAL, "faulty"
	return opened(t, filepath.Join(t.TempDir(), "ledger.db"), o), f
}

func TestACommitThatCannotBeMadeDurableIsUnknownAndEndsTheLedger(t *testing.T) {
	for name, set := range map[string]func(*faulty, *error){
		"write": func(f *faulty, err *error) { f.onWrite.Store(err) },
		"sync":  func(f *faulty, err *error) { f.onSync.Store(err) },
	} {
		t.Run(name, func(t *testing.T) {
			l, f := onFaulty(t)
			must(t, appendTo(l, note("a", -1, "1")))
			var fault error = unix.EIO
			set(f, &fault)
			err := appendTo(l, note("a", 0, "2"))
			if !errors.Is(err, events.ErrUnknown) {
				t.Fatalf("update gave %v", err)
			}
			set(f, nil) // the disk says it is well again
			if err := appendTo(l, note("a", 0, "3")); !errors.Is(err, events.ErrUnknown) {
				t.Errorf("the next update gave %v", err)
			}
			if _, err := l.end(); !errors.Is(err, events.ErrUnknown) {
				t.Errorf("the next view gave %v", err)
			}
			if err := l.Wait(context.Background(), 0); !errors.Is(err, events.ErrUnknown) {
				t.Errorf("the next wait gave %v", err)
			}
			must(t, l.Close())

			again := opened(t, l.path, testOptions())
			must(t, appendNext(again, "a", "3"))
			if bad := firstBad(t, again); bad != 0 {
				t.Errorf("event %d is bad", bad)
			}
		})
	}
}

func TestACommitThatFindsNoSpaceAppendsNothingAndTheNextMay(t *testing.T) {
	for name, o := range map[string]options{"alone": testOptions(), "in groups": inGroups()} {
		t.Run(name, func(t *testing.T) {
			l, f := onFaultyIn(t, o)
			must(t, appendTo(l, note("a", -1, "1")))
			var full error = &os.PathError{Op: "write", Path: "log", Err: unix.ENOSPC}
			f.onWrite.Store(&full)
			for range 3 {
				if err := appendNext(l, "a", "2"); !errors.Is(err, events.ErrNoSpace) || errors.Is(err, events.ErrUnknown) {
					t.Fatalf("update gave %v", err)
				}
			}
			if end, err := l.end(); end != 1 || err != nil {
				t.Errorf("end %d, %v", end, err)
			}
			f.onWrite.Store(nil)
			must(t, appendNext(l, "a", "2"))
			if got := ids(t, l); len(got) != 2 {
				t.Errorf("it has %q", got)
			}
		})
	}
}

func TestAnErrorThatSQLiteRolledBackForFailsTheUpdateThatIgnoresIt(t *testing.T) {
	l, f := onFaulty(t)
	must(t, appendTo(l, note("a", -1, "1")))
	var full error = &os.PathError{Op: "write", Path: "log", Err: unix.ENOSPC}
	f.onWrite.Store(&full)
	// More than the cache holds, so that pages go to the log before the commit.
	err := l.Update(func(tx events.Tx) error {
		for n := range 128 {
			tx.Rows().Put(fmt.Sprint(n), make([]byte, 100_000))
		}
		f.onWrite.Store(nil)
		tx.Append(note("a", 0, "2"))
		tx.Rows().Put("k", []byte("v"))
		return nil
	})
	if !errors.Is(err, events.ErrNoSpace) {
		t.Errorf("update gave %v", err)
	}
	must(t, l.View(func(r events.Reader) error {
		end, err := r.End()
		row, _ := r.Rows().Get("k")
		if end != 1 || row != nil {
			t.Errorf("end %d, row %q", end, row)
		}
		return err
	}))
	must(t, appendTo(l, note("a", 0, "2")))
}

func TestATransactionThatSQLiteEndedByItselfWritesNothingMore(t *testing.T) {
	l := opened(t, filepath.Join(t.TempDir(), "ledger.db"), testOptions())
	err := l.Update(func(open events.Tx) error {
		open.Append(note("a", -1, "1"))
		must(t, open.(*tx).c.run("ROLLBACK")) // as it does when it cannot read a page
		open.Append(note("b", -1, "2"))
		open.Rows().Put("k", []byte("v"))
		return nil
	})
	if !errors.Is(err, errEnded) {
		t.Errorf("update gave %v", err)
	}
	if end, err := l.end(); end != 0 || err != nil {
		t.Errorf("end %d, %v", end, err)
	}
}

func TestATicketThatIsNotGivenBackIsWaitedForOnlySoLong(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger.db")
	o := testOptions()
	o.ticketWaitMax = 20 * time.Millisecond
	l := opened(t, path, o)
	holder := &ticket{path: l.ticket.path, waitMax: time.Second}
	must(t, holder.take())
	for range 3 {
		if err := appendTo(l, note("a", -1, "1")); !errors.Is(err, events.ErrLocked) {
			t.Fatalf("update gave %v", err)
		}
		if l.ticket.file != nil {
			t.Fatal("the next update would share its lock with the wait that was given up")
		}
	}
	if _, err := l.end(); err != nil {
		t.Errorf("reading waits for the ticket too: %v", err)
	}
	holder.close()
	// Those who gave up pass the ticket on when their turn comes.
	l.ticket.waitMax = ticketWaitMax
	must(t, appendTo(l, note("a", -1, "1")))
}

func TestALedgerWithLittlePatienceGivesUpSoon(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger.db")
	must(t, opened(t, path, testOptions()).Close())
	l, err := Open(path, none, Patience(20*time.Millisecond))
	must(t, err)
	defer l.Close()
	holder := &ticket{path: l.ticket.path, waitMax: time.Second}
	must(t, holder.take())
	if err := appendTo(l, note("a", -1, "1")); !errors.Is(err, events.ErrLocked) {
		t.Errorf("waiting for its turn, update gave %v", err)
	}
	holder.close()
	other, err := sqlite3.Open(path)
	must(t, err)
	defer other.Close()
	must(t, other.Exec("BEGIN IMMEDIATE"))
	began := time.Now()
	if err := appendTo(l, note("a", -1, "1")); !errors.Is(err, events.ErrLocked) || time.Since(began) > busyTimeout/2 {
		t.Errorf("waiting for a lock, update gave %v after %s", err, time.Since(began))
	}
	must(t, other.Exec("ROLLBACK"))
	must(t, appendTo(l, note("a", -1, "1")))
}

func TestAWriterWithoutATicketIsWaitedForOnlySoLong(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger.db")
	l := opened(t, path, testOptions())
	other, err := sqlite3.Open(path)
	must(t, err)
	defer other.Close()
	must(t, other.Exec("BEGIN IMMEDIATE"))
	c, err := l.connections.lend()
	must(t, err)
	must(t, c.db.BusyTimeout(10*time.Millisecond))
	l.connections.giveBack(c) // and goes out again first
	if err := appendTo(l, note("a", -1, "1")); !errors.Is(err, events.ErrLocked) {
		t.Errorf("update gave %v", err)
	}
	must(t, other.Exec("ROLLBACK"))
	must(t, appendTo(l, note("a", -1, "1")))
}

func TestErrorsAreExplainedAndKeepTheirCause(t *testing.T) {
	for cause, word := range map[error]error{
		sqlite3.FULL:             events.ErrNoSpace,
		unix.ENOSPC:              events.ErrNoSpace,
		sqlite3.BUSY:             events.ErrLocked,
		sqlite3.BUSY_RECOVERY:    events.ErrLocked,
		sqlite3.LOCKED:           events.ErrLocked,
		sqlite3.CORRUPT:          events.ErrDamaged,
		sqlite3.CORRUPT_INDEX:    events.ErrDamaged,
		sqlite3.NOTADB:           events.ErrDamaged,
		sqlite3.READONLY_DBMOVED: events.ErrReadOnly,
		sqlite3.CANTOPEN:         events.ErrReadOnly,
		unix.EACCES:              events.ErrReadOnly,
		unix.EPERM:               events.ErrReadOnly,
		unix.EROFS:               events.ErrReadOnly,
		unix.ENOTDIR:             events.ErrReadOnly,
		sqlite3.IOERR_SHMSIZE:    events.ErrNoSpace,
	} {
		if err := explain(fmt.Errorf("do it: %w", cause)); !errors.Is(err, word) || !errors.Is(err, cause) {
			t.Errorf("%v is explained as %v", cause, err)
		}
	}
	for _, cause := range []error{nil, sqlite3.IOERR_READ, sqlite3.CONSTRAINT, errors.New("other")} {
		if err := explain(cause); err != cause {
			t.Errorf("%v is explained as %v", cause, err)
		}
	}
}
