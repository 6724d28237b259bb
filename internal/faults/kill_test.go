//go:build faults && linux

package faults_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"decklog/events"
	"decklog/internal/faults"
)

// step is one command that is killed on its way, and asked again.
type step struct {
	name string
	run  func(m *machine, s *stage) ran
}

// stage is one machine on which a command is killed again and again.
type stage struct {
	*machine
	*history
	now     time.Time
	round   int
	to      string           // whom the round's message is for
	command events.CommandID // of the round's command
	message events.MessageID // that waits for the round's hook
}

var steps = []step{
	{"send", func(m *machine, s *stage) ran {
		id := s.command
		body := "body of " + string(id)
		s.try(id, body)
		r := m.run("", "--json", "send", "--as", "ada-session", "--to", "bob-session", "--command", string(id), "--", body)
		if r.code == 0 {
			s.sends[id].position = r.answer().Receipt.Position
		}
		return r
	}},
	{"hook", func(m *machine, s *stage) ran {
		r := m.hook("bob-session")
		s.printed = append(s.printed, framesIn(r.stdout)...)
		return r
	}},
	// The message lies in the mailbox of a person; the hook takes it from there.
	{"take", func(m *machine, s *stage) ran {
		r := m.hook("bob-session")
		s.printed = append(s.printed, framesIn(r.stdout)...)
		return r
	}},
	// A session that nobody knows yet begins, and has its instruction.
	{"start", func(m *machine, s *stage) ran {
		session := fmt.Sprint("session-", s.round)
		return m.run(strings.Replace(hookInput(session), "UserPromptSubmit", "SessionStart", 1), "hook", "claude-code")
	}},
	// Nothing waits, and the hook silences the session's bell.
	{"idle", func(m *machine, s *stage) ran {
		s.printed = append(s.printed, framesIn(s.hook("bob-session").stdout)...)
		return m.hook("bob-session")
	}},
	{"delete", func(m *machine, s *stage) ran {
		acknowledged := s.deletes[s.message]
		s.deletes[s.message] = acknowledged // it is tried
		r := m.run("", "--json", "delete", "--as", "ada-session", "--command", string(s.command), string(s.message))
		s.deletes[s.message] = acknowledged || r.code == 0
		return r
	}},
	{"rebuild", func(m *machine, s *stage) ran { return m.run("", "--json", "rebuild") }},
	{"verify", func(m *machine, s *stage) ran { return m.run("", "--json", "verify") }},
}

func newStage(t *testing.T) *stage {
	s := &stage{machine: newMachine(t), history: newHistory(), now: begun, to: "bob-session"}
	s.policy(unbounded)
	s.join("ada-session", "bob-session")
	s.hook("bob-session") // has its instruction
	return s
}

// next begins a round: all leases are over, and one message waits for bob.
func (s *stage) next() {
	s.Helper()
	s.round++
	s.now = s.now.Add(time.Minute)
	s.at(s.now)
	s.command = commandID(crandom{})
	id := commandID(crandom{})
	body := fmt.Sprint("round ", s.round)
	asked := s.try(id, body)
	a := ran{stdout: s.done("--json", "send", "--as", "ada-session", "--to", s.to, "--command", string(id), "--", body)}.answer()
	s.message, asked.position = events.MessageID(a.Receipt.ID), a.Receipt.Position
}

type crandom struct{}

func (crandom) Read(b []byte) (int, error) {
	for i := range b {
		b[i] = byte(rand.Uint32())
	}
	return len(b), nil
}

// pointsOf lists the points that a command passes, and how often each.
func (s *stage) pointsOf(step step) (order []string, times map[string]int) {
	s.Helper()
	s.next()
	trace := filepath.Join(s.dir, "trace")
	_ = os.Remove(trace)
	if r := step.run(s.with(faults.TraceVar+"="+trace), s); r.code != 0 {
		s.Fatalf("%s: %s", step.name, r)
	}
	text, err := os.ReadFile(trace)
	must(s, err)
	times = map[string]int{}
	for _, point := range strings.Fields(string(text)) {
		if times[point]++; times[point] == 1 {
			order = append(order, point)
		}
	}
	return order, times
}

