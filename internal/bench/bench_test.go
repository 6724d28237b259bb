//go:build linux

package main

import (
	"encoding/json"
	"errors"
	"os/exec"
	"testing"

	"decklog/events"
	"decklog/internal/ops"
)

func small(t *testing.T, count int) *made {
	t.Helper()
	b := &bench{folder: t.TempDir(), ledgers: map[int]*made{}}
	m, err := b.ledger(count)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.ledger.Close(); err != nil {
			t.Error(err)
		}
	})
	return m
}

func TestTheLedgerThatIsMadeIsWhatDecklogWouldHaveWritten(t *testing.T) {
	m := small(t, 3000)
	audited, err := m.ops.Verify()
	if err != nil || !audited.OK || audited.Checked != 3000 {
		t.Errorf("verify: %+v, %v", audited, err)
	}
}

func TestTheLedgerThatIsMadeIsTheSameEachTime(t *testing.T) {
	var last [2]events.Digest
	var views [2]string
	for i := range last {
		m := small(t, 2000)
		if err := m.ledger.View(func(r events.Reader) error {
			found, err := r.All(m.end, 1)
			if err == nil {
				last[i] = found[0].Digest
			}
			return err
		}); err != nil {
			t.Fatal(err)
		}
		built, err := m.ops.Rebuild()
		if err != nil {
			t.Fatal(err)
		}
		views[i] = built.Digest
	}
	if last[0] != last[1] || views[0] != views[1] {
		t.Errorf("two ledgers end with %v, and have views %v", last, views)
	}
}

func TestWhatIsAskedForIsAlikeInEveryLedger(t *testing.T) {
	for _, count := range []int{smallEvents, 4000} {
		m := small(t, count)
		named := 0
		if _, _, err := m.ops.Events(ops.EventsRequest{Thread: string(m.hundred)}, func(events.Recorded) error { named++; return nil }); err != nil {
			t.Fatal(err)
		}
		owed, _, err := m.ops.Owed(ops.OwedRequest{By: string(m.probe)})
		if err != nil {
			t.Fatal(err)
		}
		waiting, _, err := m.ops.Inbox(ops.InboxRequest{As: string(m.probe), State: "queued"})
		if err != nil {
			t.Fatal(err)
		}
		if named != hundred || len(owed.Items) != owedByProbe || len(waiting.Messages) != 3 || int(m.end) != count {
			t.Errorf("of %d events, %d name the thread; %d answers are owed, %d messages wait", m.end, named, len(owed.Items), len(waiting.Messages))
		}
	}
}

func TestALineIsJudgedByTheMedianOfItsRounds(t *testing.T) {
	of := []sample{{measured: 3, reference: 2}, {measured: 9, reference: 2}, {measured: 1, reference: 2}}
	for _, c := range []struct {
		line line
		met  bool
	}{
		{line{unit: seconds, goal: atMost(1.5)}, true},
		{line{unit: seconds, goal: atMost(1.4)}, false},
		{line{unit: perSecond, goal: atLeast(1.5)}, true},
		{line{unit: perSecond, goal: atLeast(1.6)}, false},
		{line{unit: megabytes, goal: atMost(3)}, true},
		{line{unit: megabytes, goal: atMost(2)}, false},
	} {
		r := c.line.result(of)
		if r.Met != c.met {
			t.Errorf("%v of ratio %g, goal %s: met is %t", c.line.unit, r.Ratio, r.Goal, r.Met)
		}
		if c.line.unit != megabytes && (r.Ratio != 1.5 || r.Least != 0.5 || r.Greatest != 4.5) {
			t.Errorf("the ratio is %g, from %g to %g", r.Ratio, r.Least, r.Greatest)
		}
	}
}

func TestEveryRowCanBeMeasured(t *testing.T) {
	if testing.Short() {
		t.Skip("it builds programs and starts them")
	}
	lines := 0
	for _, r := range rows() {
		lines += len(r.lines)
	}
	out, err := exec.Command("go", "run", ".", "-rounds", "1", "-events", "2000", "-json", "-folder", t.TempDir()).Output()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	var measured table
	if err := json.Unmarshal(out, &measured); err != nil {
		t.Fatalf("%v\n%s\n%s", err, out, exit.Stderr)
	}
	if len(measured.Lines) != lines || measured.Machine.Cores == 0 || measured.Machine.FileSystem == "" {
		t.Errorf("of %d lines %d are measured, on %+v", lines, len(measured.Lines), measured.Machine)
	}
	for _, l := range measured.Lines {
		if l.Measured <= 0 || l.Reference <= 0 || l.Least > l.Ratio || l.Ratio > l.Greatest {
			t.Errorf("%s: %+v", l.What, l)
		}
	}
}
