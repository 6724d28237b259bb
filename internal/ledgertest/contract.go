// Package ledgertest says what every ledger must do, as tests. One that passes
// them can stand in for any other. It is no test itself, so that a program can ask
// the same of a ledger on somebody's own server.
package ledgertest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/go-cmp/cmp"

	"decklog/events"
)

// patience is how long a test waits for what must come. It is never waited out
// by a ledger that keeps its promises.
const patience = 20 * time.Second

// waiter is a ledger that wakes those who wait for events.
type waiter interface {
	Wait(ctx context.Context, after events.Position) error
}

// T is what a promise needs of who tries it.
type T interface {
	Helper()
	Error(...any)
	Errorf(string, ...any)
	Fatal(...any)
	Fatalf(string, ...any)
	Skip(...any)
}

// Runner is who tries the promises, each by itself: a test, or what stands for one
// in a program.
type Runner[R any] interface {
	T
	Run(says string, try func(R)) bool
	Cleanup(func())
}

// Contract runs the suite. open gives each promise an empty ledger that folds by
// the given projector; the suite closes it.
func Contract[R Runner[R]](t R, open func(R, events.Projector) events.Ledger) {
	for _, promise := range promises {
		t.Run(promise.says, func(t R) {
			l := open(t, project)
			t.Cleanup(func() {
				if err := l.Close(); err != nil {
					t.Errorf("close: %v", err)
				}
			})
			promise.holds(ledger{l, t})
		})
	}
}

var promises = []struct {
	says  string
	holds func(ledger)
}{
	{"what is appended reads back as it was", readsBack},
	{"positions have no gaps, whatever failed between them", positionsWithoutGaps},
	{"an append at another revision than the head is a conflict and appends nothing", conflicts},
	{"an error of the function rolls everything back and is returned as it is", rollsBackOnError},
	{"a panic of the function rolls everything back", rollsBackOnPanic},
	{"half a batch is never kept, even when its error is ignored", neverHalfABatch},
	{"a transaction that failed or ended writes nothing more", endedWritesNothing},
	{"an event id is appended once", idsOnce},
	{"a batch may only hold events of its stream", batchOfOneStream},
	{"a transaction sees what it has written", seesItsOwnWrites},
	{"nobody else sees it before the end", isolatedUntilCommitted},
	{"a view is a snapshot", viewIsASnapshot},
	{"a body lies beside its event until it is dropped", bodies},
	{"the latest body alike that is still there is found", alike},
	{"the projector is called once for each append, with all of it", projectedOnce},
	{"an error of the projector appends nothing", projectorFails},
	{"a rebuild in one transaction gives the same rows", rebuild},
	{"rows are scanned in order, from a place, both ways", scans},
	{"a scan sees what is put and removed ahead of it", scanSeesPutsAhead},
	{"rows hold any bytes", anyBytes},
	{"a view cannot write rows", viewOnlyReads},
	{"a tally counts from its first moment until it is ended", tallies},
	{"a clock that went back hides nothing from AsOf", asOf},
	{"reading gives pages", pages},
	{"an event of an unknown type or version is kept byte for byte", unknownKept},
	{"streams are apart, whatever their names share", streamsApart},
	{"digests chain along each stream", digestsChain},
	{"updates at the same time all append, one after the other", updatesSerialise},
	{"of updates that read the same revision one wins", oneOfManyWins},
	{"what is settled is the last state, and nobody appends meanwhile", settled},
	{"a waiter is woken by a commit", waiterWoken},
	{"a waiter whose context ends gets its error", waiterGivesUp},
	{"closing wakes the waiters, and ends all use", closing},
}

// ledger is the ledger under test with what most tests do.
type ledger struct {
	events.Ledger
	t T
}

// project counts each stream's events and keeps a row for each event, so that
// one seen twice, not at all, or out of order shows. An event by "@saboteur"
// it refuses.
func project(rows events.Rows, recorded []events.Recorded) error {
	for _, r := range recorded {
		if r.Actor == "@saboteur" {
			return errSabotaged
		}
		key := "count/" + string(r.Stream)
		old, err := rows.Get(key)
		if err != nil {
			return err
		}
		n, _ := strconv.Atoi(string(old))
		if int64(n) != int64(r.Revision) {
			return fmt.Errorf("revision %d of %s is projected after %d events", r.Revision, r.Stream, n)
		}
		if err := rows.Put(key, strconv.AppendInt(nil, int64(n)+1, 10)); err != nil {
			return err
		}
		if err := rows.Put(fmt.Sprintf("event/%08d", r.Position), []byte(r.ID)); err != nil {
			return err
		}
	}
	return rows.Put("batch/"+string(recorded[0].ID), strconv.AppendInt(nil, int64(len(recorded)), 10))
}

var errSabotaged = errors.New("sabotaged")

func (l ledger) must(err error) {
	l.t.Helper()
	if err != nil {
		l.t.Fatal(err)
	}
}

