package esdb

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"decklog/events"
	"decklog/internal/esdbdouble"
)

// command is one that appends to two streams.
func command(id string) []events.Proposed {
	parts := []events.Proposed{note("first", "1 "+id), note("second", "2 "+id)}
	for i := range parts {
		parts[i].Actor, parts[i].Cause.Command = "@smith", events.CommandID(id)
	}
	return parts
}

// held has the second append of a command wait before it is written.
func held(c cluster) (struck *esdbdouble.Injected, release func()) {
	until := make(chan struct{})
	struck = c.Inject(esdbdouble.Fault{Call: esdbdouble.Append, Stream: "dl.second", Point: esdbdouble.Commit, Times: esdbdouble.Always, Effect: esdbdouble.Hold(until)})
	return struck, func() { struck.Lift(); close(until) }
}

// again gives a command once more, while it is recorded in part; release is called
// when it was looked for first.
func again(t *testing.T, l *Ledger, id string, release func()) {
	t.Helper()
	calls := 0
	must(t, l.Update(func(tx events.Tx) error {
		if calls++; calls == 1 {
			defer release()
		}
		// As the operations do: a command whose first event is there was admitted.
		if _, there, err := tx.Event(command(id)[0].ID); there || err != nil {
			return err
		}
		return onceIn(tx, command(id)...)
	}))
	if calls < 2 {
		t.Error("it was answered while a part of it was not recorded")
	}
	must(t, l.View(func(r events.Reader) error {
		for _, p := range command(id) {
			if _, there, err := r.Event(p.ID); err != nil || !there {
				t.Errorf("event %s is not there: %v", p.ID, err)
			}
		}
		return nil
	}))
}

// begins waits until the first part of a command has come to the mirror.
func begins(t *testing.T, l *Ledger, id string) {
	t.Helper()
	must(t, l.until(t.Context(), func() (there bool, err error) {
		err = l.View(func(r events.Reader) error {
			_, there, err = r.Event(events.EventID("1 " + id))
			return err
		})
		return there, err
	}))
}

func TestACommandThatIsRecordedInPartIsAnsweredWhenItIsWhole(t *testing.T) {
	c := start(t, esdbdouble.Config{})
	l := c.open(t.TempDir(), count)
	struck, release := held(c)
	first := make(chan error, 1)
	go func() { first <- once(l, command("c")...) }()
	<-struck.Struck()
	begins(t, l, "c")
	again(t, l, "c", release)
	must(t, <-first)
	if e := everything(t, l); len(e.Events) != 2 {
		t.Errorf("there are %d events", len(e.Events))
	}
}

func TestACommandThatADeadProcessLeftInPartIsAnsweredWhenItIsWhole(t *testing.T) {
	c := start(t, esdbdouble.Config{})
	folder := t.TempDir()
	l := c.open(folder, count, quick)
	struck, release := held(c)
	first := make(chan error, 1)
	go func() { first <- once(l, command("c")...) }()
	<-struck.Struck()
	begins(t, l, "c")
	must(t, l.Close())
	if err := <-first; !errors.Is(err, events.ErrUnknown) {
		t.Errorf("got %v", err)
	}
	l = c.open(folder, count, quick)
	again(t, l, "c", release)
	if e := everything(t, l); len(e.Events) != 2 {
		t.Errorf("there are %d events", len(e.Events))
	}
}

// The process lives on, and nobody gives the command again.
func TestACommandThatWasGivenUpInPartIsMadeWhole(t *testing.T) {
	c := start(t, esdbdouble.Config{})
	l := c.open(t.TempDir(), count, quick, func(l *Ledger) { l.bounds.send = 500 * time.Millisecond })
	_, release := held(c)
	if err := once(l, command("c")...); !errors.Is(err, events.ErrUnknown) {
		t.Fatalf("got %v", err)
	}
	release()
	reaches(t, l, 2)
	if e := everything(t, l); len(e.Events) != 2 {
		t.Errorf("there are %d events", len(e.Events))
	}
}

