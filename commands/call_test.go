package commands_test

import (
	"strings"
	"testing"
	"time"

	"decklog/commands"
	"decklog/events"
	"decklog/projections"
)

func TestASessionsIDIsPrintableTextWithoutBlanksThatIsNoName(t *testing.T) {
	for _, id := range []string{"x", "5d0c33e1-8f6f-4b0e-9a47-2f7c1d2b3a90", "résumé", "a@b", "bot", "$(rm)", `"'`, strings.Repeat("x", events.SessionIDBytesMax)} {
		if what := commands.CheckSessionID(id); what != "" {
			t.Errorf("%q: %s", id, what)
		}
	}
	for _, id := range []string{"", "@ana", "bot:ci", "a b", "a\tb", "a\nb", "a\x00", "a\u00a0b", "a\u2028b", "a\u200bb", "\xff", strings.Repeat("x", events.SessionIDBytesMax+1)} {
		if commands.CheckSessionID(id) == "" {
			t.Errorf("%q can be one", id)
		}
	}
}

func TestANameHoldsNothingThatAnAddressIsMadeOf(t *testing.T) {
	for _, name := range []string{"smith", "ana.b", "müller", strings.Repeat("n", 64)} {
		if what := commands.CheckName(name); what != "" {
			t.Errorf("%q: %s", name, what)
		}
	}
	for _, name := range []string{"", "a b", "a/b", "@a", "a\nb", "a\x00", strings.Repeat("n", 65)} {
		if commands.CheckName(name) == "" {
			t.Errorf("%q can be one", name)
		}
	}
}

func TestASessionLivesUntilThereIsEvidenceThatItEnded(t *testing.T) {
	joined := events.At(time.Date(2026, 11, 30, 9, 0, 0, 0, time.UTC))
	at := func(d time.Duration) *events.Time { u := joined.Add(d); return &u }
	process := &events.Process{PID: 1, Start: 2, Boot: "b"}
	for _, c := range []struct {
		what string
		row  projections.Session
		o    commands.Observation
		now  *events.Time
		live bool
		busy bool
		age  time.Duration
	}{
		{"just joined, without a process", projections.Session{}, commands.Observation{}, at(0), true, false, 0},
		{"unseen almost twelve hours", projections.Session{}, commands.Observation{}, at(12*time.Hour - time.Microsecond), true, false, 12*time.Hour - time.Millisecond},
		{"unseen twelve hours", projections.Session{}, commands.Observation{}, at(12 * time.Hour), false, false, 12 * time.Hour},
		{"seen since", projections.Session{}, commands.Observation{Seen: at(time.Hour)}, at(13*time.Hour - time.Microsecond), true, false, 12*time.Hour - time.Millisecond},
		{"seen twelve hours ago", projections.Session{}, commands.Observation{Seen: at(time.Hour)}, at(13 * time.Hour), false, false, 12 * time.Hour},
		{"seen only before it joined again", projections.Session{}, commands.Observation{Seen: at(-time.Hour)}, at(time.Hour), true, false, time.Hour},
		{"idle for a month, its process runs", projections.Session{Process: process}, commands.Observation{Seen: at(0)}, at(30 * 24 * time.Hour), true, false, 30 * 24 * time.Hour},
		{"busy", projections.Session{Process: process}, commands.Observation{Busy: true, Seen: at(time.Minute)}, at(2 * time.Minute), true, true, time.Minute},
		{"busy when its process went", projections.Session{Process: process}, commands.Observation{Busy: true, Seen: at(time.Minute), Gone: true}, at(2 * time.Minute), false, false, time.Minute},
		{"left while busy", projections.Session{Process: process, Left: at(time.Hour), Reason: events.EndLeft}, commands.Observation{Busy: true, Seen: at(time.Minute)}, at(2 * time.Hour), false, false, time.Hour},
		{"the clock went back before it joined", projections.Session{}, commands.Observation{}, at(-time.Hour), true, false, 0},
		{"the clock went back before it left", projections.Session{Left: at(time.Hour)}, commands.Observation{}, at(0), false, false, 0},
	} {
		c.row.Joined = joined
		p := commands.PresenceOf(&c.row, c.o, *c.now)
		if p.Live != c.live || p.Busy != c.busy || p.Says == "" || p.Age == nil || *p.Age != c.age.Milliseconds() {
			t.Errorf("%s: live %t, busy %t, age %d ms (%s); want %t, %t, %d ms", c.what, p.Live, p.Busy, *p.Age, p.Says, c.live, c.busy, c.age.Milliseconds())
		}
	}
}

func TestWithoutPersonsInThePolicyTheUserOfTheMachineIsTheOneKnown(t *testing.T) {
	none := events.DefaultPolicy()
	some := none
	some.Persons = []events.Person{{Name: "owner-a", OSUser: "ana"}, {Name: "guest"}}
	for _, c := range []struct {
		p        events.Policy
		user, is string
	}{
		{none, "ana", "ana"}, {none, "", ""}, {some, "ana", "owner-a"}, {some, "ben", ""}, {some, "", ""},
	} {
		if got := commands.PersonOf(c.p, c.user); got != c.is {
			t.Errorf("the user %q is %q, want %q", c.user, got, c.is)
		}
	}
	for _, c := range []struct {
		p          events.Policy
		user, name string
		known      bool
	}{
		{none, "ana", "ana", true}, {none, "ana", "ben", false}, {none, "", "", false}, {some, "ana", "ana", false}, {some, "ana", "owner-a", true}, {some, "x", "guest", true},
	} {
		if got := commands.KnownPerson(c.p, c.user, c.name); got != c.known {
			t.Errorf("for the user %q %q is known: %t", c.user, c.name, got)
		}
	}
}