func (l ledger) view(fn func(events.Reader)) {
	l.t.Helper()
	l.must(l.View(func(r events.Reader) error {
		fn(r)
		return nil
	}))
}

func (l ledger) append(batches ...events.Batch) error {
	return l.Update(func(tx events.Tx) error {
		for _, b := range batches {
			if _, err := tx.Append(b); err != nil {
				return err
			}
		}
		return nil
	})
}

// batch is events of one stream with these ids.
func batch(stream events.Stream, expected events.Revision, ids ...events.EventID) events.Batch {
	b := events.Batch{Stream: stream, Expected: expected, Time: 1_000}
	for _, id := range ids {
		b.Events = append(b.Events, events.Proposed{
			Stream: stream,
			ID:     id,
			Actor:  "@smith",
			Cause:  events.Cause{Command: "command-" + events.CommandID(id)},
			Event:  events.ThreadDone{Thread: "thread", Message: events.MessageID(id), By: "@smith"},
		})
	}
	return b
}

// holding is a batch of one event with a body.
func holding(stream events.Stream, expected events.Revision, id events.EventID, text string) events.Batch {
	b := batch(stream, expected, id)
	body := events.Body{Salt: events.Salt{1, 2, 3}, Text: []byte(text), Fingerprint: events.FingerprintOf(text)}
	b.Events[0].Event = events.MessageEdited{Message: "m", Thread: "t", Body: body.Commit()}
	b.Events[0].Body = &body
	return b
}

// everything is all that a reader can read, for comparison.
type everything struct {
	End    events.Position
	Events []events.Recorded
	Rows   []string
	Bodies []string
}

func (l ledger) everything() everything {
	l.t.Helper()
	var e everything
	l.view(func(r events.Reader) { e = readAll(l.t, r) })
	return e
}

func readAll(t T, r events.Reader) (e everything) {
	t.Helper()
	var err error
	if e.End, err = r.End(); err != nil {
		t.Fatal(err)
	}
	if e.Events, err = r.All(1, 100_000); err != nil {
		t.Fatal(err)
	}
	for _, ev := range e.Events {
		if b, there, err := r.Body(ev.ID); err != nil {
			t.Fatal(err)
		} else if there {
			e.Bodies = append(e.Bodies, fmt.Sprintf("%s %q %x %x", ev.ID, b.Text, b.Salt, b.Fingerprint))
		}
	}
	e.Rows = scan(t, r.Rows(), "", "", false)
	return e
}

// scan lists rows as KEY=VALUE.
func scan(t T, rows events.Rows, prefix, after string, backward bool) (got []string) {
	t.Helper()
	if err := rows.Scan(prefix, after, backward, func(key string, value []byte) bool {
		got = append(got, fmt.Sprintf("%s=%s", key, value))
		return true
	}); err != nil {
		t.Fatal(err)
	}
	return got
}

func (l ledger) same(what string, got, want any) {
	l.t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		l.t.Fatalf("%s (-want +got):\n%s", what, diff)
	}
}

// unchanged runs fn and finds the ledger as it was.
func (l ledger) unchanged(fn func()) {
	l.t.Helper()
	before := l.everything()
	fn()
	l.same("the ledger changed", l.everything(), before)
}

func readsBack(l ledger) {
	sent := events.MessageEdited{Message: "m1", Thread: "t1", Body: events.BodyRef{Commitment: "c", Bytes: 7},
		Masked: []events.Masked{{Kind: "token", Count: 2}}}
	b := events.Batch{Stream: "thread-1", Expected: events.NoStream, Time: 1_700_000_000_123_456, Policy: 3,
		Events: []events.Proposed{{Stream: "thread-1", ID: "e1", Actor: "@smith",
			Cause: events.Cause{Command: "c1", Event: "e0"}, Event: sent}}}
	var given []events.Recorded
	l.must(l.Update(func(tx events.Tx) (err error) {
		given, err = tx.Append(b)
		return err
	}))

	want := events.Recorded{Position: 1, Stream: "thread-1", Revision: 0, ID: "e1", Time: b.Time, High: b.Time, Actor: "@smith",
		Cause: events.Cause{Command: "c1", Event: "e0"}, Policy: 3, Version: events.SchemaVersion, Event: sent}
	want.Data, _, _ = events.Encode(sent)
	want.Digest = want.Chain(events.Digest{})
	l.same("append gave", given, []events.Recorded{want})
	l.view(func(r events.Reader) {
		all, err := r.All(1, 10)
		l.must(err)
		l.same("all", all, given)
		stream, err := r.Stream("thread-1", 0, 10)
		l.must(err)
		l.same("stream", stream, given)
		one, found, err := r.Event("e1")
		l.must(err)
		l.same("event", []any{one, found}, []any{want, true})
		_, found, err = r.Event("e2")
		l.must(err)
		l.same("event that is not there", found, false)
	})
}

