package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"decklog/cmd/internal/surroundings"
	"decklog/commands"
	"decklog/events"
	"decklog/internal/cli"
	"decklog/internal/ops"
	"decklog/projections"
)

// clocks are the ways in which a clock goes wrong.
var clocks = map[string]func(r *rand.Rand, now time.Time) time.Time{
	"frozen": func(_ *rand.Rand, now time.Time) time.Time { return now },
	"jitter": func(r *rand.Rand, now time.Time) time.Time {
		return now.Add(time.Second + time.Duration(r.Int64N(int64(10*time.Second))) - 5*time.Second)
	},
	"back an hour": func(r *rand.Rand, now time.Time) time.Time {
		if r.IntN(12) == 0 {
			return now.Add(-time.Hour)
		}
		return now.Add(2 * time.Second)
	},
	"forward a day": func(r *rand.Rand, now time.Time) time.Time {
		if r.IntN(25) == 0 {
			return now.Add(24 * time.Hour)
		}
		return now.Add(2 * time.Second)
	},
	"forward a day and back": func(r *rand.Rand, now time.Time) time.Time {
		switch r.IntN(12) {
		case 0:
			return now.Add(24 * time.Hour)
		case 1:
			return now.Add(-24 * time.Hour)
		}
		return now.Add(2 * time.Second)
	},
}

// F30: whatever the clock does, what happened is in its order, no lease and no
// session sticks, no age and no rate is negative, nothing is lost, and a moment
// is where the latest time so far says.
func TestF30NoClockLocksAnybodyOrLosesAnything(t *testing.T) {
	if testing.Short() {
		t.Skip("starts some hundred processes for each clock")
	}
	for name, tick := range clocks {
		t.Run(name, func(t *testing.T) {
			s := &sailing{machine: aboard(t), random: rand.New(rand.NewPCG(30, uint64(len(name)))), now: scenarioStart}
			s.policy("[limits]\nsession_rate = 6\ndevice_rate = 0\nperson_rate = 0\nthread_rate = 0\nlease_attempts = 0\nduplicate_window = \"0s\"\n")
			for _, session := range s.sessions() {
				s.hook("codex", "SessionStart", session)
			}
			for range 60 {
				s.now = tick(s.random, s.now)
				s.at(s.now)
				s.step()
			}
			s.order()
			s.moments()
			s.drain()
			s.verified()
			t.Logf("%d sent, %d refused for their rate, %d offered", len(s.sent), s.limited, s.offered)
			if len(s.sent) == 0 || s.offered == 0 {
				t.Error("nothing was sent, or nothing offered")
			}
		})
	}
}

type sailing struct {
	*machine
	random           *rand.Rand
	now              time.Time
	sent             []string
	limited, offered int
}

func (s *sailing) sessions() []string { return []string{"alice-0001", "bob-0002"} }

func (s *sailing) pair() (from, to string) {
	n := s.random.IntN(2)
	return s.sessions()[n], s.sessions()[1-n]
}

// step does one thing, which succeeds or is refused for a reason that the clock
// gives.
func (s *sailing) step() {
	s.Helper()
	from, to := s.pair()
	switch s.random.IntN(6) {
	case 0, 1:
		s.sends(from, to)
	case 2:
		s.hook("codex", "UserPromptSubmit", from)
		s.offered++
	case 3, 4:
		s.leases(from)
	case 5:
		for _, p := range told[projections.PeersView](s.machine, "peers").Peers {
			if p.EvidenceAgeMS == nil || *p.EvidenceAgeMS < 0 {
				s.Errorf("%s was seen %v ms ago", p.Session, p.EvidenceAgeMS)
			}
		}
	}
}

func (s *sailing) sends(from, to string) {
	s.Helper()
	r := s.run(nil, "send", "--json", "--as", from, "--to", to, "--intent", "request", "--", fmt.Sprint("message ", len(s.sent)))
	if r.code == cli.ExitDone {
		v := read[struct{ Receipt commands.SendReceipt }](s, r.stdout).Receipt
		if age := v.To.EvidenceAgeMS; age == nil || *age < 0 {
			s.Errorf("the recipient was seen %v ms ago", age)
		}
		if v.Sent != events.At(s.now) || v.Expires <= v.Sent {
			s.Errorf("message %s was sent at %s and expires at %s; it is %s", v.ID, v.Sent, v.Expires, s.now)
		}
		s.sent = append(s.sent, string(v.ID))
		return
	}
	if r.code != cli.ExitRefused {
		s.Fatal(r)
	}
	refusal := read[struct{ Refusal commands.Refusal }](s, r.stdout).Refusal
	switch refusal.Code {
	case commands.SenderNotLive: // not seen for a day, as far as the clock knows; its next hook run brings it back
		s.hook("codex", "PostToolUse", from)
		if !told[projections.PeersView](s.machine, "peers", "--session", from).Peers[0].Live {
			s.Errorf("%s ran a hook and is not live", from)
		}
	case commands.SessionRate:
		s.limited++
		now := events.At(s.now)
		if refusal.Count < refusal.Limit || refusal.Free == nil || *refusal.Free <= now || refusal.Free.Sub(now) > time.Hour {
			s.Errorf("at %s: %+v, free at %s", now, refusal, refusal.Free)
		}
	default:
		s.Fatal(r)
	}
}

