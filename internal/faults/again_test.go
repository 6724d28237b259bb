//go:build faults && linux

package faults_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"decklog/events"
	"decklog/internal/faults"
)

// An answer is lost when the process that has it is killed after its commit, or
// before; nobody outside can tell which. Then five ask the same at once.
func TestTheSameCommandFiveTimesAtOnceIsOneCommand(t *testing.T) {
	const crowd = 5
	s := newStage(t)
	commands := []struct {
		name string
		args func() []string
	}{
		{"send", func() []string {
			body := "once " + string(s.command)
			s.try(s.command, body)
			return []string{"send", "--as", "ada-session", "--to", "bob-session", "--command", string(s.command), "--", body}
		}},
		{"keyed send", func() []string {
			key := string(s.command)
			s.command = events.KeyedCommand("ada-session", key) // as the program makes it
			body := "once " + string(s.command)
			s.try(s.command, body)
			return []string{"send", "--as", "ada-session", "--to", "bob-session", "--key", key, "--", body}
		}},
		{"edit", func() []string {
			return []string{"edit", "--as", "ada-session", "--command", string(s.command), string(s.message), "--", "round " + fmt.Sprint(s.round)}
		}},
		{"delete", func() []string {
			s.deletes[s.message] = false
			return []string{"delete", "--as", "ada-session", "--command", string(s.command), string(s.message)}
		}},
		{"join", func() []string {
			return []string{"join", "--session", fmt.Sprint("session-", s.round), "--command", string(s.command)}
		}},
		{"lease", func() []string {
			return []string{"lease", "--as", "bob-session", "--command", string(s.command)}
		}},
	}
	kills := 0
	for round := range often(10, 1) {
		for _, c := range commands {
			for _, point := range []string{"before-commit", "after-commit", ""} {
				s.next()
				args := append([]string{"--json"}, c.args()...)
				when := fmt.Sprintf("round %d: %s, the first killed at %q", round, c.name, point)
				if point != "" {
					if r := s.with(faults.KillVar+"="+point+" 1").run("", args...); r.code != -1 {
						t.Fatalf("%s: %s", when, r)
					}
					kills++
				}
				before := s.holds(t, s.ledger, when).events
				answers := make([]ran, crowd)
				var crowded sync.WaitGroup
				for n := range crowd {
					cmd := s.machine.command(args...)
					crowded.Go(func() { answers[n] = finish(t, cmd, strings.NewReader("")) })
				}
				crowded.Wait()
				for n, a := range answers {
					if a.code != 0 || string(a.stdout) != string(answers[0].stdout) {
						t.Fatalf("%s: number %d was answered %s\nand the first %s", when, n, a, answers[0])
					}
				}
				if c.name == "delete" {
					s.deletes[s.message] = true
				}
				if strings.Contains(c.name, "send") {
					s.sends[s.command].position = answers[0].answer().Receipt.Position
				}
				after := s.holds(t, s.ledger, when).events
				switch fresh := after - before; {
				case point == "after-commit" && fresh != 0:
					t.Fatalf("%s: it was recorded, and asked again it recorded %d events more", when, fresh)
				case point != "after-commit" && fresh == 0:
					t.Fatalf("%s: nothing was recorded", when)
				}
			}
		}
		// The same id for another text is no repetition.
		if r := s.run("", "--json", "send", "--as", "ada-session", "--to", "bob-session", "--command", string(s.firstSend()), "--", "something else"); r.answer().Refusal.Code != "key_reused" {
			t.Fatalf("another body under a used id: %s", r)
		}
	}
	t.Logf("%d answers lost, each command asked %d times at once after it", kills, crowd)
	if kills == 0 {
		t.Error("no answer was lost")
	}
}

// firstSend is a send that was acknowledged.
func (s *stage) firstSend() events.CommandID {
	for id, a := range s.sends {
		if a.position > 0 && a.body == "once "+string(id) {
			return id
		}
	}
	return ""
}
