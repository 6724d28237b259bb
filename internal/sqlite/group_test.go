package sqlite

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"decklog/events"
)

// slowly are groups that take in whoever queues while one of them runs.
var slowly = Groups{Members: 1000, Longest: time.Hour, Queue: 1000}

func inGroups() options {
	o := testOptions()
	o.groups = &slowly
	return o
}

// inOneGroup runs these as the members of one group, in their order, and gives
// what each was answered; a panic as an error.
func inOneGroup(l *Ledger, members ...func(events.Tx) error) []error {
	told := make([]error, len(members))
	update := func(n int, fn func(events.Tx) error) {
		told[n] = errEnded // unless Update returns
		defer func() {
			if p := recover(); p != nil {
				told[n] = fmt.Errorf("panic: %v", p)
			}
		}()
		told[n] = l.Update(fn)
	}
	var running sync.WaitGroup
	begun, queued := make(chan struct{}), make(chan struct{})
	running.Go(func() {
		update(0, func(tx events.Tx) error {
			close(begun)
			<-queued
			return members[0](tx)
		})
	})
	<-begun
	for n := 1; n < len(members); n++ {
		running.Go(func() { update(n, members[n]) })
		for l.Queued() < n {
			runtime.Gosched()
		}
	}
	close(queued)
	running.Wait()
	return told
}

// appends is a member that appends at its stream's head.
func appends(stream events.Stream, id string) func(events.Tx) error {
	return func(tx events.Tx) error {
		head, err := tx.Head(stream)
		if err == nil {
			_, err = tx.Append(note(stream, head, id))
		}
		return err
	}
}

func ids(t testing.TB, l *Ledger) (found []string) {
	t.Helper()
	must(t, l.View(func(r events.Reader) error {
		all, err := r.All(1, 10_000)
		for n, e := range all {
			if e.Position != events.Position(n)+1 {
				t.Errorf("event %s is at position %d, not %d", e.ID, e.Position, n+1)
			}
			found = append(found, string(e.ID))
		}
		return err
	}))
	return found
}

// commits counts what a ledger's observer is told.
type commits struct {
	mu  sync.Mutex
	all [][2]int // members and events
}

func (c *commits) add(members, events int, _ time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all = append(c.all, [2]int{members, events})
}

func TestWhatFailsInAGroupUndoesItsOwnPartAndNoOthers(t *testing.T) {
	var seen commits
	o := inGroups()
	o.onCommit = seen.add
	l := opened(t, filepath.Join(t.TempDir(), "ledger.db"), o)
	mine := errors.New("mine")
	put := func(tx events.Tx, key, value string) {
		if err := tx.Rows().Put(key, []byte(value)); err != nil {
			t.Error(err)
		}
	}
	writes := func(tx events.Tx, id string) {
		if err := appends("a", id)(tx); err != nil {
			t.Error(err)
		}
		put(tx, "row", id)
		put(tx, "row of "+id, id)
		if _, _, err := tx.Tally("t", 1, 1); err != nil {
			t.Error(err)
		}
	}
	told := inOneGroup(l,
		func(tx events.Tx) error { writes(tx, "1"); return nil },
		func(tx events.Tx) error { writes(tx, "no"); return mine },
		func(tx events.Tx) error { writes(tx, "no"); panic("mine") },
		func(tx events.Tx) error { writes(tx, "no"); runtime.Goexit(); return nil },
		func(tx events.Tx) error { _, err := tx.Append(note("a", 7, "no")); return err },
		func(tx events.Tx) error { writes(tx, "no"); tx.Append(note("b", -1, "1")); return nil }, // an id that is there
		func(tx events.Tx) error { writes(tx, "no"); tx.ClearRows(); return mine },
		func(tx events.Tx) error {
			for n := range 3 * aheadBytesMax / 1000 {
				put(tx, fmt.Sprint("many", n), string(make([]byte, 1000)))
			}
			return mine
		},
		func(tx events.Tx) error {
			row, _ := tx.Rows().Get("row")
			if count, _, _ := tx.Tally("t", 0, 0); count != 1 || string(row) != "1" {
				t.Errorf("the last member sees a tally of %d and the row %q", count, row)
			}
			writes(tx, "2")
			return nil
		},
	)
	for n, want := range []error{nil, mine, errors.New("panic: mine"), errEnded, events.ErrConflict, errAny, mine, mine, nil} {
		switch got := told[n]; {
		case want == errAny && got != nil, errors.Is(got, want):
		case got == nil || want == nil || got.Error() != want.Error():
			t.Errorf("member %d was told %v, not %v", n, got, want)
		}
	}
	if got := ids(t, l); !slices.Equal(got, []string{"1", "2"}) {
		t.Errorf("appended: %v", got)
	}
	must(t, l.View(func(r events.Reader) error {
		var rows []string
		err := r.Rows().Scan("", "", false, func(key string, value []byte) bool {
			rows = append(rows, key+"="+string(value))
			return true
		})
		if !slices.Equal(rows, []string{"row=2", "row of 1=1", "row of 2=2"}) {
			t.Errorf("rows: %q", rows)
		}
		return err
	}))
	if want := [][2]int{{2, 2}}; !slices.Equal(seen.all, want) {
		t.Errorf("commits of members and events: %v, not %v", seen.all, want)
	}
	if bad := firstBad(t, l); bad != 0 {
		t.Errorf("event %d is bad", bad)
	}
}

