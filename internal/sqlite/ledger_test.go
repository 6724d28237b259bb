package sqlite

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/ncruces/go-sqlite3"
	"golang.org/x/sys/unix"

	"decklog/events"
	"decklog/internal/ledgertest"
)

// testOptions are the ones that Open uses.
func testOptions() options {
	return options{ticketWaitMax: ticketWaitMax, lookEvery: lookEvery, vfs: diskName}
}

func opened(t testing.TB, path string, o options) *Ledger {
	t.Helper()
	l, err := open(path, none, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

func none(events.Rows, []events.Recorded) error { return nil }

// note is a batch of one event without a body.
func note(stream events.Stream, expected events.Revision, id string) events.Batch {
	return events.Batch{Stream: stream, Expected: expected, Time: 1, Events: []events.Proposed{{
		Stream: stream, ID: events.EventID(id), Actor: "@smith",
		Event: events.ThreadDone{Thread: "t", Message: "m", By: "@smith"},
	}}}
}

func appendTo(l *Ledger, b events.Batch) error {
	return l.Update(func(tx events.Tx) error {
		_, err := tx.Append(b)
		return err
	})
}

// appendNext appends at the stream's head, whatever it is.
func appendNext(l *Ledger, stream events.Stream, id string) error {
	return l.Update(appends(stream, id))
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// raw opens the file past the ledger. Only after the ledger was closed.
func raw(t testing.TB, path, sql string) error {
	t.Helper()
	c, err := sqlite3.Open(path)
	must(t, err)
	defer c.Close()
	return c.Exec(sql)
}

func TestTheLedgerKeepsTheContract(t *testing.T) {
	for _, journal := range []string{journalWAL, journalDelete} {
		for name, groups := range map[string]*Groups{"": nil, " in groups": &DefaultGroups} {
			t.Run(journal+name, func(t *testing.T) {
				ledgertest.Contract(t, func(t *testing.T, p events.Projector) events.Ledger {
					o := testOptions()
					o.journal, o.groups = journal, groups
					l, err := open(filepath.Join(t.TempDir(), "ledger.db"), p, o)
					must(t, err)
					return l
				})
			})
		}
	}
}

func TestOnlyTheOwnerMayReadTheFiles(t *testing.T) {
	defer unix.Umask(unix.Umask(0))
	folder := filepath.Join(t.TempDir(), "new", "a b&c?d#e%f+g")
	path := filepath.Join(folder, "ledger.db")
	l := opened(t, path, testOptions())
	must(t, appendTo(l, note("a", -1, "1")))
	must(t, l.Wait(t.Context(), 0)) // who waits makes the pulse
	for name, want := range map[string]os.FileMode{
		".": 0o700, "..": 0o700, "ledger.db": 0o600, "ledger.db-wal": 0o600, "ledger.db-shm": 0o600,
		"ledger.lock": 0o600, "ledger.pulse": 0o600,
	} {
		file, err := os.Stat(filepath.Join(folder, name))
		must(t, err)
		if got := file.Mode().Perm(); got != want {
			t.Errorf("%s has mode %o, not %o", name, got, want)
		}
	}
	must(t, l.Close())
	for _, gone := range []string{"ledger.db-wal", "ledger.db-shm"} {
		if _, err := os.Stat(filepath.Join(folder, gone)); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s is there after the last close: %v", gone, err)
		}
	}
}

func TestEveryConnectionHasTheSettings(t *testing.T) {
	for journal, synchronous := range map[string]string{journalWAL: "2", journalDelete: "3"} {
		t.Run(journal, func(t *testing.T) {
			o := testOptions()
			o.journal = journal
			l := opened(t, filepath.Join(t.TempDir(), "ledger.db"), o)
			for n := range 2 {
				c, err := l.connections.lend()
				must(t, err)
				defer l.connections.giveBack(c)
				for name, want := range map[string]string{
					"synchronous": synchronous, "busy_timeout": "10000", "foreign_keys": "1", "secure_delete": "1",
					"temp_store": "2", "trusted_schema": "0", "recursive_triggers": "1", "cache_size": "-8192", "wal_autocheckpoint": "1000", "journal_size_limit": "16777216",
					"journal_mode": journal, "application_id": "1684366187", "user_version": "1",
				} {
					if got, err := c.pragma(name); got != want || err != nil {
						t.Errorf("connection %d has %s %s (%v), not %s", n, name, got, err, want)
					}
				}
			}
		})
	}
}

func TestALedgerThatIsMovedToAnotherFileSystemChangesItsJournal(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger.db")
	for n, journal := range []string{journalWAL, journalDelete, journalDelete, journalWAL} {
		o := testOptions()
		o.journal = journal
		l := opened(t, path, o)
		if l.JournalMode() != journal {
			t.Errorf("journal mode %s", l.JournalMode())
		}
		must(t, appendNext(l, "a", fmt.Sprint(n)))
		if end, err := l.end(); end != events.Position(n)+1 || err != nil {
			t.Errorf("end %d, %v", end, err)
		}
		_, err := os.Stat(path + "-shm")
		if there := err == nil; there != (journal == journalWAL) {
			t.Errorf("with journal mode %s the log's index is there: %v", journal, there)
		}
		must(t, l.Close())
	}
}

func TestAFileThatIsNoLedgerIsDamagedAndLeftAsItIs(t *testing.T) {
	for name, make := range map[string]func(path string) error{
		"garbage":               func(path string) error { return os.WriteFile(path, []byte(strings.Repeat("garbage\n", 1000)), 0o600) },
		"a little garbage":      func(path string) error { return os.WriteFile(path, []byte("x"), 0o600) },
		"another database":      func(path string) error { return raw(t, path, "CREATE TABLE t (a)") },
		"another application's": func(path string) error { return raw(t, path, "PRAGMA application_id=7; CREATE TABLE t (a)") },
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "ledger.db")
			must(t, make(path))
			before, err := os.ReadFile(path)
			must(t, err)
			if _, err := Open(path, none); !errors.Is(err, events.ErrDamaged) {
				t.Errorf("open gave %v", err)
			}
			if after, err := os.ReadFile(path); string(after) != string(before) || err != nil {
				t.Errorf("the file changed, or %v", err)
			}
		})
	}
}

