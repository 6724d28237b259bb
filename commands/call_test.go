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

// What another machine told is as old as it is: its silence ends no session before
// the bound that holds for one without a process, and no machine that hears nothing
// itself takes that for silence.
func TestWhatAnotherMachineToldIsJudgedByItsAge(t *testing.T) {
	joined := events.At(time.Date(2026, 11, 30, 9, 0, 0, 0, time.UTC))
	at := func(d time.Duration) *events.Time { u := joined.Add(d); return &u }
	process := &events.Process{PID: 1, Start: 2, Boot: "b"}
	home := func(told *events.Time, silent bool) *commands.Home {
		return &commands.Home{Device: "deck-b", Told: told, Silent: silent}
	}
	deaf := func(told *events.Time) *commands.Home {
		return &commands.Home{Device: "deck-b", Told: told, Silent: false, Deaf: true}
	}
	for _, c := range []struct {
		what string
		row  projections.Session
		o    commands.Observation
		now  *events.Time
		live bool
		busy bool
		says string
	}{
		{"it has told nothing yet", projections.Session{Process: process}, commands.Observation{Home: home(nil, false)}, at(time.Second), true, false,
			"joined on deck-b, which has not told of its process; no hook run seen"},
		{"it just told", projections.Session{Process: process}, commands.Observation{Busy: true, Seen: at(time.Second), Home: home(at(2*time.Second), false)}, at(22 * time.Second), true, true,
			"its process ran 20s ago, as deck-b told; in a turn when last seen"},
		{"it told that its process is gone", projections.Session{Process: process}, commands.Observation{Gone: true, Seen: at(time.Second), Home: home(at(2*time.Second), false)}, at(22 * time.Second), false, false,
			"its process is gone, as deck-b told"},
		{"it told that its process is gone, and fell silent", projections.Session{Process: process}, commands.Observation{Gone: true, Home: home(at(2*time.Second), true)}, at(22 * time.Hour), false, false,
			"its process is gone, as deck-b told"},
		{"it fell silent", projections.Session{Process: process}, commands.Observation{Busy: true, Seen: at(time.Second), Home: home(at(2*time.Second), true)}, at(5*time.Minute + 2*time.Second), true, false,
			"its process ran 5m0s ago, as deck-b told; in a turn when last seen; deck-b has been silent since"},
		{"it fell silent almost twelve hours ago", projections.Session{Process: process}, commands.Observation{Seen: at(0), Home: home(at(time.Hour), true)}, at(13*time.Hour - time.Microsecond), true, false,
			"its process ran 12h0m0s ago, as deck-b told; idle when last seen; deck-b has been silent since"},
		{"it fell silent twelve hours ago", projections.Session{Process: process}, commands.Observation{Seen: at(0), Home: home(at(time.Hour), true)}, at(13 * time.Hour), false, false,
			"not seen for 12h, and nobody tells of its process"},
		{"it never told anything in twelve hours", projections.Session{Process: process}, commands.Observation{Home: home(nil, true)}, at(12 * time.Hour), false, false,
			"not seen for 12h, and nobody tells of its process"},
		{"a hook of it ran here meanwhile", projections.Session{Process: process}, commands.Observation{Busy: true, Seen: at(time.Hour), Home: home(nil, true)}, at(12 * time.Hour), true, true,
			"joined on deck-b, which has not told of its process; in a turn when last seen"},
		{"idle for a month, and it tells", projections.Session{Process: process}, commands.Observation{Seen: at(0), Home: home(at(30*24*time.Hour), false)}, at(30 * 24 * time.Hour), true, false,
			"its process ran 0s ago, as deck-b told; idle when last seen"},
		{"who asks hears nothing", projections.Session{Process: process}, commands.Observation{Seen: at(0), Home: deaf(at(time.Hour))}, at(14 * time.Hour), true, false,
			"its process ran 13h0m0s ago, as deck-b told; idle when last seen"},
		{"without a process", projections.Session{}, commands.Observation{Busy: true, Seen: at(time.Second), Home: home(at(2*time.Second), false)}, at(22 * time.Second), true, true,
			"joined, no process recorded; in a turn when last seen"},
		{"without a process, told of for twelve hours", projections.Session{}, commands.Observation{Home: home(at(12*time.Hour), false)}, at(12 * time.Hour), false, false,
			"not seen for 12h, and no process to ask"},
		{"without a process, and who asks hears nothing", projections.Session{}, commands.Observation{Home: deaf(nil)}, at(13 * time.Hour), true, false,
			"joined, no process recorded; no hook run seen"},
	} {
		c.row.Joined = joined
		p := commands.PresenceOf(&c.row, c.o, *c.now)
		if p.Live != c.live || p.Busy != c.busy || p.Says != c.says {
			t.Errorf("%s: live %t, busy %t: %s", c.what, p.Live, p.Busy, p.Says)
		}
		seen := joined
		if c.o.Seen != nil {
			seen = *c.o.Seen
		}
		if p.Age == nil || *p.Age != c.now.Sub(seen).Milliseconds() {
			t.Errorf("%s: it was seen %d ms ago", c.what, *p.Age)
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
