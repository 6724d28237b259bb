package esdb

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"decklog/events"
	"decklog/internal/esdbdouble"
	"decklog/internal/sqlite"
)

// wrong is a row that no event explains, by which the old mirror is known.
const wrong = "wrong"

// spoil puts such a row into a mirror.
func spoil(t testing.TB, l *Ledger) {
	t.Helper()
	must(t, l.mirror.Update(func(tx events.Tx) error { return tx.Rows().Put(wrong, []byte("row")) }))
}

// spoilt says whether it is there.
func spoilt(t testing.TB, l *Ledger) (is bool) {
	t.Helper()
	must(t, l.View(func(r events.Reader) error {
		value, err := r.Rows().Get(wrong)
		is = value != nil
		return err
	}))
	return is
}

// files are those in a machine's folder.
func files(t testing.TB, folder string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(folder)
	must(t, err)
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

func leftNothing(t testing.TB, folder string) {
	t.Helper()
	for _, name := range files(t, folder) {
		if strings.Contains(name, ".new.") {
			t.Errorf("there is still %s", name)
		}
	}
}

func TestARebuildChangesTheViewsWhileOthersReadAndWriteAndWait(t *testing.T) {
	c := start(t, esdbdouble.Config{})
	folder := t.TempDir()
	here, there := c.open(folder, count, quick), c.open(t.TempDir(), count, quick)
	for i := range 40 {
		must(t, once(there, note("a", fmt.Sprint("old ", i)), holding("b", fmt.Sprint("old b ", i), "text")))
	}
	reaches(t, here, 80)
	spoil(t, here)

	ctx, end := context.WithCancel(t.Context())
	var busy sync.WaitGroup
	a := &acked{ids: map[events.EventID]bool{}}
	for m, l := range []*Ledger{here, there} {
		busy.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				id := fmt.Sprintf("new %d-%d", m, i)
				must(t, once(l, note("shared", id), holding("own-"+events.Stream(fmt.Sprint(m)), "b "+id, "text")))
				a.add(id, "b "+id)
			}
		})
	}
	busy.Go(func() { // a reader, who never sees less than before
		var last events.Position
		for ctx.Err() == nil {
			must(t, here.View(func(r events.Reader) error {
				at, err := r.End()
				if at < last {
					t.Errorf("the ledger ended at %d, and now at %d", last, at)
				}
				last = at
				return err
			}))
		}
	})
	busy.Go(func() { // one who waits, and is woken by each
		for at := events.Position(80); ctx.Err() == nil; at++ {
			if err := here.Wait(ctx, at); err != nil && ctx.Err() == nil {
				t.Errorf("who waits behind %d hears %v", at, err)
			}
		}
	})
	for range 3 {
		var told []events.Position
		must(t, here.Rebuild(func(done, end events.Position) error {
			told = append(told, done)
			if done > end {
				t.Errorf("%d of %d are done", done, end)
			}
			return nil
		}))
		if len(told) == 0 || !slices.IsSorted(told) || told[len(told)-1] < 80 {
			t.Errorf("it was told %d", told)
		}
		if spoilt(t, here) {
			t.Error("the row is still wrong")
		}
		leftNothing(t, folder)
		spoil(t, here)
	}
	end()
	busy.Wait()
	must(t, here.Rebuild(nil))
	a.kept(t, same(t, here, there))
	if lag := here.Lag(); lag.Dropped != 0 {
		t.Errorf("the subscription ended %d times", lag.Dropped)
	}
}

func TestWhatOnlyTheOldMirrorKnowsGoesOver(t *testing.T) {
	c := start(t, esdbdouble.Config{})
	l := c.open(t.TempDir(), count, func(l *Ledger) { l.bounds.look = 100 * time.Millisecond })
	must(t, once(l, holding("a", "1", "went long ago"), holding("a", "2", "goes")))
	first, second := note("a", "3"), note("a", "4")
	first.Drops, second.Drops = []events.EventID{"1"}, []events.EventID{"2"}
	must(t, once(l, first))
	becomes(t, l, func(lag events.Lag) bool { return lag.Undropped == 0 })
	c.Inject(esdbdouble.Fault{Call: esdbdouble.Tombstone, Point: esdbdouble.Commit, Times: esdbdouble.Always, Effect: esdbdouble.Say(esdbdouble.NotReady())})
	must(t, once(l, second))
	must(t, l.note(outKey+"x", []byte("half a command")))
	must(t, l.Update(func(tx events.Tx) error {
		_, _, err := tx.Tally("sender", 3, 7)
		return err
	}))
	noted := func() map[string][]byte {
		all, err := l.notes("")
		must(t, err)
		return all
	}
	before := noted()
	must(t, l.Rebuild(nil))
	after := noted()
	if len(before) < 4 || fmt.Sprint(before) != fmt.Sprint(after) {
		t.Errorf("it had %q, and has %q", before, after)
	}
	must(t, l.Update(func(tx events.Tx) error {
		n, since, err := tx.Tally("sender", 0, 0)
		if n != 3 || since != 7 {
			t.Errorf("counted %d since %d", n, since)
		}
		return err
	}))
	c.Heal()
	becomes(t, l, func(lag events.Lag) bool { return lag.Undropped == 0 })
	if left := c.texts(l); len(left) != 0 {
		t.Errorf("the cluster still has %q", left)
	}
}

