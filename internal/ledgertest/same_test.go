package ledgertest_test

import (
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"decklog/events"
	"decklog/internal/memory"
	"decklog/internal/sqlite"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The two ledgers share no code but the order of rows. Whatever is asked of
// both, they answer the same: two readings of one contract.
func TestTheSQLiteLedgerDoesWhatTheMemoryLedgerDoes(t *testing.T) {
	folder, n := t.TempDir(), 0
	rapid.Check(t, func(t *rapid.T) {
		n++
		disk, err := sqlite.Open(filepath.Join(folder, fmt.Sprint(n), "ledger.db"), fold)
		if err != nil {
			t.Fatal(err)
		}
		defer disk.Close()
		inMemory := memory.New(fold)
		defer inMemory.Close()
		for range rapid.IntRange(1, 15).Draw(t, "steps") {
			do := update(t)
			if diff := cmp.Diff(do(inMemory), do(disk)); diff != "" {
				t.Fatalf("an update went another way (-memory +sqlite):\n%s", diff)
			}
			if diff := cmp.Diff(read(inMemory), read(disk)); diff != "" {
				t.Fatalf("something reads otherwise (-memory +sqlite):\n%s", diff)
			}
		}
	})
}

// Nobody can tell from what he is told, and from what is then to be read, that his
// update was one of a group.
func TestAGroupDoesWhatItsMembersWouldHaveDoneOneByOne(t *testing.T) {
	folder, n := t.TempDir(), 0
	rapid.Check(t, func(t *rapid.T) {
		n++
		disk, err := sqlite.Open(filepath.Join(folder, fmt.Sprint(n), "ledger.db"), fold,
			sqlite.Grouped(sqlite.Groups{Members: 100, Longest: time.Hour, Queue: 100}))
		if err != nil {
			t.Fatal(err)
		}
		defer disk.Close()
		inMemory := memory.New(fold)
		defer inMemory.Close()
		for range rapid.IntRange(1, 5).Draw(t, "groups") {
			var members []func(events.Ledger) []string
			for range rapid.IntRange(1, 5).Draw(t, "members") {
				members = append(members, update(t))
			}
			var alone [][]string
			for _, do := range members {
				alone = append(alone, do(inMemory))
			}
			if diff := cmp.Diff(alone, inOneGroup(t, disk, members)); diff != "" {
				t.Fatalf("a group went another way (-one by one +group):\n%s", diff)
			}
			if diff := cmp.Diff(read(inMemory), read(disk)); diff != "" {
				t.Fatalf("something reads otherwise (-one by one +group):\n%s", diff)
			}
		}
	})
}

// inOneGroup does these in one group, in their order.
func inOneGroup(t *rapid.T, l *sqlite.Ledger, members []func(events.Ledger) []string) [][]string {
	told := make([][]string, len(members))
	var running sync.WaitGroup
	begun, queued := make(chan struct{}), make(chan struct{})
	running.Go(func() {
		if err := l.Update(func(events.Tx) error {
			close(begun)
			<-queued
			return nil
		}); err != nil {
			t.Error(err)
		}
	})
	<-begun
	for n, do := range members {
		running.Go(func() { told[n] = do(l) })
		for l.Queued() <= n {
			runtime.Gosched()
		}
	}
	close(queued)
	running.Wait()
	return told
}

var errMine = errors.New("mine")

// fold is a projector that reads, scans, writes and removes rows, and
// sometimes fails.
func fold(rows events.Rows, recorded []events.Recorded) error {
	for _, r := range recorded {
		if r.Actor == "@saboteur" {
			return errMine
		}
		if err := rows.Put(fmt.Sprintf("by/%s/%03d", r.Stream, r.Revision), r.Data); err != nil {
			return err
		}
	}
	stale := 0
	return rows.Scan("by/", "", true, func(key string, _ []byte) bool {
		if stale++; stale > 5 {
			rows.Put(key, nil)
			rows.Put("old/"+key, []byte{})
		}
		return true
	})
}

var (
	streams = []events.Stream{"a", "b", "ab"}
	texts   = []string{"", "one", "two"}
	ids     = rapid.Map(rapid.IntRange(0, 25), func(n int) events.EventID { return events.EventID(fmt.Sprint("id", n)) })
)

// update draws a transaction, which is then done the same way to each ledger,
// and tells all that it was told.
func update(t *rapid.T) func(events.Ledger) []string {
	type step struct {
		kind     int
		batch    events.Batch
		wrong    int // added to the head that is read
		key      string
		n        int
		ignores  bool
		from     int
		backward bool
	}
	var steps []step
	for range rapid.IntRange(1, 4).Draw(t, "steps of the update") {
		s := step{
			kind:     rapid.SampledFrom([]int{0, 0, 0, 0, 1, 2, 3, 4, 5}).Draw(t, "kind"),
			wrong:    rapid.SampledFrom([]int{0, 0, 0, 0, 0, 1, -1}).Draw(t, "wrong"),
			key:      rapid.SampledFrom([]string{"by/a/000", "k", "\xff", ""}).Draw(t, "key"),
			n:        rapid.IntRange(0, 3).Draw(t, "n"),
			ignores:  rapid.Bool().Draw(t, "ignores errors"),
			from:     rapid.IntRange(0, 9).Draw(t, "from"),
			backward: rapid.Bool().Draw(t, "backward"),
		}
		s.batch = events.Batch{
			Stream: rapid.SampledFrom(streams).Draw(t, "stream"),
			Time:   events.Time(rapid.IntRange(-5, 50).Draw(t, "time")),
			Policy: events.Position(s.n),
		}
		for range rapid.IntRange(0, 3).Draw(t, "events") {
			p := events.Proposed{
				Stream: s.batch.Stream,
				ID:     ids.Draw(t, "id"),
				Actor:  rapid.SampledFrom([]events.Participant{"@smith", "@smith", "@smith", "@smith", "@saboteur"}).Draw(t, "actor"),
				Cause:  events.Cause{Command: "c", Event: ids.Draw(t, "cause")},
				Event:  events.ThreadDone{Thread: "t", By: "@smith"},
				Drops:  rapid.SliceOfN(ids, 0, 2).Draw(t, "drops"),
			}
			if rapid.Bool().Draw(t, "has a body") {
				text := rapid.SampledFrom(texts).Draw(t, "text")
				p.Body = &events.Body{Text: []byte(text), Fingerprint: events.FingerprintOf(text)}
				p.Event = events.MessageEdited{Message: "m", Body: p.Body.Commit()}
			}
			s.batch.Events = append(s.batch.Events, p)
		}
		steps = append(steps, s)
	}
	fails := rapid.SampledFrom([]bool{false, false, false, true}).Draw(t, "the function fails")

	return func(l events.Ledger) (told []string) {
		tell := func(what ...any) { told = append(told, fmt.Sprintf("%+v", what)) }
		err := l.Update(func(tx events.Tx) error {
			for _, s := range steps {
				var err error
				switch s.kind {
				case 0:
					b := s.batch
					b.Expected, err = tx.Head(b.Stream)
					b.Expected += events.Revision(s.wrong)
					if err == nil {
						var recorded []events.Recorded
						recorded, err = tx.Append(b)
						tell("appended", recorded)
					}
				case 1:
					err = tx.Rows().Put(s.key, []byte(strings.Repeat("v", s.n)))
				case 2:
					err = tx.Rows().Put(s.key, nil)
				case 3:
					count, since, e := tx.Tally(s.key, s.n, s.batch.Time)
					tell("tally", count, since)
					err = e
				case 4:
					err = tx.EndTally(s.key)
				case 5:
					err = tx.ClearRows()
				}
				tell("step", outcome(err))
				if err != nil && !s.ignores {
					return err
				}
				if err == nil {
					tell("inside", look(tx, s.from, s.backward))
				}
			}
			if fails {
				return errMine
			}
			return nil
		})
		tell("update", outcome(err))
		return told
	}
}

// outcome is what a caller can tell apart of an error.
func outcome(err error) string {
	switch {
	case err == nil:
		return "done"
	case errors.Is(err, events.ErrConflict):
		return "conflict"
	case errors.Is(err, errMine):
		return "mine"
	}
	return "failed"
}

// read is all that a view can read.
func read(l events.Ledger) (told []string) {
	l.View(func(r events.Reader) error {
		for from := range 4 {
			told = append(told, look(r, 3*from, from%2 == 0)...)
		}
		return nil
	})
	return told
}

// look reads some of everything, beginning from a place.
func look(r events.Reader, from int, backward bool) (told []string) {
	tell := func(what ...any) { told = append(told, fmt.Sprintf("%+v", what)) }
	tell(r.End())
	tell(r.All(events.Position(from), 4))
	tell(r.AsOf(events.Time(5 * from)))
	for _, s := range streams {
		tell(r.Head(s))
		tell(r.Stream(s, events.Revision(from), 2))
	}
	id := events.EventID(fmt.Sprint("id", from))
	tell(r.Event(id))
	tell(r.Body(id))
	tell(r.Alike(events.FingerprintOf(texts[from%3])))
	tell(r.Rows().Get("k"))
	tell(r.Rows().Scan("", fmt.Sprintf("by/a/%03d", from), backward, func(key string, value []byte) bool {
		tell(key, string(value))
		return len(told) < 20
	}))
	return told
}

// Half a batch is never committed. Who looks at it nevertheless sees it in one way.
func TestHalfABatchHasTheHeadThatItsStreamShows(t *testing.T) {
	grouped, err := sqlite.Open(filepath.Join(t.TempDir(), "ledger.db"), fold, sqlite.Grouped(sqlite.DefaultGroups))
	if err != nil {
		t.Fatal(err)
	}
	defer grouped.Close()
	inMemory := memory.New(fold)
	defer inMemory.Close()
	for name, l := range map[string]events.Ledger{"memory": inMemory, "grouped": grouped} {
		batch := func(expected events.Revision, ids ...events.EventID) (b events.Batch) {
			b = events.Batch{Stream: "a", Expected: expected}
			for _, id := range ids {
				b.Events = append(b.Events, events.Proposed{Stream: "a", ID: id, Actor: "@smith", Event: events.ThreadDone{Thread: "t", By: "@smith"}})
			}
			return b
		}
		for range 2 { // the head is remembered, or not
			err := l.Update(func(tx events.Tx) error {
				was, err := tx.Head("a")
				if err != nil {
					return err
				}
				if was < 0 {
					_, err := tx.Append(batch(was, "one"))
					return err
				}
				if _, err := tx.Append(batch(was, "two", "one")); err == nil {
					t.Errorf("%s: an id twice", name)
				}
				head, err := tx.Head("a")
				shown, e := tx.Stream("a", 0, 10)
				if err != nil || e != nil || int(head) != len(shown)-1 {
					t.Errorf("%s: the head is %d of %d events: %v, %v", name, head, len(shown), err, e)
				}
				return errMine
			})
			if err != nil && !errors.Is(err, errMine) {
				t.Error(name, err)
			}
		}
	}
}
