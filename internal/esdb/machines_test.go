package esdb

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"decklog/events"
	"decklog/internal/esdbdouble"
)

// same finds two machines with the same events in the same places, with the same
// digests, and the same bodies and rows.
func same(t testing.TB, machines ...*Ledger) all {
	t.Helper()
	var end events.Position
	for _, l := range machines {
		must(t, l.View(func(r events.Reader) error {
			e, err := r.End()
			end = max(end, e)
			return err
		}))
	}
	var first all
	for i, l := range machines {
		reaches(t, l, end)
		e := everything(t, l)
		last := map[events.Stream]events.Digest{}
		for i, r := range e.Events {
			if r.Position != events.Position(i)+1 || r.Digest != r.Chain(last[r.Stream]) {
				t.Fatalf("event %d is at %d with a digest that does not follow", i+1, r.Position)
			}
			last[r.Stream] = r.Digest
		}
		if i == 0 {
			first = e
		} else if diff := cmp.Diff(first, e); diff != "" {
			t.Fatalf("machine %d has (-first +it):\n%s", i, diff)
		}
	}
	return first
}

func TestTwoMachinesThatRaceOnOneStreamEndWithTheSame(t *testing.T) {
	c := start(t, esdbdouble.Config{})
	machines := []*Ledger{c.open(t.TempDir(), count), c.open(t.TempDir(), count)}
	const workers, each = 3, 15
	var racing sync.WaitGroup
	for m, l := range machines {
		for w := range workers {
			racing.Go(func() {
				for i := range each {
					id := fmt.Sprintf("%d-%d-%d", m, w, i)
					if err := once(l, note("shared", id), note(events.Stream(fmt.Sprint("own-", m, w)), "own "+id)); err != nil {
						t.Errorf("%s: %v", id, err)
					}
				}
			})
		}
	}
	racing.Wait()
	e := same(t, machines...)
	if got, want := len(e.Events), 2*workers*each*2; got != want {
		t.Errorf("%d events, not %d", got, want)
	}
	ids := map[events.EventID]bool{}
	for _, r := range e.Events {
		if ids[r.ID] {
			t.Errorf("event %s is there twice", r.ID)
		}
		ids[r.ID] = true
	}
	if c.Calls(esdbdouble.Append) <= len(e.Events) {
		t.Error("no append of a machine was in another's way")
	}
}

// Of those who all decide on the same revision, on two machines, one wins.
func TestOfTwoMachinesThatReadTheSameRevisionOneWins(t *testing.T) {
	c := start(t, esdbdouble.Config{})
	machines := []*Ledger{c.open(t.TempDir(), count), c.open(t.TempDir(), count)}
	for round := range 10 {
		results := make([]error, len(machines))
		var racing sync.WaitGroup
		for m, l := range machines {
			racing.Go(func() {
				p := note("s", fmt.Sprintf("%d-%d", round, m))
				results[m] = l.Update(func(tx events.Tx) error {
					_, err := tx.Append(events.Batch{Stream: "s", Expected: events.Revision(round) - 1, Time: 1, Events: []events.Proposed{p}})
					return err
				})
			})
		}
		racing.Wait()
		won := 0
		for _, err := range results {
			switch {
			case err == nil:
				won++
			case !errors.Is(err, events.ErrConflict) || errors.Is(err, events.ErrUnknown):
				t.Fatal(err)
			}
		}
		if won != 1 {
			t.Fatalf("round %d: %d won: %v", round, won, results)
		}
		same(t, machines...)
	}
}

// While somebody else's events come in between, the function is told the place
// that its events really have.
func TestTheLastCallSeesWhereItsEventsLie(t *testing.T) {
	c := start(t, esdbdouble.Config{})
	here, there := c.open(t.TempDir(), count), c.open(t.TempDir(), count)
	c.Inject(esdbdouble.Fault{Call: esdbdouble.Append, Stream: "dl.mine", Point: esdbdouble.Commit, Effect: esdbdouble.Do(func() {
		must(t, once(there, note("theirs", "between")))
	})})
	var told events.Position
	calls := 0
	must(t, here.Update(func(tx events.Tx) error {
		calls++
		recorded, err := tx.Append(events.Batch{Stream: "mine", Expected: events.NoStream, Time: 1, Events: []events.Proposed{note("mine", "1")}})
		if err == nil {
			told = recorded[0].Position
		}
		return err
	}))
	if told != 2 || calls != 2 {
		t.Errorf("it was told position %d by the call %d", told, calls)
	}
}

