package ops_test

import (
	"slices"
	"testing"
	"time"

	"decklog/commands"
	"decklog/events"
	"decklog/internal/bell"
	"decklog/internal/ops"
	"decklog/projections"
)

// A bell that is silent until something happens is rung by whatever brings its
// session something.
func TestWhateverBringsASessionSomethingStirsIt(t *testing.T) {
	const reader = bob
	for what, c := range map[string]struct {
		before func(*desk) events.MessageID
		then   func(*desk, events.MessageID)
	}{
		"a message": {nil, func(d *desk, _ events.MessageID) { d.send(alice, inform(reader, "one")) }},
		"a message to its seat": {nil, func(d *desk, _ events.MessageID) {
			d.send(alice, inform("@smith", "one"))
		}},
		"a message to its person": {nil, func(d *desk, _ events.MessageID) { d.send(alice, inform("@ben", "one")) }},
		"a stub that it was shown turns final": {
			func(d *desk) events.MessageID {
				sent := d.send(alice, ops.SendRequest{To: reader, Turn: "working", Body: []byte("looking")})
				d.after(180 * time.Second)
				d.take(reader)
				return sent.ID
			},
			func(d *desk, id events.MessageID) { d.edit(alice, id, "found", "final") },
		},
		"a stub turns final in time": {nil, func(d *desk, _ events.MessageID) {
			sent := d.send(alice, ops.SendRequest{To: reader, Turn: "working", Body: []byte("looking")})
			d.edit(alice, sent.ID, "found", "final")
		}},
		"what another session of its person had taken": {
			func(d *desk) events.MessageID {
				d.of("ben", carol)
				sent := d.send(alice, inform("@ben", "one"))
				d.offers(d.lease(carol), sent.ID)
				return sent.ID
			},
			func(d *desk, _ events.MessageID) { d.leave(carol) },
		},
		"what waits for its person's session on another repository": {
			func(d *desk) events.MessageID {
				d.of("ben", carol, func(q *ops.JoinRequest) { q.Repo = "/w/two" })
				d.of("ana", dave, func(q *ops.JoinRequest) { q.Repo = "/w/two" })
				return d.send(dave, inform("@ben", "one")).ID
			},
			func(d *desk, _ events.MessageID) { d.leave(carol) },
		},
		"the loss of what it sent": {
			func(d *desk) events.MessageID {
				d.ready(carol)
				sent := d.send(reader, inform(carol, "one"))
				d.leave(carol)
				d.after(10 * time.Minute)
				return sent.ID
			},
			func(d *desk, _ events.MessageID) { d.lease(reader) },
		},
		"the instruction, after its context was lost": {nil, func(d *desk, _ events.MessageID) {
			d.joinOf("ben", reader, by(events.SourceCompact))
		}},
	} {
		t.Run(what, func(t *testing.T) {
			d := newDesk(t)
			persons(d)
			d.policy.Seats = seats("smith")
			d.of("ana", alice)
			d.of("ben", reader, on("smith"))
			var id events.MessageID
			if c.before != nil {
				id = c.before(d)
			}
			before := d.end()
			c.then(d, id)
			stirred := map[events.SessionID]bool{}
			d.see(func(s *projections.State) {
				for _, r := range d.recorded(before) {
					for _, who := range s.Stirs(r.Event) {
						stirred[who] = true
					}
				}
				call := commands.Call{Caller: commands.Caller{ID: reader, Kind: events.KindSession}, Device: "deck", OSUser: "ana"}
				if offer := (commands.Taking{Call: call, Who: reader}).Offer(s, d.now); offer.Empty() && offer.Runs == nil {
					t.Fatal("it brings nothing")
				}
				if quiet, _ := commands.Quiet(s, call, reader, bell.LookEvery, d.now, d.policy); quiet {
					t.Error("and yet its bell may be silent")
				}
			})
			if !stirred[reader] {
				t.Errorf("it stirs %v", stirred)
			}
		})
	}
}

// On the machine of the one who is written to, the sender's command never ran: what
// brings its events rings.
func TestABellIsRungByWhatBringsAnEventFromAnotherMachine(t *testing.T) {
	d := newDesk(t)
	d.running(alice, 1)
	d.running(bob, 2)
	d.running(carol, 3)
	bells := bell.Beside(t.TempDir())
	for _, who := range []string{bob, carol} {
		if err := bells.Silence(who, nil); err != nil || bells.Rings(who, d.now.Std()) {
			t.Fatalf("%s: its bell is not silent: %v", who, err)
		}
	}
	before := d.end()
	d.send(alice, inform(bob, "one"))
	recorded := d.recorded(before)
	if err := d.Ledger.View(func(r events.Reader) error {
		return ops.Rings(func() bell.Bells { return bells })(r, recorded)
	}); err != nil {
		t.Fatal(err)
	}
	if !bells.Rings(bob, d.now.Std()) || bells.Rings(carol, d.now.Std()) {
		t.Errorf("bob's rings: %t, carol's: %t", bells.Rings(bob, d.now.Std()), bells.Rings(carol, d.now.Std()))
	}
}

func TestABellIsSilentUntilTheNextMomentAtWhichTimeAloneBringsSomething(t *testing.T) {
	d := newDesk(t)
	d.running(alice, 1)
	d.running(bob, 2)
	quiet := func(who string) (bool, *events.Time) {
		t.Helper()
		var silent bool
		var until *events.Time
		d.see(func(s *projections.State) {
			call := commands.Call{Caller: commands.Caller{ID: events.Participant(who), Kind: events.KindSession}, Device: "deck", OSUser: "ana"}
			silent, until = commands.Quiet(s, call, call.Caller.ID, bell.LookEvery, d.now, d.policy)
		})
		return silent, until
	}
	if silent, until := quiet(bob); !silent || until != nil {
		t.Errorf("with nothing at all it is silent %t until %v", silent, until)
	}
	sent := d.send(alice, ops.SendRequest{To: bob, Turn: "working", Body: []byte("looking")})
	for _, who := range []string{alice, bob} { // one waits for the stub's time, the other for what becomes of it
		if silent, until := quiet(who); !silent || until == nil || *until != d.now.Add(bell.LookEvery) {
			t.Errorf("%s: silent %t until %v", who, silent, until)
		}
	}
	d.after(150 * time.Second)
	if silent, until := quiet(bob); !silent || until == nil || *until != sent.Sent.Add(180*time.Second) {
		t.Errorf("before the stub's time it is silent %t until %v", silent, until)
	}
	d.after(30 * time.Second)
	if silent, _ := quiet(bob); silent {
		t.Error("at the stub's time it is silent")
	}
	d.lease(bob)
	if silent, _ := quiet(bob); silent {
		t.Error("while a lease runs it is silent")
	}
}

func TestNobodyIsStirredByWhatIsNotForThem(t *testing.T) {
	d := newDesk(t)
	d.ready(alice, bob)
	d.running(carol, 3)
	before := d.end()
	asked := d.send(alice, request(bob, "question"))
	d.take(bob)
	d.send(bob, reply(asked.ID, "answer"))
	d.refused(alice, commands.Duplicate, request(bob, "question"))
	d.see(func(s *projections.State) {
		for _, r := range d.recorded(before) {
			if slices.Contains(s.Stirs(r.Event), carol) {
				t.Errorf("%s stirs carol", r.Type())
			}
		}
	})
}
