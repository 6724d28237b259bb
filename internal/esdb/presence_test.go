package esdb

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	client "github.com/EventStore/EventStore-Client-Go/v4/esdb"
	"github.com/google/uuid"

	"decklog/internal/esdbdouble"
)

// ears are what a machine has heard, by machine.
type ears struct {
	mu      sync.Mutex
	last    map[string]string
	changed chan struct{}
}

func newEars() *ears { return &ears{last: map[string]string{}, changed: make(chan struct{})} }

func (e *ears) hear(machine string, said []byte) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.last[machine] = string(said)
	if said == nil {
		delete(e.last, machine)
	}
	close(e.changed)
	e.changed = make(chan struct{})
}

// told is what was told last, sorted.
func (e *ears) told() (told []string, changed <-chan struct{}) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Sorted(maps.Values(e.last)), e.changed
}

// hears waits until this, and nothing else, was told last.
func (e *ears) hears(t *testing.T, want ...string) {
	t.Helper()
	for {
		told, changed := e.told()
		if slices.Equal(told, want) {
			return
		}
		select {
		case <-changed:
		case <-t.Context().Done():
			t.Fatalf("heard %q, not %q", told, want)
		}
	}
}

func publish(t *testing.T, l *Ledger, said string) {
	t.Helper()
	must(t, l.Publish(t.Context(), []byte(said)))
}

// What machines tell each other lies in the log between the events, and is none of
// them: it has no position, changes no digest, and of each machine's the cluster keeps
// the last.
func TestWhatMachinesTellIsHeardByAllAndIsNoEvent(t *testing.T) {
	c := start(t, esdbdouble.Config{})
	ear := []*ears{newEars(), newEars()}
	here, there := c.open(t.TempDir(), count, Hear(ear[0].hear)), c.open(t.TempDir(), count, Hear(ear[1].hear))
	must(t, once(here, note("a", "1")))
	publish(t, here, `"h1"`)
	publish(t, there, `"t1"`)
	must(t, once(there, note("a", "2"), note("b", "3")))
	publish(t, here, `"h2"`)
	must(t, once(here, holding("a", "4", "said")))
	for _, e := range ear {
		e.hears(t, `"h2"`, `"t1"`)
	}
	if e := same(t, here, there); len(e.Events) != 4 || len(e.Bodies) != 1 {
		t.Errorf("%d events, %d bodies", len(e.Events), len(e.Bodies))
	}
	streams := map[string]int{}
	for _, e := range c.log.Events("dl.presence-") {
		streams[e.Stream]++
	}
	if len(streams) != 2 {
		t.Errorf("they lie in %v", streams)
	}
	for stream := range streams {
		last, err := here.fence.last(t.Context(), stream)
		must(t, err)
		about := c.log.Events("$$" + stream)
		if len(about) != 1 || string(about[0].Data) != lastOnly {
			t.Errorf("of %s the cluster keeps what %+v says", stream, about)
		}
		if last.EventNumber > 0 && c.kept(here, stream) != 1 {
			t.Errorf("of %s %d are kept", stream, c.kept(here, stream))
		}
	}
	// A machine that comes later is told too, and has the same events.
	late := newEars()
	third := c.open(t.TempDir(), count, Hear(late.hear))
	late.hears(t, `"h2"`, `"t1"`)
	same(t, here, third)
}

// kept is how many events a reader of a stream is given.
func (c cluster) kept(l *Ledger, stream string) (n int) {
	c.t.Helper()
	must(c.t, l.fence.call(c.t.Context(), func(ctx context.Context, f *fencedClient) error {
		r, err := f.ReadStream(ctx, stream, client.ReadStreamOptions{From: client.Start{}, RequiresLeader: true}, 100)
		if err != nil {
			return err
		}
		defer r.Close()
		for {
			if _, err := r.Recv(); err != nil {
				return nil
			}
			n++
		}
	}))
	return n
}