// One that uses nothing but the position is told that, and not called again.
func TestAFunctionThatOnlyWantsThePlaceIsToldIt(t *testing.T) {
	c := start(t, esdbdouble.Config{})
	here, there := c.open(t.TempDir(), count), c.open(t.TempDir(), count)
	var at events.Position
	calls := 0
	run := func(id string) {
		t.Helper()
		calls = 0
		must(t, here.Update(func(tx events.Tx) error {
			calls++
			p := note("mine", id)
			if r, is, err := tx.Event(p.ID); is || err != nil {
				at = r.Position
				return err
			}
			head, err := tx.Head(p.Stream)
			if err != nil {
				return err
			}
			recorded, err := tx.Append(events.Batch{Stream: p.Stream, Expected: head, Time: 1, Events: []events.Proposed{p}})
			if err != nil {
				return err
			}
			at = recorded[0].Position
			tx.(events.Placer).Placed(func(now func(events.Position) events.Position) { at = now(at) })
			return nil
		}))
	}
	onCommit := func(do func()) {
		c.Inject(esdbdouble.Fault{Call: esdbdouble.Append, Stream: "dl.mine", Point: esdbdouble.Commit, Effect: esdbdouble.Do(do)})
	}
	if run("1"); at != 1 || calls != 1 {
		t.Errorf("alone it lies at %d after %d calls", at, calls)
	}
	onCommit(func() { must(t, once(there, note("theirs", "between"))) })
	if run("2"); at != 3 || calls != 1 {
		t.Errorf("behind another it lies at %d after %d calls", at, calls)
	}
	// The cluster takes it for what is there under its id at its revision, and which
	// says something else.
	onCommit(func() {
		reaches(t, there, 3)
		other := note("mine", "3")
		other.Actor = "@another"
		must(t, once(there, other))
	})
	if run("3"); at != 4 || calls != 2 {
		t.Errorf("what another sent lies at %d after %d calls", at, calls)
	}
	same(t, here, there)
}

// A refusal binds nothing and has another id each time it is decided: calling the
// function again must not make two of one.
func TestARefusalIsRecordedOnceAlthoughItsFunctionRanTwice(t *testing.T) {
	c := start(t, esdbdouble.Config{})
	here, there := c.open(t.TempDir(), count), c.open(t.TempDir(), count)
	c.Inject(esdbdouble.Fault{Call: esdbdouble.Append, Stream: "dl.session-s", Point: esdbdouble.Commit, Effect: esdbdouble.Do(func() {
		must(t, once(there, note("theirs", "between")))
	})})
	const command events.CommandID = "c"
	calls := 0
	must(t, here.Update(func(tx events.Tx) error {
		calls++
		head, err := tx.Head("session-s")
		if err != nil {
			return err
		}
		_, err = tx.Append(events.Batch{Stream: "session-s", Expected: head, Time: 1, Events: []events.Proposed{{
			Stream: "session-s", ID: command.Refusal("session-s", head+1), Actor: "s", Cause: events.Cause{Command: command},
			Event: events.CommandRefused{Command: "send", Code: "pending", Says: "no"},
		}}})
		return err
	}))
	if e := same(t, here, there); len(e.Events) != 2 || calls != 2 {
		t.Errorf("%d events after %d calls", len(e.Events), calls)
	}
}