var errAny = errors.New("any error")

func TestNobodyOfAGroupHearsOfSuccessBeforeTheCommit(t *testing.T) {
	for name, fault := range map[string]struct {
		cause, want error
		write       bool
	}{
		"sync":    {unix.EIO, events.ErrUnknown, false},
		"no room": {&os.PathError{Op: "write", Path: "log", Err: unix.ENOSPC}, events.ErrNoSpace, true},
	} {
		t.Run(name, func(t *testing.T) {
			l, f := onFaultyIn(t, inGroups())
			must(t, appendTo(l, note("a", -1, "1")))
			mine := errors.New("mine")
			told := inOneGroup(l,
				func(events.Tx) error {
					if fault.write {
						f.onWrite.Store(&fault.cause)
					} else {
						f.onSync.Store(&fault.cause)
					}
					return nil // it has seen nothing that is not durable
				},
				appends("a", "2"),
				func(events.Tx) error { return mine },
				func(tx events.Tx) error { _, err := tx.Append(note("a", -1, "no")); return err },
				func(tx events.Tx) error {
					if _, found, err := tx.Event("2"); !found || err != nil {
						t.Errorf("a later member does not see event 2: %v", err)
					}
					return nil
				},
				appends("b", "3"),
			)
			for n, want := range []error{nil, fault.want, mine, events.ErrConflict, fault.want, fault.want} {
				if !errors.Is(told[n], want) || want == nil && told[n] != nil {
					t.Errorf("member %d was told %v, not %v", n, told[n], want)
				}
			}
			f.onWrite.Store(nil)
			f.onSync.Store(nil)
			if fault.write { // nothing was appended, and the next may
				must(t, appendTo(l, note("a", 0, "2")))
				if got := ids(t, l); !slices.Equal(got, []string{"1", "2"}) {
					t.Errorf("appended: %v", got)
				}
				return
			}
			if err := appendTo(l, note("a", 0, "2")); !errors.Is(err, events.ErrUnknown) {
				t.Errorf("the next update gave %v", err)
			}
			must(t, l.Close())
			again := opened(t, l.path, testOptions())
			must(t, appendNext(again, "a", "4"))
			if bad := firstBad(t, again); bad != 0 {
				t.Errorf("event %d is bad", bad)
			}
		})
	}
}

