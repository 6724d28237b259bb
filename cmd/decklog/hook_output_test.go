package main

import (
	"os"
	"strings"
	"testing"
	"time"

	"decklog/events"
)

// unwritable are outputs that cannot be written, as a harness may leave them to
// its hook.
var unwritable = map[string]func(*machine) *os.File{
	"a pipe that nobody reads any more": func(m *machine) *os.File {
		r, w, err := os.Pipe()
		m.ok(err)
		m.ok(r.Close())
		return w
	},
	"a full device": func(m *machine) *os.File {
		w, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
		if err != nil {
			m.Skip("this system has no /dev/full")
		}
		return w
	},
}

// F1: what a hook run could not print was not delivered, whatever its harness
// did with the output: there is no confirm, the harness goes on, and the same
// messages come again as a repeat, after the instruction that was not printed
// either.
func TestF1WhatCouldNotBePrintedComesAgain(t *testing.T) {
	for name, open := range unwritable {
		for _, harness := range hooked {
			t.Run(harness+" with "+name, func(t *testing.T) {
				m := aboard(t)
				m.join("alice-0001")
				m.join("bob-0002")
				first := m.send("alice-0001", "bob-0002", "Which commit fixed the lease test?", "--intent", "request")
				second := m.send("alice-0001", "bob-0002", "I work on the release notes.")

				stdout := open(m)
				cmd := m.command("hook", harness)
				cmd.Stdin = strings.NewReader(stdinOf("UserPromptSubmit", "bob-0002", nil))
				cmd.Stdout = stdout
				if err := cmd.Run(); err != nil {
					t.Fatalf("the hook broke its harness: %v", err)
				}
				m.ok(stdout.Close())
				noted := m.noted()
				if len(noted) != 1 || noted[0].Code != "print" || noted[0].Session != "bob-0002" {
					t.Errorf("it is noted as %+v", noted)
				}
				for _, id := range []string{first, second} {
					if shown := m.message(id); shown.State != events.StateLeased || shown.Deliveries[0].Confirmed != nil {
						t.Fatalf("message %s is %s: %+v", id, shown.State, shown.Deliveries)
					}
				}

				m.at(scenarioStart.Add(10 * time.Second))
				text := contextOf(t, "UserPromptSubmit", m.hook(harness, "UserPromptSubmit", "bob-0002"))
				at := -1
				for _, part := range []string{"<decklog-instruction ", first, `attempt="2"`, "This is a repeat", second, `attempt="2"`, "This is a repeat"} {
					next := strings.Index(text[at+1:], part)
					if next < 0 {
						t.Fatalf("%q does not come in its turn in\n%s", part, text)
					}
					at += 1 + next
				}
				for _, id := range []string{first, second} {
					shown := m.message(id)
					if shown.State != events.StateDelivered || len(shown.Deliveries) != 2 || shown.Deliveries[0].Expired == nil || shown.Deliveries[1].Confirmed == nil {
						t.Errorf("message %s is %s: %+v", id, shown.State, shown.Deliveries)
					}
				}
				if again := m.hook(harness, "UserPromptSubmit", "bob-0002"); len(again) > 0 {
					t.Errorf("it comes a third time: %s", again)
				}
				m.verified()
			})
		}
	}
}