func positionsWithoutGaps(l ledger) {
	l.must(l.append(batch("a", -1, "1"), batch("b", -1, "2", "3")))
	l.append(batch("a", 7, "no")) // a conflict
	l.append(batch("a", 0, "4"), batch("b", 0, "no"))
	l.must(l.append(batch("c", -1, "4")))
	for i, r := range l.everything().Events {
		if r.Position != events.Position(i)+1 {
			l.t.Errorf("event %s has position %d", r.ID, r.Position)
		}
	}
	l.same("end", l.everything().End, events.Position(4))
}

func conflicts(l ledger) {
	l.must(l.append(batch("a", events.NoStream, "1", "2")))
	for _, b := range []events.Batch{
		batch("a", events.NoStream, "no"), // it exists
		batch("a", 0, "no"),               // it went on
		batch("a", 2, "no"),               // it is not so far
		batch("b", 0, "no"),               // it does not exist
	} {
		l.unchanged(func() {
			if err := l.append(b); !errors.Is(err, events.ErrConflict) {
				l.t.Errorf("append to %s at %d gave %v", b.Stream, b.Expected, err)
			}
		})
	}
	l.view(func(r events.Reader) {
		for stream, want := range map[events.Stream]events.Revision{"a": 1, "b": events.NoStream} {
			head, err := r.Head(stream)
			l.must(err)
			l.same("head of "+string(stream), head, want)
		}
	})
}

// writeAll does everything that a transaction can do.
func writeAll(l ledger, tx events.Tx) {
	l.t.Helper()
	dropping := batch("a", 0, "2")
	dropping.Events[0].Drops = []events.EventID{"1"}
	for _, b := range []events.Batch{dropping, holding("b", -1, "3", "another body")} {
		_, err := tx.Append(b)
		l.must(err)
	}
	l.must(tx.Rows().Put("by hand", []byte("x")))
	_, _, err := tx.Tally("t", 5, 9)
	l.must(err)
	l.must(tx.EndTally("u"))
}

func tallyOf(l ledger, key string) (count int) {
	l.t.Helper()
	l.must(l.Update(func(tx events.Tx) (err error) {
		count, _, err = tx.Tally(key, 0, 0)
		return err
	}))
	return count
}

func rollsBackOnError(l ledger) {
	l.must(l.append(holding("a", -1, "1", "a body")))
	l.must(l.Update(func(tx events.Tx) error {
		_, _, err := tx.Tally("u", 3, 1)
		return err
	}))
	l.unchanged(func() {
		mine := errors.New("mine")
		if err := l.Update(func(tx events.Tx) error {
			writeAll(l, tx)
			return mine
		}); err != mine {
			l.t.Errorf("update gave %v", err)
		}
	})
	l.same("tallies", []int{tallyOf(l, "t"), tallyOf(l, "u")}, []int{0, 3})
	l.unchanged(func() {
		mine := errors.New("mine")
		l.Update(func(tx events.Tx) error {
			l.must(tx.ClearRows())
			return mine
		})
	})
}

func rollsBackOnPanic(l ledger) {
	l.must(l.append(holding("a", -1, "1", "a body")))
	l.unchanged(func() {
		defer func() {
			if got := recover(); got != "mine" {
				l.t.Errorf("recovered %v", got)
			}
		}()
		l.Update(func(tx events.Tx) error {
			writeAll(l, tx)
			panic("mine")
		})
	})
	l.must(l.append(batch("a", 0, "2")))
}

func neverHalfABatch(l ledger) {
	l.must(l.append(batch("a", -1, "1")))
	l.unchanged(func() {
		if err := l.Update(func(tx events.Tx) error {
			tx.Append(batch("b", -1, "2", "1")) // the second is there already
			return nil
		}); err == nil {
			l.t.Error("the update did not fail")
		}
	})
	l.unchanged(func() {
		if err := l.Update(func(tx events.Tx) error {
			tx.Append(batch("b", -1, "2", "1"))
			_, err := tx.Append(batch("c", -1, "3"))
			return err
		}); err == nil {
			l.t.Error("the update went on")
		}
	})
}

func endedWritesNothing(l ledger) {
	l.must(l.append(batch("a", -1, "1")))
	refusesAll := func(tx events.Tx) {
		l.t.Helper()
		_, appendErr := tx.Append(batch("b", -1, "2"))
		_, _, tallyErr := tx.Tally("t", 1, 1)
		for what, err := range map[string]error{
			"append": appendErr, "tally": tallyErr, "end tally": tx.EndTally("t"),
			"put": tx.Rows().Put("k", []byte("v")), "clear rows": tx.ClearRows(),
		} {
			if err == nil {
				l.t.Errorf("%s was done", what)
			}
		}
	}
	l.unchanged(func() {
		var kept events.Tx
		l.must(l.Update(func(tx events.Tx) error { kept = tx; return nil }))
		refusesAll(kept)
		l.Update(func(tx events.Tx) error {
			tx.Append(batch("b", -1, "2", "1"))
			refusesAll(tx)
			return nil
		})
	})
}