func TestKilledAtEveryStepACommandHappensOnceOrNotAtAll(t *testing.T) {
	each := often(20, 1)
	kills := 0
	for _, step := range steps {
		t.Run(step.name, func(t *testing.T) {
			s := newStage(t)
			if step.name == "take" {
				me, err := user.Current()
				must(t, err)
				s.to = "@" + me.Username
			}
			order, times := s.pointsOf(step)
			for _, point := range order {
				again, first := 0, 0
				for n := range each {
					// The passes of a point in turn, spread over all of them.
					at := 1 + n*times[point]/each
					if each == 1 {
						at = 1 + rand.IntN(times[point])
					}
					s.next()
					r := step.run(s.with(fmt.Sprintf("%s=%s %d", faults.KillVar, point, at)), s)
					if r.code != -1 {
						t.Fatalf("%s was to be killed at pass %d of %s: %s", step.name, at, point, r)
					}
					kills++
					when := fmt.Sprintf("%s killed at pass %d of %s", step.name, at, point)
					before := s.holds(t, s.ledger, when)
					switch s.settled(t, step, when) {
					case before.events:
						again++
					default:
						first++
					}
				}
				t.Logf("%-8s killed %2d times at %-14s (passed %2d times): recorded before the kill %2d, by the next run %2d",
					step.name, each, point, times[point], again, first)
			}
		})
	}
	if kills == 0 {
		t.Error("nothing was killed")
	}
	t.Logf("%d kills", kills)
}

// settled asks again for what was killed, and gives where the ledger ends then.
func (s *stage) settled(t *testing.T, step step, when string) events.Position {
	t.Helper()
	switch step.name {
	case "hook", "take", "start", "idle":
		s.now = s.now.Add(15 * time.Second) // a lease that was left open is over
		s.at(s.now)
		if r := step.run(s.machine, s); r.code != 0 || len(r.stderr) > 0 {
			t.Fatalf("%s, and again: %s", when, r)
		}
	default:
		first := step.run(s.machine, s)
		if first.code != 0 {
			t.Fatalf("%s, and asked again: %s", when, first)
		}
		if step.name == "send" {
			second := step.run(s.machine, s)
			if string(first.stdout) != string(second.stdout) {
				t.Fatalf("%s, and asked again twice:\n%s\n%s", when, first, second)
			}
		}
	}
	v := s.holds(t, s.ledger, when+", and asked again")
	switch step.name {
	case "idle":
		s.next() // and now something waits: its bell must ring
		s.holds(t, s.ledger, when+", and then something came")
	case "hook", "take":
		came := slices.ContainsFunc(s.printed, func(p shown) bool { return p.message == s.message })
		if !came || !v.confirmed[string(s.message)] {
			t.Fatalf("%s: the next run should have brought message %s: printed %v, confirmed %v", when, s.message, came, v.confirmed[string(s.message)])
		}
	case "start":
		if session := fmt.Sprint("session-", s.round); !v.confirmed[session] {
			t.Fatalf("%s: session %s still lacks its instruction", when, session)
		}
	}
	return v.events
}

func TestKilledWhileItMakesTheLedgerTheNextMakesIt(t *testing.T) {
	for n := range often(20, 2) {
		for _, point := range []string{"tables-made", "began", "event-stored", "before-row", "before-commit", "after-commit", "closing"} {
			s := &stage{machine: newMachine(t), history: newHistory()}
			r := s.with(faults.KillVar+"="+point+" 1").run("", "join", "--session", "ada-session")
			if r.code != -1 {
				t.Fatalf("join was to be killed at %s: %s", point, r)
			}
			s.join("ada-session", "bob-session")
			s.holds(t, s.ledger, fmt.Sprint("round ", n, ": join killed at ", point, " in an absent ledger"))
		}
	}
}

func TestKilledAtAnyMomentNothingAcknowledgedIsLost(t *testing.T) {
	const perLedger, workers = 25, 4
	kills, acknowledged, unheard, settled := often(1000, 50), 0, 0, 0
	var ledger string
	var h *history
	for round := range kills / workers {
		if round%perLedger == 0 {
			ledger, h = filepath.Join(t.TempDir(), "ledger.db"), newHistory()
		}
		begin := begun.Add(time.Duration(round%perLedger) * time.Minute)
		var staff []*hired
		for n := range workers {
			staff = append(staff, hire(t, ledger, fmt.Sprint(round, "-", n), begin))
		}
		// Each is killed after so many lines, and the time that a commit may take.
		lines := 1 + rand.IntN(60)
		for _, w := range staff {
			for range lines {
				if _, more := w.hear(h); !more {
					t.Fatalf("round %d: a worker ended by itself: %v", round, w.fails)
				}
			}
			<-time.After(time.Duration(rand.IntN(3000)) * time.Microsecond)
			w.kill(h)
			if len(w.fails) > 0 {
				t.Fatalf("round %d: %v", round, w.fails)
			}
		}
		v := h.holds(t, ledger, fmt.Sprint("round ", round))
		unheard += v.unheard
		settled += h.settle(t, ledger, begin.Add(30*time.Second))
		if last := round%perLedger == perLedger-1 || round == kills/workers-1; last {
			acknowledged += h.acknowledged()
		}
	}
	t.Logf("%d kills: %d answers acknowledged, none lost; %d sends were cut off and settled by asking again, of which %d had been recorded",
		kills, acknowledged, settled, unheard)
	if unheard == 0 || acknowledged == 0 {
		t.Error("no kill fell between a commit and its answer: nothing was tested")
	}
}
