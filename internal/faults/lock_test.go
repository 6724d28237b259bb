//go:build faults && linux

package faults_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ncruces/go-sqlite3"
	"golang.org/x/sys/unix"

	"decklog/events"
	"decklog/internal/faults"
)

// holders hold a ledger as a process does that hangs in the middle of its work.
var holders = map[string]func(t *testing.T, ledger string) (letGo func()){
	"the turn to write": func(t *testing.T, ledger string) func() {
		f, err := os.OpenFile(strings.TrimSuffix(ledger, ".db")+".lock", os.O_RDWR, 0)
		must(t, err)
		must(t, unix.Flock(int(f.Fd()), unix.LOCK_EX))
		return func() { f.Close() }
	},
	"the exclusive lock of SQLite": func(t *testing.T, ledger string) func() {
		c, err := sqlite3.Open(ledger)
		must(t, err)
		must(t, c.Exec("BEGIN EXCLUSIVE"))
		return func() { c.Close() }
	},
	"the write lock of SQLite": func(t *testing.T, ledger string) func() {
		c, err := sqlite3.Open(ledger)
		must(t, err)
		must(t, c.Exec("BEGIN IMMEDIATE"))
		return func() { c.Close() }
	},
}

// What the hook does counts, not how long it takes here: it ends while the
// ledger is still held, without a word, and says why beside the ledger.
func TestAHookGivesUpWhileTheLedgerIsStillHeld(t *testing.T) {
	for _, journal := range journals {
		for name, hold := range holders {
			t.Run(journal+"/"+name, func(t *testing.T) {
				t.Setenv(faults.JournalVar, journal)
				givesUp(t, name, hold)
			})
		}
	}
}

func givesUp(t *testing.T, name string, hold func(t *testing.T, ledger string) (letGo func())) {
	m := newMachine(t)
	m.policy(unbounded)
	m.join("ada-session", "bob-session")
	m.hook("bob-session")
	h := newHistory()
	id := commandID(crandom{})
	asked := h.try(id, "waits")
	asked.position = ran{stdout: m.done("--json", "send", "--as", "ada-session", "--to", "bob-session", "--command", string(id), "--", "waits")}.answer().Receipt.Position

	letGo := hold(t, m.ledger)
	m.at(begun.Add(time.Minute))
	r := m.hook("bob-session") // ends, or the test never does
	if r.code != 0 || len(r.stdout) > 0 || !strings.Contains(string(r.stderr), "ledger_locked") {
		t.Fatalf("the hook: %s", r)
	}
	text, err := os.ReadFile(filepath.Join(filepath.Dir(m.ledger), "hook-faults.jsonl"))
	if err != nil || !strings.Contains(string(text), `"ledger_locked"`) {
		t.Fatalf("noted: %s %v", text, err)
	}
	if name == "the turn to write" && !strings.Contains(string(r.stderr), "waited 2s") {
		t.Errorf("it did not give up by its own patience: %s", r.stderr)
	}
	letGo()
	m.at(begun.Add(2 * time.Minute))
	h.printed = framesIn(m.hook("bob-session").stdout)
	v := h.holds(t, m.ledger, "once the ledger is free")
	if len(h.printed) != 1 || h.printed[0].attempt != 1 || !v.confirmed[string(events.MessageID(id.Message()))] {
		t.Errorf("once the ledger is free it prints %v", h.printed)
	}
	t.Logf("%s was held: the hook gave up, and the next delivered", name)
}