// Two machines adopt a policy for an empty ledger: one is in force, and all that
// was decided names its place.
func TestWhatNamesAPolicyWaitsUntilItIsKnownWhereItLies(t *testing.T) {
	c := start(t, esdbdouble.Config{})
	machines := []*Ledger{c.open(t.TempDir(), count), c.open(t.TempDir(), count)}
	var racing sync.WaitGroup
	for m, l := range machines {
		racing.Go(func() {
			must(t, l.Update(func(tx events.Tx) error {
				if err := onceIn(tx, note(events.PolicyStream, "policy")); err != nil {
					return err
				}
				policy, _, err := tx.Event("policy")
				if err != nil {
					return err
				}
				p := note("thread-1", fmt.Sprint("of ", m))
				if _, there, err := tx.Event(p.ID); there || err != nil {
					return err
				}
				head, err := tx.Head(p.Stream)
				if err != nil {
					return err
				}
				_, err = tx.Append(events.Batch{Stream: p.Stream, Expected: head, Time: 1, Policy: policy.Position, Events: []events.Proposed{p}})
				return err
			}))
		})
	}
	racing.Wait()
	e := same(t, machines...)
	if len(e.Events) != 3 || e.Events[0].Stream != events.PolicyStream || e.Events[1].Policy != 1 || e.Events[2].Policy != 1 {
		t.Errorf("there is %+v", e.Events)
	}
}

// The same id in two streams is two machines that were given one command at once.
// A commit is what a machine appended itself: once for each command, with all that it
// appended, however often it was decided; never what another machine brings.
func TestACommandIsTheCommitOfTheMachineThatAppendedIt(t *testing.T) {
	c := start(t, esdbdouble.Config{})
	type commit struct{ commands, events int }
	commits := func(folder string) (*Ledger, *[]commit) {
		var seen []commit
		return c.open(folder, count, quick, OnCommit(func(commands, events int, took time.Duration) {
			if took <= 0 {
				t.Errorf("a commit took %s", took)
			}
			seen = append(seen, commit{commands, events})
		})), &seen
	}
	here, ours := commits(t.TempDir())
	there, theirs := commits(t.TempDir())
	must(t, once(here, note("a", "1"), note("b", "2")))
	reaches(t, there, 2)
	c.Inject(esdbdouble.Fault{Call: esdbdouble.Append, Stream: "dl.a", Point: esdbdouble.Commit, Effect: esdbdouble.Do(func() {
		must(t, once(there, note("a", "between"))) // so that this machine decides anew
	})})
	must(t, once(here, note("a", "3")))
	must(t, once(here, note("a", "3"))) // it is recorded already
	must(t, here.Update(func(events.Tx) error { return nil }))
	reaches(t, there, 4)
	if want := []commit{{1, 2}, {1, 1}}; !slices.Equal(*ours, want) {
		t.Errorf("here were %v, not %v", *ours, want)
	}
	if want := []commit{{1, 1}}; !slices.Equal(*theirs, want) {
		t.Errorf("there were %v, not %v", *theirs, want)
	}
}

func TestOfTwoEventsWithOneIDTheFirstCounts(t *testing.T) {
	c := start(t, esdbdouble.Config{})
	here, there := c.open(t.TempDir(), count), c.open(t.TempDir(), count)
	c.Inject(esdbdouble.Fault{Call: esdbdouble.Append, Stream: "dl.a", Point: esdbdouble.Commit, Effect: esdbdouble.Do(func() {
		must(t, once(there, note("b", "same")))
	})})
	must(t, once(here, note("a", "same")))
	e := same(t, here, there)
	if len(e.Events) != 2 || e.Events[0].ID != "same" || e.Events[0].Stream != "b" || e.Events[1].Type() != repeatedType {
		t.Errorf("there is %+v", e.Events)
	}
	must(t, once(there, note("a", "next")))
	same(t, here, there)
}

// holding is an event with a body.
func holding(stream events.Stream, id, text string) events.Proposed {
	p := note(stream, id)
	body := events.Body{Salt: events.Salt{7}, Text: []byte(text), Fingerprint: events.FingerprintOf(text)}
	p.Event, p.Body = events.MessageEdited{Message: "m", Thread: "t", Body: body.Commit()}, &body
	return p
}

// texts are what the cluster still gives of bodies.
func (c cluster) texts(l *Ledger) (left []string) {
	c.t.Helper()
	for _, e := range c.log.Events("dl.body-") {
		if last, err := l.fence.last(context.Background(), e.Stream); err == nil && last != nil {
			left = append(left, string(last.Data))
		}
	}
	return left
}