func TestAGroupThatSQLiteRolledBackFailsForAllAndTheNextSucceeds(t *testing.T) {
	l := opened(t, filepath.Join(t.TempDir(), "ledger.db"), inGroups())
	told := inOneGroup(l,
		appends("a", "1"),
		func(tx events.Tx) error {
			must(t, appends("a", "2")(tx))
			must(t, tx.Rows().(table).c.run("ROLLBACK")) // as it does when it cannot read a page
			return nil
		},
		appends("a", "1"),
	)
	if !errors.Is(told[0], errEnded) || !errors.Is(told[1], errEnded) || told[2] != nil {
		t.Errorf("told: %v", told)
	}
	if got := ids(t, l); !slices.Equal(got, []string{"1"}) {
		t.Errorf("appended: %v", got)
	}
}

func TestATransactionThatCannotBeginFailsForAllWhoWait(t *testing.T) {
	o := inGroups()
	o.ticketWaitMax = 20 * time.Millisecond
	l := opened(t, filepath.Join(t.TempDir(), "ledger.db"), o)
	holder := &ticket{path: l.ticket.path, waitMax: time.Second}
	must(t, holder.take())
	var all sync.WaitGroup
	for n := range 10 {
		all.Go(func() {
			if err := l.Update(appends("a", fmt.Sprint(n))); !errors.Is(err, events.ErrLocked) {
				t.Errorf("update gave %v", err)
			}
		})
	}
	all.Wait()
	holder.close()
	l.ticket.waitMax = ticketWaitMax
	must(t, l.Update(appends("a", "1")))
}

func TestMoreThanMayWaitAreRefused(t *testing.T) {
	o := inGroups()
	o.groups = &Groups{Members: 10, Longest: time.Hour, Queue: 2}
	l := opened(t, filepath.Join(t.TempDir(), "ledger.db"), o)
	told := inOneGroup(l, func(tx events.Tx) error {
		if err := l.Update(appends("a", "no")); !errors.Is(err, events.ErrBusy) {
			t.Errorf("the third to wait was told %v", err)
		}
		return nil
	}, appends("a", "1"), appends("a", "2"))
	if err := errors.Join(told...); err != nil {
		t.Error(err)
	}
}

func TestAGroupEndsWhenItIsFull(t *testing.T) {
	for name, c := range map[string]struct {
		bounds Groups
		want   [][2]int
	}{
		"of members": {Groups{Members: 2, Longest: time.Hour, Queue: 10}, [][2]int{{2, 2}, {2, 2}, {1, 1}}},
		"of time":    {Groups{Members: 10, Longest: 1, Queue: 10}, [][2]int{{1, 1}, {1, 1}, {1, 1}, {1, 1}, {1, 1}}},
	} {
		t.Run(name, func(t *testing.T) {
			var seen commits
			o := inGroups()
			o.groups, o.onCommit = &c.bounds, seen.add
			l := opened(t, filepath.Join(t.TempDir(), "ledger.db"), o)
			if err := errors.Join(inOneGroup(l, appends("a", "1"), appends("a", "2"), appends("a", "3"), appends("a", "4"), appends("a", "5"))...); err != nil {
				t.Error(err)
			}
			if !slices.Equal(seen.all, c.want) {
				t.Errorf("commits of members and events: %v, not %v", seen.all, c.want)
			}
		})
	}
}

// What is done beside the ledger because of what Settled shows must not have a
// reason that may yet be undone.
func TestWhatSettledShowsIsDurableAlsoWhileAGroupIsOpen(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger.db")
	l, other := opened(t, path, inGroups()), opened(t, path, testOptions())
	var settled sync.WaitGroup
	look := func() {
		settled.Go(func() {
			if err := l.Settled(func(r events.Reader) error {
				sees, err := r.End()
				durable, err2 := other.end()
				if sees != durable {
					t.Errorf("it sees %d events, of which %d are durable", sees, durable)
				}
				return errors.Join(err, err2)
			}); err != nil {
				t.Error(err)
			}
		})
	}
	for round := range 20 {
		told := inOneGroup(l,
			func(tx events.Tx) error { look(); return appends("a", fmt.Sprint(round, "-1"))(tx) },
			func(tx events.Tx) error { look(); return errAny },
			func(tx events.Tx) error { look(); return appends("a", fmt.Sprint(round, "-2"))(tx) },
		)
		if told[0] != nil || told[2] != nil {
			t.Fatal(told)
		}
	}
	settled.Wait()
}