func idsOnce(l ledger) {
	l.must(l.append(batch("a", -1, "1")))
	for _, again := range [][]events.Batch{
		{batch("a", 0, "1")},
		{batch("b", -1, "1")},
		{batch("b", -1, "2", "2")},
		{batch("b", -1, "2"), batch("c", -1, "2")},
		{batch("b", -1, "")},
	} {
		l.unchanged(func() {
			if err := l.append(again...); err == nil || errors.Is(err, events.ErrConflict) {
				l.t.Errorf("%v: got %v", again, err)
			}
		})
	}
}

func batchOfOneStream(l ledger) {
	l.unchanged(func() {
		b := batch("a", -1, "1", "2")
		b.Events[1].Stream = "b"
		if err := l.append(b); err == nil {
			l.t.Error("it was appended")
		}
	})
}

func seesItsOwnWrites(l ledger) {
	l.must(l.append(batch("a", -1, "1")))
	l.must(l.Update(func(tx events.Tx) error {
		given, err := tx.Append(holding("a", 0, "2", "a body"))
		l.must(err)
		end, err := tx.End()
		l.must(err)
		head, err := tx.Head("a")
		l.must(err)
		l.same("end and head", []any{end, head}, []any{events.Position(2), events.Revision(1)})
		page, err := tx.Stream("a", 1, 10)
		l.must(err)
		l.same("stream", page, given)
		_, found, err := tx.Event("2")
		l.must(err)
		body, there, err := tx.Body("2")
		l.must(err)
		id, alike, err := tx.Alike(events.FingerprintOf("a body"))
		l.must(err)
		l.same("event and body", []any{found, there, string(body.Text), id, alike}, []any{true, true, "a body", events.EventID("2"), true})
		count, err := tx.Rows().Get("count/a")
		l.must(err)
		l.same("row", string(count), "2")
		_, err = tx.Append(batch("a", 1, "3"))
		return err
	}))
	l.same("end", l.everything().End, events.Position(3))
}

func isolatedUntilCommitted(l ledger) {
	l.must(l.append(batch("a", -1, "1")))
	written, looked := make(chan struct{}), make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := l.Update(func(tx events.Tx) error {
			_, err := tx.Append(batch("a", 0, "2", "3"))
			close(written)
			<-looked
			return err
		}); err != nil {
			l.t.Error(err)
		}
	})
	<-written
	l.same("end while the update runs", l.everything().End, events.Position(1))
	close(looked)
	wg.Wait()
	l.same("end after it", l.everything().End, events.Position(3))
}

func viewIsASnapshot(l ledger) {
	if j, has := l.Ledger.(interface{ JournalMode() string }); has && j.JournalMode() == "delete" {
		l.t.Skip("with a rollback journal a commit waits for the views that run")
	}
	l.must(l.append(batch("a", -1, "1")))
	l.view(func(r events.Reader) {
		before := readAll(l.t, r)
		done := make(chan error)
		go func() { done <- l.append(batch("a", 0, "2")) }()
		l.must(<-done)
		l.same("the same view", readAll(l.t, r), before)
	})
}

func bodies(l ledger) {
	l.must(l.append(holding("a", -1, "1", "first"), batch("a", 0, "2"), holding("a", 1, "3", "")))
	l.view(func(r events.Reader) {
		b, there, err := r.Body("1")
		l.must(err)
		l.same("body", []any{b, there}, []any{events.Body{Salt: events.Salt{1, 2, 3}, Text: []byte("first"),
			Fingerprint: events.FingerprintOf("first")}, true})
		_, there, err = r.Body("2")
		l.must(err)
		l.same("body of an event without one", there, false)
		_, there, err = r.Body("3")
		l.must(err)
		l.same("empty body", there, true)
		_, there, err = r.Body("none")
		l.must(err)
		l.same("body of no event", there, false)
	})

	before := l.everything().Events
	drop := batch("b", -1, "4")
	drop.Events[0].Drops = []events.EventID{"1", "2", "none"}
	l.must(l.append(drop))
	l.view(func(r events.Reader) {
		_, there, err := r.Body("1")
		l.must(err)
		l.same("dropped body", there, false)
		_, there, err = r.Body("3")
		l.must(err)
		l.same("the other body", there, true)
	})
	l.same("the events", l.everything().Events[:3], before)

	both := holding("c", -1, "5", "at once")
	dropFive := batch("c", 0, "6")
	dropFive.Events[0].Drops = []events.EventID{"5"}
	l.must(l.append(both, dropFive))
	l.view(func(r events.Reader) {
		_, there, err := r.Body("5")
		l.must(err)
		l.same("body put and dropped at once", there, false)
	})
}