// half has a machine die between two appends of a command, of which the second cannot
// be sent until the cluster is healed.
func half(c cluster, l *Ledger, name string) {
	c.t.Helper()
	parts := []events.Proposed{note("first", "1 "+name), note("second", "2 "+name)}
	for i := range parts {
		parts[i].Cause.Command = events.CommandID(name)
	}
	c.Inject(esdbdouble.Fault{Call: esdbdouble.Append, Stream: "dl.second", Point: esdbdouble.Commit, Times: esdbdouble.Always, Effect: func(*esdbdouble.Call) error {
		l.end()
		return esdbdouble.NotReady()
	}})
	if err := once(l, parts...); !errors.Is(err, events.ErrUnknown) {
		c.t.Fatalf("half a command ended with %v", err)
	}
}

// stepsOf are those of a rebuild, and which mirror is there when the process dies.
var stepsOf = []struct {
	name string
	old  bool
}{{"filling", true}, {"filled", true}, {"taken over", true}, {"closed", true}, {"synced", true}, {"renamed", false}, {"replaced", false}}

var roles = map[string]func(args []string) error{
	// rebuild ADDRESS STEP: rebuilds, and ends at a step as kill -9 would end it.
	"rebuild": func(args []string) error {
		a, err := Parse(args[0])
		if err != nil {
			return err
		}
		l, err := Open(a, count, func(l *Ledger) {
			l.step = func(name string) {
				if name == args[1] {
					_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
					select {}
				}
			}
		})
		if err != nil {
			return err
		}
		return l.Rebuild(nil)
	},
}

func TestAProcessThatDiesWhileItRebuildsLeavesTheOldViewsOrTheNewOnes(t *testing.T) {
	c := start(t, esdbdouble.Config{})
	other := c.open(t.TempDir(), count)
	for i := range 20 {
		must(t, once(other, note("a", fmt.Sprint(i)), holding("b", fmt.Sprint("b", i), "text")))
	}
	end := events.Position(40)
	for _, step := range stepsOf {
		t.Run(step.name, func(t *testing.T) {
			folder := t.TempDir()
			l := c.open(folder, count)
			reaches(t, l, end)
			spoil(t, l)
			half(c, l, step.name)
			must(t, l.Close())
			err := process("rebuild", c.URL()+"&views="+filepath.Join(folder, "views.db"), step.name).Run()
			if err == nil || err.Error() != "signal: killed" {
				t.Fatalf("it ended with %v", err)
			}
			l = c.open(folder, count)
			if spoilt(t, l) != step.old {
				t.Errorf("the old views are there: %t", !step.old)
			}
			leftNothing(t, folder)
			if lag := l.Lag(); lag.Unsent != 1 {
				t.Errorf("it stands so: %+v", lag)
			}
			c.Heal()
			becomes(t, l, func(lag events.Lag) bool { return lag.Unsent == 0 })
			must(t, l.Rebuild(nil))
			reaches(t, other, end+2)
			end += 2
			same(t, l, other)
		})
	}
}

// Nobody must be kept out by one who reads for long.
func TestARebuildWaitsForALongReaderAndKeepsNobodyElseWaiting(t *testing.T) {
	c := start(t, esdbdouble.Config{})
	l := c.open(t.TempDir(), count)
	must(t, once(l, note("a", "1")))
	spoil(t, l)
	inside, leave, left := make(chan struct{}), make(chan struct{}), make(chan error)
	go func() {
		left <- l.View(func(r events.Reader) error {
			close(inside)
			<-leave
			_, err := r.End() // of what it sees still
			return err
		})
	}()
	<-inside
	rebuilt := make(chan error)
	go func() { rebuilt <- l.Rebuild(nil) }()
	becomes(t, l, func(lag events.Lag) bool { return lag.Rebuilding })
	if err := l.Rebuild(nil); code(err) != "rebuilding" {
		t.Errorf("a second one ends with %v", err)
	}
	for i := range 20 {
		must(t, once(l, note("b", fmt.Sprint(i))))
	}
	select {
	case err := <-rebuilt:
		t.Fatalf("it is rebuilt under a reader: %v", err)
	default:
	}
	close(leave)
	must(t, <-left)
	must(t, <-rebuilt)
	if spoilt(t, l) {
		t.Error("the row is still wrong")
	}
}

