package sqlite

import (
	"errors"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/ncruces/go-sqlite3/vfs"

	"decklog/events"
)

// mirrored opens a mirror.
func mirrored(t testing.TB, project events.Projector) *Ledger {
	t.Helper()
	l, err := Open(filepath.Join(t.TempDir(), "views.db"), project, Mirrors())
	must(t, err)
	t.Cleanup(func() { l.Close() })
	return l
}

// brings puts all of a ledger's events into a mirror.
func brings(t testing.TB, mirror, of *Ledger) {
	t.Helper()
	var all []Arrived
	must(t, of.View(func(r events.Reader) error {
		found, err := r.All(1, 10_000)
		for _, e := range found {
			a := Arrived{Recorded: e}
			if body, there, err := r.Body(e.ID); err != nil {
				return err
			} else if there {
				a.Body = &body
			}
			all = append(all, a)
		}
		return err
	}))
	must(t, mirror.Bring(func(m Mirror) error {
		for _, a := range all {
			if _, err := m.Record([]Arrived{a}, nil); err != nil {
				return err
			}
		}
		return nil
	}))
}

// with is a batch of one event with a body, and bodies that it has go.
func with(stream events.Stream, expected events.Revision, id, text string, at events.Time, drops ...events.EventID) events.Batch {
	b := note(stream, expected, id)
	b.Time = at
	b.Events[0].Body = &events.Body{Text: []byte(text), Fingerprint: events.FingerprintOf(text)}
	b.Events[0].Drops = drops
	return b
}

// seen is what a transaction reads.
func seen(t testing.TB, r events.Reader) (all []string) {
	t.Helper()
	add := func(what string, err error, values ...any) {
		must(t, err)
		all = append(all, fmt.Sprint(what, ": ", values))
	}
	end, err := r.End()
	add("end", err, end)
	for _, s := range []events.Stream{"a", "b", "new", "none"} {
		head, err := r.Head(s)
		add("head of "+string(s), err, head)
		for from := events.Revision(0); from < 4; from++ {
			page, err := r.Stream(s, from, 2)
			add(fmt.Sprint(s, " from ", from), err, short(page))
		}
	}
	for from := events.Position(1); from < 9; from++ {
		for _, limit := range []int{0, 1, 3, 100} {
			page, err := r.All(from, limit)
			add(fmt.Sprint("from ", from), err, short(page))
		}
	}
	for _, id := range []events.EventID{"1", "2", "3", "4", "5", "6", "none"} {
		e, there, err := r.Event(id)
		add("event "+string(id), err, short([]events.Recorded{e}), there)
		body, there, err := r.Body(id)
		add("body "+string(id), err, string(body.Text), there)
	}
	for _, text := range []string{"same", "other", "mine", "none"} {
		id, there, err := r.Alike(events.FingerprintOf(text))
		add("alike "+text, err, id, there)
	}
	for at := events.Time(0); at < 60; at += 5 {
		p, err := r.AsOf(at)
		add(fmt.Sprint("as of ", at), err, p)
	}
	return all
}

func short(page []events.Recorded) (out []string) {
	for _, e := range page {
		if e.ID != "" {
			out = append(out, fmt.Sprint(e.Position, e.Stream, e.Revision, e.ID, e.Time, e.High, e.Digest, string(e.Data), e.Event))
		}
	}
	return out
}

// A ledger with the same events is the model.
func TestWhatIsAppendedToAMirrorIsReadAsIfItWereThereAndIsNotKept(t *testing.T) {
	ledger := opened(t, filepath.Join(t.TempDir(), "ledger.db"), testOptions())
	for _, b := range []events.Batch{
		with("a", -1, "1", "same", 10), with("a", 0, "2", "same", 30), with("b", -1, "3", "other", 20),
	} {
		must(t, appendTo(ledger, b))
	}
	for name, tried := range map[string][]events.Batch{
		"nothing":                   nil,
		"behind what is there":      {with("a", 1, "4", "mine", 40), with("new", -1, "5", "same", 5), note("b", 0, "6")},
		"with bodies that go":       {with("a", 1, "4", "mine", 25, "2", "none"), note("b", 0, "5")},
		"with all of a kind":        {with("a", 1, "4", "same", 50, "1", "2"), with("b", 0, "5", "", 50, "4")},
		"with its own that goes":    {with("new", -1, "4", "mine", 35), with("new", 0, "5", "same", 45, "4", "3")},
		"a conflict and then again": {with("a", 7, "4", "mine", 40), with("a", 1, "4", "mine", 40)},
	} {
		t.Run(name, func(t *testing.T) {
			mirror := mirrored(t, none)
			brings(t, mirror, ledger)
			var before, after []string
			must(t, mirror.View(func(r events.Reader) error { before = seen(t, r); return nil }))
			read := func(l *Ledger) (all []string) {
				if err := l.Update(func(tx events.Tx) error {
					all = append(all, seen(t, tx)...)
					for _, b := range tried {
						recorded, err := tx.Append(b)
						all = append(all, fmt.Sprint(short(recorded), err))
						all = append(all, seen(t, tx)...)
					}
					return errAny
				}); err != errAny {
					t.Fatal(err)
				}
				return all
			}
			if diff := cmp.Diff(read(ledger), read(mirror)); diff != "" {
				t.Errorf("a ledger and a mirror differ (-ledger +mirror):\n%s", diff)
			}
			must(t, mirror.View(func(r events.Reader) error { after = seen(t, r); return nil }))
			if diff := cmp.Diff(before, after); diff != "" {
				t.Errorf("it was kept (-before +after):\n%s", diff)
			}
		})
	}
}