// A mirror resumes from its last event. What was told before it is known by then,
// although nobody tells it again; what was told behind it is told again.
func TestWhoResumesKnowsWhatWasToldLast(t *testing.T) {
	c := start(t, esdbdouble.Config{})
	there, heard := c.open(t.TempDir(), count), newEars()
	folder := t.TempDir()
	here := c.open(folder, count, Hear(heard.hear))
	publish(t, there, `"t1"`)
	publish(t, here, `"h1"`)
	heard.hears(t, `"h1"`, `"t1"`)
	must(t, once(here, note("a", "1")))
	must(t, here.Close())
	publish(t, there, `"t2"`)

	// Nothing comes from the cluster: what is known is known from the mirror.
	held := make(chan struct{})
	hold := c.Inject(esdbdouble.Fault{Call: esdbdouble.Read, Stream: "$all", Point: esdbdouble.SendConfirmation, Times: esdbdouble.Always, Effect: esdbdouble.Hold(held)})
	heard = newEars()
	again := c.open(folder, count, Hear(heard.hear))
	if told, _ := heard.told(); !slices.Equal(told, []string{`"h1"`, `"t1"`}) {
		t.Errorf("when it is open it knows %q", told)
	}
	hold.Lift()
	close(held)
	heard.hears(t, `"h1"`, `"t2"`)
	publish(t, again, `"h2"`)
	heard.hears(t, `"h2"`, `"t2"`)
	if n := len(machinesOf(c)); n != 2 {
		t.Errorf("two machines have %d streams", n)
	}
	same(t, again, there)
}

func machinesOf(c cluster) map[string]bool {
	streams := map[string]bool{}
	for _, e := range c.log.Events("dl.presence-") {
		streams[e.Stream] = true
	}
	return streams
}

// Whatever becomes of an answer, what is told next lies behind it, in the same stream.
func TestWhatIsToldNextLiesBehindWhateverBecameOfTheLast(t *testing.T) {
	for name, point := range map[string]esdbdouble.Point{"before it is written": esdbdouble.Commit, "when it was written": esdbdouble.Answer} {
		t.Run(name, func(t *testing.T) {
			c := start(t, esdbdouble.Config{})
			heard := newEars()
			l := c.open(t.TempDir(), count, quick, Hear(heard.hear))
			for skip := range 4 {
				c.Inject(esdbdouble.Fault{Call: esdbdouble.Append, Point: point, Skip: skip % 3, Effect: esdbdouble.Cut()})
				lost := l.Publish(t.Context(), fmt.Appendf(nil, `"lost %d"`, skip))
				said := fmt.Sprintf(`"%d"`, skip)
				for l.Publish(t.Context(), []byte(said)) != nil {
				}
				heard.hears(t, said)
				if skip == 0 && lost == nil {
					t.Error("the cut was not noticed, so nothing is proved")
				}
				c.Heal()
			}
			if n := len(machinesOf(c)); n != 1 {
				t.Errorf("one machine has %d streams", n)
			}
		})
	}
}

// The folder of a machine is copied to another, as with a disk's image: both go by one
// id until they notice, and neither takes what the other told from it.
func TestTwoMachinesWithTheIDOfOneBecomeTwo(t *testing.T) {
	c := start(t, esdbdouble.Config{})
	heard := newEars()
	folder, other := t.TempDir(), t.TempDir()
	first := c.open(folder, count, Hear(heard.hear))
	publish(t, first, `"first 1"`)
	id, err := os.ReadFile(filepath.Join(folder, "views.owner"))
	must(t, err)
	must(t, os.WriteFile(filepath.Join(other, "views.owner"), id, 0o600))
	second := c.open(other, count)
	publish(t, second, `"second 1"`) // it may be the first's, who was started anew
	publish(t, first, `"first 2"`)   // and this one knows that it is not
	heard.hears(t, `"first 2"`, `"second 1"`)
	for i := range 3 {
		publish(t, first, fmt.Sprintf(`"first %d"`, i+3))
		publish(t, second, fmt.Sprintf(`"second %d"`, i+2))
		heard.hears(t, fmt.Sprintf(`"first %d"`, i+3), fmt.Sprintf(`"second %d"`, i+2))
	}
	if n := len(machinesOf(c)); n != 2 {
		t.Errorf("two machines have %d streams", n)
	}
	must(t, first.Close())
	again := c.open(folder, count)
	publish(t, again, `"first again"`)
	heard2 := newEars()
	c.open(t.TempDir(), count, Hear(heard2.hear))
	heard2.hears(t, `"first again"`, `"second 4"`)
}