func TestAnEmptyFileBecomesALedger(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger.db")
	must(t, os.WriteFile(path, nil, 0o600))
	must(t, appendTo(opened(t, path, testOptions()), note("a", -1, "1")))
}

func TestANewerLedgerIsLeftToANewerProgram(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger.db")
	must(t, opened(t, path, testOptions()).Close())
	must(t, raw(t, path, fmt.Sprint("PRAGMA user_version=", format+1)))
	if _, err := Open(path, none); !errors.Is(err, events.ErrNewer) {
		t.Errorf("open gave %v", err)
	}
}

func TestNoStatementChangesOrRemovesAnEvent(t *testing.T) {
	l := opened(t, filepath.Join(t.TempDir(), "ledger.db"), testOptions())
	must(t, appendTo(l, note("a", -1, "1")))
	c, err := l.connections.lend()
	must(t, err)
	defer l.connections.giveBack(c)
	for _, sql := range []string{
		"UPDATE events SET data = x'00'",
		"DELETE FROM events",
		"REPLACE INTO events SELECT * FROM events",
	} {
		if err := c.exec(sql); err == nil || !strings.Contains(err.Error(), "never") {
			t.Errorf("%s gave %v", sql, err)
		}
	}
}

func TestOneChangedByteBreaksTheChainInItsPlace(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger.db")
	l := opened(t, path, testOptions())
	for n := range 5 {
		must(t, appendNext(l, "a", fmt.Sprint(n)))
	}
	if at := firstBad(t, l); at != 0 {
		t.Fatalf("event %d is bad before", at)
	}
	must(t, l.Close())

	// What stands here for a failing disk has to take the trigger away first.
	must(t, raw(t, path, `DROP TRIGGER events_never_change;
		UPDATE events SET data = CAST(replace(CAST(data AS TEXT), 'smith', 'smitj') AS BLOB) WHERE position = 3`))
	if at := firstBad(t, opened(t, path, testOptions())); at != 3 {
		t.Errorf("the first bad event is %d", at)
	}
}

// firstBad recomputes the digests; 0 when all are right.
func firstBad(t testing.TB, l *Ledger) (bad events.Position) {
	t.Helper()
	must(t, l.View(func(r events.Reader) error {
		all, err := r.All(1, 100_000)
		chain := map[events.Stream]events.Digest{}
		for n, e := range all {
			if e.Position != events.Position(n)+1 || e.Digest != e.Chain(chain[e.Stream]) {
				bad = events.Position(n) + 1
				return nil
			}
			chain[e.Stream] = e.Digest
		}
		return err
	}))
	return bad
}

func TestADroppedBodyIsInNoFileAnyMore(t *testing.T) {
	for journal, o := range map[string]options{journalWAL: testOptions(), journalDelete: testOptions()} {
		for name, secret := range map[string]string{
			"short": "a secret of one line",
			"long":  strings.Repeat("a long secret; ", 2000),
		} {
			t.Run(journal+" "+name, func(t *testing.T) {
				o.journal = journal
				path := filepath.Join(t.TempDir(), "ledger.db")
				l := opened(t, path, o)
				for n, text := range []string{"before", secret, "after"} {
					b := note("a", events.Revision(n)-1, text[:5])
					b.Events[0].Body = &events.Body{Text: []byte(text)}
					must(t, appendTo(l, b))
				}
				needle := secret[:15]
				if found := grep(t, path, needle); found == 0 {
					t.Fatal("the body is in no file: this test finds nothing")
				}
				drop := note("a", 2, "drop")
				drop.Events[0].Drops = []events.EventID{events.EventID(secret[:5])}
				must(t, appendTo(l, drop))
				if found := grep(t, path, needle); found != 0 {
					t.Errorf("the dropped body is there %d times", found)
				}
				if found := grep(t, path, "before"); found == 0 {
					t.Error("the other body went too")
				}
			})
		}
	}
}