func alike(l ledger) {
	f := events.FingerprintOf("same")
	find := func() (id events.EventID) {
		l.view(func(r events.Reader) {
			var found bool
			var err error
			id, found, err = r.Alike(f)
			l.must(err)
			l.same("found", found, id != "")
		})
		return id
	}
	l.same("before", find(), events.EventID(""))
	l.must(l.append(holding("a", -1, "9", "same"), holding("b", -1, "5", "same"), holding("c", -1, "7", "same"), holding("c", 0, "8", "other")))
	for at, step := range []struct{ latest, drop events.EventID }{{"7", "7"}, {"5", "9"}, {"5", "5"}} {
		l.same("latest", find(), step.latest)
		drop := batch("drops", events.Revision(at)-1, "drop"+step.drop)
		drop.Events[0].Drops = []events.EventID{step.drop}
		l.must(l.append(drop))
	}
	l.same("after", find(), events.EventID(""))
	l.must(l.append(holding("d", -1, "1", "same")))
	l.same("again", find(), events.EventID("1"))
}

func projectedOnce(l ledger) {
	l.must(l.append(batch("a", -1, "1", "2", "3"), batch("b", -1, "4")))
	l.must(l.append(batch("a", 2, "5"), batch("a", 3))) // of none nothing is projected
	l.same("rows", l.everything().Rows, []string{
		"batch/1=3", "batch/4=1", "batch/5=1", "count/a=4", "count/b=1",
		"event/00000001=1", "event/00000002=2", "event/00000003=3", "event/00000004=4", "event/00000005=5",
	})
}

func projectorFails(l ledger) {
	l.must(l.append(batch("a", -1, "1")))
	sabotage := batch("a", 0, "2", "3")
	sabotage.Events[1].Actor = "@saboteur"
	l.unchanged(func() {
		if err := l.append(sabotage); !errors.Is(err, errSabotaged) {
			l.t.Errorf("append gave %v", err)
		}
		if err := l.Update(func(tx events.Tx) error {
			tx.Append(sabotage)
			return nil
		}); !errors.Is(err, errSabotaged) {
			l.t.Errorf("the ignored error came out as %v", err)
		}
	})
}

func rebuild(l ledger) {
	for i := range 5 {
		l.must(l.append(batch("a", events.Revision(i)-1, events.EventID(fmt.Sprint("a", i))),
			batch("b", events.Revision(2*i)-1, events.EventID(fmt.Sprint("b", i)), events.EventID(fmt.Sprint("c", i)))))
	}
	want := rowsUnder(l, "event/")
	l.must(l.Update(func(tx events.Tx) error {
		l.must(tx.ClearRows())
		l.same("rows once cleared", scan(l.t, tx.Rows(), "", "", false), []string(nil))
		all, err := tx.All(1, 100)
		l.must(err)
		return project(tx.Rows(), all)
	}))
	l.same("rows", rowsUnder(l, "event/"), want)
	l.same("end", l.everything().End, events.Position(15))
}

// rowsUnder lists the rows whose keys begin with prefix.
func rowsUnder(l ledger, prefix string) (rows []string) {
	l.view(func(r events.Reader) { rows = scan(l.t, r.Rows(), prefix, "", false) })
	return rows
}

// put writes rows KEY=VALUE without events.
func (l ledger) put(keys ...string) {
	l.t.Helper()
	l.must(l.Update(func(tx events.Tx) error {
		for _, k := range keys {
			if err := tx.Rows().Put(k, []byte("v")); err != nil {
				return err
			}
		}
		return nil
	}))
}

func scans(l ledger) {
	l.put("a", "p/1", "p/2", "p/3", "p/4", "p0", "q")
	for _, c := range []struct {
		prefix, after string
		backward      bool
		want          []string
	}{
		{"", "", false, []string{"a", "p/1", "p/2", "p/3", "p/4", "p0", "q"}},
		{"", "", true, []string{"q", "p0", "p/4", "p/3", "p/2", "p/1", "a"}},
		{"p/", "", false, []string{"p/1", "p/2", "p/3", "p/4"}},
		{"p/", "", true, []string{"p/4", "p/3", "p/2", "p/1"}},
		{"p/", "p/2", false, []string{"p/3", "p/4"}},
		{"p/", "p/2", true, []string{"p/1"}},
		{"p/", "p/25", false, []string{"p/3", "p/4"}},
		{"p/", "p/25", true, []string{"p/2", "p/1"}},
		{"p/", "a", false, []string{"p/1", "p/2", "p/3", "p/4"}},
		{"p/", "a", true, nil},
		{"p/", "q", false, nil},
		{"p/", "q", true, []string{"p/4", "p/3", "p/2", "p/1"}},
		{"p/", "p/", false, []string{"p/1", "p/2", "p/3", "p/4"}},
		{"none", "", false, nil},
		{"none", "", true, nil},
	} {
		l.view(func(r events.Reader) {
			var got []string
			l.must(r.Rows().Scan(c.prefix, c.after, c.backward, func(key string, _ []byte) bool {
				got = append(got, key)
				return true
			}))
			l.same(fmt.Sprintf("scan %q after %q backward %v", c.prefix, c.after, c.backward), got, c.want)
			got = nil
			l.must(r.Rows().Scan(c.prefix, c.after, c.backward, func(key string, _ []byte) bool {
				got = append(got, key)
				return len(got) < 2
			}))
			l.same("the same, ended after two", got, c.want[:min(2, len(c.want))])
		})
	}
}