// Nothing is decided by what machines tell, so nothing that lies there stops anybody;
// but events may not be put there.
func TestWhatElseLiesWhereMachinesTellStopsNobody(t *testing.T) {
	c := start(t, esdbdouble.Config{})
	heard := newEars()
	l := c.open(t.TempDir(), count, Hear(heard.hear))
	for i, kind := range []string{"greeting", toldType} {
		must(t, l.fence.appendTo(t.Context(), "dl.presence-"+fmt.Sprint(i), client.NoStream{}, []client.EventData{
			{EventID: uuid.New(), EventType: kind, ContentType: client.ContentTypeBinary, Data: []byte("\xff")},
		}))
	}
	must(t, l.fence.tombstone(t.Context(), "dl.presence-0"))
	must(t, once(l, note("a", "1")))
	heard.hears(t, "\xff")
	if err := once(l, note(toldMark+"x", "2")); err == nil || !strings.Contains(err.Error(), "hold no events") {
		t.Errorf("an event there: %v", err)
	}
	if err := l.Publish(t.Context(), []byte(strings.Repeat("x", AppendBytesMax))); err == nil {
		t.Error("it told more than the cluster takes")
	}
}

// Machines come and go, and nobody says when one went for good.
func TestOfVeryManyMachinesThoseThatToldLastAreKnown(t *testing.T) {
	c := start(t, esdbdouble.Config{})
	heard := newEars()
	folder := t.TempDir()
	l := c.open(folder, count, Hear(heard.hear))
	publish(t, l, `"mine"`)
	tell := func(from, to int) {
		for i := from; i < to; i++ {
			must(t, l.fence.appendTo(t.Context(), fmt.Sprintf("dl.presence-%05d", i), client.NoStream{}, []client.EventData{
				{EventID: uuid.New(), EventType: toldType, ContentType: client.ContentTypeJson, Data: fmt.Appendf(nil, "%05d", i)},
			}))
		}
	}
	var want []string
	for i := 10; i < machinesMax+10; i++ {
		want = append(want, fmt.Sprintf("%05d", i))
	}
	tell(0, machinesMax+10)
	heard.hears(t, want...)
	must(t, l.Close())
	heard = newEars()
	c.open(folder, count, Hear(heard.hear))
	heard.hears(t, want...)
}

// Who resumes is told again what lies behind its last event, the older before the newer.
func TestWhatWasToldBeforeIsNotHeardAfterwards(t *testing.T) {
	var heard []string
	l := &Ledger{}
	Hear(func(machine string, said []byte) { heard = append(heard, machine+" "+string(said)) })(l)
	for _, at := range []uint64{5, 3, 5, 4, 6} {
		l.hear("a", telling{place{at, at}, fmt.Append(nil, at)})
	}
	l.hear("b", telling{place{1, 1}, []byte("1")})
	l.unhear(map[string]place{"a": {5, 5}}) // by a mirror that is not as far
	l.unhear(map[string]place{"a": {6, 6}, "c": {6, 6}})
	l.hear("a", telling{place{2, 2}, []byte("2")})
	if want := []string{"a 5", "a 6", "b 1", "a ", "a 2"}; !slices.Equal(heard, want) {
		t.Errorf("heard %q, not %q", heard, want)
	}
}
