//go:build faults && linux

package faults_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"decklog/events"
	"decklog/internal/faults"
	"decklog/internal/sqlite"
	"decklog/projections"
)

// clocks are the ways in which a clock goes wrong: from one moment to the next.
var clocks = map[string]func(now time.Time, step int) time.Time{
	"goes back 1 h": func(now time.Time, step int) time.Time {
		if step%7 == 3 {
			return now.Add(-time.Hour)
		}
		return now.Add(4 * time.Second)
	},
	"goes forward 1 day": func(now time.Time, step int) time.Time {
		if step%7 == 3 {
			return now.Add(24 * time.Hour)
		}
		return now.Add(4 * time.Second)
	},
	"jitters by 5 s": func(now time.Time, step int) time.Time {
		return now.Add(2*time.Second + time.Duration(rand.IntN(10_000)-5000)*time.Millisecond)
	},
	"is frozen": func(now time.Time, step int) time.Time { return now },
}

// However the clock goes, sends and hook runs that are killed at each step of a
// delivery leave nothing that was sent without an end: it was confirmed, or its
// sender is told that it was not.
func TestNoClockLocksAMailboxOrLosesAMessage(t *testing.T) {
	for name, next := range clocks {
		t.Run(name, func(t *testing.T) {
			m := newMachine(t)
			m.policy(unbounded)
			m.join("ada-session", "bob-session")
			m.hook("bob-session")
			h := newHistory()
			now, jumps, steps := begun, 0, often(100, 15)
			var last time.Time
			hook := func(on *machine, session string) ran {
				r := on.hook(session)
				h.printed = append(h.printed, framesIn(r.stdout)...)
				return r
			}
			for step := range steps {
				before := now
				if now = next(now, step); now.Sub(before) != 4*time.Second {
					jumps++
				}
				m.at(now)
				id := commandID(crandom{})
				asked := h.try(id, fmt.Sprint("message ", step, " ", id))
				r := m.run("", "--json", "send", "--as", "ada-session", "--to", "bob-session", "--command", string(id), "--", asked.body)
				if r.code != 0 {
					if strings.Contains(string(r.stdout), "sender_not_live") || strings.Contains(string(r.stdout), "unknown_recipient") {
						delete(h.sends, id)
						m.join("ada-session", "bob-session") // not seen for 12 h, and without a process
						continue
					}
					t.Fatalf("step %d: %s", step, r)
				}
				asked.position = r.answer().Receipt.Position
				// One of two hook runs is killed after it printed.
				if step%2 == 0 {
					hook(m.with(faults.KillVar+"=printed 1"), "bob-session")
				} else if r := hook(m, "bob-session"); r.code != 0 || len(r.stderr) > 0 {
					t.Fatalf("step %d: %s", step, r)
				}
				h.holds(t, m.ledger, fmt.Sprintf("step %d at %s", step, now))
				if now.After(last) {
					last = now
				}
			}
			// The clock is put right, and runs on.
			now = last
			for range steps {
				now = now.Add(15 * time.Second)
				m.at(now)
				m.join("bob-session", "ada-session")
				bob, ada := hook(m, "bob-session"), hook(m, "ada-session")
				if len(bob.stdout) == 0 && len(ada.stdout) == 0 {
					break
				}
			}
			v := h.holds(t, m.ledger, "in the end")
			delivered, told := h.ends(t, m.ledger, v)
			monotone(t, m.ledger)
			t.Logf("a clock that %s: %d steps, %d of them no step of 4 s, %d messages confirmed, %d lost and told of", name, steps, jumps, delivered, told)
			if jumps == 0 {
				t.Error("the clock was right")
			}
		})
	}
}

// ends says that every acknowledged message was confirmed, or given up and its
// sender told.
func (h *history) ends(t *testing.T, path string, v verdict) (delivered, told int) {
	t.Helper()
	l, err := sqlite.Open(path, projections.Project)
	must(t, err)
	defer l.Close()
	must(t, l.View(func(r events.Reader) error {
		s := projections.On(r.Rows())
		for id := range h.sends {
			m := s.Message(id.Message())
			switch state := m.Main().State; state {
			case events.StateDelivered:
				delivered++
			case events.StateExpired, events.StateUndelivered:
				told++
				if n := m.Main().Notice; n == nil || n.State != events.StateDelivered {
					notice, _ := json.Marshal(n)
					t.Errorf("message %s is %s, and its sender was not told: %s", m.ID, state, notice)
				}
			default:
				t.Errorf("message %s is %s in the end", m.ID, state)
			}
		}
		return s.Err()
	}))
	return delivered, told
}

// monotone says that a later moment never shows less.
func monotone(t *testing.T, path string) {
	t.Helper()
	l, err := sqlite.Open(path, projections.Project)
	must(t, err)
	defer l.Close()
	must(t, l.View(func(r events.Reader) error {
		all, err := r.All(1, 100_000)
		if err != nil {
			return err
		}
		high := events.Time(0)
		for _, e := range all {
			high = max(high, e.Time)
			at, err := r.AsOf(high)
			if err != nil {
				return err
			}
			if at < e.Position {
				t.Errorf("as of %s the ledger ends at %d, and the event at %d is of then", high, at, e.Position)
			}
		}
		return nil
	}))
}