func TestARedactedBodyGoesFromTheClusterAndFromEachMachine(t *testing.T) {
	c := start(t, esdbdouble.Config{})
	here, there := c.open(t.TempDir(), count), c.open(t.TempDir(), count)
	must(t, once(here, holding("a", "1", "stays"), holding("a", "2", "goes")))
	if e := same(t, here, there); len(e.Bodies) != 2 {
		t.Fatalf("bodies %q", e.Bodies)
	}
	gone := c.Inject(esdbdouble.Fault{Call: esdbdouble.Tombstone, Point: esdbdouble.Answer, Times: esdbdouble.Always, Effect: esdbdouble.Do(func() {})})
	drop := note("a", "3")
	drop.Drops = []events.EventID{"2"}
	must(t, once(there, drop))
	if e := same(t, here, there); len(e.Bodies) != 1 {
		t.Errorf("bodies %q", e.Bodies)
	}
	<-gone.Struck()
	if left := c.texts(here); len(left) != 1 || left[0] != "stays" {
		t.Errorf("the cluster still has %q", left)
	}
	third := c.open(t.TempDir(), count)
	same(t, here, third)
}

// What was about to be said and then was not must not stay in the cluster, where
// nobody could find it to take it back.
func TestABodyWhoseEventWasNotRecordedGoes(t *testing.T) {
	c := start(t, esdbdouble.Config{})
	here, there := c.open(t.TempDir(), count), c.open(t.TempDir(), count)
	gone := c.Inject(esdbdouble.Fault{Call: esdbdouble.Tombstone, Point: esdbdouble.Answer, Effect: esdbdouble.Do(func() {})})
	c.Inject(esdbdouble.Fault{Call: esdbdouble.Append, Stream: "dl.a", Point: esdbdouble.Commit, Effect: esdbdouble.Do(func() {
		must(t, once(there, note("a", "first")))
	})})
	p := holding("a", "mine", "never said")
	err := here.Update(func(tx events.Tx) error {
		_, err := tx.Append(events.Batch{Stream: "a", Expected: events.NoStream, Time: 1, Events: []events.Proposed{p}})
		return err
	})
	if !errors.Is(err, events.ErrConflict) {
		t.Fatal(err)
	}
	<-gone.Struck()
	if left := c.texts(here); len(left) != 0 {
		t.Errorf("the cluster still has %q", left)
	}
}

func TestTheHookIsCalledOnEachMachineInTheTransactionThatBringsAnEvent(t *testing.T) {
	c := start(t, esdbdouble.Config{})
	here := c.open(t.TempDir(), count)
	heard := make(chan events.Recorded, 10)
	fail := true
	there := c.open(t.TempDir(), count, Apply(func(r events.Reader, recorded []events.Recorded) error {
		if fail {
			fail = false
			return errors.New("not yet")
		}
		for _, e := range recorded {
			if _, is, err := r.Event(e.ID); !is || err != nil {
				t.Errorf("event %s is not there: %v", e.ID, err)
			}
			heard <- e
		}
		return nil
	}))
	must(t, once(here, note("a", "1")))
	if e := <-heard; e.ID != "1" {
		t.Errorf("heard of %s", e.ID)
	}
	same(t, here, there)
}

func TestAnAppendThatIsTooLargeIsRefusedBeforeItIsSent(t *testing.T) {
	c := start(t, esdbdouble.Config{})
	l := c.open(t.TempDir(), count)
	p := note("a", "1")
	p.Event = events.CommandRefused{Says: string(make([]byte, AppendBytesMax/5))} // six bytes of JSON each
	before := c.Calls(esdbdouble.Append)
	if err := once(l, p); err == nil || errors.Is(err, events.ErrUnknown) {
		t.Errorf("got %v", err)
	}
	if err := once(l, holding("a", "2", string(make([]byte, AppendBytesMax)))); err == nil || errors.Is(err, events.ErrUnknown) {
		t.Errorf("got %v", err)
	}
	if c.Calls(esdbdouble.Append) != before || len(everything(t, l).Events) != 0 {
		t.Error("something was sent")
	}
	must(t, once(l, note("a", "3")))
}