func scanSeesPutsAhead(l ledger) {
	l.must(l.Update(func(tx events.Tx) error {
		rows := tx.Rows()
		for i := range 2_000 {
			l.must(rows.Put(fmt.Sprintf("k%04d", i), []byte("old")))
		}
		visited := 0
		l.must(rows.Scan("k", "", false, func(key string, value []byte) bool {
			visited++
			switch key {
			case "k0001":
				l.must(rows.Put("k0003", []byte("new")))
				l.must(rows.Put("k0002", nil))
				l.must(rows.Put("k0000a", []byte("behind")))
			case "k0002", "k0000a":
				l.t.Errorf("row %s was visited", key)
			case "k0003":
				l.same("row put ahead", string(value), "new")
			}
			return true
		}))
		l.same("visited", visited, 1_999)

		// A scan in a scan, and clearing under it.
		l.must(rows.Scan("k19", "", true, func(outer string, _ []byte) bool {
			inner := scan(l.t, rows, outer, "", false)
			l.same("inner scan", inner, []string{outer + "=old"})
			l.must(rows.Put(outer, nil))
			return true
		}))
		l.same("rows left", len(scan(l.t, rows, "k19", "", false)), 0)
		return nil
	}))
}

func anyBytes(l ledger) {
	keys := []string{"\x00", "\x00\x00", "a\x00b", "a\xff", "ä", "\xff", "\xff\xff\x01"}
	l.put(keys...)
	l.must(l.Update(func(tx events.Tx) error {
		l.must(tx.Rows().Put("empty", []byte{}))
		l.must(tx.Rows().Put("zeros", []byte("\x00\x00")))
		l.must(tx.Rows().Put("gone", []byte("x")))
		l.must(tx.Rows().Put("gone", nil))
		l.must(tx.Rows().Put("gone", nil))
		if err := tx.Rows().Put("", []byte("x")); err == nil {
			l.t.Error("the empty key was written")
		}
		return nil
	}))
	l.view(func(r events.Reader) {
		for _, k := range keys {
			v, err := r.Rows().Get(k)
			l.must(err)
			l.same(fmt.Sprintf("row %q", k), string(v), "v")
		}
		for key, want := range map[string][]byte{"empty": {}, "zeros": {0, 0}, "gone": nil} {
			v, err := r.Rows().Get(key)
			l.must(err)
			l.same("row "+key, v, want)
		}
		l.same("backward from the end", scan(l.t, r.Rows(), "\xff", "", true), []string{"\xff\xff\x01=v", "\xff=v"})
	})
}

func viewOnlyReads(l ledger) {
	l.put("k")
	l.unchanged(func() {
		l.view(func(r events.Reader) {
			for _, value := range [][]byte{nil, []byte("x")} {
				if err := r.Rows().Put("k", value); err == nil {
					l.t.Error("a view wrote a row")
				}
			}
		})
	})
}

func tallies(l ledger) {
	for _, step := range []struct {
		key   string
		n     int
		now   events.Time
		count int
		since events.Time
	}{
		{"a", 0, 10, 0, 0},
		{"a", 1, 20, 1, 20},
		{"a", 4, 30, 5, 20},
		{"b", 2, 40, 2, 40},
		{"a", 0, 50, 5, 20},
	} {
		l.must(l.Update(func(tx events.Tx) error {
			count, since, err := tx.Tally(step.key, step.n, step.now)
			l.same(fmt.Sprintf("%+v", step), []any{count, since}, []any{step.count, step.since})
			return err
		}))
	}
	l.must(l.Update(func(tx events.Tx) error {
		l.must(tx.ClearRows()) // a tally is no row
		l.must(tx.EndTally("a"))
		return tx.EndTally("none")
	}))
	l.same("tallies", []int{tallyOf(l, "a"), tallyOf(l, "b")}, []int{0, 2})
}