// What a session does after a command that was left in part must not be recorded
// between its parts: leaving gives back what a lease has just taken.
func TestWhatComesAfterACommandThatWasLeftInPartWaitsForItsEnd(t *testing.T) {
	for name, leave := range map[string]func(cluster, *Ledger, string) *Ledger{
		"by a dead process": func(c cluster, l *Ledger, folder string) *Ledger {
			must(t, l.Close())
			return c.open(folder, count, quick)
		},
		"by a process that lives": func(_ cluster, l *Ledger, _ string) *Ledger { return l },
	} {
		t.Run(name, func(t *testing.T) {
			c := start(t, esdbdouble.Config{})
			folder := t.TempDir()
			l := c.open(folder, count, quick, func(l *Ledger) { l.bounds.send = 500 * time.Millisecond })
			struck, release := held(c)
			first := make(chan error, 1)
			go func() { first <- once(l, command("c")...) }()
			<-struck.Struck()
			begins(t, l, "c")
			if name == "by a process that lives" {
				if err := <-first; !errors.Is(err, events.ErrUnknown) {
					t.Fatalf("got %v", err)
				}
			}
			l = leave(c, l, folder)
			next := note("third", "next")
			next.Actor = "@smith"
			called, over := make(chan struct{}), make(chan error, 1)
			call := sync.OnceFunc(func() { close(called) })
			go func() {
				over <- l.Update(func(tx events.Tx) error { defer call(); return onceIn(tx, next) })
			}()
			<-called
			for i := range 5 { // what others do is recorded meanwhile
				must(t, once(l, note(events.Stream(fmt.Sprint("other-", i)), fmt.Sprint("other ", i))))
			}
			release()
			must(t, <-over)
			var order []events.EventID
			for _, r := range everything(t, l).Events {
				order = append(order, r.ID)
			}
			if n := len(order); n != 8 || slices.Index(order, "2 c") > slices.Index(order, "next") || order[5] != "other 4" {
				t.Errorf("the order is %q", order)
			}
		})
	}
}

// Who gives a command again of which nothing was recorded need not wait until that
// is certain.
func TestACommandTakesThePlaceOfWhatIsLeftOfIt(t *testing.T) {
	c := start(t, esdbdouble.Config{})
	l := c.open(t.TempDir(), count, func(l *Ledger) { l.bounds.send, l.bounds.attempt = 500*time.Millisecond, time.Hour })
	c.Inject(esdbdouble.Fault{Call: esdbdouble.Append, Point: esdbdouble.Begin, Times: esdbdouble.Always, Effect: esdbdouble.Say(esdbdouble.TimedOut())})
	if err := once(l, command("c")...); !errors.Is(err, events.ErrUnknown) {
		t.Fatalf("got %v", err)
	}
	c.Heal()
	must(t, once(l, command("c")...))
	if e := everything(t, l); len(e.Events) != 2 {
		t.Errorf("there are %d events", len(e.Events))
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.adrift)+len(l.flying)+len(l.halves) > 0 {
		t.Errorf("left are %v, %v and %v", l.adrift, l.flying, l.halves)
	}
}

// Both append the same event, and the cluster takes that for one. It may have come to
// the mirror of the second before that has sent it.
func TestTwoMachinesThatAreGivenOneCommandAtOnceBothLearnWhatBecameOfIt(t *testing.T) {
	c := start(t, esdbdouble.Config{})
	machines := []*Ledger{c.open(t.TempDir(), count), c.open(t.TempDir(), count)}
	const commands = 100
	for i := range commands {
		var racing sync.WaitGroup
		for _, l := range machines {
			racing.Go(func() {
				if err := once(l, note(events.Stream(fmt.Sprint("s-", i)), fmt.Sprint(i))); err != nil {
					t.Error(err)
				}
			})
		}
		racing.Wait()
	}
	if e := same(t, machines...); len(e.Events) != commands {
		t.Errorf("there are %d events", len(e.Events))
	}
}
