package esdb

import (
	"errors"
	"testing"

	"decklog/events"
	"decklog/internal/esdbdouble"
	"decklog/internal/failure"
	"decklog/internal/sqlite"
)

// taken are the events of a machine, as another ledger would take them.
func taken(t *testing.T, l *Ledger) (all []sqlite.Arrived) {
	t.Helper()
	for _, e := range everything(t, l).Events {
		all = append(all, sqlite.Arrived{Recorded: e})
	}
	return all
}

// Where a stream holds something else, nothing is appended behind it.
func TestTakingEndsAtWhatSomebodyElseAppended(t *testing.T) {
	from := start(t, esdbdouble.Config{}).open(t.TempDir(), count)
	must(t, once(from, note("a", "1"), note("b", "2"), note("c", "3")))
	all := taken(t, from)

	c := start(t, esdbdouble.Config{})
	to, other := c.open(t.TempDir(), count), c.open(t.TempDir(), count)
	must(t, once(other, note("b", "theirs")))
	reaches(t, to, 1)
	if err := to.Take(t.Context(), all); !errors.Is(err, events.ErrConflict) {
		t.Errorf("got %v", err)
	}
	if e := same(t, to, other); len(e.Events) != 2 || e.Events[1].ID != "1" {
		t.Errorf("there are %+v", e.Events)
	}
}

// What an earlier call has appended is known, also where its answer was lost.
func TestTakingAgainAppendsNothingTwice(t *testing.T) {
	from := start(t, esdbdouble.Config{}).open(t.TempDir(), count)
	for _, id := range []string{"1", "2", "3", "4"} {
		must(t, once(from, note("a", id), note("b", "of "+id)))
	}
	all := taken(t, from)
	c := start(t, esdbdouble.Config{})
	to := c.open(t.TempDir(), count, quick)
	c.Inject(esdbdouble.Fault{Call: esdbdouble.Append, Point: esdbdouble.Answer, Skip: 2, Times: 3, Effect: esdbdouble.Cut()})
	must(t, to.Take(t.Context(), all[:5]))
	must(t, to.Take(t.Context(), all))
	fresh := c.open(t.TempDir(), count)
	if e := same(t, to, fresh); len(e.Events) != len(all) {
		t.Errorf("%d events, not %d", len(e.Events), len(all))
	}
	same(t, from, to)
}

func TestTakingSaysThatTheClusterIsGone(t *testing.T) {
	from := start(t, esdbdouble.Config{}).open(t.TempDir(), count)
	must(t, once(from, note("a", "1")))
	c := start(t, esdbdouble.Config{})
	to := c.open(t.TempDir(), count, quick, func(l *Ledger) { l.bounds.send = l.bounds.attempt })
	c.Stop()
	err := to.Take(t.Context(), taken(t, from))
	must(t, c.Start())
	if failure.Of(err).Code != "unreachable" {
		t.Errorf("got %v", err)
	}
}