// leases takes what waits, and confirms half of it. Nothing but a lease that
// runs by the clock as it is now keeps anybody out.
func (s *sailing) leases(who string) {
	s.Helper()
	r := s.run(nil, "lease", "--json", "--as", who)
	if r.code == cli.ExitRefused && read[refused](s, r.stdout).Refusal.Code == "sender_not_live" {
		s.hook("codex", "PostToolUse", who)
		return
	}
	if r.code != cli.ExitDone {
		s.Fatal(r)
	}
	v := read[struct{ Receipt ops.Offered }](s, r.stdout).Receipt
	now := events.At(s.now)
	switch {
	case v.Busy != nil && (*v.Busy <= now || v.Busy.Sub(now) > 10*time.Second):
		s.Errorf("at %s the mailbox of %s is held until %s", now, who, *v.Busy)
	case v.ID != "":
		s.offered++
		if v.Until.Sub(now) != 10*time.Second {
			s.Errorf("a lease of %s begins at %s and ends at %s", who, now, *v.Until)
		}
		if s.random.IntN(2) == 0 {
			s.done("confirm", string(v.ID))
		}
	}
}

// order checks that what was sent later stands later, whatever its time.
func (s *sailing) order() {
	s.Helper()
	var all []string
	for n, e := range s.events() {
		if e.Position != events.Position(n+1) {
			s.Fatalf("event %d has position %d", n+1, e.Position)
		}
		if e.Type == events.TypeMessageSent {
			all = append(all, string(read[events.MessageSent](s, e.Data).Message))
		}
	}
	if !slices.Equal(all, s.sent) {
		s.Errorf("the messages are in the order %v, and were sent as %v", all, s.sent)
	}
	for _, who := range s.sessions() {
		var shown []int
		for _, m := range told[projections.InboxView](s.machine, "inbox", "--as", who, "--limit", "200").Messages {
			shown = append(shown, slices.Index(s.sent, string(m.ID)))
		}
		slices.Reverse(shown)
		if !slices.IsSorted(shown) {
			s.Errorf("the inbox of %s has the messages %v", who, shown)
		}
	}
}

// moments checks that a time stands for the last place up to which no time was
// later.
func (s *sailing) moments() {
	s.Helper()
	all := s.events()
	for range 12 {
		at := all[s.random.IntN(len(all))].Time + events.Time(s.random.IntN(3)-1)
		want, high := events.Position(0), all[0].Time
		for _, e := range all {
			if high = max(high, e.Time); high > at {
				break
			}
			want = e.Position
		}
		if got := told[projections.PeersView](s.machine, "peers", "--at", at.String()).At; got != want {
			s.Errorf("%s is position %d, want %d", at, got, want)
		}
	}
}

// drain lets the clock go right again, and takes what waits: of all that was
// sent, nothing waits then for ever.
func (s *sailing) drain() {
	s.Helper()
	for idle := 0; idle < 3; idle++ {
		s.now = s.now.Add(11 * time.Second)
		s.at(s.now)
		for _, who := range s.sessions() {
			for len(s.hook("codex", "UserPromptSubmit", who)) > 0 {
				idle = 0
			}
		}
	}
	for _, id := range s.sent {
		if shown := s.message(id); shown.State != events.StateDelivered && shown.State != events.StateExpired {
			s.Errorf("message %s is %s", id, shown.State)
		}
	}
}

// Only a program that was built to be told the time reads it from a file: the
// released one goes by the machine's clock, whatever its environment says.
func TestTheReleasedProgramIsToldNoTime(t *testing.T) {
	program, err := released()
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	past, absent := filepath.Join(folder, "past"), filepath.Join(folder, "absent")
	if err := os.WriteFile(past, []byte("2001-01-01T00:00:00Z"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, clock := range map[string]string{"a time": past, "no file": absent, "nothing": ""} {
		t.Run(name, func(t *testing.T) {
			m := aboard(t)
			m.program, m.clock = program, clock
			before := events.At(time.Now())
			m.join("alice-0001")
			id := m.send("alice-0001", "@"+surroundings.OSUser(), "text")
			after := events.At(time.Now())
			for _, e := range m.events() {
				if e.Time < before || e.Time > after {
					t.Errorf("event %d happened at %s, and not from %s to %s", e.Position, e.Time, before, after)
				}
			}
			if sent := m.message(id).Sent; sent < before || sent > after {
				t.Errorf("the message was sent at %s", sent)
			}
			if v := told[cli.Version](m, "version"); v.Clock != "system" {
				t.Errorf("its clock is %q", v.Clock)
			}
		})
	}
	m := aboard(t) // and the other one is
	m.join("alice-0001")
	for _, e := range m.events() {
		if e.Time != events.At(scenarioStart) {
			t.Errorf("a program that is told the time recorded %s", e.Time)
		}
	}
}