func TestWhatTheFoldKeepsGoesFromMemberToMember(t *testing.T) {
	l := opened(t, filepath.Join(t.TempDir(), "ledger.db"), inGroups())
	expect := func(want, next any, then error) func(events.Tx) error {
		return func(tx events.Tx) error {
			keeper := tx.Rows().(events.Keeper)
			if got := keeper.Kept(); got != want {
				t.Errorf("kept is %v, not %v", got, want)
			}
			keeper.Keep(next)
			return then
		}
	}
	must(t, l.View(func(r events.Reader) error { r.Rows().(events.Keeper).Keep("of a view"); return nil }))
	inOneGroup(l,
		expect(nil, "first", nil), expect("first", "second", nil), expect("second", "lost", errAny), expect(nil, "third", nil))
	inOneGroup(l, expect("third", "fourth", nil))
	must(t, l.Settled(func(r events.Reader) error {
		if got := r.Rows().(events.Keeper).Kept(); got != "fourth" {
			t.Errorf("kept is %v", got)
		}
		return nil
	}))
}

// counting keeps a row for each stream, with how many events it has.
func counting(rows events.Rows, recorded []events.Recorded) error {
	for _, r := range recorded {
		old, err := rows.Get("count/" + string(r.Stream))
		if err != nil {
			return err
		}
		n, _ := strconv.Atoi(string(old))
		if int64(n) != int64(r.Revision) {
			return fmt.Errorf("revision %d of %s is projected after %d events", r.Revision, r.Stream, n)
		}
		if err := rows.Put("count/"+string(r.Stream), []byte(strconv.Itoa(n+1))); err != nil {
			return err
		}
	}
	return nil
}

func TestGroupsAndAnotherProcessAppendToOneFile(t *testing.T) {
	const goroutines, each = 16, 40
	path := filepath.Join(t.TempDir(), "ledger.db")
	o := testOptions()
	o.groups = &DefaultGroups
	l, err := open(path, counting, o)
	must(t, err)
	alone, err := open(path, counting, testOptions())
	must(t, err)
	var all sync.WaitGroup
	var mu sync.Mutex
	var want []string
	write := func(l *Ledger, name string, n int) {
		id := fmt.Sprint(name, "-", n)
		switch n % 4 {
		case 1:
			if err := l.Update(func(tx events.Tx) error { appends("shared", id)(tx); return errAny }); err != errAny {
				t.Errorf("update gave %v", err)
			}
		case 2:
			func() {
				defer func() { recover() }()
				l.Update(func(tx events.Tx) error { appends("shared", id)(tx); panic("mine") })
			}()
		default:
			if err := l.Update(func(tx events.Tx) error {
				return errors.Join(appends("shared", id)(tx), appends(events.Stream("own-"+name), id+"'")(tx))
			}); err != nil {
				t.Error(err)
			}
			mu.Lock()
			want = append(want, id, id+"'")
			mu.Unlock()
		}
	}
	for g := range goroutines {
		all.Go(func() {
			for n := range each {
				write(l, fmt.Sprint(g), n)
			}
		})
	}
	all.Go(func() {
		for n := range each {
			write(alone, "alone", n)
		}
	})
	all.Wait()
	got := ids(t, l)
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("%d events were appended, %d should be", len(got), len(want))
	}
	if bad := firstBad(t, l); bad != 0 {
		t.Errorf("event %d is bad", bad)
	}
	must(t, alone.Close())
	must(t, l.Close())
}

