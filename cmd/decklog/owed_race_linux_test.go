package main

import (
	"fmt"
	"testing"
	"time"

	"decklog/events"
	"decklog/projections"
)

// Whoever runs notices what is due, and all who notice it at once remind once and
// call the owners once. In a round every process has seen the same ledger, and
// stands in line to record what it noticed, before the first is let through.
func TestProcessesThatNoticeTheSameDebtRemindOnce(t *testing.T) {
	if testing.Short() { // `make check` has to answer in seconds; `make test` runs it
		t.Skip("starts 80 processes")
	}
	const runs, debts = 8, 5
	m := aboard(t)
	m.policy(unbounded + `[[seats]]
name = "smith"
`)
	for n := range runs {
		m.join(fmt.Sprintf("session-%d", n))
	}
	for n := range debts {
		m.send("session-0", "@smith", fmt.Sprint("question ", n), "--intent", "request")
	}
	raced := 0
	sweeps := []time.Duration{31 * time.Minute, 62 * time.Minute, 93 * time.Minute, 124 * time.Minute, 155 * time.Minute}
	for _, at := range sweeps {
		m.at(scenarioStart.Add(at))
		gate := m.closeTurnstile()
		var line []*racer
		for n := range runs {
			line = append(line, m.race(m.command("lease", "--as", fmt.Sprintf("session-%d", n))))
		}
		if gate.standIn(line) == runs {
			raced++
		}
		gate.open()
		for _, r := range line {
			<-r.ended
			if code := r.ProcessState.ExitCode(); code != 0 {
				t.Errorf("a run ended with %d: %s", code, r.stderr.String())
			}
		}
	}
	if raced < len(sweeps)/2 {
		t.Errorf("all %d runs stood in line in %d of %d rounds only: that was no race", runs, raced, len(sweeps))
	}
	for what, want := range map[events.Type]int{
		events.TypeOwedNudged: debts * 3, events.TypeOwedPaged: debts, events.TypeSeatAbsent: 1,
	} {
		if got := m.events("--type", string(what)); len(got) != want {
			t.Errorf("%d times %s, want %d", len(got), what, want)
		}
	}
	for _, o := range told[projections.OwedView](m, "owed").Items {
		if o.Nudges != 3 || o.Paged == nil {
			t.Errorf("%d nudges, paged %v: %s", o.Nudges, o.Paged, o.ID)
		}
	}
	m.verified()
}