func asOf(l ledger) {
	l.view(func(r events.Reader) {
		p, err := r.AsOf(1 << 60)
		l.must(err)
		l.same("of an empty ledger", p, events.Position(0))
	})
	for i, now := range []events.Time{100, 200, 150, 50, 200, 300, 250} {
		b := batch("a", events.Revision(i)-1, events.EventID(fmt.Sprint(i)))
		b.Time = now
		l.must(l.append(b))
	}
	l.view(func(r events.Reader) {
		for now, want := range map[events.Time]events.Position{0: 0, 99: 0, 100: 1, 199: 1, 200: 5, 299: 5, 300: 7, 1 << 60: 7} {
			p, err := r.AsOf(now)
			l.must(err)
			l.same(fmt.Sprint("as of ", int64(now)), p, want)
		}
	})
}

func pages(l ledger) {
	for i := range 5 {
		l.must(l.append(batch("a", events.Revision(2*i)-1, events.EventID(fmt.Sprint("x", i)), events.EventID(fmt.Sprint("y", i))),
			batch("b", events.Revision(i)-1, events.EventID(fmt.Sprint("z", i)))))
	}
	all := l.everything().Events
	var ofA []events.Recorded
	for _, r := range all {
		if r.Stream == "a" {
			ofA = append(ofA, r)
		}
	}
	l.view(func(r events.Reader) {
		for _, c := range []struct{ from, limit, first, last int }{
			{0, 3, 1, 3}, {1, 3, 1, 3}, {4, 3, 4, 6}, {14, 3, 14, 15}, {16, 3, 1, 0}, {1, 0, 1, 0}, {1, -1, 1, 0}, {-5, 100, 1, 15},
		} {
			page, err := r.All(events.Position(c.from), c.limit)
			l.must(err)
			l.same(fmt.Sprintf("%d from %d", c.limit, c.from), append([]events.Recorded{}, page...), append([]events.Recorded{}, all[c.first-1:c.last]...))
		}
		for from := range 11 {
			page, err := r.Stream("a", events.Revision(from), 4)
			l.must(err)
			l.same(fmt.Sprint("stream from ", from), append([]events.Recorded{}, page...), append([]events.Recorded{}, ofA[from:min(from+4, 10)]...))
		}
		none, err := r.Stream("none", 0, 4)
		l.must(err)
		l.same("no stream", len(none), 0)
	})
}

func unknownKept(l ledger) {
	kept := []events.Unknown{
		{Type: "something.newer", Version: 1, Data: []byte(`{ "odd" :  1,"b":"<\u00e4>" }`)},
		{Type: events.TypeThreadDone, Version: 99, Data: []byte(`[1 , 2]`)},
	}
	b := batch("a", -1, "1", "2")
	for i, u := range kept {
		b.Events[i].Event = u
	}
	l.must(l.append(b))
	got := l.everything().Events
	for i, u := range kept {
		if r := got[i]; r.Type() != u.Type || r.Version != u.Version || !bytes.Equal(r.Data, u.Data) {
			l.t.Errorf("kept as %s %d %s", r.Type(), r.Version, r.Data)
		}
		l.same("event", got[i].Event, events.Event(u))
	}
}

func streamsApart(l ledger) {
	names := []events.Stream{"thread-a", "thread-A", "thread-ab", "thread-", "mailbox-@ä", "thread-a "}
	for _, s := range names {
		l.must(l.append(batch(s, events.NoStream, events.EventID("of "+s))))
	}
	l.view(func(r events.Reader) {
		for _, s := range names {
			page, err := r.Stream(s, 0, 10)
			l.must(err)
			if len(page) != 1 || page[0].ID != events.EventID("of "+s) {
				l.t.Errorf("stream %q holds %v", s, page)
			}
		}
	})
}

func digestsChain(l ledger) {
	for i := range 4 {
		l.must(l.append(batch("a", events.Revision(2*i)-1, events.EventID(fmt.Sprint("x", i)), events.EventID(fmt.Sprint("y", i))),
			holding("b", events.Revision(i)-1, events.EventID(fmt.Sprint("z", i)), "text")))
	}
	last := map[events.Stream]events.Digest{}
	for _, r := range l.everything().Events {
		if want := r.Chain(last[r.Stream]); r.Digest != want {
			l.t.Errorf("digest of event %d is %s, not %s", r.Position, r.Digest, want)
		}
		last[r.Stream] = r.Digest
	}
}

const writers = 8

// together runs fn in as many goroutines, which all start at once.
func together(fn func(n int)) {
	var ready, done sync.WaitGroup
	barrier := make(chan struct{})
	for n := range writers {
		ready.Add(1)
		done.Go(func() {
			ready.Done()
			<-barrier
			fn(n)
		})
	}
	ready.Wait()
	close(barrier)
	done.Wait()
}