func TestAMirrorKeepsNothingThatWasAppendedToIt(t *testing.T) {
	mirror := mirrored(t, counting)
	if err := appendTo(mirror, note("a", -1, "1")); !errors.Is(err, errTried) {
		t.Errorf("got %v", err)
	}
	for _, then := range []error{errAny, nil} {
		if err := mirror.Bring(func(m Mirror) error {
			_, err := m.Record([]Arrived{{Recorded: recordedAs(note("a", -1, "2"))}}, nil)
			must(t, err)
			return then
		}); err != then {
			t.Errorf("got %v, not %v", err, then)
		}
	}
	if got := ids(t, mirror); len(got) != 1 || got[0] != "2" {
		t.Errorf("it has %q", got)
	}
}

// recordedAs is a batch's one event as another ledger recorded it.
func recordedAs(b events.Batch) events.Recorded {
	p := b.Events[0]
	data, version, err := events.Encode(p.Event)
	if err != nil {
		panic(err)
	}
	return events.Recorded{Stream: b.Stream, Revision: b.Expected + 1, ID: p.ID, Time: b.Time, Actor: p.Actor, Version: version, Data: data, Event: p.Event}
}

func TestAnIDThatIsThereAlreadyIsKeptAsSomethingElse(t *testing.T) {
	mirror := mirrored(t, none)
	again := func(r events.Recorded) events.Recorded { r.ID += " again"; return r }
	first, second := with("a", -1, "1", "first", 1), with("b", -1, "1", "second", 1)
	third := with("b", 0, "2", "third", 1)
	for _, b := range []events.Batch{first, second, third} {
		must(t, mirror.Bring(func(m Mirror) error {
			_, err := m.Record([]Arrived{{Recorded: recordedAs(b), Body: b.Events[0].Body}}, again)
			return err
		}))
	}
	if got := fmt.Sprint(ids(t, mirror)); got != "[1 1 again 2]" {
		t.Errorf("it has %s", got)
	}
	if bad := firstBad(t, mirror); bad != 0 {
		t.Errorf("event %d is bad", bad)
	}
	must(t, mirror.View(func(r events.Reader) error {
		for id, want := range map[events.EventID]string{"1": "first", "1 again": "", "2": "third"} {
			if body, _, err := r.Body(id); string(body.Text) != want || err != nil {
				t.Errorf("the body of %s is %q, %v", id, body.Text, err)
			}
		}
		return nil
	}))
	if err := mirror.Bring(func(m Mirror) error {
		_, err := m.Record([]Arrived{{Recorded: recordedAs(note("c", -1, "1"))}}, nil)
		return err
	}); err == nil {
		t.Error("it is there twice")
	}
}

// What is tried keeps a snapshot open between the transactions that bring something.
func TestTheLogOfAMirrorBeginsAnew(t *testing.T) {
	mirror := mirrored(t, none)
	anew, last := 0, 0
	for n := range 600 {
		must(t, mirror.Bring(func(m Mirror) error {
			for row := range 50 {
				if err := m.Rows().Put(fmt.Sprint("row ", (n*50+row)%997), make([]byte, 3000)); err != nil {
					return err
				}
			}
			_, err := m.Record([]Arrived{{Recorded: recordedAs(note("a", events.Revision(n)-1, fmt.Sprint(n)))}}, nil)
			return err
		}))
		if err := mirror.Update(func(tx events.Tx) error {
			if head, err := tx.Head("a"); head != events.Revision(n) || err != nil {
				t.Errorf("the head is %d, not %d; %v", head, n, err)
			}
			_, there, err := tx.Event(events.EventID(fmt.Sprint(n)))
			if !there || err != nil {
				t.Errorf("event %d is not there: %v", n, err)
			}
			return errAny
		}); err != errAny {
			t.Fatal(err)
		}
		pages := mirror.groups.logPages
		if pages < last {
			anew++
		}
		last = pages
	}
	if anew == 0 {
		t.Errorf("the log has %d pages, and never began anew", last)
	}
}

func TestACommitOfAMirrorIsWrittenAtOnceAndSyncedOnlyWhereTheLogBeginsAnew(t *testing.T) {
	disk := &counted{bytes: make([]byte, 100)} // of an old log
	log := &logFile{journalFile: journalFile{disk}}
	commit := func(mirror bool, parts ...int64) (written bool, syncs int) {
		t.Helper()
		end := log.gather(mirror)
		defer end()
		was := len(disk.bytes)
		for _, at := range parts {
			_, err := log.WriteAt(make([]byte, logHeaderBytes), at)
			must(t, err)
		}
		before := disk.syncs
		must(t, log.Sync(vfs.SYNC_NORMAL))
		return len(disk.bytes) > was, disk.syncs - before
	}
	for n, c := range []struct {
		mirror bool
		parts  []int64
		syncs  int
	}{
		{true, []int64{100, 132}, 0}, {true, []int64{164}, 0},
		{false, []int64{196}, 1}, {true, []int64{228}, 0},
		{true, []int64{0, 260}, 1}, {true, []int64{292}, 0},
	} {
		if written, syncs := commit(c.mirror, c.parts...); !written || syncs != c.syncs {
			t.Errorf("commit %d: written %t, %d syncs", n, written, syncs)
		}
	}
	before := disk.syncs
	must(t, log.Sync(vfs.SYNC_NORMAL)) // before the log is moved into the file
	if disk.syncs != before+1 {
		t.Error("what no commit synced is not synced before it is moved")
	}
}
