package esdb

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"decklog/events"
	"decklog/internal/esdbdouble"
	"decklog/internal/failure"
)

// restart ends the server as kill -9 would, and starts it again.
func restart() esdbdouble.Effect {
	return func(c *esdbdouble.Call) error {
		c.Server.Stop()
		if err := c.Server.Start(); err != nil {
			return err
		}
		<-c.Done()
		return c.Err()
	}
}

// quick makes a try that hangs end sooner.
func quick(l *Ledger) { l.bounds.attempt = 300 * time.Millisecond }

var effects = map[string]func() esdbdouble.Effect{
	"the connection is cut":        esdbdouble.Cut,
	"the server dies":              restart,
	"the server says timed out":    func() esdbdouble.Effect { return esdbdouble.Say(esdbdouble.TimedOut()) },
	"the server says not ready":    func() esdbdouble.Effect { return esdbdouble.Say(esdbdouble.NotReady()) },
	"the server says too late":     func() esdbdouble.Effect { return esdbdouble.Say(esdbdouble.DeadlineExceeded()) },
	"no answer comes for a time":   func() esdbdouble.Effect { return esdbdouble.Slow(400 * time.Millisecond) },
	"the answer never comes":       func() esdbdouble.Effect { return esdbdouble.Hold(nil) },
	"the server forgets what came": func() esdbdouble.Effect { return forgetAndCut },
}

func forgetAndCut(c *esdbdouble.Call) error {
	c.Server.ForgetIDs()
	return esdbdouble.Cut()(c)
}

var steps = map[string]esdbdouble.Fault{
	"when an append has come":            {Call: esdbdouble.Append, Point: esdbdouble.Begin},
	"when its stream was named":          {Call: esdbdouble.Append, Point: esdbdouble.Message, Skip: 2},
	"when an event of it has come":       {Call: esdbdouble.Append, Point: esdbdouble.Message, Skip: 3},
	"before it is written":               {Call: esdbdouble.Append, Point: esdbdouble.Commit, Skip: 1},
	"when it was written":                {Call: esdbdouble.Append, Point: esdbdouble.Answer, Skip: 1},
	"when the body was written":          {Call: esdbdouble.Append, Stream: "dl.body-", Point: esdbdouble.Answer},
	"before an event is told of":         {Call: esdbdouble.Read, Stream: "$all", Point: esdbdouble.Send, Skip: 1},
	"when a subscription or a read came": {Call: esdbdouble.Read, Point: esdbdouble.Begin},
	"when a body is taken away":          {Call: esdbdouble.Tombstone, Point: esdbdouble.Commit},
}

// acked are the events of which somebody was told that they are recorded.
type acked struct {
	mu  sync.Mutex
	ids map[events.EventID]bool
}

func (a *acked) add(ids ...string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, id := range ids {
		a.ids[events.EventID(id)] = true
	}
}

// kept finds all of them, each once.
func (a *acked) kept(t testing.TB, e all) {
	t.Helper()
	times := map[events.EventID]int{}
	for _, r := range e.Events {
		times[r.ID]++
		if times[r.ID] > 1 {
			t.Errorf("event %s is there twice", r.ID)
		}
		if r.Type() == repeatedType {
			t.Errorf("event %s came twice, to %s too", r.ID, r.Stream)
		}
	}
	for id := range a.ids {
		if times[id] == 0 {
			t.Errorf("event %s was acknowledged, and is not there", id)
		}
	}
}

// work has a machine do some commands of each kind, and again those whose outcome
// nobody knows.
func work(t testing.TB, l *Ledger, name string, commands int, a *acked) {
	for i := range commands {
		id := fmt.Sprintf("%s-%d", name, i)
		parts := []events.Proposed{note("shared", "1 "+id), holding(events.Stream("own-"+name), "2 "+id, "text of "+id), note("other", "3 "+id)}
		if i > 0 && i%2 == 0 {
			parts[0].Drops = []events.EventID{events.EventID(fmt.Sprintf("2 %s-%d", name, i-1))}
		}
		for i := range parts {
			parts[i].Cause.Command = events.CommandID(id)
		}
		for {
			err := once(l, parts...)
			if err == nil {
				a.add("1 "+id, "2 "+id, "3 "+id)
				break
			}
			if !errors.Is(err, events.ErrUnknown) && !errors.Is(err, events.ErrConflict) && failure.Of(err).Code != "unreachable" {
				t.Errorf("%s: %v", id, err)
				return
			}
		}
	}
}