func updatesSerialise(l ledger) {
	const each = 10
	together(func(n int) {
		for i := range each {
			if err := l.Update(func(tx events.Tx) error {
				head, err := tx.Head("shared")
				if err != nil {
					return err
				}
				own := events.Stream(fmt.Sprint("own-", n))
				if _, err := tx.Append(batch(own, events.Revision(i)-1, events.EventID(fmt.Sprint("own", n, "-", i)))); err != nil {
					return err
				}
				_, err = tx.Append(batch("shared", head, events.EventID(fmt.Sprint("shared", n, "-", i))))
				return err
			}); err != nil {
				l.t.Errorf("writer %d: %v", n, err)
			}
		}
	})
	revisions := map[events.Stream]events.Revision{}
	for i, r := range l.everything().Events {
		if r.Position != events.Position(i)+1 || r.Revision != revisions[r.Stream] {
			l.t.Fatalf("event %d is at position %d, revision %d of %s", i+1, r.Position, r.Revision, r.Stream)
		}
		revisions[r.Stream]++
	}
	l.same("shared stream", revisions["shared"], events.Revision(writers*each))
}

func oneOfManyWins(l ledger) {
	const rounds = 5
	for round := range rounds {
		var mu sync.Mutex
		won, lost := 0, 0
		together(func(n int) {
			err := l.append(batch("a", events.Revision(round)-1, events.EventID(fmt.Sprint(round, "-", n))))
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err == nil:
				won++
			case errors.Is(err, events.ErrConflict):
				lost++
			default:
				l.t.Error(err)
			}
		})
		l.same("won and lost", []int{won, lost}, []int{1, writers - 1})
	}
}

func settled(l ledger) {
	l.must(l.append(batch("a", -1, "1")))
	mine := errors.New("mine")
	if err := l.Settled(func(events.Reader) error { return mine }); err != mine {
		l.t.Errorf("settled gave %v", err)
	}
	together(func(n int) {
		if n > 0 {
			if err := l.append(batch(events.Stream(fmt.Sprint("of ", n)), -1, events.EventID(fmt.Sprint("of ", n)))); err != nil {
				l.t.Error(err)
			}
			return
		}
		var appending atomic.Bool
		ended := make(chan error)
		if err := l.Settled(func(r events.Reader) error {
			go func() {
				ended <- l.Update(func(tx events.Tx) error {
					appending.Store(true)
					_, err := tx.Append(batch("b", -1, "2"))
					return err
				})
			}()
			var inside everything
			for range 100 {
				inside = readAll(l.t, r)
				runtime.Gosched()
			}
			if appending.Load() || len(inside.Events) != int(inside.End) || inside.Events[0].ID != "1" {
				l.t.Errorf("it sees %+v, and another appends: %v", inside, appending.Load())
			}
			if r.Rows().Put("k", []byte("v")) == nil {
				l.t.Error("a row was put")
			}
			return nil
		}); err != nil {
			l.t.Error(err)
		}
		if err := <-ended; err != nil {
			l.t.Error(err)
		}
	})
	l.same("end", l.everything().End, events.Position(writers+1))
	l.must(l.Close())
	if err := l.Settled(func(events.Reader) error { return nil }); err == nil {
		l.t.Error("a closed ledger was settled")
	}
}

func (l ledger) waiter() waiter {
	w, is := l.Ledger.(waiter)
	if !is {
		l.t.Skip("this ledger has no Wait")
	}
	return w
}

func waiterWoken(l ledger) {
	w := l.waiter()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	l.must(l.append(batch("a", -1, "1")))
	l.must(w.Wait(ctx, 0)) // it has happened already

	var waiting sync.WaitGroup
	for range writers {
		waiting.Go(func() {
			if err := w.Wait(ctx, 2); err != nil {
				l.t.Error(err)
			}
			if err := l.View(func(r events.Reader) error {
				if end, err := r.End(); err != nil || end < 3 {
					return fmt.Errorf("woken at %d: %w", end, err)
				}
				return nil
			}); err != nil {
				l.t.Error(err)
			}
		})
	}
	l.must(l.append(batch("a", 0, "2")))
	l.must(l.append(batch("a", 1, "3")))
	waiting.Wait()
}

func waiterGivesUp(l ledger) {
	w := l.waiter()
	ctx, cancel := context.WithCancel(context.Background())
	gone := make(chan error)
	go func() { gone <- w.Wait(ctx, 0) }()
	cancel()
	if err := <-gone; !errors.Is(err, context.Canceled) {
		l.t.Errorf("wait gave %v", err)
	}
}

func closing(l ledger) {
	l.must(l.append(batch("a", -1, "1")))
	ended := make(chan error, writers)
	if w, is := l.Ledger.(waiter); is {
		for range writers {
			go func() { ended <- w.Wait(context.Background(), 1) }()
		}
	} else {
		close(ended)
	}
	l.must(l.Close())
	for range cap(ended) {
		if err, waited := <-ended; waited && err == nil {
			l.t.Error("a waiter was told of an event")
		}
	}
	if err := l.View(func(events.Reader) error { return nil }); err == nil {
		l.t.Error("a closed ledger was viewed")
	}
	if err := l.append(batch("a", 0, "2")); err == nil {
		l.t.Error("a closed ledger was updated")
	}
	l.must(l.Close())
}