func TestAnyNumberOfWaitersCostOneLook(t *testing.T) {
	const waiters = 2000
	o := inGroups()
	o.lookEvery = time.Hour
	l := opened(t, filepath.Join(t.TempDir(), "ledger.db"), o)
	must(t, l.Update(appends("a", "1")))
	var looks atomic.Int64
	look := l.watch.look
	l.watch.look = func() (events.Position, error) { looks.Add(1); return look() }
	must(t, l.Wait(t.Context(), 0))
	if l.watch.blind {
		t.Skip("this system watches no file")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	before := looks.Load()
	var woken sync.WaitGroup
	for range waiters {
		woken.Go(func() {
			if err := l.Wait(ctx, 1); err != nil {
				t.Error(err)
			}
		})
	}
	must(t, l.Update(appends("a", "2")))
	woken.Wait()
	if n := looks.Load() - before; n > 5 { // the pulse of the commit is one
		t.Errorf("%d waiters looked %d times", waiters, n)
	}
}

func TestAnotherProcessGetsItsTurnWhileGroupsGoOn(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger.db")
	o := testOptions()
	o.groups = &DefaultGroups
	l := opened(t, path, o)
	var over atomic.Bool
	var all sync.WaitGroup
	for g := range 32 {
		all.Go(func() {
			for n := 0; !over.Load(); n++ {
				if err := l.Update(appends("here", fmt.Sprint(g, "-", n))); err != nil {
					t.Error(err)
				}
			}
		})
	}
	out, err := process("append", path, "there", "50").Output() // fails where it waits too long for one turn
	over.Store(true)
	all.Wait()
	if err != nil {
		t.Errorf("the other process: %v, after %q", err, out)
	}
	if bad := firstBad(t, l); bad != 0 {
		t.Errorf("event %d is bad", bad)
	}
}

func TestTheLogOfGroupsBeginsAnew(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger.db")
	o := inGroups()
	o.journal = journalWAL
	l := opened(t, path, o)
	longest, anew := 0, 0
	last := 0
	for n := range 400 {
		must(t, l.Update(func(tx events.Tx) error {
			for row := range 50 {
				if err := tx.Rows().Put(fmt.Sprint("row ", (n*50+row)%997), make([]byte, 3000)); err != nil {
					return err
				}
			}
			return appends("a", fmt.Sprint(n))(tx)
		}))
		pages := l.groups.logPages
		if pages < last {
			anew++
		}
		last, longest = pages, max(longest, pages)
	}
	// How far the log grows while it is moved beside the commits is up to the
	// machine; that it ends is not.
	if anew == 0 {
		t.Errorf("the log has %d pages, and never began anew", longest)
	}
	t.Logf("the log had %d pages at most, and began anew %d times", longest, anew)
	must(t, l.Close())
	if _, err := os.Stat(path + "-wal"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a log is left after the close: %v", err)
	}
}

// What is appended to a file that nobody finds any more is lost to everybody else.
func TestAGroupedLedgerWhoseFileIsGoneAcknowledgesNothing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger.db")
	l := opened(t, path, inGroups())
	must(t, appendNext(l, "a", "1"))
	aside := path + ".aside"
	must(t, os.Rename(path, aside))
	if err := appendNext(l, "a", "no"); !errors.Is(err, events.ErrDamaged) || errors.Is(err, events.ErrUnknown) {
		t.Errorf("with the file moved away a command ends with %v", err)
	}
	if err := l.InPlace(); err == nil {
		t.Error("the file is gone, and nothing says so")
	}
	must(t, os.Rename(aside, path))
	must(t, appendNext(l, "a", "2"))
	if got := ids(t, l); !slices.Equal(got, []string{"1", "2"}) {
		t.Errorf("appended: %v", got)
	}
}

// A connection that could not be made ready for groups is not kept for the next one.
func TestAWriterThatCouldNotBeMadeReadyIsMadeAnew(t *testing.T) {
	l := opened(t, filepath.Join(t.TempDir(), "ledger.db"), inGroups())
	ended, end := context.WithCancel(t.Context())
	end()
	connect := l.connections.connect
	l.connections.connect = func() (*connection, error) {
		c, err := connect()
		if err == nil {
			c.db.SetInterrupt(ended)
		}
		return c, err
	}
	if err := appendNext(l, "a", "no"); err == nil {
		t.Error("it appends by a connection that was interrupted")
	}
	l.connections.connect = connect
	must(t, appendNext(l, "a", "1"))
	if pages := l.groups.logPages; l.journal == journalWAL && pages == 0 {
		t.Error("nobody counts the pages of the log")
	}
}