// The new views never get ahead of those that are read.
func TestWhatTheOldViewsDoNotHaveYetTheNewOnesDoNotShow(t *testing.T) {
	c := start(t, esdbdouble.Config{})
	here, there := c.open(t.TempDir(), count), c.open(t.TempDir(), count)
	must(t, once(there, note("a", "1")))
	reaches(t, here, 1)
	becomes(t, here, isLive)
	becomes(t, there, isLive)
	spoil(t, here)
	// Neither is told of what comes next.
	later := make(chan struct{})
	held := c.Inject(esdbdouble.Fault{Call: esdbdouble.Read, Stream: "$all", Point: esdbdouble.SendEvent, Times: 2, Effect: subscribed(esdbdouble.Hold(later))})
	done := make(chan error)
	go func() { done <- once(there, note("a", "2")) }()
	becomes(t, there, func(events.Lag) bool { return held.Times() == 2 })
	must(t, here.Rebuild(nil))
	if e := everything(t, here); len(e.Events) != 1 || spoilt(t, here) {
		t.Errorf("%d events", len(e.Events))
	}
	close(later)
	must(t, <-done)
	must(t, once(there, note("a", "3")))
	same(t, here, there)
}

// And they are not shown while they lack anything, however late it came.
func TestWhatTheOldViewsHaveTheNewOnesShowFromTheBeginning(t *testing.T) {
	c := start(t, esdbdouble.Config{})
	l := c.open(t.TempDir(), count)
	must(t, once(l, note("a", "1")))
	spoil(t, l)
	late, times := make(chan struct{}), 0
	var release sync.Once
	var slow atomic.Bool
	l.step = func(step string) {
		switch step {
		case "filling":
			if slow.Load() {
				<-late
			}
		case "filled":
			if times++; times == 1 { // the old ones get one more
				slow.Store(true)
				must(t, once(l, note("a", "2")))
			}
		}
	}
	must(t, l.Rebuild(func(done, end events.Position) error {
		if done == 1 && end == 2 {
			if e := everything(t, l); len(e.Events) != 2 || !spoilt(t, l) {
				t.Errorf("%d events", len(e.Events))
			}
			release.Do(func() { close(late) })
		}
		return nil
	}))
	if e := everything(t, l); len(e.Events) != 2 || spoilt(t, l) || times != 2 {
		t.Errorf("%d events, tried %d times", len(e.Events), times)
	}
	must(t, once(l, note("a", "3")))
	same(t, l, c.open(t.TempDir(), count))
}

func TestARebuildThatIsCalledOffLeavesTheViewsAsTheyAre(t *testing.T) {
	c := start(t, esdbdouble.Config{})
	folder := t.TempDir()
	l := c.open(folder, count)
	must(t, once(l, note("a", "1")))
	spoil(t, l)
	gone := errors.New("the caller is gone")
	if err := l.Rebuild(func(_, _ events.Position) error { return gone }); !errors.Is(err, gone) {
		t.Errorf("it ended with %v", err)
	}
	// Somebody has put something where the new views would go.
	blocked := filepath.Join(folder, "views.new.db", "folder")
	must(t, os.MkdirAll(blocked, 0o700))
	if err := l.Rebuild(nil); err == nil {
		t.Error("it was rebuilt")
	}
	must(t, os.RemoveAll(filepath.Dir(blocked)))
	if lag := l.Lag(); lag.Rebuilding || !lag.Live || !spoilt(t, l) {
		t.Errorf("it stands so: %+v", lag)
	}
	leftNothing(t, folder)

	// The ledger is closed while it is filled.
	held := c.Inject(esdbdouble.Fault{Call: esdbdouble.Read, Stream: "$all", Point: esdbdouble.Send, Times: esdbdouble.Always, Effect: subscribed(esdbdouble.Hold(t.Context().Done()))})
	rebuilt := make(chan error)
	go func() { rebuilt <- l.Rebuild(nil) }()
	<-held.Struck()
	must(t, l.Close())
	if err := <-rebuilt; !errors.Is(err, errShut) {
		t.Errorf("it ended with %v", err)
	}
	leftNothing(t, folder)
	if err := l.Rebuild(nil); !errors.Is(err, errShut) {
		t.Errorf("of a closed ledger it ended with %v", err)
	}
}