func TestNothingThatWasAcknowledgedIsLostOrThereTwiceWhateverGoesWrong(t *testing.T) {
	for step, fault := range steps {
		for what, effect := range effects {
			t.Run(step+" "+what, func(t *testing.T) {
				t.Parallel()
				fault := fault
				c := start(t, esdbdouble.Config{})
				machines := []*Ledger{c.open(t.TempDir(), count, quick), c.open(t.TempDir(), count, quick)}
				fault.Effect = effect()
				fault.Times = 2
				struck := c.Inject(fault)
				if fault.Call == esdbdouble.Read && fault.Point == esdbdouble.Begin {
					c.DropSubscriptions(esdbdouble.NotReady())
				}
				a := &acked{ids: map[events.EventID]bool{}}
				var working sync.WaitGroup
				for m, l := range machines {
					working.Go(func() { work(t, l, fmt.Sprint("m", m), 4, a) })
				}
				working.Wait()
				<-struck.Struck()
				c.Heal()
				e := same(t, machines...)
				a.kept(t, e)
				if len(e.Events) != 2*4*3 || len(e.Bodies) != 2*3 {
					t.Errorf("%d events and %d bodies", len(e.Events), len(e.Bodies))
				}
			})
		}
	}
}

// Whatever of a machine's process was under way when it died, the next one on the
// same views goes on from there.
func TestAMachineThatDiesGoesOnWhereItWas(t *testing.T) {
	rounds := 40
	if testing.Short() {
		rounds = 5
	}
	c := start(t, esdbdouble.Config{})
	folder := t.TempDir()
	other := c.open(t.TempDir(), count, quick)
	a := &acked{ids: map[events.EventID]bool{}}
	for round := range rounds {
		l := c.open(folder, count, quick)
		points := []esdbdouble.Point{esdbdouble.Begin, esdbdouble.Message, esdbdouble.Commit, esdbdouble.Answer}
		struck := c.Inject(esdbdouble.Fault{
			Call: esdbdouble.Append, Point: points[rand.N(len(points))], Skip: rand.N(8),
			Effect: esdbdouble.Cut(), Times: esdbdouble.Always,
		})
		var working sync.WaitGroup
		for w := range 2 {
			working.Go(func() {
				name := fmt.Sprintf("r%d-%d", round, w)
				parts := []events.Proposed{note("shared", "1 "+name), holding("own", "2 "+name, name), note("other", "3 "+name)}
				for i := range parts {
					parts[i].Cause.Command = events.CommandID(name)
				}
				if err := once(l, parts...); err == nil {
					a.add("1 "+name, "2 "+name, "3 "+name)
				}
			})
		}
		working.Go(func() { <-struck.Struck(); l.end() })
		working.Wait()
		c.Heal()
		must(t, l.Close())
	}
	l := c.open(folder, count, quick)
	must(t, once(l, note("last", "last")))
	must(t, l.until(t.Context(), func() (bool, error) {
		left, err := l.notes(outKey)
		return len(left) == 0, err
	}))
	e := same(t, l, other)
	a.kept(t, e)
	// A command that has begun is there whole.
	parts := map[events.CommandID]int{}
	for _, r := range e.Events {
		parts[r.Cause.Command]++
	}
	for command, n := range parts {
		if strings.HasPrefix(string(command), "r") && n != 3 {
			t.Errorf("of command %s there are %d parts of 3", command, n)
		}
	}
}

func TestViewsOfAnotherLedgerAreRefused(t *testing.T) {
	one, two := start(t, esdbdouble.Config{}), start(t, esdbdouble.Config{})
	folder := t.TempDir()
	l := one.open(folder, count)
	must(t, once(l, note("a", "1")))
	must(t, l.Close())
	refused := func(what string, a Address) {
		t.Helper()
		l, err := Open(a, count)
		if err == nil {
			l.Close()
			t.Errorf("%s: opened", what)
		} else if failure.Of(err).Code != "other_ledger" {
			t.Errorf("%s: %v", what, err)
		}
	}
	refused("another cluster, which is empty", two.address(folder))
	foreign := two.open(t.TempDir(), count)
	for i := range 20 {
		must(t, once(foreign, note("a", fmt.Sprint(i))))
	}
	refused("another cluster", two.address(folder))
	prefixed := one.address(folder)
	prefixed.Prefix = "other."
	refused("another prefix", prefixed)
	same(t, one.open(folder, count))
}

func TestTwoProcessesDoNotShareViews(t *testing.T) {
	c := start(t, esdbdouble.Config{})
	folder := t.TempDir()
	c.open(folder, count)
	if _, err := Open(c.address(folder), count); err == nil || failure.Of(err).Code != "already_served" {
		t.Errorf("got %v", err)
	}
}
