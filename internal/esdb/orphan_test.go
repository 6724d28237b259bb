package esdb

import (
	"slices"
	"testing"
	"time"

	client "github.com/EventStore/EventStore-Client-Go/v4/esdb"

	"decklog/events"
	"decklog/internal/esdbdouble"
)

// orphan puts a text for an event that names another, or that is never recorded.
func orphan(t *testing.T, l *Ledger, id events.EventID, text string) {
	t.Helper()
	body := events.Body{Salt: events.Salt{9}, Text: []byte(text), Fingerprint: events.FingerprintOf(text)}
	e, err := bodyData(id, body)
	must(t, err)
	must(t, l.fence.appendTo(t.Context(), l.address.Prefix+bodyStream(id, bodyShort(body)), client.NoStream{}, []client.EventData{e}))
}

// stillGives waits until the cluster still gives exactly these texts.
func (c cluster) stillGives(l *Ledger, want ...string) {
	c.t.Helper()
	for {
		left := c.texts(l)
		slices.Sort(left)
		if slices.Equal(left, want) {
			return
		}
		select {
		case <-time.After(10 * time.Millisecond):
		case <-c.t.Context().Done():
			c.t.Fatalf("the cluster has %q, want %q", left, want)
		}
	}
}

func TestATextThatItsEventDoesNotNameGoes(t *testing.T) {
	t.Run("when the event comes later, to the next process", func(t *testing.T) {
		c := start(t, esdbdouble.Config{})
		folder := t.TempDir()
		l := c.open(folder, count)
		orphan(t, l, "1", "first thought")
		must(t, once(l, note("other", "x")))
		must(t, l.Close())
		l = c.open(folder, count)
		must(t, once(l, holding("a", "1", "said")))
		c.stillGives(l, "said")
	})
	t.Run("when the event was there before", func(t *testing.T) {
		c := start(t, esdbdouble.Config{})
		l := c.open(t.TempDir(), count)
		must(t, once(l, holding("a", "1", "said")))
		orphan(t, l, "1", "second thought")
		must(t, once(l, note("other", "x")))
		c.stillGives(l, "said")
	})
	t.Run("when two machines said it in two streams", func(t *testing.T) {
		c := start(t, esdbdouble.Config{})
		here, there := c.open(t.TempDir(), count), c.open(t.TempDir(), count)
		c.Inject(esdbdouble.Fault{Call: esdbdouble.Append, Stream: "dl.a", Point: esdbdouble.Commit, Effect: esdbdouble.Do(func() {
			must(t, once(there, holding("b", "1", "said first")))
		})})
		must(t, once(here, holding("a", "1", "said second")))
		same(t, here, there)
		c.stillGives(here, "said first")
	})
}

// Somebody may be about to record it.
func TestATextWhoseEventIsNotThereYetStays(t *testing.T) {
	c := start(t, esdbdouble.Config{})
	l := c.open(t.TempDir(), count)
	orphan(t, l, "1", "not said yet")
	gone := c.Inject(esdbdouble.Fault{Call: esdbdouble.Tombstone, Point: esdbdouble.Answer, Effect: esdbdouble.Do(func() {})})
	drop := note("a", "3")
	drop.Drops = []events.EventID{"2"}
	must(t, once(l, holding("a", "2", "goes"), drop))
	<-gone.Struck()
	c.stillGives(l, "not said yet")
}