// Between the closing of both and the opening of one there may be no disk.
func TestARebuildWhoseFilesCannotBeChangedLeavesTheOldViews(t *testing.T) {
	c := start(t, esdbdouble.Config{})
	folder := t.TempDir()
	l := c.open(folder, count)
	must(t, once(l, note("a", "1")))
	spoil(t, l)
	for what, fail := range map[string]func(){
		"the new ones are gone":           func() { must(t, os.Remove(filepath.Join(folder, "views.new.db"))) },
		"another process has the old one": func() { must(t, os.WriteFile(filepath.Join(folder, "views.db-wal"), nil, 0o600)) },
	} {
		l.step = func(step string) {
			if step == "closed" {
				fail()
			}
		}
		if err := l.Rebuild(nil); err == nil {
			t.Errorf("%s: it is rebuilt", what)
		}
		if !spoilt(t, l) {
			t.Errorf("%s: the views are new", what)
		}
		must(t, once(l, note("b", what)))
		leftNothing(t, folder)
	}
	l.step = nil
	must(t, l.Rebuild(nil))
	same(t, l, c.open(t.TempDir(), count))

	// And there may be none to open it from.
	views := filepath.Join(folder, "views.db")
	l.step = func(step string) {
		if step == "replaced" {
			must(t, os.Remove(views))
			must(t, os.Mkdir(views, 0o700))
		}
	}
	if err := l.Rebuild(nil); code(err) != "views_broken" {
		t.Errorf("it ended with %v", err)
	}
	if lag := l.Lag(); !lag.Ended || code(lag.Why) != "views_broken" || lag.Unsent != -1 {
		t.Errorf("it stands so: %+v", lag)
	}
	if err := once(l, note("a", "2")); code(err) != "views_broken" {
		t.Errorf("an update ends with %v", err)
	}
	must(t, l.Close())
	must(t, os.Remove(views))
	same(t, c.open(folder, count), c.open(t.TempDir(), count))
}

func TestARebuildGoesOnWhenItsConnectionIsCut(t *testing.T) {
	c := start(t, esdbdouble.Config{})
	l := c.open(t.TempDir(), count, quick)
	for i := range 20 {
		must(t, once(l, note("a", fmt.Sprint(i)), holding("b", fmt.Sprint("b", i), "text")))
	}
	spoil(t, l)
	var cut atomic.Int64
	c.Inject(esdbdouble.Fault{Call: esdbdouble.Read, Stream: "$all", Point: esdbdouble.Send, Skip: 15, Times: 3, Effect: func(call *esdbdouble.Call) error {
		cut.Add(1)
		return esdbdouble.Cut()(call)
	}})
	must(t, l.Rebuild(nil))
	if cut.Load() == 0 || spoilt(t, l) {
		t.Errorf("it was cut %d times", cut.Load())
	}
	same(t, l, c.open(t.TempDir(), count))
}

// The views of a machine can be damaged so that nothing can be brought to them any
// more. They are read as they are, until they were made anew.
func TestARebuildMendsViewsThatStandStill(t *testing.T) {
	c := start(t, esdbdouble.Config{})
	var heard atomic.Int64
	l := c.open(t.TempDir(), count, quick, Apply(func(_ events.Reader, recorded []events.Recorded) error {
		heard.Add(int64(len(recorded)))
		return nil
	}))
	there := c.open(t.TempDir(), count)
	must(t, once(l, note("a", "1")))
	must(t, l.writing(func(m sqlite.Mirror) error { return m.Note(checkpointKey, []byte("{")) }))
	c.DropSubscriptions(esdbdouble.NotReady())
	lag := becomes(t, l, func(lag events.Lag) bool { return lag.Ended })
	if code(lag.Why) != "views_damaged" {
		t.Errorf("it stands so: %+v", lag)
	}
	if err := once(l, note("a", "2")); code(err) != "views_damaged" || !errors.Is(err, events.ErrConflict) {
		t.Errorf("an update ends with %v", err)
	}
	must(t, once(there, note("a", "2")))
	if e := everything(t, l); len(e.Events) != 1 {
		t.Errorf("%d events are read", len(e.Events))
	}
	must(t, l.Rebuild(nil))
	becomes(t, l, isLive)
	must(t, once(l, note("a", "3")))
	same(t, l, there)
	if heard.Load() != 3 {
		t.Errorf("of 3 events %d were heard of", heard.Load())
	}
}

func TestARebuildWithoutTheClusterIsRefused(t *testing.T) {
	c := start(t, esdbdouble.Config{})
	l := c.open(t.TempDir(), count, brisk)
	must(t, once(l, note("a", "1")))
	c.Stop()
	becomes(t, l, isStale)
	if err := l.Rebuild(nil); code(err) != "unreachable" {
		t.Errorf("it ended with %v", err)
	}
	must(t, c.Start())
	becomes(t, l, isLive)
	must(t, l.Rebuild(nil))
}