func TestABodyDroppedUnderAReaderGoesWhenTheLedgerIsClosed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger.db")
	o := testOptions()
	o.journal = journalWAL
	l := opened(t, path, o)
	b := note("a", -1, "1")
	b.Events[0].Body = &events.Body{Text: []byte("a secret")}
	must(t, appendTo(l, b))
	must(t, l.View(func(r events.Reader) error {
		if _, there, err := r.Body("1"); !there || err != nil {
			t.Fatal(there, err)
		}
		drop := note("a", 0, "2")
		drop.Events[0].Drops = []events.EventID{"1"}
		done := make(chan error)
		go func() { done <- appendTo(l, drop) }()
		return <-done
	}))
	if !l.scrub {
		t.Error("the ledger does not know that the log holds a dropped body")
	}
	must(t, l.Close())
	if found := grep(t, path, "a secret"); found != 0 {
		t.Errorf("the dropped body is there %d times", found)
	}
}

func TestATransactionThatEndedDoesNothing(t *testing.T) {
	l := opened(t, filepath.Join(t.TempDir(), "ledger.db"), testOptions())
	var kept events.Tx
	must(t, l.Update(func(tx events.Tx) error { kept = tx; return nil }))
	_, err := kept.Append(note("a", -1, "1"))
	_, endErr := kept.End()
	_, _, tallyErr := kept.Tally("t", 1, 1)
	_, getErr := kept.Rows().Get("k")
	for _, err := range []error{err, endErr, tallyErr, getErr, kept.Rows().Put("k", nil), kept.ClearRows()} {
		if !errors.Is(err, errEnded) {
			t.Errorf("it gave %v", err)
		}
	}
	if end, err := l.end(); end != 0 || err != nil {
		t.Errorf("end %d, %v", end, err)
	}
}

func TestMoreReadersThanConnectionsAllRead(t *testing.T) {
	l := opened(t, filepath.Join(t.TempDir(), "ledger.db"), testOptions())
	must(t, appendTo(l, note("a", -1, "1")))
	var readers sync.WaitGroup
	for range 4 * connectionsMax {
		readers.Go(func() {
			for range 5 {
				if end, err := l.end(); end != 1 || err != nil {
					t.Errorf("end %d, %v", end, err)
				}
			}
		})
	}
	readers.Wait()
	if n := len(l.connections.idle); n > connectionsMax {
		t.Errorf("%d connections are open", n)
	}
}

func TestAPanicInAViewGivesItsConnectionBack(t *testing.T) {
	l := opened(t, filepath.Join(t.TempDir(), "ledger.db"), testOptions())
	for range 2 * connectionsMax {
		func() {
			defer func() { recover() }()
			l.View(func(events.Reader) error { panic("mine") })
		}()
	}
	must(t, appendTo(l, note("a", -1, "1")))
}

func TestACloseWaitsForTheUpdateThatRuns(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger.db")
	l := opened(t, path, testOptions())
	closed := make(chan error)
	must(t, l.Update(func(tx events.Tx) error {
		_, begun, _ := l.watch.seen()
		go func() { closed <- l.Close() }()
		<-begun
		_, err := tx.Append(note("a", -1, "1"))
		return err
	}))
	must(t, <-closed)
	if end, err := opened(t, path, testOptions()).end(); end != 1 || err != nil {
		t.Errorf("end %d, %v", end, err)
	}
}

func TestAnyNumberMayCloseTheLedgerAtOnce(t *testing.T) {
	l := opened(t, filepath.Join(t.TempDir(), "ledger.db"), testOptions())
	must(t, appendTo(l, note("a", -1, "1")))
	var closers sync.WaitGroup
	for range 4 {
		closers.Go(func() {
			if err := l.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	closers.Wait()
}

func TestWhatTheFoldKeepsIsForTheNextTransactionUnlessThisOneFails(t *testing.T) {
	l := opened(t, filepath.Join(t.TempDir(), "ledger.db"), testOptions())
	kept := func() (fold any) {
		must(t, l.View(func(r events.Reader) error {
			fold = r.Rows().(events.Keeper).Kept()
			return nil
		}))
		return fold
	}
	keep := func(fold string, then func(events.Tx) error) error {
		return l.Update(func(tx events.Tx) error {
			tx.Rows().(events.Keeper).Keep(fold)
			return then(tx)
		})
	}
	must(t, keep("first", func(events.Tx) error { return nil }))
	if got := kept(); got != "first" || kept() != got {
		t.Errorf("kept is %v", got)
	}
	for name, fails := range map[string]func(events.Tx) error{
		"an error":     func(events.Tx) error { return errors.New("no") },
		"rows cleared": func(tx events.Tx) error { return tx.ClearRows() },
	} {
		_ = keep("second", fails)
		if got := kept(); got != nil {
			t.Errorf("after %s kept is %v", name, got)
		}
	}
}
